"""The nodes behind NL2SQL's planner: plan executor and human feedback, and their dispatchers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

from plansmith.check.check_plan import check_plan
from plansmith.engine.budget import OPTIONS
from plansmith.errors import UnreadableText
from plansmith.formats.dialect import Reading
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, has_errors, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import ToolStep
from plansmith_compat.spring import keys
from plansmith_compat.spring.dialects.nl2sql import (
    PARAMETERS,
    PYTHON,
    REPORT,
    SQL,
    TITLE,
    TOOLS,
    node_of,
    read,
)
from plansmith_compat.spring.keys import State, Updates
from plansmith_compat.spring.planner import error_text, read_output, text_of, value_in
from plansmith_planner.agent_cards import CODER, SQL_WRITER
from plansmith_planner.parse.habits import snake

MAX_REPAIRS: Final = 2
MAX_REJECTIONS: Final = 3
REJECTED: Final = "Plan rejected by user"
# What a node calls the field that it misses; for SQL, also by the name that it had once.
_MISSES: Final = {
    SQL: "the SQL generation node is missing description: the field 'instruction'",
    PYTHON: "the Python generation node is missing instruction",
    REPORT: "the report node is missing summary_and_recommendations",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanExecutorNode:
    """Validates a plan and picks the next node; an invalid plan goes back at most twice."""

    agents: Sequence[AgentSpec] = (SQL_WRITER, CODER)

    async def apply(self, state: State) -> Updates:
        """Returns the updates of the state, with the next node."""
        output = state.get(keys.PLANNER_NODE_OUTPUT)
        reading = self.validate(output)
        if reading.plan is None or has_errors(list(reading.problems)):
            repairs = _count(state, keys.PLAN_REPAIR_COUNT) + 1
            rejections = _count(state, keys.HUMAN_REJECTION_COUNT)
            return {
                keys.PLAN_VALIDATION_STATUS: False,
                keys.PLAN_VALIDATION_ERROR: _why(state, output, reading),
                keys.PLAN_REPAIR_COUNT: repairs,
                keys.HUMAN_REJECTION_COUNT: rejections,
                keys.PLAN_NEXT_NODE: _after_repairs(repairs, rejections),
            }
        valid: Updates = {keys.PLAN_VALIDATION_STATUS: True, keys.PLAN_VALIDATION_ERROR: ""}
        if state.get(keys.HUMAN_REVIEW_ENABLED):
            return valid | {keys.PLAN_NEXT_NODE: keys.HUMAN_FEEDBACK_NODE}
        return valid | _next(reading.plan, state)

    def validate(self, output: object) -> Reading:
        """Returns the plan in the planner's output, and all of its problems."""
        reading = read_output(output, TITLE, read)
        if reading.plan is None:
            return reading
        found = check_plan(reading.plan, (), agents=self.agents)
        own = [_unsupported(step) for step in reading.plan.steps if isinstance(step, ToolStep)]
        # Replaces the checker's problem by one that lists the known tools.
        rest = [each for each in found if each.code != "PS101"]
        return Reading(reading.plan, (*reading.problems, *own, *rest))


def _count(state: State, key: str) -> int:
    return int(state.get(key) or 0)


def _unsupported(step: ToolStep) -> Problem:
    message = Sentence("unknown.tool", name=step.tool)
    hint = Sentence("use one of {tools}", tools=[*TOOLS])
    return problem("PS101", message, hint=hint, step=step.id, path=("tool_to_use",))


def _why(state: State, output: object, reading: Reading) -> str:
    """Says what is wrong with a plan: in a sentence, and then problem by problem."""
    told = state.get(keys.PLAN_VALIDATION_ERROR)
    if not output and told and state.get(keys.PLAN_VALIDATION_STATUS) is False:
        return text_of(told)  # the planner has no plan, and says why
    return "\n".join(each for each in (_headline(output), error_text(reading.problems)) if each)


def _headline(output: object) -> str:
    try:
        steps = _snaked(value_in(output)).get("execution_plan")
    except UnreadableText:
        return ""
    if isinstance(steps, list) and not steps:
        return "Validation failed: the plan has no execution steps."
    for place, each in enumerate(steps if isinstance(steps, list) else (), start=1):
        step = _snaked(each)
        given = step.get("tool_parameters")
        if given is None:
            return f"Validation failed: Tool parameters are missing in step {place}."
        tool, words = str(step.get("tool_to_use")), _snaked(given)
        if tool in PARAMETERS and not (words.get(PARAMETERS[tool]) or words.get("description")):
            return f"Validation failed in step {place}: {_MISSES[tool]}."
    return ""


def _snaked(value: Json) -> dict[str, Json]:
    return {snake(name): each for name, each in value.items()} if isinstance(value, dict) else {}


def _after_repairs(repairs: int, rejections: int) -> str:
    """Returns where an invalid plan goes; a person's rejections leave the repairs as they are."""
    return keys.PLANNER_NODE if repairs - rejections <= MAX_REPAIRS else keys.END


