"""The summary of a run: what lists, sums and estimates need of it, without its journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, NamedTuple

from plansmith.plan import events as e
from plansmith.plan.planning import Cost, PlanningFigures
from plansmith.plan.run import RunStatus

_ENDS: Final = frozenset(
    (e.StepDone, e.StepFailed, e.StepSkipped, e.StepCancelled, e.StepUnknown, e.StepReset)
)

_PHASES: Final[Mapping[type[e.AnyBody], str]] = {
    e.ChangesAsked: "planning",
    e.ReplanStarted: "planning",
    e.PlanProposed: "waiting",
    e.ReviewAsked: "waiting",
    e.RunStarted: "running",
}
_PAUSES: Final[Mapping[type[e.AnyBody], bool]] = {
    e.RunPaused: True,
    e.RunRepaired: True,
    e.RunResumed: False,
}


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of planning, of running, and of waiting for a person."""

    planning: float = 0.0
    running: float = 0.0
    waiting: float = 0.0

    @property
    def working(self) -> float:
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
        default_factory=lambda: dict.fromkeys(("planning", "running", "waiting"), timedelta())
    )

    @property
    def times(self) -> Times:
        return Times(**{name: each.total_seconds() for name, each in self.spent.items()})

    def copy(self) -> RunClock:
        parts = set(self.calls), set(self.questions)
        return RunClock(self.phase, self.paused, *parts, self.last, dict(self.spent))

    def take(self, events: Iterable[e.Event]) -> None:
        for event in events:
            at, body = event.at, event.body
            kind = type(body)
            # How long a call took whose process died, nobody knows.
            if self.last is not None and at > self.last and not getattr(body, "died", False):
                doing = "waiting" if self.paused or self.questions else self.phase
                self.spent["running" if self.calls else doing] += at - self.last
            self.last = at
            if isinstance(body, e.StepBody):
                if kind in _ENDS:
                    self.calls.discard(body.step)
                elif isinstance(body, e.StepStarted) and body.inputs:
                    self.calls.add(body.step)
                continue
            self.phase = _PHASES.get(kind, self.phase)
            self.paused = _PAUSES.get(kind, self.paused)
            match body:
                case e.QuestionAsked(question=question, step=asking):
                    self.questions.add(question)
                    self.calls.discard(asking or "")
                case e.QuestionAnswered(question=question) | e.QuestionWithdrawn(question=question):
                    self.questions.discard(question)
                case _:
                    pass


OPEN_STATUSES: Final = tuple(each.value for each in RunStatus if not each.over)
OVER_STATUSES: Final = tuple(each.value for each in RunStatus if each.over)


class StepCounts(NamedTuple):
    """How many steps the plan of a run has, and how many of them are done, failed or running."""

    total: int = 0
    done: int = 0
    failed: int = 0
    running: int = 0


class ModelUse(NamedTuple):
    """How often a model was asked for plans, and for how many tokens."""

    calls: int
    tokens: int


_NO_STEPS: Final = StepCounts()


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run as of its event `number`.

    `working` means that a process should be at it: a call is open, or the plan is being made.
    `calls` are the costs of its finished calls by tool or agent; `models` counts its planning.
    `interrupted` and `damage` are not stored; whoever reads the store fills them in.
    """

    run: str
    number: int
    status: RunStatus
    request: str = ""
    goal: str = ""
    folder: str = ""
    locale: str = "en"
    origin: str = "request"
    reason: str = ""
    created_at: datetime | None = None
    updated_at: datetime | None = None
    steps: StepCounts = _NO_STEPS
    questions: tuple[str, ...] = ()
    tokens: int = 0
    money: Decimal = Decimal(0)
    times: Times = Times()
    working: bool = False
    figures: PlanningFigures | None = None
    calls: Mapping[str, Sequence[Cost]] = field(default_factory=dict[str, list[Cost]])
    models: Mapping[str, ModelUse] = field(default_factory=dict[str, ModelUse])
    interrupted: bool = False
    damage: str = ""

    @property
    def day(self) -> str:
        """The day when the run was created; empty if that is unknown."""
        return self.created_at.date().isoformat() if self.created_at else ""

    @property
    def planned(self) -> bool:
        return self.figures is not None or bool(self.models)

    def has(self, text: str) -> bool:
        """Tells whether the request, the goal or the id contains a casefolded text."""
        return any(text in each.casefold() for each in (self.request, self.goal, self.run))


class Headline(NamedTuple):
    """A run in a list: its id, the number of its last event, its status and summary.

    `status` is empty if nobody has told it; `summary` is None unless it is of the last event.
    """

    run: str
    last: int
    status: str
    summary: RunSummary | None


class DayTotal(NamedTuple):
    """How many runs of one day and cost there are, and the tokens of them all."""

    day: str
    cost: str
    runs: int
    tokens: int


class PlanningFacts(NamedTuple):
    """The planning figures of one run, and the models that were asked."""

    figures: PlanningFigures | None
    models: Mapping[str, ModelUse]
