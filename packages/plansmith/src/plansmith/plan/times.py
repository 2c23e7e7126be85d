"""Adds up how long a run was planned, ran and waited, from the times of its events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from plansmith.plan import events as e

_NONE = timedelta()
_ENDS = (e.StepDone, e.StepFailed, e.StepSkipped, e.StepCancelled, e.StepUnknown, e.StepReset)


def _died(body: e.AnyBody) -> bool:
    return isinstance(body, (e.StepFailed, e.StepUnknown)) and body.died


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of planning, of running, and of waiting for a person."""

    planning: float = 0.0
    running: float = 0.0
    waiting: float = 0.0

    @property
    def working(self) -> float:
        """Returns the seconds without the waiting."""
        return self.planning + self.running


def times_of(events: Iterable[e.Event]) -> Times:
    """Adds up the time between events by what the run was doing."""
    clock = RunClock()
    clock.take(events)
    return clock.times


@dataclass(slots=True)
class RunClock:
    """What a run is doing, and how long it has done what until its last event."""

    phase: str = "planning"
    paused: bool = False
    calls: set[str] = field(default_factory=set[str])
    questions: set[str] = field(default_factory=set[str])
    last: datetime | None = None
    spent: dict[str, timedelta] = field(
        default_factory=lambda: dict.fromkeys(("planning", "running", "waiting"), _NONE)
    )

    @property
    def times(self) -> Times:
        """Returns the seconds so far."""
        return Times(**{name: each.total_seconds() for name, each in self.spent.items()})

    def copy(self) -> RunClock:
        """Returns a clock that goes on by itself."""
        parts = set(self.calls), set(self.questions)
        return RunClock(self.phase, self.paused, *parts, self.last, dict(self.spent))

    def take(self, events: Iterable[e.Event]) -> None:
        """Adds the next events."""
        for event in events:
            at, body = event.at, event.body
            if at is not self.last:  # all events of an append have the same
                if self.last is not None and at > self.last and not _died(body):
                    doing = "waiting" if self.paused or self.questions else self.phase
                    self.spent["running" if self.calls else doing] += at - self.last
                self.last = at
            # Steps that start and end are nearly all of a journal.
            if type(body) is e.StepDone:
                self.calls -= {body.step}
            elif type(body) is not e.StepStarted:
                self._take(body)
            elif body.inputs:
                self.calls |= {body.step}

    def _take(self, body: e.AnyBody) -> None:
        match body:
            case e.ChangesAsked() | e.ReplanStarted():
                self.phase = "planning"
            case e.PlanProposed() | e.ReviewAsked():
                self.phase = "waiting"
            case e.RunStarted():
                self.phase = "running"
            case _:
                self._take_rare(body)

    def _take_rare(self, body: e.AnyBody) -> None:
        match body:
            case e.RunPaused() | e.RunRepaired():
                self.paused = True
            case e.RunResumed():
                self.paused = False
            case e.QuestionAsked(question=question, step=step):
                self.questions.add(question)
                self.calls.discard(step or "")
            case e.QuestionAnswered(question=question) | e.QuestionWithdrawn(question=question):
                self.questions.discard(question)
            case _ if isinstance(body, _ENDS):
                self.calls.discard(body.step)
            case _:
                pass
