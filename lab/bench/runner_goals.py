"""What the runner should reach, and whether the figures say that it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lab.bench.runner_figures import FULL, Facts, Figures, Spread, spread
from lab.bench.runner_startup import HELP, READY, RUNS

NORMAL: Final = "SQLite NORMAL"
POSTGRES: Final = "PostgreSQL"
OURS: Final = f"Plansmith, {FULL}"
FLOOR: Final = f"floor, {FULL}"
# Not the same words as in tables before: what each of them meant there.
_CHANGED: Final = """\
The targets are new: 12 x LangGraph (was 15 x), 2.5 x of the floor (was 1.5 x), chain 2 x the floor
(was 1.5 x), 350 kB beyond payload (was 200 kB), 1,000 runs parked in 0.5 s (was 1 s), 1,000 steps
resumed in 150 ms (was 200 ms), 1,000 open runs in 1 s (was 2 s), uneven plans 1.05 x on NORMAL and
1.10 x on FULL (was 1.05 x on every store). Calls a plan, the fan, ready to use and `plansmith runs`
were no goals before.

Goals are about SQLite FULL where they name no store. What was a goal on PostgreSQL is a figure in
the tables, but for plans beside DBOS and for steps that run again.

Storage is that of plain JSON rows, which SQL can read; rows were deflated before. It is measured
at 100 plans at once (was 20 at a time), in the store that earlier turns used too.

Within a round every engine keeps its process and its store, and the engines take turns scenario by
scenario; before, each scenario had a process of its own. Parked runs and crashes still have.

The width is 100 (was 10,000, which is the same for these plans).

Plans a second at 1, 10 and 100 at a time are different plans, as before, and the goals are about
those. New beside them: one plan 100 times, and functions without `async`.

Ready to use is `from plansmith import Plansmith; Plansmith(store='memory')`; it was the import
alone.

A run of 1,000 steps is resumed twice and 1,000 open runs two or three times, on one store. The
resume of 1,000 steps begins when the code is loaded, as it does for the peers; 1,000 open runs and
the cold start count from the start of the process.

Python keeps the modules that it has compiled, as it does for everybody: scripts/bench removes
PYTHONDONTWRITEBYTECODE. Where it was set before, each process compiled all of our modules anew,
which took 0.2 s of `plansmith runs`; it is not known which earlier tables were made so.

