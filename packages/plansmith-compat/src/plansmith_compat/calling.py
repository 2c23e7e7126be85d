"""What the five share: calls to programs that may be async or not, reviews, events of a run."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import queue
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from plansmith.errors import Misconfigured
from plansmith.plan.events import Event
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.ports import ContextBlock, JournalStore

if TYPE_CHECKING:
    from plansmith.app import Plansmith
    from plansmith.plan.run import Run

_T = TypeVar("_T")
Tell = Callable[[dict[str, Any]], None]


async def await_value(value: Any) -> Any:
    """Returns what a program's function gave, also where that has to be awaited."""
    return await value if inspect.isawaitable(value) else value


async def verdict_of(answer: Any) -> bool | None:
    """Returns the answer of a review function; only a plain True approves a plan.

    Every coroutine and every text counts as true in Python, also one that says no.
    """
    verdict: object = await await_value(answer)
    if verdict is None or isinstance(verdict, bool):
        return verdict
    hint = "return True to approve the plan, False to reject it"
    raise Misconfigured(f"the review function returned {type(verdict).__name__}", hint=hint)


async def run_reviewed(smith: Plansmith, run: Run, review: Callable[[Run], Any], *, by: str) -> Run:
    """Runs until the run is over or waits; `review` decides on each plan, or leaves it open."""
    while True:
        if isinstance(move := next_move(run), AwaitReview):
            approved = await verdict_of(review(run))
            if approved is None:
                return await smith.get(run.id)
            approve = move.hash if approved else None
            run = await smith.decide(run.id, approve=approve, reject=not approved, by=by)
        run = await smith.runs.run(run.id)
        if not isinstance(next_move(run), AwaitReview):
            return run


async def in_thread(work: Callable[..., _T], *arguments: Any) -> _T:
    """Calls a program's function in a thread; what no coroutine can carry fails as an error."""

    def call() -> _T:
        try:
            return work(*arguments)
        # A mock without a further answer raises the first; asyncio would wait for ever.
        except (StopIteration, GeneratorExit, KeyboardInterrupt) as raised:
            raise RuntimeError(f"the function raised {raised!r}") from raised

    return await asyncio.to_thread(call)


def in_own_loop(work: Coroutine[Any, Any, _T]) -> _T:
    """Runs a coroutine to its end in a thread, also where an event loop is running already."""
    results: list[_T] = []

    async def run(_: Tell) -> None:
        results.append(await work)

    for _ in stream_events(run):
        pass
    return results[0]


def stream_events(work: Callable[[Tell], Coroutine[Any, Any, None]]) -> Iterator[dict[str, Any]]:
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


async def events_during(
    work: asyncio.Future[Any], store: JournalStore, run_id: str, after: int = 0
) -> AsyncIterator[Event]:
    """Yields the events of a run, from the first after a number, until the work on it ends."""
    while True:
        is_over = work.done()
        for event in await store.events(run_id, after=after):
            after = event.number
            yield event
        if is_over:
            return
        waiting = asyncio.ensure_future(store.wait(run_id, after=after))
        pending: set[asyncio.Future[Any]] = {work, waiting}
        await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class KnownContext:
    """What a program knows already, as context for the planner: data, never instructions."""

    blocks: Callable[[], Any]  # returns blocks, at once or when awaited

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        del query, token_limit
        blocks: Sequence[ContextBlock] = await await_value(self.blocks())
        return blocks
