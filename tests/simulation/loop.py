"""An event loop whose time is virtual: it jumps to the next timer, so minutes take no time."""

from __future__ import annotations

import asyncio
import selectors
from datetime import UTC, datetime, timedelta
from typing import Any


class StalledError(Exception):
    """Every task waits for another one: nothing will ever happen again."""


class _Jumping(selectors.DefaultSelector):
    """Instead of waiting, let the time pass."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise StalledError
        self.passed += max(timeout, 0.0)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """One thread, one order of events, and a clock that only this loop moves."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.passed


class LoopClock:
    """The clock of a virtual loop, as Plansmith wants one."""

    _START = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self._START + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
