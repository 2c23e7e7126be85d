"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count


class FakeClock:
    """A clock that moves only with `advance`, which wakes sleepers in order of time.

    Examples:
        >>> from plansmith.testing import FakeClock
        >>> clock = FakeClock()
        >>> await clock.advance(3600)
        >>> clock.now().isoformat()
        '2026-01-01T01:00:00+00:00'
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Event]] = []

    def now(self) -> datetime:
        """Returns the time in UTC."""
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        """Returns the seconds since the start."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Waits until the clock was advanced far enough."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.Event()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), woken))
        await woken.wait()

    @property
    def sleepers(self) -> int:
        """The number of tasks that wait for the clock."""
        return len(self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Moves the time forward; each woken task runs at its own time."""
        await settle()
        end = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            self._elapsed, _, woken = heapq.heappop(self._sleepers)
            woken.set()
            await settle()
        self._elapsed = end


async def settle(turns: int = 20) -> None:
    """Lets every task run that can."""
    for _ in range(turns):
        await asyncio.sleep(0)
