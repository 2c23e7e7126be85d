"""Decides whether a request is answered at once, planned, asked about or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from plansmith.errors import ModelFailed, PlansmithError, UnreadableText
from plansmith.plan.capability import AgentSpec
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Decision
from plansmith.plan.refs import escape_text
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.timing import Timing
from plansmith.ports import ChatModel, ContextBlock, Message, Prompt, TriageBrief, Usage
from plansmith.text import visible
from plansmith_planner.context.fence import fence
from plansmith_planner.language.recurrence import recurrence
from plansmith_planner.language.verbs import orders_change
from plansmith_planner.model_calls import ModelAnswer, read_answer, render, text_fields
from plansmith_planner.parse.read import read_json

SCHEMA: Final = text_fields(
    decision=("answer", "plan", "ask", "refuse"), reason=(), query=(), answer=()
)


class Triage(NamedTuple):
    """A decision with its reason; `plan` is set when no model is needed to make one.

    `schedule` is when to repeat it; nothing is scheduled before a person confirms it.
    """

    decision: Decision
    reason: str
    query: str
    answer: str = ""
    plan: Plan | None = None
    usage: Usage = Usage()
    schedule: Timing | None = None


async def triage(  # noqa: PLR0913 - all but the request by name
    request: str,
    *,
    model: ChatModel | None = None,
    target: str | None = None,
    agents: Sequence[AgentSpec] = (),
    templates: Mapping[str, Any] | Sequence[str] = (),
    locale: str = "en",
    timezone: str = "UTC",
    known: Sequence[ContextBlock] = (),
    prompts: Path | None = None,
) -> Triage:
    """Decides what to do with a request; if triage fails, the request is planned.

    `known` is what the request is read with, such as the conversation before it and the time.
    Words that say when to repeat it are removed from the query that is planned.
    """
    fixed = _fixed(request, target, agents, templates, locale)
    if fixed is not None:
        return fixed
    found = recurrence(request, timezone=timezone)
    repeats = found is not None and found.timing is not None and bool(found.rest)
    asked = found.rest if found is not None and repeats else request
    decided = Triage(Decision.PLAN, Sentence("no model for triage is set"), asked)
    try:
        if model is not None:
            blocks = [fence(each.title, each.text, each.source) for each in known]
            messages = [
                Message("system", render("triage", folder=prompts, locale=locale)),
                Message("user", "\n\n".join([*blocks, fence("request", asked)])),
            ]
            prompt = Prompt(messages, schema=SCHEMA, brief=TriageBrief(visible(asked)))
            decided = _read_decision(await read_answer(model.stream(prompt)), asked)
    except (ModelFailed, UnreadableText) as error:
        failed = Sentence("triage failed: {reason}", reason=str(error))
        decided = Triage(Decision.PLAN, failed, asked)
    # The completed request counts too: "yes" may mean "yes, send it".
    if decided.decision is Decision.ANSWER and orders_change(f"{asked}\n{decided.query}"):
        reason = Sentence("words alone do not do what the request asks for")
        decided = decided._replace(decision=Decision.PLAN, reason=reason, answer="")
    if found is None or not repeats:
        return decided
    if decided.decision is Decision.ANSWER:  # a single answer now is not what was asked for
        decided = decided._replace(decision=Decision.PLAN, answer="")
    return decided._replace(schedule=found.timing)


def _fixed(
    request: str,
    target: str | None,
    agents: Sequence[AgentSpec],
    templates: Mapping[str, Any] | Sequence[str],
    locale: str,
) -> Triage | None:
    """Decides without a model: an empty request, a template or a passthrough agent."""
    name, query = target, request
    if not target and request.lstrip().startswith("@"):  # `@name what to do`
        name, _, query = request.lstrip()[1:].partition(" ")
        name = name.rstrip(":：,，")
    agent = next((each for each in agents if name and each.name.lower() == name.lower()), None)
    if not query.strip():
        question = in_language(Sentence("What would you like to be done?"), locale)
        return Triage(Decision.ASK, Sentence("the request is empty"), request, question)
    if agent is not None and agent.enabled and agent.passthrough:
        reason = Sentence("{agent} takes requests as they are", agent=agent.name)
        return Triage(Decision.PLAN, reason, query, "", agent_plan(agent.name, query, locale))
    if name in templates:
        step = {"id": "run", "title": f"Run {name}", "template": name, "inputs": {"request": query}}
        plan = Plan.model_validate({"goal": query, "locale": locale, "steps": [step]})
        return Triage(Decision.PLAN, Sentence("{name} is a template", name=name), query, "", plan)
    if target and agent is None:
        unknown = Sentence("there is no agent or template '{name}'", name=target)
        known = ", ".join(each.name for each in agents if each.enabled) or "none"
        raise PlansmithError(unknown, hint=f"known: {known}")
    return None


def agent_plan(agent: str, query: str, locale: str) -> Plan:
    """Returns a plan that passes a request to one agent, unchanged."""
    step = {"id": "run", "title": f"Run {agent}", "agent": agent, "task": escape_text(query)}
    return Plan.model_validate({"goal": query, "locale": locale, "steps": [step]})


def _read_decision(reply: ModelAnswer, request: str) -> Triage:
    value = read_json(reply.text)
    if not isinstance(value, dict) or value.get("decision") not in list(Decision):
        other = Sentence("the model's answer is not a decision: '{text}'", text=reply.text[:80])
        raise UnreadableText(other)
    decision = Decision(str(value["decision"]))
    # The text of a whole value would mean nothing, and one nested deep has none.
    plain = {name: each for name, each in value.items() if not isinstance(each, (dict, list))}
    reason, answer = str(plain.get("reason") or ""), str(plain.get("answer") or "")
    query = value.get("query")
    if decision is not Decision.PLAN and not answer.strip():
        return Triage(Decision.PLAN, Sentence("triage gave no answer"), request, usage=reply.usage)
    enriched = query if isinstance(query, str) and query.strip() else request
    return Triage(decision, reason, enriched, answer, usage=reply.usage)
