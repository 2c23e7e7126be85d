"""The real clock, and waiting for whatever comes first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Final


class SystemClock:
    """The machine's own time, as the port `Clock` says."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    # Seconds since the machine started, those in which it slept included, where that is known.
    since_boot: Final[Callable[[], float]] = (
        partial(time.clock_gettime, time.CLOCK_BOOTTIME)
        if hasattr(time, "CLOCK_BOOTTIME")
        else time.monotonic
    )

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def first_of(*waits: Awaitable[object]) -> None:
    """Waits until one of these is over, and cancels the others."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
