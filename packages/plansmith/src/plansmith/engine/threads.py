"""Threads for plain functions: reused, as many as needed, and nobody waits for one that hangs."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

Ended = Callable[[Any, "BaseException | None"], None]
IDLE_S: Final = 5.0
# So many threads are started without delay, then only while functions wait for one.
AT_ONCE: Final = 16
GROW_AFTER_S: Final = 0.005


class Job:
    """A function to call in a thread; `given_up` before it has begun, it is not called."""

    __slots__ = ("begun", "context", "ended", "error", "given_up", "loop", "result", "work")

    def __init__(
        self,
        work: Callable[[], Any],
        ended: Ended,
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context,
    ) -> None:
        self.work = work
        self.ended = ended
        self.loop = loop
        self.context = context
        self.begun = False
        self.given_up = False
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Calls the function, and reports its end to the event loop."""
        self.begun = True
        if self.given_up:
            return
        try:
            self.result = self.context.run(self.work)
        # Neither a future nor a coroutine can carry the first. A person's interrupt reaches the
        # main thread alone, so that the second is the function's own.
        except (StopIteration, KeyboardInterrupt) as raised:
            self.error = RuntimeError(f"the function raised {raised!r}")
        except BaseException as raised:  # noqa: BLE001 - the caller decides what it means
            self.error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
            self.loop.call_soon_threadsafe(self.tell)

    def tell(self) -> None:
        """Reports the end, in the event loop."""
        if not self.given_up:
            self.ended(self.result, self.error)


class Threads:
    """Daemon threads that run functions: Python does not wait at exit for one that hangs.

    A function that waits for a thread, because all are busy, gets a new one: functions that hang
    or wait for each other hold up no other. Short functions share few threads.
    """

    def __init__(self) -> None:
        self._start_again()

    def _start_again(self) -> None:
        self._process = os.getpid()
        self._jobs: deque[Job] = deque()
        self._idle: deque[_Worker] = deque()
        self._workers: set[_Worker] = set()
        self._newest: Job | None = None
        self._looking: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._workers)

    def start(self, work: Callable[[], Any], ended: Ended) -> Job:
        """Calls `work` in a thread; then `ended` with its result or error in this event loop."""
        if self._process != os.getpid():
            self._start_again()  # a fork has no threads of its parent
        loop = asyncio.get_running_loop()
        job = Job(work, ended, loop, contextvars.copy_context())
        self._jobs.append(job)
        try:
            self._idle.pop().awake.release()
        except IndexError:
            if len(self._workers) < AT_ONCE:
                self._add_worker()
            else:
                self._check_later(loop)
        return job

    def close(self) -> None:
        """Ends the threads that have nothing to do."""
        for worker in list(self._workers):
            worker.idle_s = 0.0
        for _ in range(len(self._idle)):
            try:
                self._idle.pop().awake.release()
            except IndexError:
                return

    def _add_worker(self) -> None:
        worker = _Worker(self._jobs, self._idle, self._workers, IDLE_S)
        self._workers.add(worker)
        try:
            threading.Thread(target=worker.run, daemon=True, name="plansmith tool").start()
        except BaseException:
            self._workers.discard(worker)
            if not self._workers:
                raise

    def _check_later(self, loop: asyncio.AbstractEventLoop) -> None:
        """Looks in a moment whether functions still wait; one look at a time in a loop."""
        if self._looking is not loop:
            self._looking = loop
            self._newest = self._jobs[-1] if self._jobs else None
            loop.call_later(GROW_AFTER_S, self._grow, loop)

    def _grow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Adds a thread for each function that waits, if they have waited since the last look."""
        self._looking = None
        if self._newest is not None and not self._newest.begun:
            for _ in range(len(self._jobs)):
                self._add_worker()
        if self._jobs:
            self._check_later(loop)


class _Worker:
    """A thread that takes one function after the other, and ends after a while without one."""

    def __init__(
        self, jobs: deque[Job], idle: deque[_Worker], workers: set[_Worker], idle_s: float
    ) -> None:
        self._jobs = jobs
        self._idle = idle
        self._workers = workers
        self.idle_s = idle_s
        self.awake = threading.Lock()
        self.awake.acquire()

    def run(self) -> None:
        """Works until there was nothing to do for a while."""
        while self._has_more():
            try:
                job = self._jobs.popleft()
            except IndexError:
                continue  # another thread was faster
            job.run()
            del job  # an idle thread must not keep a result alive
        self._workers.discard(self)

    def _has_more(self) -> bool:
        """Waits for a function; false if none came."""
        if self._jobs:
            return True
        # Whoever takes this worker out of the idle ones wakes it, so it must wait for that.
        self._idle.append(self)
        if self._jobs:
            self._stop_idling()
            return True
        if self.awake.acquire(timeout=self.idle_s):
            return True
        return not self._stop_idling() or bool(self._jobs)

    def _stop_idling(self) -> bool:
        """Takes itself out of the idle ones; if somebody else just did, waits to be woken."""
        try:
            self._idle.remove(self)
        except ValueError:
            self.awake.acquire()
            return False
        return True
