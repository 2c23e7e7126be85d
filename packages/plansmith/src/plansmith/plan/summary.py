"""The summary of a run: what lists, totals and estimates need of it, without its journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple

from plansmith.plan.planning import CallUsage, ModelUse, PlanningFigures, Times
from plansmith.plan.run import Run, RunStatus, StepStatus

KEPT: Final = 50  # so many calls of a tool or agent are kept
NO_STATUS: Final = ""  # of a run whose writer did not give one
OPEN_STATUSES: Final = tuple(each.value for each in RunStatus if not each.over)
OVER_STATUSES: Final = tuple(each.value for each in RunStatus if each.over)


class StepCounts(NamedTuple):
    """How many steps the plan of a run has, and how many of them are done, failed or running."""

    total: int = 0
    done: int = 0
    failed: int = 0
    running: int = 0


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
    times: Times = field(default_factory=Times)
    working: bool = False
    figures: PlanningFigures | None = None
    calls: Mapping[str, Sequence[CallUsage]] = field(default_factory=dict[str, list[CallUsage]])
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

    `status` is empty if it is not known; `summary` is None unless made at the last event.
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


def summary_of(run: Run) -> RunSummary:
    """Returns the summary of a run; of a damaged one, at its last good event."""
    status, steps = run.status, run.steps.index
    planning = run.plan is None and not run.questions and not run.paused
    figures = run.figures
    if run.plan is None and status is RunStatus.FAILED:
        figures = PlanningFigures(input_tokens=run.tokens)  # a run that got no plan counts too
    total = len(run.plan.steps) if run.plan is not None else 0
    counted = StepStatus.DONE, StepStatus.FAILED, StepStatus.RUNNING
    return RunSummary(
        run=run.id,
        number=run.last.number if run.last is not None else 0,
        status=status,
        request=run.request,
        goal=run.plan.goal if run.plan else "",
        folder=run.folder,
        locale=run.locale,
        origin=run.origin.kind,
        reason=run.reason,
        created_at=run.created_at,
        updated_at=run.updated_at,
        steps=StepCounts(total, *map(steps.count, counted)),
        questions=tuple(run.questions),
        tokens=run.tokens,
        money=run.money,
        times=run.times,
        working=not status.over and (planning or bool(run.calls_open)),
        figures=figures,
        calls=_calls_of(run) if status.over else {},
        models=run.models,
        damage=run.damage,
    )


def _calls_of(run: Run) -> dict[str, list[CallUsage]]:
    """Returns the costs of the last finished calls of a run, by tool or agent."""
    found: dict[str, list[CallUsage]] = {}
    done = StepStatus.DONE
    for state in run.steps.values():
        if state.status is done and state.started_at and state.callee:
            took = (state.finished_at or state.started_at) - state.started_at
            cost = CallUsage(round(took.total_seconds(), 4), state.tokens)
            found.setdefault(state.callee, []).append(cost)
    return {name: costs[-KEPT:] for name, costs in found.items()}
