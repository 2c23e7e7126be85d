"""The planner nodes: a state becomes a request, one model call a draft of its plan."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, cast

from plansmith.clock import SystemClock
from plansmith.errors import UnreadableText
from plansmith.formats.dialect import Reading
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Planned, PlanRequest
from plansmith.plan.problem import Problem, Severity, problem
from plansmith.plan.sentence import Sentence
from plansmith.ports import ChatModel, Clock, ContextBlock
from plansmith_compat.calling import Known
from plansmith_compat.spring import keys
from plansmith_compat.spring.beans import Bean
from plansmith_compat.spring.dialects import write_as
from plansmith_compat.spring.dialects.nl2sql import SQL, TITLE, read
from plansmith_compat.spring.keys import State, Updates
from plansmith_planner.agent_cards import CODER, SQL_WRITER
from plansmith_planner.make import model_of
from plansmith_planner.parse.habits import snake
from plansmith_planner.parse.reply import read_plan_value
from plansmith_planner.pipeline import make_plan
from plansmith_planner.settings import PlannerSettings
from plansmith_planner.stages import PlannerDeps

OnText = Callable[[str], None]
_KNOWLEDGE: Final = "business knowledge"
_SEMANTICS: Final = "semantic model"
_KNOWN: Final = {
    keys.BUSINESS_KNOWLEDGE: _KNOWLEDGE,
    keys.EVIDENCE: _KNOWLEDGE,
    keys.EVIDENCES: _KNOWLEDGE,
    keys.SEMANTIC_MODEL: _SEMANTICS,
    keys.GENEGRATED_SEMANTIC_MODEL_PROMPT: _SEMANTICS,
    keys.TABLE_RELATION_OUTPUT: "tables and their relations",
    keys.BACKGROUND_RESULTS: "background investigation results of user query:",
    keys.DOCUMENTS: "retrieved documents",
}
_REJECTED_TEXT: Final = "the last answer, which could not be read as a plan"
_AS_ASKED: Final = "the question as the person asked it"
_NO_QUESTION: Final = (keys.SMALL_TALK_REJECT, keys.INTENT_UNCLEAR)
_MAX_REJECTED: Final = 4000


class PlanningNode(ABC):
    """A node that drafts a plan; one model call each time.

    `model` is a model, its name, or None for the automatic choice. Your own prompts replace ours
    with `PlannerSettings(prompts=FOLDER)`.
    """

    usual_agents: ClassVar[Sequence[AgentSpec]]

    def __init__(
        self,
        model: ChatModel | str | None = None,
        *,
        agents: Sequence[AgentSpec] | None = None,
        settings: PlannerSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.model = model_of(model)
        self.agents = self.usual_agents if agents is None else agents
        self.settings = settings or PlannerSettings()
        self.clock = clock or SystemClock()

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
                either: set[asyncio.Future[Any]] = {planning, piece}
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
                if piece.done():
                    yield piece.result()
                else:
                    piece.cancel()
            yield await planning
        finally:
            planning.cancel()

    @abstractmethod
    async def _apply(self, state: State, on_text: OnText) -> Updates: ...

    async def _draft(
        self, request: PlanRequest, blocks: Sequence[ContextBlock], on_text: OnText
    ) -> Planned:
        """Calls the model once; what is wrong with its plan goes back through the graph."""
        deps = PlannerDeps(
            plan_model=self.model,
            clock=self.clock,
            agents=self.agents,
            sources=[Known(lambda: blocks)],
            settings=self.settings.replace(triage=False, repairs=0),
        )
        return await make_plan(request, deps=deps, on_text=on_text)


def value_in(output: object) -> Json:
    """Returns a planner's output as JSON: text, or a plan as an object."""
    if isinstance(output, Bean):
        return output.to_json()
    return read_plan_value(output) if isinstance(output, str) else cast("Json", output)


