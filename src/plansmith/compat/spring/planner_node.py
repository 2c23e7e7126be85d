"""PlannerNode: the state's question and knowledge become a plan, streamed while it is written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Final

from plansmith.adapters.agents.coder import CARD as CODER
from plansmith.adapters.agents.sql_writer import CARD as SQL_WRITER
from plansmith.adapters.clock import SystemClock
from plansmith.compat.spring import keys
from plansmith.compat.spring.keys import State, Updates
from plansmith.dialects.spring import write_as
from plansmith.dialects.spring.nl2sql import SQL, read
from plansmith.errors import UnreadableText
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity
from plansmith.planner.jsontext.read import read_json
from plansmith.planner.kit import Kit, Planned, PlanRequest
from plansmith.planner.old_models import takes_prompt
from plansmith.planner.pipeline import make_plan
from plansmith.planner.settings import PlannerSettings
from plansmith.ports import ChatModel, Clock, ContextBlock

_KNOWN: Final = {
    keys.BUSINESS_KNOWLEDGE: "business knowledge",
    keys.SEMANTIC_MODEL: "semantic model",
    keys.TABLE_RELATION_OUTPUT: "tables and their relations",
    keys.BACKGROUND_RESULTS: "background investigation results of user query:",
    keys.DOCUMENTS: "retrieved documents",
}


@dataclass(frozen=True, slots=True)
class _Told:
    """What the state knows, as context: data, never instructions."""

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

    Prompts of your own take the place of ours by `PlannerSettings(prompts=FOLDER)`.
    """

    model: ChatModel
    _: KW_ONLY
    agents: Sequence[AgentSpec] = (SQL_WRITER, CODER)
    settings: PlannerSettings = field(default_factory=PlannerSettings)
    clock: Clock = field(default_factory=SystemClock)

    async def apply(self, state: State) -> Updates:
        """The updates of the state: the plan as JSON text, or why there is none."""
        return await self._apply(state, lambda _: None)

    async def stream(self, state: State) -> AsyncIterator[str | Updates]:
        """The plan's text piece by piece as it is written; last the updates of the state."""
        said: asyncio.Queue[str] = asyncio.Queue()
        planning = asyncio.ensure_future(self._apply(state, said.put_nowait))
        try:
            while not planning.done() or not said.empty():
                piece = asyncio.ensure_future(said.get())
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
        kit = Kit(
            plan_model=takes_prompt(self.model),
            clock=self.clock,
            agents=self.agents,
            sources=[_Told(state)],
            settings=self.settings.replace(triage=False),
        )
        request = PlanRequest(
            str(state[keys.INPUT_KEY]),
            previous=_rejected(state),
            feedback=_text(state.get(keys.PLAN_VALIDATION_ERROR) or ""),
            dialect="spring",
        )
        return _updates(await make_plan(request, kit=kit, on_text=on_text))


def only_nl2sql(question: str) -> dict[str, Json]:
    """The fixed plan where only SQL is wanted: one step, and no model is asked for it."""
    step: dict[str, Json] = {
        "step": 1,
        "tool_to_use": SQL,
        "tool_parameters": {"instruction": question},
    }
    return {"thought_process": "NL2SQL", "execution_plan": [step]}


def _rejected(state: State) -> Plan | None:
    """The plan that was sent back; the model sees it beside what is wrong with it."""
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
            keys.PLAN_VALIDATION_ERROR: told(planned.problems),
        }
    written = write_as("nl2sql", plan)
    return _done(written.value)


def _done(plan: Json) -> Updates:
    return {
        keys.PLANNER_NODE_OUTPUT: json.dumps(plan, ensure_ascii=False),
        keys.PLAN_CURRENT_STEP: 1,
    }


def told(problems: Sequence[Problem]) -> str:
    """What keeps a plan from being used, each with the field it is about and what to do."""
    errors = [each for each in problems if each.severity is Severity.ERROR]
    return "\n".join(map(str, errors or problems)) or "the model gave no plan"


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
