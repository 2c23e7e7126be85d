"""Remembers how long calls took in earlier runs, for estimates and for the order of steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from plansmith.engine.units import named_unit
from plansmith.plan.estimate import Cost, Measured
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, StepState, StepStatus
from plansmith.planner.estimate import median_cost

KEPT: Final = 50
RUNS: Final = 20
_KINDS: Final = ("tool", "agent", "reply")


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
        return {name: self._median(name) for name in names if name in self._costs}

    def _median(self, name: str) -> Measured:
        known = self._medians.get(name)
        if known is None:
            known = self._medians[name] = median_cost(self._costs[name])
        return known

    def learn(self, calls: Mapping[str, Sequence[Cost]]) -> None:
        """Adds the calls of a run."""
        for name, costs in calls.items():
            known = self._costs.setdefault(name, deque(maxlen=KEPT))
            known.extend(costs)
            self._medians.pop(name, None)


def calls_of(run: Run, steps: Mapping[str, StepState]) -> dict[str, list[Cost]]:
    """Returns the costs of the last finished calls of a run, by tool or agent."""
    found: dict[str, list[Cost]] = {}
    plan = run.plan
    for name, state in steps.items() if plan is not None else ():
        if state.status is not StepStatus.DONE or not state.started_at or plan is None:
            continue
        callee = state.callee or _callee(plan, name, run.templates)
        if callee:
            took = (state.finished_at or state.started_at) - state.started_at
            cost = Cost(round(took.total_seconds(), 4), state.tokens)
            found.setdefault(callee, []).append(cost)
    return {name: costs[-KEPT:] for name, costs in found.items()}


def _callee(plan: Plan, name: str, templates: Mapping[str, Plan]) -> str:
    """Returns what a step calls, for journals of earlier releases, which do not tell."""
    unit = named_unit(plan, name, templates)
    return unit.callee if unit is not None and unit.step.kind in _KINDS else ""
