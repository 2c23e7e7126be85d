"""deepresearch's nodes: planner, information and human feedback, over the keys of its state."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, cast

from plansmith.clock import SystemClock
from plansmith.engine.budget import OPTIONS, STOP
from plansmith.errors import UnreadableText
from plansmith.formats.dialect import Reading
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.planning import PlanRequest
from plansmith.plan.problem import has_errors, problem
from plansmith.plan.sentence import Sentence
from plansmith.ports import ChatModel, Clock, ContextBlock
from plansmith_compat.spring import keys
from plansmith_compat.spring.beans import ResearchPlan
from plansmith_compat.spring.dialects import write_as
from plansmith_compat.spring.dialects.research import MANNER, read
from plansmith_compat.spring.keys import State, Updates
from plansmith_compat.spring.nodes import REJECTED, HumanFeedbackDispatcher, feedback_data
from plansmith_compat.spring.planner import Drafting, OnText, error_text, streamed, text_of, usable
from plansmith_planner.agent_cards import CODER, RESEARCHER
from plansmith_planner.make import model_of
from plansmith_planner.parse.reply import read_plan_value
from plansmith_planner.settings import PlannerSettings

__all__ = [
    "HumanFeedbackDispatcher",
    "HumanFeedbackNode",
    "InformationDispatcher",
    "InformationNode",
    "PlannerNode",
]

_BACKGROUND: Final = "background investigation results"
_MAX_ITERATIONS: Final = 1
_AT_LIMIT: Final = (
    f"The limit of plan iterations is reached. Make another plan? ({', '.join(OPTIONS)})"
)
_WORDS: Final = (keys.FEEDBACK_CONTENT, "feed_back_content")


@dataclass(frozen=True, slots=True)
class PlannerNode:
    """Writes a research plan to `planner_content`; one model call each time.

    `model` is a model, its name, or None for the automatic choice.
    """

    model: ChatModel | str | None = None
    _: KW_ONLY
    agents: Sequence[AgentSpec] = (RESEARCHER, CODER)
    settings: PlannerSettings = field(default_factory=PlannerSettings)
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", model_of(self.model))

    async def apply(self, state: State) -> Updates:
        """Returns the updates of the state: the plan as JSON text, or why it is not usable."""
        return await self._apply(state, lambda _: None)

    def stream(self, state: State) -> AsyncIterator[str | Updates]:
        """Yields the plan's text piece by piece, and at last the updates of the state."""
        return streamed(lambda on_text: self._apply(state, on_text))

    async def _apply(self, state: State, on_text: OnText) -> Updates:
        said = feedback_data(state).get(keys.FEEDBACK_CONTENT)
        words = [text_of(each) for each in (state.get(keys.PLANNER_ERROR), said) if each]
        most = state.get(keys.MAX_STEP_NUM)
        request = PlanRequest(
            str(state[keys.QUERY]),
            previous=_read(state.get(keys.PLANNER_CONTENT)).plan if words else None,
            feedback="\n".join(words),
            max_steps=int(most) if most else None,
            dialect="deepresearch",
        )
        drafting = Drafting(self.model, self.agents, self.settings, self.clock)
        planned = await drafting.draft(request, _blocks(state), on_text)
        plan = usable(planned)
        if plan is None:
            why = error_text(planned.problems)
            return {keys.PLANNER_CONTENT: planned.text, keys.PLANNER_ERROR: why}
        # The person's words are in this plan; those on it will be others.
        used: Updates = {name: "" for name in _WORDS if state.get(name)}
        text = json.dumps(_written(plan), ensure_ascii=False)
        return {keys.PLANNER_CONTENT: text, keys.PLANNER_ERROR: "", **used}


def _blocks(state: State) -> list[ContextBlock]:
    found = state.get(keys.BACKGROUND_RESULTS) or ()
    results = [found] if isinstance(found, str) else [text_of(each) for each in found if each]
    blocks = [ContextBlock(_BACKGROUND, each) for each in results if each.strip()]
    more = {keys.OPTIMIZE_QUERIES: "the query in other words", keys.DOCUMENTS: "documents"}
    given = {key: title for key, title in more.items() if state.get(key)}
    return blocks + [ContextBlock(title, text_of(state[key])) for key, title in given.items()]


def _written(plan: Plan) -> dict[str, Json]:
    value = cast("dict[str, Json]", write_as("deepresearch", plan).value)
    steps = cast("list[dict[str, Json]]", value["steps"])
    # A step of a plan that has not begun has no status: the nodes of the team set it.
    bare = [{**each, "executionStatus": None} for each in steps]
    return {**value, "steps": cast("Json", bare)}


