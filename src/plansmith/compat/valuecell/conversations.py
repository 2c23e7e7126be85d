"""Conversations: which runs belong to which conversation, found again after a restart."""

from __future__ import annotations

from typing import Final

from plansmith.app import Plansmith
from plansmith.compat.valuecell.models import UserInput
from plansmith.compat.valuecell.rules import guidance_in
from plansmith.plan.events import RunCreated, actor
from plansmith.plan.origin import Origin
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus
from plansmith.planner.kit import PlanRequest
from plansmith.ports import Message
from plansmith.runner.desk import SUBMITTED

_DIALECT: Final = "valuecell"
_MOST: Final = 10


def place_of(run: Run) -> Origin | None:
    """The conversation of a run that was begun here."""
    return run.origin if run.origin.kind == "conversation" else None


class Conversations:
    """Begins runs that know their conversation."""

    def __init__(self, smith: Plansmith) -> None:
        self._smith = smith
        self._runs: dict[str, list[str]] | None = None

    async def plan(self, user_input: UserInput, thread_id: str) -> Run:
        """A run with a plan for a request, made by the model."""
        place = _place(user_input, thread_id)
        wanted = PlanRequest(
            user_input.query,
            history=await self.history(place.id),
            dialect=_DIALECT,
        )
        journal = self._smith.new_journal()
        created = RunCreated(request=wanted.text, options=wanted.options(), origin=place)
        await journal.append(created, by=actor(place.user))
        await self._remember(place.id, journal.id)
        await self._smith.plan_into(journal, wanted)
        return await self._smith.whole(journal)

    async def hand_over(self, plan: Plan, user_input: UserInput, thread_id: str) -> Run:
        """A run of a plan for the agent that the request names; no model is needed for it."""
        place = _place(user_input, thread_id)
        journal, who = self._smith.new_journal(), actor(place.user)
        created = RunCreated(request=user_input.query, locale=plan.locale, origin=place)
        # Not checked as a planner's choice: who is named may also be an agent that planners skip.
        await self._smith.propose(journal, plan, start=[(created, who)], about=SUBMITTED, by=who)
        await self._remember(place.id, journal.id)
        return await self._smith.whole(journal)

    async def open_runs(self) -> list[Run]:
        """The runs of conversations that wait for a word on the request itself."""
        return [
            run
            for run in await self._smith.runs()
            if run.status is RunStatus.ASKING and run.plan is None and place_of(run)
        ]

    async def history(self, conversation_id: str) -> tuple[Message, ...]:
        """What was asked and answered before in a conversation."""
        said: list[Message] = []
        for run_id in (await self._known()).get(conversation_id, [])[-_MOST:]:
            run = await self._smith.get(run_id)
            said.append(Message("user", run.request))
            guidance = guidance_in(run.plan, run.request) if run.plan else ""
            answer = guidance or run.report or (run.plan.thought if run.plan else "") or run.reason
            if answer:
                said.append(Message("assistant", answer))
        return tuple(said)

    async def _known(self) -> dict[str, list[str]]:
        if self._runs is None:
            self._runs = {}
            for run in await self._smith.runs():
                place = place_of(run)
                if place is not None:
                    self._runs.setdefault(place.id, []).append(run.id)
        return self._runs

    async def _remember(self, conversation_id: str, run_id: str) -> None:
        runs = (await self._known()).setdefault(conversation_id, [])
        if run_id not in runs:
            runs.append(run_id)


def _place(user_input: UserInput, thread_id: str) -> Origin:
    return Origin(
        kind="conversation",
        id=user_input.meta.conversation_id,
        thread=thread_id,
        user=user_input.meta.user_id,
        handed_over=not user_input.target_agent_name,
    )