def _next(plan: Plan, state: State) -> Updates:
    """Returns the node of the current step; after the last one, the report."""
    current = max(int(state.get(keys.PLAN_CURRENT_STEP) or 1), 1)
    if current > len(plan.steps):
        last = keys.END if state.get(keys.IS_ONLY_NL2SQL) else REPORT
        return {keys.PLAN_NEXT_NODE: last, keys.PLAN_CURRENT_STEP: 1}
    return {keys.PLAN_NEXT_NODE: node_of(plan.steps[current - 1]), keys.PLAN_CURRENT_STEP: current}


def feedback_data(given: object) -> dict[str, Any]:
    """Returns a person's feedback under its present names; `feed_back…` are the earlier ones."""
    data = cast("Mapping[str, Any]", given if isinstance(given, Mapping) else {})
    said = {name: each for name, each in data.items() if each is not None}
    return {name.replace("feed_back", "feedback"): each for name, each in said.items()} | said


def decision_in(
    data: Mapping[str, Any], state: State, *, at_limit: bool
) -> Literal["approve", "go_on", "stop", "ask", "wait"]:
    """Returns what a person's feedback means for the plan that waits.

    Only true and false decide. At the limit a rejection asks whether to go on, and the answer to
    that question counts as well.
    """
    feedback, answer = data.get(keys.FEEDBACK), data.get("decision")
    if feedback is True:
        return "approve"
    if state.get(keys.HUMAN_FEEDBACK_QUESTION) and answer in OPTIONS:
        return "go_on" if answer == "go_on" else "stop"
    if feedback is not False:
        return "wait"
    return "ask" if at_limit else "go_on"


class HumanFeedbackNode:
    """Reads `{"feedback": true | false, "feedback_content": …}`; anything else keeps waiting.

    A rejection beyond the limit asks whether to go on; answer `{"decision": "go_on" | "stop"}`.
    """

    async def apply(self, state: State) -> Updates:
        """Returns the updates of the state, with the next node."""
        data = feedback_data(state.get(keys.HUMAN_FEEDBACK_DATA))
        # A state of the original has a person's rejections among the repairs.
        own = state.get(keys.HUMAN_REJECTION_COUNT) is not None
        rejections = _count(state, keys.HUMAN_REJECTION_COUNT if own else keys.PLAN_REPAIR_COUNT)
        match decision_in(data, state, at_limit=rejections >= MAX_REJECTIONS):
            case "approve":
                more = {keys.HUMAN_FEEDBACK_CONTENT: "", keys.HUMAN_REJECTED_PLAN: ""}
                return _to(keys.PLAN_EXECUTOR_NODE, {keys.HUMAN_REVIEW_ENABLED: False, **more})
            case "go_on":
                return _again(state, str(data.get(keys.FEEDBACK_CONTENT) or REJECTED), rejections)
            case "stop":
                return _to(keys.END, {keys.HUMAN_FEEDBACK_QUESTION: ""})
            case "ask":
                question = f"{rejections} plans were sent back. Make another one?"
                asked = {keys.HUMAN_FEEDBACK_QUESTION: f"{question} ({', '.join(OPTIONS)})"}
                return _to(keys.WAIT_FOR_FEEDBACK, asked)
            case "wait":
                return _to(keys.WAIT_FOR_FEEDBACK, {})


def _again(state: State, words: str, rejections: int) -> Updates:
    """Goes back to the planner with the person's words and the rejected plan."""
    return _to(
        keys.PLANNER_NODE,
        {
            keys.HUMAN_REJECTION_COUNT: rejections + 1,
            keys.PLAN_REPAIR_COUNT: _count(state, keys.PLAN_REPAIR_COUNT) + 1,
            keys.PLAN_VALIDATION_ERROR: words,
            keys.HUMAN_FEEDBACK_CONTENT: words,
            keys.HUMAN_FEEDBACK_QUESTION: "",
            keys.HUMAN_REJECTED_PLAN: state.get(keys.PLANNER_NODE_OUTPUT) or "",
            keys.PLANNER_NODE_OUTPUT: "",
            keys.PLAN_CURRENT_STEP: 1,
            keys.HUMAN_REVIEW_ENABLED: True,
        },
    )


def _to(node: str, more: Updates) -> Updates:
    # The feedback is used up: the next plan needs its own.
    return {keys.HUMAN_NEXT_NODE: node, keys.HUMAN_FEEDBACK_DATA: None, **more}


class PlanExecutorDispatcher:
    """The edge behind the plan executor."""

    async def apply(self, state: State) -> str:
        """Returns the next node: the executor's choice, or the planner for an invalid plan."""
        if state.get(keys.PLAN_VALIDATION_STATUS):
            return str(state.get(keys.PLAN_NEXT_NODE) or keys.END)
        rejections = _count(state, keys.HUMAN_REJECTION_COUNT)
        return _after_repairs(_count(state, keys.PLAN_REPAIR_COUNT), rejections)


class HumanFeedbackDispatcher:
    """The edge behind a human feedback node, before which a graph stops to wait for a person."""

    async def apply(self, state: State) -> str:
        node = str(state.get(keys.HUMAN_NEXT_NODE) or keys.END)
        return keys.HUMAN_FEEDBACK_NODE if node == keys.WAIT_FOR_FEEDBACK else node