def _read(content: object) -> Reading:
    try:
        value = read_plan_value(content) if isinstance(content, str) else cast("Json", content)
    except UnreadableText as error:
        message = Sentence(
            "no plan of {title} was found: {reason}", title=MANNER.title, reason=error.message
        )
        hint = Sentence("write the plan again")
        return Reading(None, (problem("PS001", message, hint=hint),))
    return read(value)


class InformationNode:
    """Reads the plan in `planner_content` and decides where it goes.

    A plan is run without a person only if `auto_accepted_plan` says so.
    """

    async def apply(self, state: State) -> Updates:
        """Returns the updates of the state: `current_plan` and `information_next_node`."""
        reading = _read(state.get(keys.PLANNER_CONTENT))
        iterations = _iterations(state)
        if reading.plan is None or has_errors(list(reading.problems)):
            return _unreadable(state, reading, iterations)
        plan = ResearchPlan.from_json(_written(reading.plan))
        if reading.plan.enough_context:
            return _informed(keys.REPORTER, {keys.CURRENT_PLAN: plan})
        if state.get(keys.AUTO_ACCEPTED_PLAN) is not True:
            return _informed(keys.HUMAN_FEEDBACK, {keys.CURRENT_PLAN: plan})
        more = {keys.CURRENT_PLAN: plan, keys.PLAN_ITERATIONS: iterations + 1}
        return _informed(keys.RESEARCH_TEAM, more)


def _unreadable(state: State, reading: Reading, iterations: int) -> Updates:
    why = text_of(state.get(keys.PLANNER_ERROR) or error_text(reading.problems))
    if iterations >= _most(state):
        return _informed(keys.END, {keys.PLANNER_ERROR: why})
    more = {keys.PLANNER_ERROR: why, keys.PLAN_ITERATIONS: iterations + 1}
    return _informed(keys.PLANNER, more)


def _informed(node: str, more: Updates) -> Updates:
    return {keys.INFORMATION_NEXT_NODE: node, **more}


def _iterations(state: State) -> int:
    return int(state.get(keys.PLAN_ITERATIONS) or 0)


def _most(state: State) -> int:
    given = state.get(keys.MAX_PLAN_ITERATIONS)
    return _MAX_ITERATIONS if given is None else int(given)


class HumanFeedbackNode:
    """Reads `feedback`, `feedback_content` and `terminate`, in the state or in `human_feedback`.

    What is no decision waits on. At the limit of iterations a rejection asks whether to go on;
    answer `{"decision": "go_on" | "stop"}`.
    """

    async def apply(self, state: State) -> Updates:
        """Returns the updates of the state, with the next node."""
        data = feedback_data(state) | feedback_data(state.get(keys.HUMAN_FEEDBACK))
        if data.get("terminate") is True:
            return _to(keys.END, {})
        if data.get(keys.FEEDBACK) is True:
            more = {keys.PLAN_ITERATIONS: _iterations(state) + 1, keys.FEEDBACK_CONTENT: ""}
            return _to(keys.RESEARCH_TEAM, more)
        if state.get(keys.HUMAN_FEEDBACK_QUESTION) and data.get("decision") in OPTIONS:
            cleared: Updates = {keys.HUMAN_FEEDBACK_QUESTION: ""}
            stops = data["decision"] == STOP
            return _to(keys.END, cleared) if stops else _again(state, data) | cleared
        if data.get(keys.FEEDBACK) is not False:
            return _to(keys.WAIT_FOR_FEEDBACK, {})
        if _iterations(state) >= _most(state):
            asked = {keys.HUMAN_FEEDBACK_QUESTION: _AT_LIMIT}
            return _to(keys.WAIT_FOR_FEEDBACK, asked)
        return _again(state, data)


def _again(state: State, data: Mapping[str, Any]) -> Updates:
    words = str(data.get(keys.FEEDBACK_CONTENT) or REJECTED)
    iterations = _iterations(state) + 1
    return _to(keys.PLANNER, {keys.FEEDBACK_CONTENT: words, keys.PLAN_ITERATIONS: iterations})


def _to(node: str, more: Updates) -> Updates:
    # The decision is used up: the next plan needs its own.
    names = (keys.FEEDBACK, "feed_back", keys.HUMAN_FEEDBACK, "decision")
    used: Updates = dict.fromkeys(names)
    return {keys.HUMAN_NEXT_NODE: node, **used, **more}


class InformationDispatcher:
    """The edge behind the information node."""

    async def apply(self, state: State) -> str:
        """Returns the next node."""
        return str(state.get(keys.INFORMATION_NEXT_NODE) or keys.END)
