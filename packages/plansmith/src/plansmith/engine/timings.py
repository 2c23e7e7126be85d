"""Remembers how long calls took in earlier runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from plansmith.check.estimate import median_cost
from plansmith.plan.planning import Cost, Measured
from plansmith.plan.summary import KEPT

RUNS: Final = 20


class CallTimings:
    """The time and tokens of the last calls of every tool and agent."""

    def __init__(self, measured: Mapping[str, Measured] | None = None) -> None:
        self._costs: dict[str, deque[Cost]] = {}
        self._medians: dict[str, Measured] = {}
        for name, each in (measured or {}).items():
            self.learn({name: [Cost(each.seconds, each.tokens)]})

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
