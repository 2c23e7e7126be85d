"""Remembers how long calls took in earlier runs, for estimates and for the order of steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from plansmith.engine.units import named_unit
from plansmith.plan.estimate import Cost, Measured
from plansmith.plan.run import Run, StepState, StepStatus

KEPT: Final = 50
RUNS: Final = 20
_KINDS: Final = ("tool", "agent", "reply")


class CallTimings:
    """The time and tokens of the last calls of every tool and agent."""

    def __init__(self, known: Mapping[str, Measured] | None = None) -> None:
        self._costs: dict[str, deque[Cost]] = {}
        for name, each in (known or {}).items():
            self.learn({name: [Cost(each.seconds, each.tokens)]})

    @property
    def costs(self) -> Mapping[str, Sequence[Cost]]:
        """Returns the costs of the last calls, by tool or agent."""
        return self._costs

    def learn(self, calls: Mapping[str, Sequence[Cost]]) -> None:
        """Adds the calls of a run."""
        for name, costs in calls.items():
            known = self._costs.setdefault(name, deque(maxlen=KEPT))
            known.extend(costs)


def calls_of(run: Run, steps: Mapping[str, StepState]) -> dict[str, list[Cost]]:
    """Returns the costs of the last finished calls of a run, by tool or agent."""
    found: dict[str, list[Cost]] = {}
    plan = run.plan
    for name, state in steps.items() if plan is not None else ():
        if state.status is not StepStatus.DONE or not state.started_at or plan is None:
            continue
        unit = named_unit(plan, name, run.templates)
        if unit is not None and unit.step.kind in _KINDS:
            took = (state.finished_at or state.started_at) - state.started_at
            cost = Cost(round(took.total_seconds(), 4), state.tokens)
            found.setdefault(unit.callee, []).append(cost)
    return {name: costs[-KEPT:] for name, costs in found.items()}
