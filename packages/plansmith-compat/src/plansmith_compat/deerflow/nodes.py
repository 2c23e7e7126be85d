"""DeerFlow's nodes as functions: a state goes in, a command with the next node comes out.

They plan, ask and report; the steps of a plan run in `DeerFlow`, durable and after approval.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple, cast

from plansmith.clock import SystemClock
from plansmith.ports import ToolSource
from plansmith_compat.calling import in_own_loop
from plansmith_compat.deerflow import llms
from plansmith_compat.deerflow.configuration import Configuration, configured
from plansmith_compat.deerflow.llms import (
    END,
    AIMessage,
    HumanMessage,
    apply_prompt_template,
    get_llm_by_type,
)
from plansmith_compat.deerflow.models import Feedback, Plan, parse_plan, read_feedback, route_plan
from plansmith_compat.deerflow.plan_fixes import (
    extract_plan_content,
    repair_json_output,
    validate_and_fix_plan,
)
from plansmith_compat.reading import json_in
from plansmith_planner.context.background import HEADING, TOKENS, Background
from plansmith_planner.context.fence import fence
from plansmith_planner.language.locales import normal_tag

# What DeerFlow's module of this name has is found here too.
__all__ = [
    "Configuration",
    "Plan",
    "apply_prompt_template",
    "background_investigation_node",
    "coordinator_node",
    "direct_response",
    "extract_plan_content",
    "get_llm_by_type",
    "handoff_after_clarification",
    "handoff_to_planner",
    "human_feedback_node",
    "needs_clarification",
    "planner_node",
    "preserve_state_meta_fields",
    "repair_json_output",
    "reporter_node",
    "research_team_node",
    "validate_and_fix_plan",
]

ROUNDS: Final = 3  # of questions about the topic
_CLARIFY: Final = "If the topic is not clear, ask one question; else hand it over."
logger: Final = logging.getLogger("plansmith")
State = dict[str, Any]  # the table that the nodes of DeerFlow's graph share
_State = Mapping[str, Any]
# langgraph gives a node its config only if the parameter has a type of this name.
RunnableConfig = Mapping[str, Any]
NO_CONFIG: Final[RunnableConfig] = MappingProxyType({})
_META_FIELDS: Final[Mapping[str, Any]] = {
    "locale": "en-US",
    "research_topic": "",
    "clarified_research_topic": "",
    "clarification_history": [],
    "enable_clarification": False,
    "max_clarification_rounds": ROUNDS,
    "clarification_rounds": 0,
    "resources": [],
}
_WAYS: Final = {
    "handoff_to_planner": "planner",
    "handoff_after_clarification": "planner",
    "direct_response": END,
}
handoff_to_planner: Final = llms.Handoff(
    "handoff_to_planner", "Hand a question over to the planner.", ("research_topic", "locale")
)
handoff_after_clarification: Final = llms.Handoff(
    "handoff_after_clarification",
    "Hand the topic over to the planner once it is clear.",
    ("locale", "research_topic"),
)
direct_response: Final = llms.Handoff(
    "direct_response", "Answer small talk, or refuse politely.", ("message", "locale")
)


def preserve_state_meta_fields(state: _State) -> dict[str, Any]:
    """Returns the fields of a state that every command carries on."""
    return {name: state.get(name, default) for name, default in _META_FIELDS.items()}


def planner_node(state: _State, config: RunnableConfig = NO_CONFIG) -> Any:
    """Asks the model for a plan and returns the way on; at the limit there is no further plan."""
    configurable = Configuration.from_runnable_config(config)
    made = int(state.get("plan_iterations") or 0)
    meta = preserve_state_meta_fields(state)
    if made >= configurable.max_plan_iterations:
        return llms.command("reporter", meta)
    text = _planner_answer(state, config, configurable)
    try:
        fields = _as_plan(text, configurable)
    except ValueError:
        logger.warning("The planner's answer is no plan")
        return llms.command("reporter" if made else END, meta)
    update = {"messages": [AIMessage(content=text, name="planner")], **meta}
    route = route_plan(fields, 0, 1)
    if route.goto == "human_feedback":
        return llms.command(route.goto, {**update, "current_plan": text})
    return llms.command(route.goto, {**update, "current_plan": route.plan})


def _planner_answer(state: _State, config: RunnableConfig, configurable: Configuration) -> str:
    clear = state.get("clarified_research_topic")
    prompt_state = state
    if state.get("enable_clarification") and clear:
        prompt_state = {**state, "messages": [{"role": "user", "content": clear}]}
    messages = apply_prompt_template(
        "planner", prompt_state, configurable, str(state.get("locale", "en-US"))
    )
    known = [fence("current time", datetime.now(UTC).isoformat(timespec="minutes"))]
    found = state.get("background_investigation_results")
    if state.get("enable_background_investigation") and found:
        known.append(fence(HEADING, str(found)))
    messages.append({"role": "user", "content": "\n\n".join(known)})
    kind = (
        "reasoning" if configurable.enable_deep_thinking is True else llms.AGENT_LLM_MAP["planner"]
    )
    llm = get_llm_by_type(kind, config)
    if kind != "basic":
        return "".join(llms.get_message_content(chunk) for chunk in llm.stream(messages))
    answer: Any = llm.invoke(messages)
    if hasattr(answer, "model_dump_json"):  # a model that answers with the plan itself
        return str(answer.model_dump_json())
    return llms.get_message_content(answer)


def _as_plan(given: object, configurable: Configuration) -> dict[str, Any]:
    """Returns the fields of a plan in a text, a message or an object, completed as DeerFlow does.

    Raises ValueError if there is none.
    """
    value: Any = given.model_dump(mode="json") if isinstance(given, Plan) else None
    if value is None:
        value = json_in(extract_plan_content(given))
    if isinstance(value, dict) and "content" in value:  # a message that was written as JSON
        value = json_in(extract_plan_content(cast("object", value)))
    if parse_plan(cast("object", value)) is None:
        raise ValueError("no plan")
    fields: dict[str, Any] = {"steps": value}
    if not isinstance(value, list):
        fields = cast("dict[str, Any]", value)
    return validate_and_fix_plan(fields, configurable.enforces_search is True)


def human_feedback_node(state: _State, config: RunnableConfig = NO_CONFIG) -> Any:
    """Takes a person's decision on the plan; whatever is no decision goes back to the planner.

    The words come from langgraph's interrupt, or from `interrupt_feedback` in the state.
    """
    meta = preserve_state_meta_fields(state) | {"interrupt_feedback": ""}
    if not state.get("auto_accepted_plan", False):
        words = state.get("interrupt_feedback") or llms.interrupt("Please review the plan.")
        if read_feedback(str(words or "")).feedback is not Feedback.ACCEPTED:
            messages = [HumanMessage(content=str(words), name="feedback")] if words else []
            return llms.command("planner", {**meta, "messages": messages} if messages else meta)
    made = int(state.get("plan_iterations") or 0)
    configurable = Configuration.from_runnable_config(config)
    try:
        fields = _as_plan(state.get("current_plan") or "", configurable)
    except ValueError:
        logger.warning("What was accepted is no plan")
        return llms.command("reporter" if made else END, meta)
    plan = parse_plan(fields)
    locale = plan.locale if plan is not None else fields["locale"]
    update = {"current_plan": plan, "plan_iterations": made + 1, "locale": locale}
    return llms.command("research_team", {**meta, **update})


def needs_clarification(state: _State) -> bool:
    """Whether a question to the person is still open; the last one may be answered too."""
    rounds = state.get("clarification_rounds", 0)
    has_asked = 0 < rounds <= state.get("max_clarification_rounds", ROUNDS)
    is_complete = state.get("is_clarification_complete", False)
    return bool(state.get("enable_clarification", False) and has_asked and not is_complete)


class _Topic(NamedTuple):
    topic: str
    clear: str
    history: list[str]
    rounds: int
    most: int


def coordinator_node(state: _State, config: RunnableConfig = NO_CONFIG) -> Any:
    """Answers small talk, asks back where that is wished, else hands over with topic and locale."""
    configurable = Configuration.from_runnable_config(config)
    asks = bool(state.get("enable_clarification", False))
    topic = _topic(state) if asks else _Topic(str(state.get("research_topic", "")), "", [], 0, 0)
    locale = str(state.get("locale", "en-US"))
    messages = apply_prompt_template("coordinator", state, locale=locale)
    mode = "Ask nothing back: hand questions over as they are, and answer small talk."
    if asks and topic.rounds >= topic.most:
        mode = "Ask nothing more: call handoff_after_clarification with what is known."
    elif asks:
        mode = f"Question {topic.rounds + 1} of at most {topic.most}. {_CLARIFY}"
    messages.append({"role": "system", "content": mode})
    second = handoff_after_clarification if asks else direct_response
    llm = get_llm_by_type(llms.AGENT_LLM_MAP["coordinator"], config)
    response: Any = llm.bind_tools([handoff_to_planner, second]).invoke(messages)
    goto, given = _handed_over(response)
    history = list(cast("Sequence[Any]", state.get("messages") or ()))
    words = given.get("message") if goto == END and given.get("message") else response.content
    if words:
        history.append(AIMessage(content=words, name="coordinator"))
    question = asks and not response.tool_calls and response.content
    if question and topic.rounds < topic.most:
        topic = topic._replace(rounds=topic.rounds + 1)
    elif asks:
        goto, question = "planner", False
    if goto == "planner" and state.get("enable_background_investigation"):
        goto = "background_investigator"
    subject = topic.topic if asks else given.get("research_topic") or topic.topic
    update = {
        "messages": history,
        "locale": normal_tag(str(given.get("locale") or "")) or locale,
        "research_topic": subject,
        "clarified_research_topic": topic.clear or subject,
        "resources": configurable.resources,
        "clarification_rounds": topic.rounds,
        "clarification_history": topic.history,
        "is_clarification_complete": not question,
        "goto": goto,
    }
    waits = {"__interrupt__": [("coordinator", response.content)]} if question else {}
    return llms.command(goto, update | waits)


def _topic(state: _State) -> _Topic:
    """Returns the topic with what the person said to the coordinator's questions."""
    research_topic = str(state.get("research_topic", ""))
    answers: list[str] = []
    for message in state.get("messages") or ():
        text = llms.get_message_content(message) if llms.is_user_message(message) else ""
        answers += [text] if text and answers[-1:] != [text] else []
    # What was kept before, if the messages are gone.
    earlier = [str(each) for each in state.get("clarification_history") or () if each]
    history = answers or earlier or [each for each in [research_topic] if each]
    more = f" - {', '.join(history[1:])}" if len(history) > 1 else ""
    topic = history[0] if history else research_topic
    rounds = int(state.get("clarification_rounds") or 0)
    most = int(state.get("max_clarification_rounds") or ROUNDS)
    return _Topic(topic, topic + more if history else "", history, rounds, most)


