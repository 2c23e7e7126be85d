"""PlanExecutorNode: whether the plan in the state is valid, and which node comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from plansmith.adapters.agents.coder import CARD as CODER
from plansmith.adapters.agents.sql_writer import CARD as SQL_WRITER
from plansmith.compat.spring import keys
from plansmith.compat.spring.keys import State, Updates
from plansmith.compat.spring.planner_node import told
from plansmith.dialects.dialect import Reading
from plansmith.dialects.spring.nl2sql import TITLE, TOOLS, node_of, read
from plansmith.errors import UnreadableText
from plansmith.plan.capability import AgentSpec
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, has_errors, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import ToolStep
from plansmith.planner.check import check_plan
from plansmith.planner.jsontext.read import read_json

MAX_REPAIRS: Final = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanExecutorNode:
    """Validates and routes; what is not valid goes back with what is wrong, twice at most."""

    agents: Sequence[AgentSpec] = (SQL_WRITER, CODER)

    async def apply(self, state: State) -> Updates:
        """The updates of the state, the next node among them."""
        reading = self.validate(state.get(keys.PLANNER_NODE_OUTPUT))
        if reading.plan is None or has_errors(list(reading.problems)):
            return _invalid(state, reading.problems)
        valid: Updates = {keys.PLAN_VALIDATION_STATUS: True, keys.PLAN_VALIDATION_ERROR: ""}
        if state.get(keys.HUMAN_REVIEW_ENABLED):
            return valid | {keys.PLAN_NEXT_NODE: keys.HUMAN_FEEDBACK_NODE}
        return valid | _next(reading.plan, state)

    def validate(self, output: object) -> Reading:
        """The plan in the planner's output and every problem of it, each by its right field."""
        try:
            value = read_json(output) if isinstance(output, str) else None
        except UnreadableText as error:
            message = Sentence("ps.not_plan_because", title=TITLE, reason=error.message)
            hint = Sentence("hint.write_plan_again")
            return Reading(None, (problem("PS001", message, hint=hint),))
        reading = read(value)
        if reading.plan is None:
            return reading
        found = check_plan(reading.plan, (), agents=self.agents)
        own = [*map(_unsupported, _strangers(reading.plan))]
        # The checker knows such a tool as unknown; here it is known which ones there are.
        rest = [each for each in found if each.code != "PS101"]
        return Reading(reading.plan, (*reading.problems, *own, *rest))


def _strangers(plan: Plan) -> list[ToolStep]:
    return [step for step in plan.steps if isinstance(step, ToolStep)]


def _unsupported(step: ToolStep) -> Problem:
    message = Sentence("unknown.tool", name=step.tool)
    hint = Sentence("hint.one_tool_of", tools=[*TOOLS])
    return problem("PS101", message, hint=hint, step=step.id, path=("tool_to_use",))


def _invalid(state: State, problems: Sequence[Problem]) -> Updates:
    repairs = int(state.get(keys.PLAN_REPAIR_COUNT) or 0)
    again = repairs < MAX_REPAIRS
    return {
        keys.PLAN_VALIDATION_STATUS: False,
        keys.PLAN_VALIDATION_ERROR: told(problems),
        keys.PLAN_REPAIR_COUNT: repairs + again,
        keys.PLAN_NEXT_NODE: keys.PLANNER_NODE if again else keys.END,
    }


def _next(plan: Plan, state: State) -> Updates:
    """The node of the current step; behind the last one the plan is at its end."""
    current = int(state.get(keys.PLAN_CURRENT_STEP) or 1)
    if not 1 <= current <= len(plan.steps):
        return {keys.PLAN_NEXT_NODE: keys.END, keys.PLAN_CURRENT_STEP: 1}
    return {
        keys.PLAN_NEXT_NODE: node_of(plan.steps[current - 1]),
        keys.PLAN_CURRENT_STEP: current,
    }
