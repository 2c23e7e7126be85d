"""The nodes of Spring AI Alibaba's graph: planner, plan executor and human feedback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final, cast

from plansmith.adapters.agents.coder import CARD as CODER
from plansmith.adapters.agents.sql_writer import CARD as SQL_WRITER
from plansmith.adapters.clock import SystemClock
from plansmith.compat.spring import keys
from plansmith.compat.spring.keys import State, Updates
from plansmith.dialects.dialect import Reading
from plansmith.dialects.spring import write_as
from plansmith.dialects.spring.nl2sql import SQL, TITLE, TOOLS, node_of, read
from plansmith.engine.budget import OPTIONS, STOP
from plansmith.errors import UnreadableText
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json
from plansmith.plan.fold import GO_ON
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity, has_errors, problem
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import ToolStep
from plansmith.planner.check.check_plan import check_plan
from plansmith.planner.old_models import takes_prompt
from plansmith.planner.parse.read import read_json
from plansmith.planner.pipeline import make_plan
from plansmith.planner.request import Planned, PlannerDeps, PlannerSettings, PlanRequest
from plansmith.ports import ChatModel, Clock, ContextBlock

_KNOWN: Final = {
    keys.BUSINESS_KNOWLEDGE: "business knowledge",
    keys.SEMANTIC_MODEL: "semantic model",
    keys.TABLE_RELATION_OUTPUT: "tables and their relations",
    keys.BACKGROUND_RESULTS: "background investigation results of user query:",
    keys.DOCUMENTS: "retrieved documents",
}
MAX_REPAIRS: Final = 2
MAX_REJECTIONS: Final = 3
REJECTED: Final = "the plan was rejected without a reason"


@dataclass(frozen=True, slots=True)
class _StateContext:
    """Gives the state's content to the planner as context: data, never instructions."""

    state: State

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        del query, token_limit
        return [
            ContextBlock(title, _text(self.state[key]))
            for key, title in _KNOWN.items()
            if self.state.get(key)
        ]


@dataclass(frozen=True, slots=True)
class PlannerNode:
    """Plans with the SQL writer and the coder, or with other agents.

    Your own prompts replace ours with `PlannerSettings(prompts=FOLDER)`.
    """

    model: ChatModel
    _: KW_ONLY
    agents: Sequence[AgentSpec] = (SQL_WRITER, CODER)
    settings: PlannerSettings = field(default_factory=PlannerSettings)
    clock: Clock = field(default_factory=SystemClock)

    async def apply(self, state: State) -> Updates:
        """Returns the updates of the state: the plan as JSON text, or why there is none."""
        return await self._apply(state, lambda _: None)

    async def stream(self, state: State) -> AsyncIterator[str | Updates]:
        """Yields the plan's text piece by piece, and at last the updates of the state."""
        texts: asyncio.Queue[str] = asyncio.Queue()
        planning = asyncio.ensure_future(self._apply(state, texts.put_nowait))
        try:
            while not planning.done() or not texts.empty():
                piece = asyncio.ensure_future(texts.get())
                either: set[asyncio.Future[str] | asyncio.Future[Updates]] = {planning, piece}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if piece.done():
                    yield piece.result()
                else:
                    piece.cancel()
            yield await planning
        finally:
            planning.cancel()

    async def _apply(self, state: State, on_text: Callable[[str], None]) -> Updates:
        if state.get(keys.IS_ONLY_NL2SQL):
            return _done(only_nl2sql(str(state[keys.INPUT_KEY])))
        deps = PlannerDeps(
            plan_model=takes_prompt(self.model),
            clock=self.clock,
            agents=self.agents,
            sources=[_StateContext(state)],
            settings=self.settings.replace(triage=False),
        )
        request = PlanRequest(
            str(state[keys.INPUT_KEY]),
            previous=_rejected(state),
            feedback=_text(state.get(keys.PLAN_VALIDATION_ERROR) or ""),
            dialect="spring",
        )
        return _updates(await make_plan(request, deps=deps, on_text=on_text))


def only_nl2sql(question: str) -> dict[str, Json]:
    """Returns the fixed plan if only SQL is wanted: one step, made without a model."""
    step: dict[str, Json] = {
        "step": 1,
        "tool_to_use": SQL,
        "tool_parameters": {"instruction": question},
    }
    return {"thought_process": "NL2SQL", "execution_plan": [step]}


def _rejected(state: State) -> Plan | None:
    """Returns the plan that was sent back, for the model to see with its problems."""
    text = state.get(keys.PLANNER_NODE_OUTPUT)
    if not text or not state.get(keys.PLAN_VALIDATION_ERROR):
        return None
    try:
        return read(read_json(_text(text))).plan
    except UnreadableText:
        return None


def _updates(planned: Planned) -> Updates:
    plan = planned.plan
    if plan is None or plan.degraded:
        return {
            keys.PLANNER_NODE_OUTPUT: "",
            keys.PLAN_VALIDATION_STATUS: False,
            keys.PLAN_VALIDATION_ERROR: error_text(planned.problems),
        }
    written = write_as("nl2sql", plan)
    return _done(written.value)


def _done(plan: Json) -> Updates:
    return {
        keys.PLANNER_NODE_OUTPUT: json.dumps(plan, ensure_ascii=False),
        keys.PLAN_CURRENT_STEP: 1,
    }