def _handed_over(response: Any) -> tuple[str, Mapping[str, Any]]:
    """Returns the node that the model's calls lead to, and the arguments of the call."""
    try:
        for call in response.tool_calls or ():
            name, given = call.get("name", ""), call.get("args", {})
            if name in _WAYS:
                return _WAYS[name], dict(given)
    except Exception as error:  # noqa: BLE001 - a call nobody can read is still a handover
        logger.warning("The coordinator's call cannot be read: %s", error)
        return "planner", {}
    return END, {}


def background_investigation_node(
    state: _State, config: RunnableConfig = NO_CONFIG
) -> dict[str, str]:
    """Searches for the topic with the search tools under `tools` of the config's `configurable`."""
    configurable = Configuration.from_runnable_config(config)
    sources = cast("Sequence[ToolSource]", configured(config).get("tools") or ())
    query = str(state.get("clarified_research_topic") or state.get("research_topic") or "")
    if not configurable.enable_web_search or not query:
        sources = ()
    blocks: list[str] = []
    for each in sources:
        search = Background([each], SystemClock())
        found = in_own_loop(search.investigate(query, tokens=TOKENS))
        for note in found.notes:
            logger.warning("Background investigation: %s", note)
        blocks += [block.text for block in found.blocks]
    return {"background_investigation_results": "\n\n".join(blocks) or "[]"}


def research_team_node(state: _State) -> None:
    """Marks where the team works; `continue_to_running_research_team` says who is next."""
    del state


def reporter_node(state: _State, config: RunnableConfig = NO_CONFIG) -> dict[str, str]:
    """Writes the report from the observations, which stand between marks as data."""
    configurable = Configuration.from_runnable_config(config)
    plan, locale = state.get("current_plan"), str(state.get("locale", "en-US"))
    title = getattr(plan, "title", "") or state.get("research_topic", "")
    task = f"# {title}\n\n{getattr(plan, 'thought', '')}".strip()
    prompt_state = {"messages": [HumanMessage(content=task)], "locale": locale}
    messages: list[Any] = apply_prompt_template("reporter", prompt_state, configurable, locale)
    known = [str(each) for each in state.get("observations") or ()]
    blocks = [fence(f"result {place}", text) for place, text in enumerate(known, start=1)]
    nothing = "There are no results: say that nothing was found out."
    messages.append({"role": "user", "content": "\n\n".join(blocks) or nothing})
    answer: Any = get_llm_by_type(llms.AGENT_LLM_MAP["reporter"], config).invoke(messages)
    return {"final_report": answer.content}
