"""Virtual time, and a seeded choice of which simulated process takes its next turn."""

# pyright: reportPrivateUsage=false
# An event loop is made here: asyncio has these members for whoever makes one.
from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import threading
from asyncio import events
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

_START = datetime(2026, 1, 1, tzinfo=UTC)
# After so many turns a seed has lost its way: none that ends takes a fiftieth of them.
_MAX_TURNS = 500_000
# A task that is cancelled may begin others; some shield theirs.
_MAX_CANCELS = 50


class StalledError(AssertionError):
    """Every process waits for something that will never happen, or time does not pass."""


class ProcessLoop(asyncio.BaseEventLoop):
    """The event loop of one simulated process; the timeline decides when it takes a turn.

    A killed process never takes a turn again: nothing is flushed, no `finally` runs. A stopped one
    takes none until it is woken, while time goes on. Turns come in the order of asyncio.
    """

    _ready: Any
    _thread_id: int | None
    _scheduled: Any

    def __init__(self, timeline: Timeline, name: str) -> None:
        super().__init__()
        self._timeline = timeline
        self.name = name
        self.turns = 0
        self.is_stopped = False
        # At this turn `meet` is called, before the turn is taken.
        self.fate = 0
        self.meet: Callable[[], None] = lambda: None
        self._thread_id = threading.get_ident()

    def time(self) -> float:
        return self._timeline.now

    def _write_to_self(self) -> None:
        """Does nothing: no loop of a simulation sleeps."""

    def can_run(self) -> bool:
        """Tells whether it has something to do now."""
        return bool(self._ready) and not self.is_stopped

    def next_timer(self) -> float | None:
        """Returns the time of the earliest timer that was not cancelled."""
        timers = self._scheduled
        while timers and timers[0]._cancelled:
            heapq.heappop(timers)._scheduled = False
        return timers[0]._when if timers else None

    def take_due(self) -> None:
        """Makes the timers ready whose time has come."""
        timers, now = self._scheduled, self._timeline.now
        while timers and timers[0]._when <= now:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            if not timer._cancelled:
                self._ready.append(timer)

    def take_turn(self) -> None:
        """Does one thing."""
        handle = self._ready.popleft()
        if not handle._cancelled:
            handle._run()

    def cancel_all(self) -> None:
        """Cancels all tasks, and lets them end."""
        events._set_running_loop(self)
        try:
            for _ in range(_MAX_CANCELS):
                left = asyncio.all_tasks(self)
                if not left:
                    return
                for task in left:
                    task.cancel()
                while self._ready:
                    self.take_turn()
        finally:
            events._set_running_loop(None)

    def drop(self) -> None:
        """Ends it when its world has ended."""
        self._thread_id = None
        self._ready.clear()
        self._scheduled.clear()
        self.close()


class Timeline:
    """Moves time from one thing that happens to the next; the seed chooses who comes first."""

    def __init__(self, rng: random.Random) -> None:
        self.now = 0.0
        self.turns = 0
        self._random = rng.random
        self._loops: list[ProcessLoop] = []
        self._outside: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()

    def new_loop(self, name: str) -> ProcessLoop:
        """Adds a process."""
        loop = ProcessLoop(self, name)
        self._loops.append(loop)
        return loop

    def remove(self, loop: ProcessLoop) -> None:
        """Removes a process for ever."""
        if loop in self._loops:
            self._loops.remove(loop)

    def wake(self, loop: ProcessLoop) -> None:
        """Lets a stopped process go on: the time has passed without it."""
        loop.is_stopped = False
        loop.take_due()

    def call_later(self, delay: float, act: Callable[[], None]) -> None:
        """Lets something happen outside of all processes."""
        heapq.heappush(self._outside, (self.now + delay, next(self._count), act))

    def run(self, until: Callable[[], bool]) -> None:
        """Lets processes take turns, and time pass, until something is so."""
        last: ProcessLoop | None = None
        try:
            while not until():
                ready = [loop for loop in self._loops if loop.can_run()]
                if not ready:
                    self._pass_time()
                    continue
                chosen = ready[int(self._random() * len(ready))] if len(ready) > 1 else ready[0]
                if chosen is not last:
                    events._set_running_loop(chosen)
                    last = chosen
                self._turn(chosen)
        finally:
            events._set_running_loop(None)

    def _turn(self, loop: ProcessLoop) -> None:
        self.turns += 1
        loop.turns += 1
        if self.turns > _MAX_TURNS:
            raise StalledError(f"{loop.name} takes turns without end")
        if loop.turns == loop.fate:
            loop.meet()
            if loop.is_stopped or loop not in self._loops:
                return
        loop.take_turn()

    def _pass_time(self) -> None:
        """Jumps to the next thing that happens."""
        running = [loop for loop in self._loops if not loop.is_stopped]
        times = [at for loop in running if (at := loop.next_timer()) is not None]
        times += [self._outside[0][0]] if self._outside else []
        if not times:
            raise StalledError("every process waits for another one")
        self.now = max(self.now, min(times))
        while self._outside and self._outside[0][0] <= self.now:
            heapq.heappop(self._outside)[2]()
        for loop in running:
            loop.take_due()


class TimelineClock:
    """The clock of every simulated process."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    def now(self) -> datetime:
        return _START + timedelta(seconds=self._timeline.now)

    def monotonic(self) -> float:
        return self._timeline.now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
