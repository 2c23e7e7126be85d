"""Waits for a store that is away, and loses nothing that has to be written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from plansmith.errors import JournalDamaged, StaleWriter, StoreAway
from plansmith.plan.data import Content, Json
from plansmith.plan.events import Event
from plansmith.ports import Clock, PlanStore, RepairStore, Sound

_T = TypeVar("_T")
FIRST_S: Final = 0.1
LONGEST_S: Final = 5.0


class StoreOutage:
    """Tries again what a store that is away could not do, ever more rarely, until it is back."""

    def __init__(self, store: PlanStore, clock: Clock) -> None:
        self.store = store
        self._clock = clock
        self.trouble = ""
        self.tell: Callable[[str], None] = lambda _: None

    async def until_done(self, deed: Callable[[], Awaitable[_T]]) -> _T:
        """What a deed gives once the store answers; meanwhile `trouble` says why it waits."""
        wait = FIRST_S
        while True:
            try:
                done = await deed()
            except StoreAway as error:
                if not self.trouble:
                    self.tell(f"waiting for the store: {error}")
                self.trouble = str(error)
                await self._clock.sleep(wait)
                wait = min(wait * 2, LONGEST_S)
            else:
                if self.trouble:
                    self.tell("the store is back")
                self.trouble = ""
                return done


class WaitingStore:
    """A store as a run under way sees it: what is written is written, however long it takes."""

    def __init__(self, patience: StoreOutage) -> None:
        self._patience = patience
        self._store = patience.store

    async def append(self, events: Sequence[Event], values: Sequence[Json | Content] = ()) -> None:
        """Keep events and values; those that came through before the store went are there."""
        tries = 0

        async def append() -> None:
            nonlocal tries
            tries += 1
            try:
                await self._store.append(events, values)
            except StaleWriter:
                if tries == 1 or not await self._is_stored(events):
                    raise

        await self._patience.until_done(append)

    async def _is_stored(self, events: Sequence[Event]) -> bool:
        """Whether exactly these events are there: only the answer was lost."""
        if not events:
            return True
        found = await self._store.events(events[0].run, after=events[0].number - 1)
        return [each.hash for each in found[: len(events)]] == [each.hash for each in events]

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        """The events of a run behind a number."""
        return await self._patience.until_done(lambda: self._store.events(run, after=after))

    async def wait(self, run: str, *, after: int = 0) -> None:
        """Return when the run has an event behind the number."""
        await self._patience.until_done(lambda: self._store.wait(run, after=after))

    async def sound(self, run: str) -> Sound:
        """The events of a run up to the first that is missing or altered."""
        if not isinstance(self._store, RepairStore):
            raise JournalDamaged(f"run {run} is damaged", hint="restore the store from a backup")
        return await self._patience.until_done(partial(self._store.sound, run))

    async def get(self, digest: str) -> Json:
        """The value of a content hash."""
        return await self._patience.until_done(lambda: self._store.get(digest))
