"""The summary of a run: what lists, sums and estimates need of it, without its journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple

from plansmith.plan.estimate import Cost
from plansmith.plan.planning_events import PlanningFigures
from plansmith.plan.run import RunStatus
from plansmith.plan.times import Times

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
_NO_TIME: Final = Times()


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
    times: Times = _NO_TIME
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
        """Whether a planner or a model has worked for the run."""
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
