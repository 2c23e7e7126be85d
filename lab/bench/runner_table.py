"""The tables of the runner bench."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import textwrap
from collections.abc import Mapping, Sequence
from typing import Final

from lab.bench.runner_figures import FULL, Facts, Figures, Spread
from lab.bench.runner_goals import CHANGED, Goal, goals
from lab.bench.runner_json import is_peer
from lab.bench.runner_missed import missed

HEAD: Final = """\
# The runner

Made by `scripts/bench runner{options}` in {minutes:.0f} minutes, in {turns} turns,
slow engines in fewer.
Every engine runs the same plans with the same fake tool, in a process of its own and with a store
of its own, one at a time and in changing order. Medians, quartiles in brackets. The floor is the
least code that runs a plan with a journal: one scheduler, one table, no checks, no hashes, no
reviews.

Chains, fans and uneven plans are timed from the word go: Plansmith's plans are submitted (checked
and stored) before, as graphs and workflows are made before. Plans a second include that for
Plansmith and the floor. LangGraph has `durability="sync"`, so that a superstep is stored before the
next one; its functional API still stores results behind the run, not before the next step. "DBOS,
SQLite WAL" is what we set, not what DBOS sets.

{machine}
"""
SPEED: Final = """\
## Speed

Chain: 100 steps that do nothing, ms a step. Fan: 100 steps of 100 ms at once, time / 100 ms.
Plans: different ones of 10 steps that do nothing, plans a second, 1, 10 and 100 at a time. Same:
one plan, 100 times at once. Plain: 100 plans whose steps are functions without `async`. CPU: ms of
processor time a plan at 100 at a time, without that of a database server.

| | chain, ms a step | fan | plans/s, 1 | plans/s, 10 | plans/s, 100 | same | plain | CPU |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
"""
BESIDE: Final = """\
## Plansmith beside its peers

How many times as fast as the peer Plansmith is (below 1: slower), the median of the turns in which
both were measured.

| | chain | fan | uneven | plans, 1 | plans, 100 | CPU |
|---|--:|--:|--:|--:|--:|--:|
"""
UNEVEN: Final = """\
## Uneven plans

{count} seeded plans of 12 to 24 steps of 5 to 50 ms, each of which needs up to three earlier ones:
time / critical path, at any width. Last column: time / what no scheduler can beat, four at a time.

| | plans | median | 95 of 100 | worst | four at a time |
|---|--:|--:|--:|--:|--:|
"""
KEPT: Final = """\
## What is kept

kB for 1,000 steps (100 plans of 10, and the same later), of which {payload:.0f} kB are the plans,
the inputs and the results as JSON. 1,000 runs are parked at once until a person approves; then some
are woken one by one: ms to the step.

| | first 1,000 | later 1,000 | parked in, s | threads | idle CPU, % | woken in, ms |
|---|--:|--:|--:|--:|--:|--:|
"""
CRASH: Final = """\
## After a crash

Processes are killed with -9 once 8 of 20 steps have ended: steps that ran again though they had
ended 50 ms or more before, and ms from the start of the next process to its first step. Cold: the
same with nothing stored. Long: a run of 1,000 steps killed after 900, ms from opening the store to
the next step. Open: 1,000 runs under way, s from the start of the next process until all are.

| | ran again | restart, ms | cold start, ms | long run, ms | open runs, s |
|---|--:|--:|--:|--:|--:|
"""
SMALL: Final = """\
## Start-up

Processor time beyond a bare interpreter: {startup}.
"""


def render(facts: Facts) -> str:
    """All tables, and what of the goals is met."""
    figures = Figures(facts.measured)
    parts = [
        _head(facts, figures),
        SPEED
        + _rows(figures, ["chain", "fan", "plans1", "plans10", "plans100", "same", "plain", "cpu"]),
        BESIDE + _beside(figures, ["chain", "fan", "uneven", "plans1", "plans100", "cpu"]),
        UNEVEN.format(count=len(figures.samples(f"floor, {FULL}", "uneven"))) + _uneven(figures),
        KEPT.format(payload=facts.payload) + _kept(figures),
        CRASH + _crash(figures),
        _small(facts),
        "\n".join(["## Goals", "", "| goal | measured | |", "|---|---|---|", *_goals(facts)]),
        _missed(facts),
        "\n".join(["What changed from earlier tables:", "", *_changed()]),
    ]
    return "\n".join(part.rstrip() + "\n" for part in parts)


def _head(facts: Facts, figures: Figures) -> str:
    machine = (
        f"Machine: {os.cpu_count()} cores, Python {platform.python_version()}, SQLite "
        f"{sqlite3.sqlite_version}, PostgreSQL {facts.database or '(none)'}. "
        f"{_versions(facts.rivals)}Load average {facts.load[0]:.1f} at the start, "
        f"{facts.load[-1]:.1f} at the end; {figures.noise()}"
    )
    left_out = [textwrap.fill(f"Left out: {each}", 100) for each in facts.left_out]
    return HEAD.format(
        options=" --quick" if facts.quick else " --write",
        minutes=facts.seconds / 60,
        turns=len(facts.measured),
        machine="\n\n".join([textwrap.fill(machine, 100), *left_out]),
    )


def _versions(rivals: Sequence[str]) -> str:
    return f"{', '.join(rivals)}. " if rivals else ""


def _goals(facts: Facts) -> list[str]:
    return [f"| {each.words} | {_found(each)} | {each.verdict} |" for each in goals(facts)]


def _found(goal: Goal) -> str:
    if goal.found is None:
        return ""
    note = f", {goal.note}" if goal.note else ""
    return f"{_spread(goal.found)} {goal.unit}{note}"


def _missed(facts: Facts) -> str:
    found = [*missed([*goals(facts)])]
    lines = [textwrap.fill(f"- {each}", 100, subsequent_indent="  ") for each in found]
    return "\n".join(
        ["What it would take to reach what is missed:", "", *(lines or ["- Nothing."])]
    )


def _changed() -> list[str]:
    return [textwrap.fill(f"- {each}", 100, subsequent_indent="  ") for each in CHANGED]


def _rows(figures: Figures, metrics: Sequence[str]) -> str:
    lines: list[str] = []
    for name in figures.engines:
        cells = [_spread(figures.spread(name, metric)) for metric in metrics]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _beside(figures: Figures, metrics: Sequence[str]) -> str:
    lines: list[str] = []
    for ours in (f"Plansmith, {FULL}", "Plansmith, PostgreSQL"):
        for peer in figures.engines:
            if ours in figures.engines and is_peer(ours, peer):
                cells = [_spread(figures.times_as_fast(ours, peer, each)) for each in metrics]
                lines.append(f"| {ours} / {peer} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _uneven(figures: Figures) -> str:
    lines: list[str] = []
    for name in figures.engines:
        found = sorted(figures.samples(name, "uneven"))
        high = found[min(len(found) - 1, round(len(found) * 0.95))]
        narrow = figures.median(name, "narrow")
        cells = [f"{each:.3f}" for each in (statistics.median(found), high, found[-1])]
        last = f"{narrow:.3f}" if narrow else ""
        lines.append(f"| {name} | {len(found)} | {' | '.join(cells)} | {last} |")
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
    words = ", ".join(
        f"`{name}` {statistics.median(spent):.0f} ms" for name, spent in facts.startup.items()
    )
    return SMALL.format(startup=words)


def _spread(found: Spread | None) -> str:
    if found is None:
        return ""
    if found.n < 2:
        return _short(found.median)
    return f"{_short(found.median)} ({_short(found.low)}-{_short(found.high)})"


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