The full table takes a third of the time: 60 uneven plans (was 200) and 24 four at a time (was 50),
4 kills of each engine (was 8). LangGraph on PostgreSQL, DBOS, and peers with another setting are
measured once a round (was twice); the latter neither park nor crash any more.
"""
CHANGED: Final = tuple(" ".join(each.split()) for each in _CHANGED.split("\n\n"))


@dataclass(frozen=True)
class Goal:
    """A goal and what was measured; without a value it was not measured."""

    id: str
    words: str
    found: Spread | None
    target: float
    unit: str
    at_least: bool = False
    note: str = ""

    @property
    def value(self) -> float | None:
        """The middle of what was measured."""
        return self.found.median if self.found else None

    @property
    def is_met(self) -> bool | None:
        """Whether the value reaches the target; unknown where there is none."""
        if self.value is None:
            return None
        return self.value >= self.target if self.at_least else self.value <= self.target

    @property
    def verdict(self) -> str:
        """For the table."""
        return {None: "not measured", True: "met", False: "**not met**"}[self.is_met]


def goals(facts: Facts) -> Iterator[Goal]:
    """Every goal in its order."""
    figures = Figures(facts.measured)
    yield from _plans(figures, facts)
    yield from _chain(figures)
    yield from _makespan(figures)
    yield from _kept(figures, facts.payload)
    yield from _resumed(figures)
    yield from _startup(facts)


def _plans(figures: Figures, facts: Facts) -> Iterator[Goal]:
    what = "100 different plans of 10 steps"
    slower = figures.times_as_fast(FLOOR, OURS, "plans100")
    yield Goal("plans-floor", f"{what} within 2.5 x of the floor", slower, 2.5, "x")
    pairs = (
        ("plans-langgraph", FULL, "LangGraph, SQLite", 12),
        ("plans-dbos", FULL, "DBOS, PostgreSQL", 20),
        ("plans-dbos-postgres", POSTGRES, "DBOS, PostgreSQL", 20),
    )
    for name, store, rival, least in pairs:
        found = figures.times_as_fast(f"Plansmith, {store}", rival, "plans100")
        words = f"{what} at least {least} x {rival} (ours: {store})"
        yield Goal(name, words, found, least, "x", at_least=True)
    for name, words in (
        ("", "100 different plans"),
        (", one plan again", "one plan run 100 times"),
    ):
        yield Goal(
            f"calls{'-again' if name else ''}",
            f"at most 2,500 Python calls a plan of 10 steps, {words} (main thread, by cProfile)",
            spread([facts.calls[f"sqlite{name}"]]),
            2500,
            "calls",
            note=f"{facts.calls[f'memory{name}']:,.0f} on the memory store",
        )


def _chain(figures: Figures) -> Iterator[Goal]:
    found = figures.times_as_fast(FLOOR, OURS, "chain")
    yield Goal("chain-floor", "chain within 2 x the floor", found, 2, "x")
    ratios = {
        name: ratio
        for name in figures.engines
        if is_durable_rival(name) and (ratio := figures.times_as_fast(OURS, name, "chain"))
    }
    best = min(ratios, key=lambda name: ratios[name].median) if ratios else ""
    words = "chain ahead of every rival that stores a step before the next"
    note = f"beside {best}" if best else ""
    yield Goal("chain-rivals", words, ratios.get(best), 1, "x as fast", at_least=True, note=note)


def _makespan(figures: Figures) -> Iterator[Goal]:
    for name, store, most in (("uneven-normal", NORMAL, 1.05), ("uneven-full", FULL, 1.10)):
        floor = figures.median(f"floor, {store}", "uneven")
        yield Goal(
            name,
            f"uneven plans within {most:.2f} x the critical path, {store}",
            figures.spread(f"Plansmith, {store}", "uneven"),
            most,
            "x",
            note=f"floor {floor:.3f} x" if floor else "",
        )
    words = "100 steps of 100 ms at width 100 within 1.15 x ideal"
    yield Goal("fan", words, figures.spread(OURS, "fan"), 1.15, "x")


def _kept(figures: Figures, payload: float) -> Iterator[Goal]:
    later = figures.samples(OURS, "storage later")
    beyond = spread([each - payload for each in later])
    words = "at most 350 kB per 1,000 steps beyond payload, in plain JSON"
    yield Goal("storage", words, beyond, 350, "kB", note=f"payload {payload:.0f} kB")
    first = figures.median(OURS, "storage")
    grown = spread([each / first for each in later] if first else [])
    yield Goal("storage-line", "storage grows in a line: later 1,000 / first", grown, 1.1, "x")
    yield Goal("parked", "1,000 runs parked in 0.5 s", figures.spread(OURS, "park"), 0.5, "s")
    words = "parked runs hold no thread"
    yield Goal("parked-threads", words, figures.spread(OURS, "threads"), 0, "threads")
    words = "parked runs use no processor"
    yield Goal("parked-idle", words, figures.spread(OURS, "idle"), 0.1, "%")


def _resumed(figures: Figures) -> Iterator[Goal]:
    for name, store in (("again-full", FULL), ("again-postgres", POSTGRES)):
        again = figures.samples(f"Plansmith, {store}", "again")
        kept = sum(figures.samples(f"Plansmith, {store}", "kept"))
        words = f"no step that had ended runs again after kill -9, {store}"
        found = spread([sum(again)] if again else [])
        yield Goal(name, words, found, 0, "steps", note=f"of {kept:.0f}")
    words = "a run of 1,000 steps resumes within 150 ms"
    yield Goal("resume-long", words, figures.spread(OURS, "long resume"), 150, "ms")
    words = "1,000 open runs are under way within 1 s of a restart"
    yield Goal("resume-open", words, figures.spread(OURS, "open"), 1, "s")


def _startup(facts: Facts) -> Iterator[Goal]:
    for name, what, command, most in (
        ("ready", "ready to use", READY, 250),
        ("help", "`plansmith --help`", HELP, 150),
        ("runs", "a warm `plansmith runs`", RUNS, 400),
    ):
        words = f"{what} within {most} ms of processor time beyond bare Python"
        yield Goal(name, words, spread(facts.startup[command]), most, "ms")


def is_durable_rival(name: str) -> bool:
    """Whether the engine is not ours and has stored a step before the next one starts."""
    return not any(word in name for word in ("floor", "Plansmith", "memory", "functional"))
