"""Group commit: requests of many callers become one transaction; each gets its own outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from plansmith.errors import JournalError
from plansmith.plan.events import Event
from plansmith.plan.sentence import Sentence
from plansmith.store.rows import Cells, rows_of
from plansmith.store.sql import Parameters
from plansmith.store.summaries import SummaryCells


@dataclass(slots=True, eq=False)
class Append:
    """Events of one run, and values, that become durable together; the status after them."""

    run: str
    events: Sequence[Event]
    values: Sequence[tuple[str, bytes]]
    status: str
    summary: SummaryCells | None
    term: int
    result: None = None
    error: Exception | None = None
    future: asyncio.Future[Any] = field(init=False)

    @property
    def rows(self) -> list[Cells]:
        return rows_of(self.events)


@dataclass(slots=True, eq=False)
class ChangeClaim:
    """Statements about the claim of a run; the result is the row that it has then."""

    run: str
    statements: Sequence[str]
    given: Parameters
    result: Any = None
    error: Exception | None = None
    future: asyncio.Future[Any] = field(init=False)


Request = Append | ChangeClaim


def closed() -> JournalError:
    """Returns the error for using a closed store."""
    return JournalError(Sentence("the store is closed"), hint=Sentence("open a new one"))


class CommitQueue:
    """Passes all requests since the last commit to `commit`, in a task while there is work.

    So a hundred active runs share one commit. `commit` sets the error of each request that failed,
    calls its second argument once the outcome is known, and returns one turn of the event loop
    after that. `on_settled` is called once all callers have their outcome. Each event loop has a
    task of its own.
    """

    def __init__(
        self,
        commit: Callable[[Sequence[Request], Callable[[], None]], Awaitable[None]],
        *,
        on_settled: Callable[[Sequence[Request]], None],
    ) -> None:
        self._commit, self._on_settled = commit, on_settled
        self._waiting: dict[asyncio.AbstractEventLoop, list[Request]] = {}
        self._tasks: dict[asyncio.AbstractEventLoop, asyncio.Task[None]] = {}
        self._closed = False

    def submit(self, request: Request) -> asyncio.Future[Any]:
        """Queues a request; the future is done when its outcome is durable."""
        if self._closed:
            raise closed()
        loop = asyncio.get_running_loop()
        request.future = loop.create_future()
        self._waiting.setdefault(loop, []).append(request)
        if loop not in self._tasks:
            self._begin(loop)
        return request.future

    async def close(self) -> None:
        """Finishes the requests of this event loop, and takes no more."""
        self._closed = True
        while task := self._tasks.get(asyncio.get_running_loop()):
            await asyncio.wait([task])

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._tasks[loop] = loop.create_task(self._work(loop))
        self._tasks[loop].add_done_callback(lambda _: self._end(loop))

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        del self._tasks[loop]
        # At the end of a program this task and its callers are cancelled. What they gave is stored
        # all the same: it may tell of calls that were made.
        if loop in self._waiting:
            self._begin(loop)

    async def _work(self, loop: asyncio.AbstractEventLoop) -> None:
        while batch := self._waiting.pop(loop, None):
            try:
                await self._commit(batch, partial(self._settle, batch))
            except asyncio.CancelledError:
                for request in batch:
                    request.future.cancel()
                raise
            except Exception as error:  # noqa: BLE001 - a caller must never wait for ever
                for request in batch:
                    request.error = request.error or error
                self._settle(batch)
            # Callers go on first, so that the ends of their quick calls join the next commit. That
            # halves the commits of runs of quick steps that began at different times.
            await asyncio.sleep(0)

    def _settle(self, batch: Sequence[Request]) -> None:
        """Tells every caller the outcome, unless it has gone."""
        for request in batch:
            if request.future.done():
                continue
            if request.error is not None:
                request.future.set_exception(request.error)
            else:
                request.future.set_result(request.result)
        self._on_settled(batch)
