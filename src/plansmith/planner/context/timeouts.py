"""Runs somebody else's code under a time limit; its failure is a value."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from plansmith.planner.context.fence import label
from plansmith.ports import Clock

_GRACE_S: Final = 1.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Failed:
    """Why there is no result, on one line; `late` when time was up."""

    reason: str
    late: bool = False


async def with_timeout(work: Coroutine[Any, Any, T], *, seconds: float, clock: Clock) -> T | Failed:
    """The result of some work, or why there is none; only our own cancellation is raised."""
    task = asyncio.ensure_future(work)
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({task, alarm}, return_when=asyncio.FIRST_COMPLETED)
        late = not task.done()
    finally:
        await _end(task, alarm)
    if late:
        return Failed(f"no answer within {seconds:g} s", late=True)
    if task.cancelled():
        return Failed("it was cancelled")
    error = task.exception()
    return task.result() if error is None else Failed(label(f"{type(error).__name__}: {error}"))


async def _end(*tasks: asyncio.Future[Any]) -> None:
    """Cancel what still goes on; who does not heed it is left behind after a moment."""
    going = {task for task in tasks if not task.done()}
    for task in going:
        task.cancel()
    if going:
        ended, _ = await asyncio.wait(going, timeout=_GRACE_S)
        # Looked at, or asyncio would complain that nobody did.
        _ = [task.exception() for task in ended if not task.cancelled()]
