"""What the runner bench has measured: samples by engine, their spread, and ratios of engines."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

Samples = dict[str, list[float]]
# A table by engine for every turn; an engine that sat a turn out has no samples in it.
Measured = list[dict[str, Samples]]

FULL: Final = "SQLite FULL"


class Metric(NamedTuple):
    """What a figure is: its words, its unit, and whether more of it is better."""

    words: str
    unit: str
    is_rate: bool = False


METRICS: Final[Mapping[str, Metric]] = {
    "chain": Metric("chain of 100 steps that do nothing", "ms a step"),
    "fan": Metric("100 steps of 100 ms at width 100", "x ideal"),
    "uneven": Metric("uneven plans at any width", "x critical path"),
    "narrow": Metric("uneven plans, four steps at a time", "x lower bound"),
    "plans1": Metric("different plans of 10 steps, one at a time", "plans/s", is_rate=True),
    "plans10": Metric("different plans of 10 steps, 10 at a time", "plans/s", is_rate=True),
    "plans100": Metric("100 different plans of 10 steps at once", "plans/s", is_rate=True),
    "cpu": Metric("processor time of plans100, without a database server's", "ms a plan"),
    "same": Metric("one plan of 10 steps, 100 times at once", "plans/s", is_rate=True),
    "plain": Metric("100 different plans of 10 plain functions at once", "plans/s", is_rate=True),
    "storage": Metric("stored for the first 1,000 steps", "kB"),
    "storage later": Metric("stored for later 1,000 steps", "kB"),
    "park": Metric("1,000 runs parked until a person approves", "s"),
    "threads": Metric("threads that parked runs hold", ""),
    "idle": Metric("processor time that parked runs use", "%"),
    "wake": Metric("a parked run approved until its step starts", "ms"),
    "again": Metric("ended steps that ran again after kill -9", "steps of a kill"),
    "kept": Metric("steps that had ended before kill -9", "steps of a kill"),
    "restart": Metric("process start to first step after kill -9", "ms"),
    "cold": Metric("process start to first step, nothing stored", "ms"),
    "long resume": Metric("store opened to next step, run of 1,000 steps", "ms"),
    "open": Metric("process start until 1,000 open runs are under way", "s"),
}


class Spread(NamedTuple):
    """The middle of some samples and their quartiles."""

    n: int
    median: float
    low: float
    high: float


def spread(found: Sequence[float]) -> Spread | None:
    """Median and quartiles; nothing where there are no samples."""
    if not found:
        return None
    if len(found) == 1:
        return Spread(1, found[0], found[0], found[0])
    low, middle, high = statistics.quantiles(found, n=4, method="inclusive")
    return Spread(len(found), middle, low, high)


@dataclass(frozen=True)
class Facts:
    """All that was measured, and on what.

    `startup` is processor time in ms; `calls` are Python calls a plan by store; `left_out` says
    what was not measured and why.
    """

    quick: bool
    measured: Measured
    startup: Mapping[str, list[float]]
    calls: Mapping[str, float]
    payload: float
    rivals: Sequence[str]
    database: str
    left_out: Sequence[str]
    load: Sequence[float]
    seconds: float


class Figures:
    """What was measured, over all turns."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self.engines = [name for name in measured[0] if any(turn[name] for turn in measured)]

    def samples(self, engine: str, metric: str) -> list[float]:
        """Every sample of all turns."""
        return [each for turn in self._measured for each in turn.get(engine, {}).get(metric, [])]

    def spread(self, engine: str, metric: str) -> Spread | None:
        """The middle of all samples and their quartiles."""
        return spread(self.samples(engine, metric))

    def median(self, engine: str, metric: str) -> float | None:
        """The middle of all samples."""
        found = self.spread(engine, metric)
        return found.median if found else None

    def times_as_fast(self, one: str, other: str, metric: str) -> Spread | None:
        """How fast one engine is beside the other, turn by turn, since load comes and goes."""
        pairs = [
            (statistics.median(turn[one][metric]), statistics.median(turn[other][metric]))
            for turn in self._measured
            if metric in turn.get(one, {}) and metric in turn.get(other, {})
        ]
        is_rate = METRICS[metric].is_rate
        return spread([a / b if is_rate else b / a for a, b in pairs if a and b])

    def noise(self) -> str:
        """How much the same work varied between the turns."""
        times = self.samples(f"floor, {FULL}", "chain")
        return (
            f"the floor's own chain on {FULL} took {min(times):.2f} to {max(times):.2f} ms a step "
            "from time to time, so read ratios, not times."
        )
