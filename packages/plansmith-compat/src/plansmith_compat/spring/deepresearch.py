"""deepresearch's nodes: planner, information and human feedback, over the keys of its state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, cast

from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.planning import PlanRequest
from plansmith.plan.problem import has_errors
from plansmith.plan.question_options import LIMIT_OPTIONS
from plansmith.plan.run_options import RunOptions
from plansmith.ports import ContextBlock
from plansmith_compat.spring import keys, nodes
from plansmith_compat.spring.beans import ResearchPlan
from plansmith_compat.spring.dialects import write_as
from plansmith_compat.spring.dialects.research import MANNER, read
from plansmith_compat.spring.keys import State, Updates
from plansmith_compat.spring.nodes import HumanFeedbackDispatcher, OnText, PlanningNode
from plansmith_planner.agent_cards import CODER, RESEARCHER
from plansmith_planner.dialect import Reading

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
    f"The limit of plan iterations is reached. Make another plan? ({', '.join(LIMIT_OPTIONS)})"
)
_WORDS: Final = (keys.FEEDBACK_CONTENT, "feed_back_content")


class PlannerNode(PlanningNode):
    """Writes a research plan to `planner_content`, or to `planner_error` why it is not usable."""

    usual_agents = (RESEARCHER, CODER)

    async def _apply(self, state: State, on_text: OnText) -> Updates:
        content = nodes.feedback_data(state).get(keys.FEEDBACK_CONTENT)
        words = [nodes.text_of(each) for each in (state.get(keys.PLANNER_ERROR), content) if each]
        most = state.get(keys.MAX_STEP_NUM)
        request = PlanRequest(
            str(state[keys.QUERY]),
            RunOptions(max_steps=int(most) if most else None, dialect="deepresearch"),
            previous=_read(state).plan if words else None,
            feedback="\n".join(words),
        )
        planned = await self._draft(request, _blocks(state), on_text)
        plan = nodes.usable(planned)
        if plan is None:
            why = nodes.error_text(planned.problems)
            return {keys.PLANNER_CONTENT: planned.text, keys.PLANNER_ERROR: why}
        # The person's words are in this plan; those on it will be others.
        used: Updates = {name: "" for name in _WORDS if state.get(name)}
        text = json.dumps(_written(plan), ensure_ascii=False)
        return {keys.PLANNER_CONTENT: text, keys.PLANNER_ERROR: "", **used}


def _blocks(state: State) -> list[ContextBlock]:
    found = state.get(keys.BACKGROUND_RESULTS) or ()
    results = [found] if isinstance(found, str) else [nodes.text_of(each) for each in found if each]
    blocks = [ContextBlock(_BACKGROUND, each) for each in results if each.strip()]
    more = {keys.OPTIMIZE_QUERIES: "the query in other words", keys.DOCUMENTS: "documents"}
    given = {key: title for key, title in more.items() if state.get(key)}
    return blocks + [ContextBlock(title, nodes.text_of(state[key])) for key, title in given.items()]


def _written(plan: Plan) -> dict[str, Json]:
    value = cast("dict[str, Json]", write_as("deepresearch", plan).value)
    steps = cast("list[dict[str, Json]]", value["steps"])
    # A step of a plan that has not begun has no status: the nodes of the team set it.
    return {**value, "steps": [{**each, "executionStatus": None} for each in steps]}


def _read(state: State) -> Reading:
    return nodes.read_output(state.get(keys.PLANNER_CONTENT), MANNER.title, read)


class InformationNode:
    """Reads the plan in `planner_content` and decides where it goes.

    A plan is run without a person only if `auto_accepted_plan` says so.
    """

    async def apply(self, state: State) -> Updates:
        reading, again = _read(state), {keys.PLAN_ITERATIONS: _iterations(state) + 1}
        if reading.plan is None or has_errors(list(reading.problems)):
            why = nodes.text_of(state.get(keys.PLANNER_ERROR) or nodes.error_text(reading.problems))
            failure: Updates = {keys.PLANNER_ERROR: why}
            if _at_limit(state):
                return failure | {keys.INFORMATION_NEXT_NODE: keys.END}
            return failure | again | {keys.INFORMATION_NEXT_NODE: keys.PLANNER}
        plan: Updates = {keys.CURRENT_PLAN: ResearchPlan.from_json(_written(reading.plan))}
        if reading.plan.enough_context:
            return plan | {keys.INFORMATION_NEXT_NODE: keys.REPORTER}
        if state.get(keys.AUTO_ACCEPTED_PLAN) is not True:
            return plan | {keys.INFORMATION_NEXT_NODE: keys.HUMAN_FEEDBACK}
        return plan | again | {keys.INFORMATION_NEXT_NODE: keys.RESEARCH_TEAM}


def _iterations(state: State) -> int:
    return int(state.get(keys.PLAN_ITERATIONS) or 0)


def _at_limit(state: State) -> bool:
    given = state.get(keys.MAX_PLAN_ITERATIONS)
    return _iterations(state) >= (_MAX_ITERATIONS if given is None else int(given))


class HumanFeedbackNode:
    """Reads `feedback`, `feedback_content` and `terminate`, in the state or in `human_feedback`.

    What is no decision waits on. At the limit of iterations a rejection asks whether to go on;
    answer `{"decision": "go_on" | "stop"}`.
    """

    async def apply(self, state: State) -> Updates:
        data: Mapping[str, Any] = nodes.feedback_data(state) | nodes.feedback_data(
            state.get(keys.HUMAN_FEEDBACK)
        )
        if data.get("terminate") is True:
            return _to(keys.END, {})
        more: Updates = {keys.PLAN_ITERATIONS: _iterations(state) + 1, keys.FEEDBACK_CONTENT: ""}
        match nodes.decision_in(data, state, at_limit=_at_limit(state)):
            case "approve":
                return _to(keys.RESEARCH_TEAM, more)
            case "go_on":
                words = str(data.get(keys.FEEDBACK_CONTENT) or nodes.REJECTED)
                feedback = {keys.FEEDBACK_CONTENT: words, keys.HUMAN_FEEDBACK_QUESTION: ""}
                return _to(keys.PLANNER, more | feedback)
            case "stop":
                return _to(keys.END, {keys.HUMAN_FEEDBACK_QUESTION: ""})
            case "ask":
                return _to(keys.WAIT_FOR_FEEDBACK, {keys.HUMAN_FEEDBACK_QUESTION: _AT_LIMIT})
            case "wait":
                return _to(keys.WAIT_FOR_FEEDBACK, {})


def _to(node: str, more: Updates) -> Updates:
    # The decision is used up: the next plan needs its own.
    names = (keys.FEEDBACK, "feed_back", keys.HUMAN_FEEDBACK, "decision")
    used: Updates = dict.fromkeys(names)
    return {keys.HUMAN_NEXT_NODE: node, **used, **more}


class InformationDispatcher:
    """The edge behind the information node."""

    async def apply(self, state: State) -> str:
        return str(state.get(keys.INFORMATION_NEXT_NODE) or keys.END)
