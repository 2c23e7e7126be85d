"""Group commit: requests of many callers become one transaction; each gets its own outcome."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from plansmith.errors import JournalDamaged, JournalError
from plansmith.plan.events import Event
from plansmith.plan.sentence import Sentence
from plansmith.store.rows import Cells, SummaryCells, rows_of


class Request:
    """What one caller asks of the writer, and its outcome."""

    __slots__ = ("error", "future", "result")

    def __init__(self) -> None:
        self.result: object = None
        self.error: Exception | None = None
        self.future: asyncio.Future[Any] = asyncio.Future()  # of the event loop that runs now


class Append(Request):
    """Events of one run, and values, that become durable together; the status after them."""

    __slots__ = ("events", "rows", "run", "status", "summary", "term", "values")

    def __init__(
        self,
        run: str = "",
        events: Sequence[Event] = (),
        values: Sequence[tuple[str, bytes]] = (),
        *,
        status: str = "",
        summary: SummaryCells | None = None,
        term: int = 0,
    ) -> None:
        # Without a call of the base class for every append.
        self.result, self.error, self.future = None, None, asyncio.Future()
        self.status = status
        self.summary = summary
        self.term = term
        self.run = run
        self.events = events
        self.rows: Sequence[Cells] = ()
        self.values = values

    def is_sound(self) -> bool:
        """Makes the rows; sets the error if an event is not what was hashed."""
        try:
            self.rows = rows_of(self.events)
        except JournalDamaged as altered:
            self.error = altered
        return self.error is None


class WithCommit(Request):
    """An action in the same transaction as the appends."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[Any], object]) -> None:
        super().__init__()
        self.action = action


class ChangeClaim(WithCommit):
    """A change of the claim of a run, with the appends; the action returns the claim then."""

    __slots__ = ("run",)

    def __init__(self, run: str, action: Callable[[Any], object]) -> None:
        super().__init__(action)
        self.run = run


class BetweenCommits(Request):
    """An action of the writer between two transactions."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], object]) -> None:
        super().__init__()
        self.action = action


def closed() -> JournalError:
    """Returns the error for using a closed store."""
    return JournalError(Sentence("the store is closed"), hint=Sentence("open a new one"))


def settle(requests: Iterable[Request]) -> None:
    """Tells every caller the outcome, unless it has gone."""
    for request in requests:
        future = request.future
        if future.done():
            continue
        if request.error is not None:
            future.set_exception(request.error)
        else:
            future.set_result(request.result)


Settle = Callable[[Sequence[Request]], None]


class WriterThread:
    """A thread that passes all requests since its last commit to `commit`.

    Requests of one turn of an event loop travel together, so a hundred active runs share one
    commit. `commit` sets each request's `error`; `settle` runs in the callers' loop.
    """

    def __init__(self, commit: Callable[[Sequence[Request]], None], *, settle: Settle) -> None:
        self._commit = commit
        self._settle = settle
        self._lock = threading.Lock()
        self._waiting: list[Request] = []
        self._queue: queue.SimpleQueue[list[Request] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, request: Request) -> asyncio.Future[Any]:
        """Queues a request; the future is done when its outcome is durable."""
        with self._lock:
            if self._closed:
                raise closed()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="plansmith", daemon=True)
                self._thread.start()
            first = not self._waiting
            self._waiting += (request,)
        if first:
            request.future.get_loop().call_soon(self._hand_over)
        return request.future

    def close(self) -> None:
        """Finishes all requests and ends the thread; may be called twice."""
        with self._lock:
            self._closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._hand_over()
            self._queue.put(None)
            thread.join()

    def _hand_over(self) -> None:
        with self._lock:
            requests, self._waiting = self._waiting, []
        if requests:
            self._queue.put(requests)

    def _work(self) -> None:
        last = False
        while not last:
            batch, last = self._next_batch()
            self._commit_batch(batch)
            for loop, requests in _by_loop(batch):
                try:
                    loop.call_soon_threadsafe(self._settle, requests)
                except RuntimeError:
                    # The loop was closed: nobody waits for the answer.
                    continue

    def _next_batch(self) -> tuple[list[Request], bool]:
        batch: list[Request] = []
        part = self._queue.get()
        while part is not None:
            batch += part
            try:
                part = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
        return batch, True

    def _commit_batch(self, batch: Sequence[Request]) -> None:
        group: list[Request] = []
        for request in batch:
            if isinstance(request, BetweenCommits):
                self._guarded(self._commit, group)
                self._guarded(_run, [request])
                group = []
            else:
                group.append(request)
        self._guarded(self._commit, group)

    def _guarded(
        self, work: Callable[[Sequence[Request]], None], requests: Sequence[Request]
    ) -> None:
        if not requests:
            return
        try:
            work(requests)
        except Exception as error:  # noqa: BLE001 - a caller must never wait for ever
            for request in requests:
                request.error = request.error or error


def _run(requests: Sequence[Request]) -> None:
    for request in requests:
        if isinstance(request, BetweenCommits):
            request.result = request.action()


def _by_loop(
    requests: Iterable[Request],
) -> Iterable[tuple[asyncio.AbstractEventLoop, list[Request]]]:
    groups: dict[asyncio.AbstractEventLoop, list[Request]] = {}
    for request in requests:
        groups.setdefault(request.future.get_loop(), []).append(request)
    return groups.items()
