"""Remembers how long calls took in earlier runs, for estimates and for the order of steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

from plansmith.check.estimate import median_cost
from plansmith.engine.units import named_unit
from plansmith.plan.planning import Cost, Measured
from plansmith.plan.run import Run, StepState, StepStatus

KEPT: Final = 50
RUNS: Final = 20
_KINDS: Final = ("tool", "agent", "reply")
# Kinds of steps that call nothing, unless these are names of tools.
_UNSURE: Final = ("map", "plan", "ask")
_SECOND: Final = timedelta(seconds=1)


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
    for name, state in steps.items() if run.plan is not None else ():
        if state.status is StepStatus.DONE and state.started_at:
            known = state.callee
            callee = known if known and known not in _UNSURE else _callee(run, name)
            took = (state.finished_at or state.started_at) - state.started_at
            cost = Cost(round(took / _SECOND, 4), state.tokens)
            if callee in found:
                found[callee].append(cost)
            elif callee:
                found[callee] = [cost]
    return {name: costs[-KEPT:] for name, costs in found.items()}


def _callee(run: Run, name: str) -> str:
    """Returns the tool, the agent or `reply` that a step calls; empty if it calls nothing."""
    unit = named_unit(run.plan, name, run.templates) if run.plan is not None else None
    return unit.callee if unit is not None and unit.step.kind in _KINDS else ""
