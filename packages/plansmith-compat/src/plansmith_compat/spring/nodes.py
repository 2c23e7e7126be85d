"""The nodes behind NL2SQL's planner: plan executor and human feedback, and their dispatchers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from plansmith.check.check_plan import check_plan
from plansmith.engine.budget import OPTIONS, STOP
from plansmith.errors import UnreadableText
from plansmith.formats.dialect import Reading
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json
from plansmith.plan.fold import GO_ON
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, has_errors, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import ToolStep
from plansmith_compat.spring import keys
from plansmith_compat.spring.beans import Bean
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
from plansmith_compat.spring.planner import error_text, text_of
from plansmith_planner.agent_cards import CODER, SQL_WRITER
from plansmith_planner.parse.habits import snake
from plansmith_planner.parse.reply import read_plan_value

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
            return _invalid(state, _why(state, output, reading))
        valid: Updates = {keys.PLAN_VALIDATION_STATUS: True, keys.PLAN_VALIDATION_ERROR: ""}
        if state.get(keys.HUMAN_REVIEW_ENABLED):
            return valid | {keys.PLAN_NEXT_NODE: keys.HUMAN_FEEDBACK_NODE}
        return valid | _next(reading.plan, state)

    def validate(self, output: object) -> Reading:
        """Returns the plan in the planner's output, and all of its problems."""
        try:
            value = _value(output)
        except UnreadableText as error:
            message = Sentence(
                "no plan of {title} was found: {reason}", title=TITLE, reason=error.message
            )
            hint = Sentence("write the plan again")
            return Reading(None, (problem("PS001", message, hint=hint),))
        reading = read(value)
        if reading.plan is None:
            return reading
        found = check_plan(reading.plan, (), agents=self.agents)
        tool_steps = [step for step in reading.plan.steps if isinstance(step, ToolStep)]
        own = [*map(_unsupported, tool_steps)]
        # Replaces the checker's problem by one that lists the known tools.
        rest = [each for each in found if each.code != "PS101"]
        return Reading(reading.plan, (*reading.problems, *own, *rest))


def _value(output: object) -> Json:
    """Returns the planner's output as JSON: text, or a plan as an object."""
    if isinstance(output, Bean):
        return output.to_json()
    return read_plan_value(output) if isinstance(output, str) else cast("Json", output)


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
        value = _value(output)
    except UnreadableText:
        return ""
    head = _snaked(value)
    steps = head.get("execution_plan")
    if isinstance(steps, list) and not steps:
        return "Validation failed: the plan has no execution steps."
    for place, each in enumerate(steps if isinstance(steps, list) else (), start=1):
        step = _snaked(each)
        given = step.get("tool_parameters")
        if given is None:
            return f"Validation failed: Tool parameters are missing in step {place}."
        tool = str(step.get("tool_to_use"))
        words = _snaked(given)
        if tool in PARAMETERS and not (words.get(PARAMETERS[tool]) or words.get("description")):
            return f"Validation failed in step {place}: {_MISSES[tool]}."
    return ""


def _snaked(value: Json) -> dict[str, Json]:
    return {snake(name): each for name, each in value.items()} if isinstance(value, dict) else {}


def _invalid(state: State, why: str) -> Updates:
    count = int(state.get(keys.PLAN_REPAIR_COUNT) or 0) + 1
    rejections = int(state.get(keys.HUMAN_REJECTION_COUNT) or 0)
    return {
        keys.PLAN_VALIDATION_STATUS: False,
        keys.PLAN_VALIDATION_ERROR: why,
        keys.PLAN_REPAIR_COUNT: count,
        keys.HUMAN_REJECTION_COUNT: rejections,
        keys.PLAN_NEXT_NODE: _after_repairs(count, rejections),
    }


def _after_repairs(count: int, rejections: int) -> str:
    """Returns where an invalid plan goes; a person's rejections leave the repairs as they are."""
    return keys.PLANNER_NODE if count - rejections <= MAX_REPAIRS else keys.END