def error_text(problems: Sequence[Problem]) -> str:
    """Returns the errors of a plan as text, with fields and hints."""
    errors = [each for each in problems if each.severity is Severity.ERROR]
    return "\n".join(map(str, errors or problems)) or "the model gave no plan"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanExecutorNode:
    """Validates a plan and picks the next node; an invalid plan goes back at most twice."""

    agents: Sequence[AgentSpec] = (SQL_WRITER, CODER)

    async def apply(self, state: State) -> Updates:
        """Returns the updates of the state, with the next node."""
        reading = self.validate(state.get(keys.PLANNER_NODE_OUTPUT))
        if reading.plan is None or has_errors(list(reading.problems)):
            return _invalid(state, reading.problems)
        valid: Updates = {keys.PLAN_VALIDATION_STATUS: True, keys.PLAN_VALIDATION_ERROR: ""}
        if state.get(keys.HUMAN_REVIEW_ENABLED):
            return valid | {keys.PLAN_NEXT_NODE: keys.HUMAN_FEEDBACK_NODE}
        return valid | _next(reading.plan, state)

    def validate(self, output: object) -> Reading:
        """Returns the plan in the planner's output, and all of its problems."""
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
        tool_steps = [step for step in reading.plan.steps if isinstance(step, ToolStep)]
        own = [*map(_unsupported, tool_steps)]
        # Replaces the checker's problem by one that lists the known tools.
        rest = [each for each in found if each.code != "PS101"]
        return Reading(reading.plan, (*reading.problems, *own, *rest))


def _unsupported(step: ToolStep) -> Problem:
    message = Sentence("unknown.tool", name=step.tool)
    hint = Sentence("hint.one_tool_of", tools=[*TOOLS])
    return problem("PS101", message, hint=hint, step=step.id, path=("tool_to_use",))


def _invalid(state: State, problems: Sequence[Problem]) -> Updates:
    repairs = int(state.get(keys.PLAN_REPAIR_COUNT) or 0)
    again = repairs < MAX_REPAIRS
    return {
        keys.PLAN_VALIDATION_STATUS: False,
        keys.PLAN_VALIDATION_ERROR: error_text(problems),
        keys.PLAN_REPAIR_COUNT: repairs + again,
        keys.PLAN_NEXT_NODE: keys.PLANNER_NODE if again else keys.END,
    }


def _next(plan: Plan, state: State) -> Updates:
    """Returns the node of the current step; after the last one, the end."""
    current = int(state.get(keys.PLAN_CURRENT_STEP) or 1)
    if not 1 <= current <= len(plan.steps):
        return {keys.PLAN_NEXT_NODE: keys.END, keys.PLAN_CURRENT_STEP: 1}
    return {keys.PLAN_NEXT_NODE: node_of(plan.steps[current - 1]), keys.PLAN_CURRENT_STEP: current}


class HumanFeedbackNode:
    """Reads `{"feedback": true | false, "feedback_content": …}`; anything else keeps waiting.

    A rejection beyond the limit asks whether to go on; answer `{"decision": "go_on" | "stop"}`.
    """

    async def apply(self, state: State) -> Updates:
        """Returns the updates of the state, with the next node."""
        given = state.get(keys.HUMAN_FEEDBACK_DATA)
        data = cast("Mapping[str, Any]", given if isinstance(given, Mapping) else {})
        feedback = data.get("feedback")
        if feedback is True:
            return _to(
                keys.PLAN_EXECUTOR_NODE,
                {keys.HUMAN_REVIEW_ENABLED: False, keys.PLAN_VALIDATION_ERROR: ""},
            )
        if state.get(keys.HUMAN_FEEDBACK_QUESTION) and data.get("decision") in OPTIONS:
            return _answered(state, data)
        if feedback is not False:
            return _to(keys.WAIT_FOR_FEEDBACK, {})
        rejections = int(state.get(keys.HUMAN_REJECTION_COUNT) or 0)
        if rejections >= MAX_REJECTIONS:
            question = f"{rejections} plans were sent back. Make another one?"
            asked = {keys.HUMAN_FEEDBACK_QUESTION: f"{question} ({', '.join(OPTIONS)})"}
            return _to(keys.WAIT_FOR_FEEDBACK, asked)
        return _again(rejections, data)


def _answered(state: State, data: Mapping[str, Any]) -> Updates:
    cleared: Updates = {keys.HUMAN_FEEDBACK_QUESTION: ""}
    if data["decision"] == STOP:
        return _to(keys.END, cleared)
    assert data["decision"] == GO_ON  # noqa: S101 - there are two options
    rejections = int(state.get(keys.HUMAN_REJECTION_COUNT) or 0)
    return _again(rejections, data) | cleared


def _again(rejections: int, data: Mapping[str, Any]) -> Updates:
    """Goes back to the planner with the person's words and the rejected plan."""
    return _to(
        keys.PLANNER_NODE,
        {
            keys.HUMAN_REJECTION_COUNT: rejections + 1,
            keys.PLAN_VALIDATION_ERROR: str(data.get("feedback_content") or REJECTED),
            keys.PLAN_CURRENT_STEP: 1,
            keys.HUMAN_REVIEW_ENABLED: True,
        },
    )


def _to(node: str, more: Updates) -> Updates:
    # The feedback is used up: the next plan needs its own.
    return {keys.HUMAN_NEXT_NODE: node, keys.HUMAN_FEEDBACK_DATA: None, **more}
