"""SuperAgent: triage in ValueCell's words; a request is never lost in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from plansmith.compat.valuecell.models import SuperAgentDecision, SuperAgentOutcome, UserInput
from plansmith.planner.briefing.locales import locale_of
from plansmith.planner.old_models import takes_prompt
from plansmith.planner.triage import Decision, triage
from plansmith.ports import ChatModel

UNAVAILABLE: Final = "SuperAgent unavailable: no model is set"


class SuperAgent:
    """Answers simple requests at once and hands the rest to the planner."""

    name = "ValueCellAgent"

    def __init__(self, model: ChatModel | None = None) -> None:
        self._model = takes_prompt(model) if model else None

    async def run(self, user_input: UserInput) -> AsyncIterator[SuperAgentOutcome]:
        """The one outcome: an answer, or the request as the planner gets it."""
        query = user_input.query
        if self._model is None:
            yield _handoff(query, UNAVAILABLE)
            return
        decided = await triage(query, model=self._model, locale=locale_of(query))
        if decided.decision is Decision.PLAN:
            yield _handoff(decided.query, decided.reason)
        else:
            yield SuperAgentOutcome(
                decision=SuperAgentDecision.ANSWER,
                answer_content=decided.answer,
                reason=decided.reason,
            )


def _handoff(query: str, reason: str) -> SuperAgentOutcome:
    return SuperAgentOutcome(
        decision=SuperAgentDecision.HANDOFF_TO_PLANNER, enriched_query=query, reason=reason
    )
