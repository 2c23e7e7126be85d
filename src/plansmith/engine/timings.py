"""Remembers how long calls took in earlier runs, for estimates and for the order of steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from plansmith.engine.units import named_unit
from plansmith.plan.estimate import Measured
from plansmith.plan.run import Run, StepStatus
from plansmith.planner.estimate import Cost, median_cost

KEPT: Final = 50
RUNS: Final = 20


class CallTimings:
    """The time and tokens of the last calls of every tool and agent."""

    def __init__(self, known: Mapping[str, Measured] | None = None) -> None:
        self._costs: dict[str, deque[Cost]] = {}
        self._medians: dict[str, Measured] = {}
        for name, each in (known or {}).items():
            self._add(name, Cost(each.seconds, each.tokens))

    @property
    def costs(self) -> Mapping[str, Sequence[Cost]]:
        """Returns the costs of the last calls, by tool or agent."""
        return self._costs

    def measured(self, names: Iterable[str]) -> dict[str, Measured]:
        """Returns the median cost of each of these tools and agents that was called before."""
        return {name: self._median(name) for name in names if name in self._costs}

    def _median(self, name: str) -> Measured:
        known = self._medians.get(name)
        if known is None:
            known = self._medians[name] = median_cost(self._costs[name])
        return known

    def learn(self, run: Run) -> None:
        """Adds the finished steps of a run."""
        if run.plan is None:
            return
        for name, state in run.steps.items():
            unit = named_unit(run.plan, name, run.templates)
            if unit is None or state.status is not StepStatus.DONE:
                continue
            if unit.step.kind in ("tool", "agent", "reply") and state.started_at:
                ended = state.finished_at or state.started_at
                seconds = (ended - state.started_at).total_seconds()
                self._add(unit.callee, Cost(seconds, state.tokens))

    def _add(self, name: str, cost: Cost) -> None:
        self._costs.setdefault(name, deque(maxlen=KEPT)).append(cost)
        self._medians.pop(name, None)
