"""ValueCell's super agent: answers simple requests at once and hands the rest to the planner."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Generator
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from plansmith.app import Plansmith
from plansmith.clock import SystemClock
from plansmith.errors import PlansmithError
from plansmith.plan.planning import Decision
from plansmith.ports import ChatModel, ContextBlock
from plansmith_compat.valuecell.conversations import Conversations
from plansmith_compat.valuecell.models import SuperAgentDecision, SuperAgentOutcome, UserInput
from plansmith_planner.context.gather import TIME, time_text
from plansmith_planner.context.history import TITLE, recall
from plansmith_planner.context.token_budget import rough_count
from plansmith_planner.language.locales import locale_of
from plansmith_planner.make import model_of
from plansmith_planner.model_planner import ModelPlanner
from plansmith_planner.triage import triage

UNAVAILABLE: Final = "SuperAgent unavailable: no model is set"
_TOKENS: Final = 2000
Said = str | SuperAgentOutcome
_S = TypeVar("_S")


class Outcomes(Generic[_S]):
    """What a super agent says: read with `async for`, or awaited for the last of it."""

    def __init__(self, said: AsyncIterator[_S] | Awaitable[_S]) -> None:
        self._said = said

    async def __aiter__(self) -> AsyncIterator[_S]:
        if isinstance(self._said, AsyncIterator):
            async for each in self._said:
                yield each
        else:
            yield await self._said

    def __await__(self) -> Generator[Any, None, _S]:
        async def last() -> _S:
            return [each async for each in self][-1]

        return last().__await__()


class AnySuperAgent(Protocol):
    """A super agent of a program's own; `run` may also return an awaitable, as it once did."""

    @property
    def name(self) -> str: ...
    def run(self, user_input: UserInput, /) -> Any: ...


class SuperAgent:
    """Answers simple requests at once and passes the rest to the planner.

    Without a model it takes the one of the orchestrator's Plansmith; alone, the automatic choice.
    """

    name: str = "ValueCellAgent"

    def __init__(self, model: ChatModel | str | None = None) -> None:
        self._given = model
        self.conversations: Conversations | None = None
        self._alone = Conversations(Plansmith())

    def run(self, user_input: UserInput) -> AsyncIterator[SuperAgentOutcome]:
        """Yields one outcome: an answer, or the request for the planner; it can be awaited too."""
        return cast("AsyncIterator[SuperAgentOutcome]", Outcomes(self._run(user_input)))

    async def _run(self, user_input: UserInput) -> SuperAgentOutcome:
        model, query = self._model(), user_input.query
        if model is None:
            return _handoff(query, UNAVAILABLE)
        known = await self._known(user_input.meta.conversation_id)
        decided = await triage(query, model=model, locale=locale_of(query), known=known)
        if decided.decision is Decision.PLAN:
            # Triage takes out the words that say when, and the planner needs them.
            return _handoff(query if decided.schedule else decided.query, decided.reason)
        if self.conversations is None:  # else the orchestrator keeps it
            await self._alone.told(user_input, decided.answer)
        return SuperAgentOutcome(
            decision=SuperAgentDecision.ANSWER,
            answer_content=decided.answer,
            reason=decided.reason,
        )

    def _model(self) -> ChatModel | None:
        if self._given is None and self.conversations is not None:
            planner = self.conversations.smith.runs.planning.planner
            return planner.model if isinstance(planner, ModelPlanner) else None
        try:
            return model_of(self._given)
        except PlansmithError:
            return None

    async def _known(self, conversation_id: str) -> list[ContextBlock]:
        history = await (self.conversations or self._alone).history(conversation_id)
        said = await recall(history, tokens=_TOKENS, count=rough_count)
        blocks = [ContextBlock(TITLE, said.text)] if said.text else []
        return [*blocks, ContextBlock(TIME, time_text(SystemClock()))]


def _handoff(query: str, reason: str) -> SuperAgentOutcome:
    return SuperAgentOutcome(
        decision=SuperAgentDecision.HANDOFF_TO_PLANNER,
        enriched_query=query,
        # Rules pass on whatever they are asked, and say no more about it.
        reason=reason or "the request needs a plan",
    )


class SuperAgentService:
    """A super agent as a service: yours, or one with the automatic choice of a model."""

    def __init__(self, super_agent: AnySuperAgent | None = None) -> None:
        self.super_agent = super_agent or SuperAgent()

    @property
    def name(self) -> str:
        return self.super_agent.name

    def run(self, user_input: UserInput) -> AsyncIterator[Said]:
        """Yields what the super agent says; it can be awaited too."""
        said = self.super_agent.run(user_input)
        said = said.__aiter__() if hasattr(said, "__aiter__") else said
        return cast("AsyncIterator[Said]", Outcomes(said))