def read_output(output: object, title: str, read: Callable[[Json], Reading]) -> Reading:
    """Reads the plan in a planner's output."""
    try:
        return read(value_in(output))
    except UnreadableText as error:
        message = Sentence(
            "no plan of {title} was found: {reason}", title=title, reason=error.message
        )
        hint = Sentence("write the plan again")
        return Reading(None, (problem("PS001", message, hint=hint),))


def usable(planned: Planned) -> Plan | None:
    """Returns the plan, unless it is missing or only stands in for one."""
    return None if planned.plan is None or planned.plan.degraded else planned.plan


def error_text(problems: Sequence[Problem]) -> str:
    """Returns the errors of a plan as text, with fields and hints."""
    errors = [each for each in problems if each.severity is Severity.ERROR]
    return "\n".join(map(str, errors or problems)) or "the model gave no plan"


def text_of(value: object) -> str:
    """Returns a value of the state as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


class PlannerNode(PlanningNode):
    """NL2SQL's planner: plans with the SQL writer and the coder, or with other agents."""

    usual_agents = (SQL_WRITER, CODER)

    async def _apply(self, state: State, on_text: OnText) -> Updates:
        question = _question_of(state)
        if state.get(keys.IS_ONLY_NL2SQL):
            return _done(only_nl2sql(question))
        words = [state.get(keys.PLAN_VALIDATION_ERROR), state.get(keys.HUMAN_FEEDBACK_CONTENT)]
        feedback = "\n".join(dict.fromkeys(text_of(each) for each in words if each))
        sent_back = state.get(keys.PLANNER_NODE_OUTPUT) or state.get(keys.HUMAN_REJECTED_PLAN)
        text = text_of(sent_back or "") if feedback else ""
        rejected = read_output(text, TITLE, read).plan if text else None
        blocks = _blocks(state, question)
        if text and rejected is None:
            blocks.append(ContextBlock(_REJECTED_TEXT, text[:_MAX_REJECTED]))
        request = PlanRequest(question, previous=rejected, feedback=feedback, dialect="spring")
        planned = await self._draft(request, blocks, on_text)
        plan = usable(planned)
        if plan is not None:
            return _done(write_as("nl2sql", plan).value)
        return {
            keys.PLANNER_NODE_OUTPUT: planned.text,
            keys.PLAN_VALIDATION_STATUS: False,
            keys.PLAN_VALIDATION_ERROR: error_text(planned.problems),
        }


def _question_of(state: State) -> str:
    """Returns the rewritten question if a node before has rewritten it, else the person's own."""
    enhanced: Any = state.get(keys.QUERY_ENHANCE_NODE_OUTPUT)
    if isinstance(enhanced, Mapping):
        given = cast("Mapping[str, Any]", enhanced)
        enhanced = {snake(name): each for name, each in given.items()}.get("canonical_query")
    for rewritten in (enhanced, state.get(keys.QUERY_REWRITE_NODE_OUTPUT)):
        if isinstance(rewritten, str) and rewritten.strip() and rewritten not in _NO_QUESTION:
            return rewritten
    return str(state[keys.INPUT_KEY])


def _blocks(state: State, question: str) -> list[ContextBlock]:
    known = {key: title for key, title in _KNOWN.items() if state.get(key)}
    blocks = [ContextBlock(title, text_of(state[key])) for key, title in known.items()]
    asked = state.get(keys.INPUT_KEY)
    if asked and asked != question:
        blocks.insert(0, ContextBlock(_AS_ASKED, text_of(asked)))
    return blocks


def only_nl2sql(question: str) -> dict[str, Json]:
    """Returns the fixed plan if only SQL is wanted: one step, made without a model."""
    parameters: Json = {"instruction": question}
    step: Json = {"step": 1, "tool_to_use": SQL, "tool_parameters": parameters}
    return {"thought_process": "根据问题生成SQL", "execution_plan": [step]}


def _done(plan: Json) -> Updates:
    text = json.dumps(cast("Any", plan), ensure_ascii=False)
    return {keys.PLANNER_NODE_OUTPUT: text, keys.PLAN_CURRENT_STEP: 1}
