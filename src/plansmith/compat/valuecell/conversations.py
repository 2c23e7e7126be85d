"""Conversations: which runs belong to which conversation, found again after a restart."""

from __future__ import annotations

from typing import Final, NamedTuple

from plansmith.app import Plansmith
from plansmith.compat.valuecell.models import UserInput
from plansmith.compat.valuecell.rules import guidance_in
from plansmith.plan.next_move import AwaitAnswer, next_move
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.planner.kit import PlanRequest
from plansmith.ports import Message

_ORIGIN: Final = "valuecell"
_MARK: Final = " "
_MOST: Final = 10


class Place(NamedTuple):
    """Where a run belongs."""

    conversation_id: str
    thread_id: str
    user_id: str
    handed_over: bool

    def origin(self) -> str:
        """The place as the journal keeps it; ids hold no spaces."""
        how = "handoff" if self.handed_over else "direct"
        return _MARK.join((_ORIGIN, how, self.conversation_id, self.thread_id, self.user_id))


def place_of(run: Run) -> Place | None:
    """The place of a run that was begun here."""
    parts = run.origin.split(_MARK)
    if len(parts) != 5 or parts[0] != _ORIGIN:
        return None
    return Place(parts[2], parts[3], parts[4], parts[1] == "handoff")


def is_asked(run: Run) -> bool:
    """Whether a run waits for a word on the request itself."""
    return isinstance(next_move(run), AwaitAnswer) and run.plan is None


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
            history=await self.history(place.conversation_id),
            dialect=_ORIGIN,
        )
        journal = await self._smith.runs.create(
            wanted.text, options=wanted.options(), origin=place.origin(), by=place.user_id
        )
        await self._remember(place.conversation_id, journal.id)
        await self._smith.runs.planner.plan(journal, wanted)
        return await self._smith.runs.journals.whole(journal)

    async def hand_over(self, plan: Plan, user_input: UserInput, thread_id: str) -> Run:
        """A run of a plan for the agent that the request names; no model is needed for it."""
        place = _place(user_input, thread_id)
        # Not checked as a planner's choice: who is named may also be an agent that planners skip.
        journal = await self._smith.runs.create(
            user_input.query, plan=plan, checked=False, origin=place.origin(), by=place.user_id
        )
        await self._remember(place.conversation_id, journal.id)
        return await self._smith.runs.journals.whole(journal)

    async def open_runs(self) -> list[Run]:
        """The runs of conversations that wait for a word on the request itself."""
        return [run for run in await self._smith.runs() if is_asked(run) and place_of(run)]

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
                    self._runs.setdefault(place.conversation_id, []).append(run.id)
        return self._runs

    async def _remember(self, conversation_id: str, run_id: str) -> None:
        runs = (await self._known()).setdefault(conversation_id, [])
        if run_id not in runs:
            runs.append(run_id)


def _place(user_input: UserInput, thread_id: str) -> Place:
    meta = user_input.meta
    return Place(
        meta.conversation_id.replace(_MARK, "_"),
        thread_id.replace(_MARK, "_"),
        meta.user_id.replace(_MARK, "_"),
        handed_over=not user_input.target_agent_name,
    )
