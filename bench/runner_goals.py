"""What the runner should reach, and whether the figures say that it does."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

Samples = dict[str, list[float]]
# A table by engine for every round.
Measured = list[dict[str, Samples]]

FULL: Final = "SQLite FULL"
BEHIND: Final = "LangGraph functional, SQLite"
STORES: Final = (FULL, "SQLite NORMAL", "PostgreSQL")


@dataclass(frozen=True)
class Facts:
    """All that was measured, and on what; `early` are seconds with and without the early start."""

    measured: Measured
    early: Sequence[tuple[float, float]]
    imports: Mapping[str, float]
    rivals: Sequence[str]
    database: str
    load: Sequence[float]


class Goal(NamedTuple):
    """A goal, what was measured, and whether that reaches it."""

    words: str
    found: str
    is_met: bool

    @property
    def verdict(self) -> str:
        """For the table."""
        return "met" if self.is_met else "**not met**"


class Figures:
    """What was measured, over all rounds."""

    def __init__(self, measured: Measured) -> None:
        self._measured = measured
        self.engines = list(measured[0])

    def samples(self, engine: str, metric: str) -> list[float]:
        """Every sample of all rounds."""
        return [each for turn in self._measured for each in turn[engine].get(metric, [])]

    def median(self, engine: str, metric: str) -> float:
        """The middle of all samples."""
        return statistics.median(self.samples(engine, metric))

    def has(self, engine: str) -> bool:
        """Whether the engine took part."""
        return engine in self.engines

    def ratio(self, one: str, other: str, metric: str) -> float:
        """One engine to the other: the median of the rounds' ratios, since load comes and goes."""
        ratios = [
            statistics.median(turn[one][metric]) / statistics.median(turn[other][metric])
            for turn in self._measured
            if metric in turn[one] and metric in turn[other]
        ]
        return statistics.median(ratios)

    def count(self, metric: str) -> int:
        """How many samples each engine has."""
        return len(self.samples(self.engines[0], metric))

    @property
    def payload(self) -> float:
        """The kB of plans, inputs and results in 1,000 steps."""
        return self.median(f"floor, {FULL}", "payload")

    def noise(self) -> str:
        """How much the same work varied between the rounds."""
        times = [statistics.median(turn[f"floor, {FULL}"]["chain"]) for turn in self._measured]
        return (
            f"the floor's own chain on {FULL} took {min(times):.2f} to {max(times):.2f} ms a step "
            "from round to round, so read ratios, not times."
        )


def goals(facts: Facts) -> Iterator[Goal]:
    """Every goal in its order."""
    figures = Figures(facts.measured)
    yield from _uneven(figures)
    yield from _chain(figures)
    yield from _plans(figures)
    yield from _kept(figures)
    text, started = facts.early[0]
    yield Goal(
        "the first read starts within 1.1 x the time its own text took to arrive",
        f"{started / text:.3f} x",
        started <= 1.1 * text,
    )
    yield from _resumed(figures)
    spent = facts.imports["plansmith --help"]
    yield Goal(
        "`plansmith --help` within 150 ms beyond bare Python", f"{spent:.0f} ms", spent <= 150
    )


def _uneven(figures: Figures) -> Iterator[Goal]:
    for store in STORES:
        found = figures.median(f"Plansmith, {store}", "uneven")
        floor = figures.median(f"floor, {store}", "uneven")
        yield Goal(
            f"uneven plans within 1.05 x the critical path, {store}",
            f"median {found:.3f} x (floor {floor:.3f} x)",
            found <= 1.05,
        )


def _chain(figures: Figures) -> Iterator[Goal]:
    for store in STORES[:2]:
        found = figures.ratio(f"Plansmith, {store}", f"floor, {store}", "chain")
        yield Goal(f"chain within 1.5 x the floor, {store}", f"{found:.2f} x", found <= 1.5)
    rivals = [name for name in figures.engines if is_durable_rival(name)]
    if rivals:
        ratios = {name: figures.ratio(name, f"Plansmith, {FULL}", "chain") for name in rivals}
        best = min(ratios, key=lambda name: ratios[name])
        behind = figures.ratio(BEHIND, f"Plansmith, {FULL}", "chain")
        yield Goal(
            f"chain ahead of every rival that stores a step before the next, {FULL}",
            f"{ratios[best]:.1f} x as fast as {best}; {behind:.1f} x as fast as {BEHIND}, "
            "which stores behind the run",
            ratios[best] > 1,
        )


def _plans(figures: Figures) -> Iterator[Goal]:
    pairs = [
        (FULL, "LangGraph, SQLite", 15),
        ("PostgreSQL", "DBOS, PostgreSQL", 20),
    ]
    for store, rival, least in pairs:
        if figures.has(rival):
            found = figures.ratio(f"Plansmith, {store}", rival, "plans100")
            words = f"100 plans of 10 steps at least {least} x {rival} (ours: {store})"
            yield Goal(words, f"{found:.1f} x", found >= least)
    for store in STORES:
        found = figures.ratio(f"floor, {store}", f"Plansmith, {store}", "plans100")
        words = f"100 plans of 10 steps within 1.5 x of the floor, {store}"
        yield Goal(words, f"{found:.1f} x", found <= 1.5)


def _kept(figures: Figures) -> Iterator[Goal]:
    for store in (FULL, "PostgreSQL"):
        first = figures.median(f"Plansmith, {store}", "storage")
        later = figures.median(f"Plansmith, {store}", "storage later")
        beyond = later - figures.payload
        words = f"at most 200 kB per 1,000 steps beyond payload, {store}"
        yield Goal(words, f"{beyond:.0f} kB", beyond <= 200)
        words = f"storage grows in a line, {store}: later 1,000 steps / first"
        yield Goal(words, f"{later / first:.2f}", later / first <= 1.1)
        name = f"Plansmith, {store}"
        park, threads, idle = (figures.median(name, key) for key in ("park", "threads", "idle"))
        yield Goal(f"1,000 runs parked in under 1 s, {store}", f"{park:.2f} s", park < 1)
        yield Goal(
            f"parked runs hold no thread and no processor, {store}",
            f"{threads:.0f} threads, {idle:.1f} %",
            not threads and idle < 0.1,
        )


def _resumed(figures: Figures) -> Iterator[Goal]:
    for store in (FULL, "PostgreSQL"):
        name = f"Plansmith, {store}"
        again = sum(figures.samples(name, "again"))
        kept = sum(figures.samples(name, "kept"))
        yield Goal(
            f"no step that had ended runs again after a crash, {store}",
            f"{again:.0f} of {kept:.0f}",
            not again,
        )
        spent = figures.median(name, "long resume")
        words = f"a run of 1,000 steps resumes in under 200 ms, {store}"
        yield Goal(words, f"{spent:.0f} ms", spent < 200)
        seconds = figures.median(name, "open")
        words = f"1,000 open runs resume within 2 s of a restart, {store}"
        yield Goal(words, f"{seconds:.2f} s", seconds <= 2)


def is_durable_rival(name: str) -> bool:
    """Whether the engine is not ours and has stored a step before the next one starts."""
    return not any(word in name for word in ("floor", "Plansmith", "memory", "functional"))
