"""Makes the summary of a run as it is written; remembers how long calls took in earlier runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from plansmith.check.estimate import median_cost
from plansmith.plan import events as e
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Cost, Measured, PlanningFigures
from plansmith.plan.run import Run, RunStatus, Steps, StepStatus
from plansmith.plan.summary import ModelUse, RunClock, RunSummary, StepCounts

KEPT: Final = 50
RUNS: Final = 20
_SECOND: Final = timedelta(seconds=1)


class SummaryMaker:
    """Makes the summaries of one run; looks at each of its events once."""

    def __init__(self) -> None:
        self._clock = RunClock()
        self._models: dict[str, ModelUse] = {}
        self._taken = 0
        # The plan that the last stored summary tells.
        self.plan: Plan | None = None

    def copy(self) -> SummaryMaker:
        """Returns one that has looked at the same events."""
        copied = SummaryMaker()
        vars(copied).update(vars(self), _clock=self._clock.copy())
        return copied

    def look(
        self, run: Run, events: Sequence[e.Event], new: Sequence[e.Event]
    ) -> tuple[str, RunSummary | None]:
        """Returns the status after the new events; the summary too, unless steps are running."""
        status = run.status
        if status is RunStatus.RUNNING and run.plan is self.plan:
            return status.value, None
        self.plan = run.plan
        return status.value, self.summary(run, events, new)

    def summary(
        self, run: Run, events: Sequence[e.Event], new: Sequence[e.Event] = ()
    ) -> RunSummary:
        """Returns the summary of a run after these events and the new ones."""
        # The stored events count for good, the new ones for now: they may not be stored.
        some, self._taken = events[self._taken :], len(events)
        self._clock.take(some)
        self._models = _used(self._models, some)
        clock = self._clock.copy() if new else self._clock
        clock.take(new)
        status, steps = run.status, Steps.of(run.steps).index
        planning = run.plan is None and not run.questions and not run.paused
        figures = run.metrics
        if run.plan is None and status is RunStatus.FAILED:
            figures = PlanningFigures(input_tokens=run.tokens)  # it got no plan, which counts too
        total = len(run.plan.steps) if run.plan is not None else 0
        counted = StepStatus.DONE, StepStatus.FAILED, StepStatus.RUNNING
        return RunSummary(
            run=run.id,
            number=len(events) + len(new),
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
            times=clock.times,
            working=not status.over and (planning or bool(run.calls_open)),
            figures=figures,
            calls=calls_of(run) if status.over else {},
            models=_used(self._models, new),
        )


def _used(models: dict[str, ModelUse], events: Sequence[e.Event]) -> dict[str, ModelUse]:
    """Returns how often models were asked for plans, after these events too."""
    bodies = (each.body for each in events)
    planned = [each for each in bodies if isinstance(each, e.PlanningBody) and each.models]
    if not planned:
        return models
    used = {**models}
    for body in planned:
        for name, (calls, tokens) in body.models.items():
            known = used.get(name, ModelUse(0, 0))
            used[name] = ModelUse(known.calls + calls, known.tokens + tokens)
    return used


class CallTimings:
    """The time and tokens of the last calls of every tool and agent."""

    def __init__(self, known: Mapping[str, Measured] | None = None) -> None:
        self._costs: dict[str, deque[Cost]] = {}
        self._medians: dict[str, Measured] = {}
        for name, each in (known or {}).items():
            self.learn({name: [Cost(each.seconds, each.tokens)]})

    @property
    def costs(self) -> Mapping[str, Sequence[Cost]]:
        """Returns the costs of the last calls, by tool or agent."""
        return self._costs

    def measured(self, names: Iterable[str]) -> dict[str, Measured]:
        """Returns the median cost of each of these tools and agents that was called before."""
        known = [name for name in names if name in self._costs]
        for name in known:
            if name not in self._medians:
                self._medians[name] = median_cost(self._costs[name])
        return {name: self._medians[name] for name in known}

    def learn(self, calls: Mapping[str, Sequence[Cost]]) -> None:
        """Adds the calls of a run."""
        for name, costs in calls.items():
            known = self._costs.setdefault(name, deque(maxlen=KEPT))
            known.extend(costs)
            self._medians.pop(name, None)


def calls_of(run: Run) -> dict[str, list[Cost]]:
    """Returns the costs of the last finished calls of a run, by tool or agent."""
    found: dict[str, list[Cost]] = {}
    for state in run.steps.values():
        if state.status is StepStatus.DONE and state.started_at and state.callee:
            took = (state.finished_at or state.started_at) - state.started_at
            cost = Cost(round(took / _SECOND, 4), state.tokens)
            found.setdefault(state.callee, []).append(cost)
    return {name: costs[-KEPT:] for name, costs in found.items()}
