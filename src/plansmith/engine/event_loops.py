"""What the calls of one event loop share: a timer for all time limits, a wake-up for many ends."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Generic, TypeVar

_T = TypeVar("_T")


class PerLoop(Generic[_T]):
    """One object for each event loop that uses it; those of closed loops are forgotten."""

    def __init__(self, make: Callable[[asyncio.AbstractEventLoop], _T]) -> None:
        self._make = make
        self._made: dict[asyncio.AbstractEventLoop, _T] = {}

    def here(self) -> _T:
        """Returns the object of the event loop that runs now."""
        loop = asyncio.get_running_loop()
        found = self._made.get(loop)
        if found is None:
            found = self._make(loop)
            known = list(self._made.items())
            self._made = {each: made for each, made in known if not each.is_closed()}
            self._made[loop] = found
        return found


class Deadline(ABC):
    """Something that happens some seconds after it was added, unless it is removed before."""

    __slots__ = ("at", "seconds")

    seconds: float
    at: float

    @abstractmethod
    def expire(self) -> None:
        """Is called when the time is over."""


class Deadlines:
    """All deadlines of one event loop, with one timer for the earliest.

    A timer of its own for each call would cost more than the call. Deadlines of the same length
    expire in the order they were added, so that no sorting is needed. The timer of a deadline that
    was taken back stays: it finds nothing to do.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._by_length: dict[float, dict[Deadline, None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def __len__(self) -> int:
        return sum(map(len, self._by_length.values()))

    def add(self, deadline: Deadline) -> None:
        """Lets a deadline expire after its seconds."""
        seconds = deadline.seconds
        at = deadline.at = self._loop.time() + seconds
        if seconds in self._by_length:
            self._by_length[seconds][deadline] = None
        else:
            self._by_length[seconds] = {deadline: None}
        if self._timer is None or at < self._timer_at:
            self._set_timer(at)

    def remove(self, deadline: Deadline) -> None:
        """Takes a deadline back; does nothing if it has expired or was never added."""
        seconds = deadline.seconds
        if seconds in self._by_length:
            row = self._by_length[seconds]
            if deadline in row:
                del row[deadline]
                if not row:
                    del self._by_length[seconds]

    def _set_timer(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._expire)

    def _expire(self) -> None:
        self._timer = None
        # A timer may fire a little early, within the resolution of the clock.
        now = max(self._loop.time(), self._timer_at)
        due: list[Deadline] = []
        for row in list(self._by_length.values()):
            for each in row:
                if each.at > now:
                    break
                due.append(each)
        for each in due:
            self.remove(each)
        if self._by_length:
            self._set_timer(min(next(iter(row)).at for row in self._by_length.values()))
        for each in due:
            each.expire()


class TimeLimit(Deadline):
    """Ends the work of a task after some seconds, like `asyncio.timeout`, by shared deadlines."""

    __slots__ = ("_before", "_deadlines", "_expired", "_task")

    def __init__(self, deadlines: Deadlines, seconds: float) -> None:
        self._deadlines = deadlines
        self.seconds = seconds
        self._expired = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a time limit needs a task")
        self._task = task
        self._before = task.cancelling()
        self._deadlines.add(self)

    def expire(self) -> None:
        """Cancels the task, since the time is over."""
        self._expired = True
        self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._expired:
            self._deadlines.remove(self)
        elif self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from error


class ThreadEnds:
    """Brings the ends of work in threads to an event loop, many with one wake-up."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ended: deque[Callable[[], None]] = deque()
        self._is_woken = False

    def put(self, tell: Callable[[], None]) -> None:
        """Calls `tell` in the event loop; may be called from any thread."""
        self._ended.append(tell)
        if not self._is_woken:
            self._wake()

    def _wake(self) -> None:
        self._is_woken = True
        with suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        # First of all: what is added from now on wakes the loop again.
        self._is_woken = False
        try:
            while self._ended:
                self._ended.popleft()()
        finally:
            if self._ended:
                self._wake()