def _next(plan: Plan, state: State) -> Updates:
    """Returns the node of the current step; after the last one, the report."""
    current = max(int(state.get(keys.PLAN_CURRENT_STEP) or 1), 1)
    if current > len(plan.steps):
        last = keys.END if state.get(keys.IS_ONLY_NL2SQL) else REPORT
        return {keys.PLAN_NEXT_NODE: last, keys.PLAN_CURRENT_STEP: 1}
    return {keys.PLAN_NEXT_NODE: node_of(plan.steps[current - 1]), keys.PLAN_CURRENT_STEP: current}


class HumanFeedbackNode:
    """Reads `{"feedback": true | false, "feedback_content": …}`; anything else keeps waiting.

    A rejection beyond the limit asks whether to go on; answer `{"decision": "go_on" | "stop"}`.
    """

    async def apply(self, state: State) -> Updates:
        """Returns the updates of the state, with the next node."""
        data = feedback_data(state.get(keys.HUMAN_FEEDBACK_DATA))
        feedback = data.get(keys.FEEDBACK)
        if feedback is True:
            cleared: Updates = {keys.HUMAN_FEEDBACK_CONTENT: "", keys.HUMAN_REJECTED_PLAN: ""}
            return _to(keys.PLAN_EXECUTOR_NODE, {keys.HUMAN_REVIEW_ENABLED: False, **cleared})
        if state.get(keys.HUMAN_FEEDBACK_QUESTION) and data.get("decision") in OPTIONS:
            return _answered(state, data)
        if feedback is not False:
            return _to(keys.WAIT_FOR_FEEDBACK, {})
        rejections = _rejections(state)
        if rejections >= MAX_REJECTIONS:
            question = f"{rejections} plans were sent back. Make another one?"
            asked = {keys.HUMAN_FEEDBACK_QUESTION: f"{question} ({', '.join(OPTIONS)})"}
            return _to(keys.WAIT_FOR_FEEDBACK, asked)
        return _again(state, data)


def feedback_data(given: object) -> dict[str, Any]:
    """Returns a person's feedback under its present names; `feed_back…` are the earlier ones."""
    data = cast("Mapping[str, Any]", given if isinstance(given, Mapping) else {})
    said = {name: each for name, each in data.items() if each is not None}
    return {name.replace("feed_back", "feedback"): each for name, each in said.items()} | said


def _rejections(state: State) -> int:
    """Counts a person's rejections; a state of the original has them among the repairs."""
    counted = state.get(keys.HUMAN_REJECTION_COUNT)
    return int((state.get(keys.PLAN_REPAIR_COUNT) if counted is None else counted) or 0)


def _answered(state: State, data: Mapping[str, Any]) -> Updates:
    cleared: Updates = {keys.HUMAN_FEEDBACK_QUESTION: ""}
    if data["decision"] == STOP:
        return _to(keys.END, cleared)
    assert data["decision"] == GO_ON  # noqa: S101 - there are two options
    return _again(state, data) | cleared


def _again(state: State, data: Mapping[str, Any]) -> Updates:
    """Goes back to the planner with the person's words and the rejected plan."""
    words = str(data.get(keys.FEEDBACK_CONTENT) or REJECTED)
    return _to(
        keys.PLANNER_NODE,
        {
            keys.HUMAN_REJECTION_COUNT: _rejections(state) + 1,
            keys.PLAN_REPAIR_COUNT: int(state.get(keys.PLAN_REPAIR_COUNT) or 0) + 1,
            keys.PLAN_VALIDATION_ERROR: words,
            keys.HUMAN_FEEDBACK_CONTENT: words,
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
        rejections = int(state.get(keys.HUMAN_REJECTION_COUNT) or 0)
        return _after_repairs(int(state.get(keys.PLAN_REPAIR_COUNT) or 0), rejections)


class HumanFeedbackDispatcher:
    """The edge behind a human feedback node, before which a graph stops to wait for a person."""

    async def apply(self, state: State) -> str:
        """Returns the next node."""
        node = str(state.get(keys.HUMAN_NEXT_NODE) or keys.END)
        return keys.HUMAN_FEEDBACK_NODE if node == keys.WAIT_FOR_FEEDBACK else node
