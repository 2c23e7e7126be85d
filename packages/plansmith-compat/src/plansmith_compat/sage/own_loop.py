"""Runs async work for callers that are not async, also where a loop is running already."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

_T = TypeVar("_T")
Tell = Callable[[dict[str, Any]], None]


def in_own_loop(work: Coroutine[Any, Any, _T]) -> _T:
    """Runs a coroutine to its end, in a thread with its own event loop."""
    ended: queue.SimpleQueue[tuple[_T] | BaseException] = queue.SimpleQueue()

    def run() -> None:
        try:
            ended.put((asyncio.run(work),))
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            ended.put(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), daemon=True).start()
    outcome = ended.get()
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome[0]


async def in_thread(work: Callable[..., _T], *given: Any) -> _T:
    """Calls a program's function in a thread; what no coroutine can carry fails as an error."""

    def call() -> _T:
        try:
            return work(*given)
        # A mock without a further answer raises the first; asyncio would wait for ever.
        except (StopIteration, GeneratorExit, KeyboardInterrupt) as raised:
            raise RuntimeError(f"the function raised {raised!r}") from raised

    return await asyncio.to_thread(call)


def told_by(work: Callable[[Tell], Coroutine[Any, Any, None]]) -> Iterator[dict[str, Any]]:
    """Yields what a coroutine tells, as it tells it; raises what it raises."""
    events: queue.SimpleQueue[dict[str, Any] | BaseException | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            asyncio.run(work(events.put))
            events.put(None)
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            events.put(error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), daemon=True).start()
    while (event := events.get()) is not None:
        if isinstance(event, BaseException):
            raise event
        yield event
