"""The times for which steps wait: stored in the journal, so that a run can wait without memory."""

from __future__ import annotations

from collections.abc import Container
from datetime import datetime, timedelta

from plansmith.engine.progress import Batch
from plansmith.plan.events import StepWaits
from plansmith.ports import Clock


class StepTimers:
    """Knows until when steps wait, by name: `times` is empty in most runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.times: dict[str, datetime] = {}
        # The steps whose wait is in the journal, whether or not it is over.
        self.written: set[str] = set()

    def know(self, name: str, until: datetime) -> None:
        """Takes a time from the journal."""
        self.times[name] = until
        self.written.add(name)

    def wait(self, name: str, seconds: float, batch: Batch) -> None:
        """Lets a step wait from now on, and writes that."""
        self.know(name, self._clock.now() + timedelta(seconds=seconds))
        batch.bodies.append(StepWaits(step=name, seconds=seconds))

    def forget_past(self) -> None:
        """Forgets the times that are over.

        A step whose time is over may have to wait for something else, which wakes the executor.
        """
        now = self._clock.now()
        self.times = {name: until for name, until in self.times.items() if until > now}

    def forget(self, ended: Container[str]) -> None:
        """Forgets the times of steps that have ended: a person may have skipped a waiting one."""
        self.times = {name: until for name, until in self.times.items() if name not in ended}

    def holds(self, name: str) -> bool:
        """Tells whether a step still has to wait."""
        return name in self.times

    @property
    def next(self) -> datetime | None:
        """The earliest time for which a step waits."""
        return min(self.times.values(), default=None)

    @property
    def seconds_left(self) -> float:
        """How long it is until the earliest of them."""
        return max(0.0, (min(self.times.values()) - self._clock.now()).total_seconds())
