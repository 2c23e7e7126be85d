"""The tables of the runner bench."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import textwrap
from collections.abc import Mapping, Sequence

from bench.runner_goals import Facts, Figures, goals

HEAD = """\
# The runner

Made by `scripts/bench runner --write`. Every engine runs the same plans with the same fake tool,
in a process of its own and with a store of its own, one after the other, in {rounds} rounds of
changing order. Medians, quartiles in brackets. The floor is the least code that runs a plan with a
journal: one scheduler, one table, no checks, no hashes, no reviews.

Chains, fans and uneven plans are timed from the word go: Plansmith's plans are submitted (checked
and stored) before, as graphs and workflows are made before. Plans a second include that for
Plansmith and the floor. LangGraph has `durability="sync"`, so that a superstep is stored before the
next one; its functional API still stores results behind the run, not before the next step. "DBOS,
SQLite WAL" is what we set, not what DBOS sets.

{machine}
"""
SPEED = """\
## Speed

Chain: 100 steps that do nothing, ms a step. Fan: 100 steps of 100 ms at once, time / 100 ms.
Plans: of 10 steps that do nothing, plans a second, 1, 10 and 100 at a time.

| | chain, ms a step | fan | plans/s, 1 | plans/s, 10 | plans/s, 100 |
|---|--:|--:|--:|--:|--:|
"""
UNEVEN = """\
## Uneven plans

{count} seeded plans of 12 to 24 steps of 5 to 50 ms, each of which needs up to three earlier ones:
time / critical path, at any width. Last column: time / what no scheduler can beat, four at a time.

| | median | 95 of 100 | worst | four at a time |
|---|--:|--:|--:|--:|
"""
KEPT = """\
## What is kept

kB for 1,000 steps (100 plans of 10, then 200 more), of which {payload:.0f} kB are the plans, the
inputs and the results as JSON. 1,000 runs are parked at once until a person approves; then some are
woken one by one: ms to the step.

| | first 1,000 | later 1,000 | parked in, s | threads | idle CPU, % | woken in, ms |
|---|--:|--:|--:|--:|--:|--:|
"""
CRASH = """\
## After a crash

Eight processes are killed with -9 once 8 of 20 steps have ended: steps that ran again though they
had ended 50 ms or more before, and ms from the start of the next process to its first step. Cold:
the same with nothing stored. Long: a run of 1,000 steps killed after 900, ms from opening the store
to the next step. Open: 1,000 runs under way, s from the start of the next process until all are.

| | ran again | restart, ms | cold start, ms | long run, ms | open runs, s |
|---|--:|--:|--:|--:|--:|
"""
SMALL = """\
## First action and imports

A model writes ten steps at an even pace. The first step's text was complete after
{text:.3f} s and the step started after {early:.3f} s; without the early start after {late:.2f} s,
when the plan is written.

Processor time an import adds to a bare interpreter: {imports}.
"""


def render(facts: Facts) -> str:
    """All tables, and what of the goals is met."""
    figures = Figures(facts.measured)
    machine = (
        f"Machine: {os.cpu_count()} cores, Python {platform.python_version()}, SQLite "
        f"{sqlite3.sqlite_version}, PostgreSQL {facts.database}. {_versions(facts.rivals)}Load "
        f"average {facts.load[0]:.1f} at the start, {facts.load[-1]:.1f} at the end; "
        f"{figures.noise()}"
    )
    lines = [f"| {each.words} | {each.found} | {each.verdict} |" for each in goals(facts)]
    parts = [
        HEAD.format(rounds=len(facts.measured), machine=textwrap.fill(machine, 100)),
        SPEED + _rows(figures, ["chain", "fan", "plans1", "plans10", "plans100"]),
        UNEVEN.format(count=figures.count("uneven")) + _uneven(figures),
        KEPT.format(payload=figures.payload) + _kept(figures),
        CRASH + _crash(figures),
        _small(facts),
        "\n".join(["## Goals", "", "| goal | measured | |", "|---|---|---|", *lines]),
    ]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _versions(rivals: Sequence[str]) -> str:
    return f"{', '.join(rivals)}. " if rivals else ""


def _rows(figures: Figures, metrics: Sequence[str]) -> str:
    lines: list[str] = []
    for name in figures.engines:
        cells = [_spread(figures.samples(name, metric)) for metric in metrics]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _uneven(figures: Figures) -> str:
    lines: list[str] = []
    for name in figures.engines:
        found = sorted(figures.samples(name, "uneven"))
        high = found[min(len(found) - 1, round(len(found) * 0.95))]
        narrow = figures.samples(name, "narrow")
        cells = [statistics.median(found), high, found[-1]]
        last = f"{statistics.median(narrow):.3f}" if narrow else ""
        lines.append(f"| {name} | {' | '.join(f'{each:.3f}' for each in cells)} | {last} |")
    return "\n".join(lines)


def _kept(figures: Figures) -> str:
    forms = {
        "storage": "{:,.0f}",
        "storage later": "{:,.0f}",
        "park": "{:.2f}",
        "threads": "{:.0f}",
        "idle": "{:.1f}",
        "wake": "{:.1f}",
    }
    return _medians(figures, forms)


def _crash(figures: Figures) -> str:
    forms = {
        "again": "",
        "restart": "{:,.0f}",
        "cold": "{:,.0f}",
        "long resume": "{:,.0f}",
        "open": "{:.2f}",
    }
    return _medians(figures, forms)


def _medians(figures: Figures, forms: Mapping[str, str]) -> str:
    lines: list[str] = []
    for name in figures.engines:
        cells: list[str] = []
        for metric, form in forms.items():
            found = figures.samples(name, metric)
            if not found:
                cells.append("")
            elif metric == "again":
                cells.append(f"{sum(found):.0f} of {sum(figures.samples(name, 'kept')):.0f}")
            else:
                cells.append(form.format(statistics.median(found)))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _small(facts: Facts) -> str:
    words = ", ".join(f"`{name}` {spent:.0f} ms" for name, spent in facts.imports.items())
    (text, started), (_, late) = facts.early
    return SMALL.format(text=text, early=started, late=late, imports=words)


def _spread(found: Sequence[float]) -> str:
    if not found:
        return ""
    if len(found) < 2:
        return _short(found[0])
    low, middle, high = statistics.quantiles(found, n=4, method="inclusive")
    return f"{_short(middle)} ({_short(low)}-{_short(high)})"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
