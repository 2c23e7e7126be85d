"""The times for which steps wait: stored in the journal, so that a run can wait without memory."""

from __future__ import annotations

from datetime import datetime, timedelta

from plansmith.engine.progress import Batch
from plansmith.plan.events import StepWaits
from plansmith.ports import Clock


class StepTimers:
    """Knows until when steps wait; false if none does."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: dict[str, datetime] = {}

    def __bool__(self) -> bool:
        return bool(self._times)

    def __contains__(self, name: object) -> bool:
        return name in self._times

    def know(self, name: str, until: datetime) -> None:
        """Takes a time from the journal."""
        self._times[name] = until

    def wait(self, name: str, seconds: float, batch: Batch) -> None:
        """Lets a step wait from now on, and writes that."""
        self._times[name] = self._clock.now() + timedelta(seconds=seconds)
        batch.bodies.append(StepWaits(step=name, seconds=seconds))

    def holds(self, name: str) -> bool:
        """Tells whether a step still has to wait."""
        until = self._times.get(name)
        if until is None:
            return False
        if until > self._clock.now():
            return True
        del self._times[name]
        return False

    @property
    def next(self) -> datetime | None:
        """The earliest time for which a step waits."""
        return min(self._times.values(), default=None)

    @property
    def seconds_left(self) -> float:
        """How long it is until the earliest of them."""
        return max(0.0, (min(self._times.values()) - self._clock.now()).total_seconds())
