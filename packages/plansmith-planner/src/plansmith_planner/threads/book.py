"""Reads threads from the store and appends to them, in order, whoever else writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from plansmith.engine.journal import SYSTEM
from plansmith.plan.thread import (
    AnyThreadBody,
    MessageRead,
    ReplyGiven,
    ThreadEntry,
    ThreadState,
    ThreadSummarised,
    fold_thread,
)
from plansmith_planner.threads.store import ThreadStore

if TYPE_CHECKING:
    from plansmith.plan.events import Actor
    from plansmith.ports import Clock, PlanStore

# Whoever speaks, these are not their words.
_OURS: Final = (MessageRead, ReplyGiven, ThreadSummarised)


class ThreadBook:
    """The entries of threads; two who write at once both get theirs in, one after the other."""

    def __init__(self, store: PlanStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    @property
    def store(self) -> ThreadStore:
        """The threads of the store, which must be able to keep them."""
        return ThreadStore(self._store)

    async def read(self, thread: str) -> ThreadState:
        """Returns the present state of a thread; an unknown one is empty."""
        return fold_thread(thread, await self.store.thread_entries(thread))

    async def append(
        self, state: ThreadState, *bodies: AnyThreadBody, by: Actor = SYSTEM
    ) -> ThreadState | None:
        """Appends entries after the last one of this state; None if somebody else came first."""
        at = self._clock.now()
        entries = [
            ThreadEntry(
                thread=state.id,
                number=number,
                at=at,
                by=SYSTEM if isinstance(body, _OURS) else by,
                body=body,
            )
            for number, body in enumerate(bodies, start=state.last + 1)
        ]
        if not await self.store.append_entries(entries):
            return None
        return await self.read(state.id)

    async def add(
        self, thread: str, *bodies: AnyThreadBody, by: Actor = SYSTEM
    ) -> tuple[ThreadState, int]:
        """Appends entries wherever the thread ends; returns the state and the first number."""
        while True:
            before = await self.read(thread)
            after = await self.append(before, *bodies, by=by)
            if after is not None:
                return after, before.last + 1
