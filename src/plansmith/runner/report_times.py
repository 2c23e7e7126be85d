"""Times: how long a run was planned, ran and waited for a person, told apart from its events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from plansmith.plan import events as e


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of planning, of running, and of waiting for a person's word."""

    planning: float = 0.0
    running: float = 0.0
    waiting: float = 0.0

    @property
    def working(self) -> float:
        """All but the waiting."""
        return self.planning + self.running


def times_of(events: Iterable[e.Event]) -> Times:
    """Each stretch between two events counts for what the run was doing then."""
    spent = {"planning": 0.0, "running": 0.0, "waiting": 0.0}
    state, last = _State(), None
    for event in events:
        if last is not None:
            spent[state.doing] += max(0.0, (event.at - last.at).total_seconds())
        state.take(event.body)
        last = event
    return Times(**spent)


_ENDS = (e.StepDone, e.StepFailed, e.StepSkipped, e.StepCancelled, e.StepUnknown, e.StepReset)


@dataclass(slots=True)
class _State:
    """What a run is doing, as far as it matters for its times."""

    phase: str = "planning"
    paused: bool = False
    calls: set[str] = field(default_factory=set[str])
    questions: set[str] = field(default_factory=set[str])

    @property
    def doing(self) -> str:
        if self.calls:
            return "running"
        return "waiting" if self.paused or self.questions else self.phase

    def take(self, body: e.AnyBody) -> None:
        match body:
            case e.ChangesAsked() | e.ReplanStarted():
                self.phase = "planning"
            case e.PlanProposed() | e.ReviewAsked():
                self.phase = "waiting"
            case e.RunStarted():
                self.phase = "running"
            case e.RunPaused() | e.RunRepaired():
                self.paused = True
            case e.RunResumed():
                self.paused = False
            case _:
                self._take_step(body)

    def _take_step(self, body: e.AnyBody) -> None:
        match body:
            case e.StepStarted(step=step, inputs=inputs) if inputs:
                self.calls.add(step)
            case e.QuestionAsked(question=question, step=step):
                self.questions.add(question)
                self.calls.discard(step or "")
            case e.QuestionAnswered(question=question) | e.QuestionWithdrawn(question=question):
                self.questions.discard(question)
            case _ if isinstance(body, _ENDS):
                self.calls.discard(body.step)
            case _:
                pass
