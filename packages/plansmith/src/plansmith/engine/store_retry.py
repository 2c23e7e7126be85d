"""Repeats store operations while the store does not answer, so that nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from plansmith.errors import JournalDamaged, StaleWriter, StoreAway
from plansmith.plan.sentence import Sentence
from plansmith.ports import Clock, PlanStore, RepairStore, Sound

if TYPE_CHECKING:
    from plansmith.plan.data import Content, Json
    from plansmith.plan.events import Event

_T = TypeVar("_T")
FIRST_S: Final = 0.1
LONGEST_S: Final = 5.0


class StoreRetry:
    """Repeats an operation, with growing waits, until the store answers."""

    def __init__(self, store: PlanStore, clock: Clock, tell: Callable[[str], None]) -> None:
        self.store = store
        self._clock, self._tell = clock, tell
        self.trouble = ""

    async def until_done(
        self, action: Callable[[], Awaitable[_T]], away: StoreAway | None = None
    ) -> _T:
        """Returns the action's result once the store answers; until then `trouble` says why.

        `away` is the error of a first try that was made without this.
        """
        wait = FIRST_S
        while True:
            if away is not None:
                if not self.trouble:
                    self._tell(Sentence("waiting for the store: {why}", why=away))
                self.trouble = str(away)
                await self._clock.sleep(wait)
                wait = min(wait * 2, LONGEST_S)
            try:
                result = await action()
            except StoreAway as error:
                away = error
            else:
                if self.trouble:
                    self._tell(Sentence("the store is back"))
                self.trouble = ""
                return result


class WaitingStore:
    """What running runs use a store through: each operation waits until the store answers."""

    def __init__(self, retry: StoreRetry) -> None:
        self.retry = retry
        self._store = retry.store

    async def append(
        self, events: Sequence[Event], values: Sequence[Json | Content] = (), **about: Any
    ) -> None:
        """Stores events and values; what was stored although the answer was lost counts."""

        async def again() -> None:
            try:
                await self._store.append(events, values, **about)
            except StaleWriter:
                if not await self._is_stored(events):
                    raise

        try:
            await self._store.append(events, values, **about)
        except StoreAway as away:
            await self.retry.until_done(again, away)
        if self.retry.trouble:
            await self.retry.until_done(partial(asyncio.sleep, 0))  # the store answers again

    async def _is_stored(self, events: Sequence[Event]) -> bool:
        """Tells whether exactly these events are stored, so that only the answer was lost."""
        if not events:
            return True
        found = await self._store.events(events[0].run, after=events[0].number - 1)
        return [each.hash for each in found[: len(events)]] == [each.hash for each in events]

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        """Returns the events of a run after a number."""
        return await self.retry.until_done(lambda: self._store.events(run, after=after))

    async def wait(self, run: str, *, after: int = 0) -> None:
        """Returns when the run has an event after the number."""
        await self.retry.until_done(lambda: self._store.wait(run, after=after))

    async def sound(self, run: str) -> Sound:
        """Returns the events of a run up to the first that is missing or altered."""
        if not isinstance(self._store, RepairStore):
            raise JournalDamaged(
                Sentence("run.is_damaged", run=run),
                hint=Sentence("restore the store from a backup"),
            )
        return await self.retry.until_done(partial(self._store.sound, run))

    async def get(self, digest: str) -> Json:
        """Returns the value of a content hash."""
        return await self.retry.until_done(lambda: self._store.get(digest))
