"""Runs foreign code under a time limit; returns a failure instead of raising it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from plansmith.ports import Clock
from plansmith_planner.context.fence import label

_GRACE_S: Final = 1.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failed:
    """Why there is no result, on one line."""

    reason: str


async def with_timeout(work: Coroutine[Any, Any, T], *, seconds: float, clock: Clock) -> T | Failed:
    """Returns the result of some work, or why there is none; raises only our own cancellation."""
    task = asyncio.ensure_future(work)
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
        late = not task.done()
    finally:
        going = {each for each in (task, alarm) if not each.done()}
        for each in going:
            each.cancel()
        if going:  # what does not stop is abandoned after a moment
            ended, _ = await asyncio.wait(going, timeout=_GRACE_S)
            # Retrieved, because asyncio warns about exceptions that nobody retrieves.
            _ = [each.exception() for each in ended if not each.cancelled()]
    if late:
        return Failed(f"no answer within {seconds:g} s")
    if task.cancelled():
        return Failed("it was cancelled")
    error = task.exception()
    return task.result() if error is None else Failed(label(f"{type(error).__name__}: {error}"))
