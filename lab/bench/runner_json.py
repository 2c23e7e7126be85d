"""The figures of the runner bench as one JSON object for programs."""

from __future__ import annotations

import os
import platform
import sqlite3
from typing import Any, Final

from lab.bench.runner_extent import is_rival
from lab.bench.runner_figures import METRICS, Facts, Figures, Spread, spread
from lab.bench.runner_goals import CHANGED, goals
from lab.bench.runner_missed import missed

VERSION: Final = 1


def to_json(facts: Facts) -> dict[str, Any]:
    """Engines by scenario, ratios of ours to each peer, goals, and on what all was measured."""
    figures = Figures(facts.measured)
    return {
        "version": VERSION,
        "quick": facts.quick,
        "seconds": round(facts.seconds, 1),
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "sqlite": sqlite3.sqlite_version,
            "postgresql": facts.database or None,
            "peers": list(facts.rivals),
            "load": list(facts.load),
        },
        "left_out": list(facts.left_out),
        "scenarios": {
            name: {"words": metric.words, "unit": metric.unit} for name, metric in METRICS.items()
        },
        "engines": {name: _engine(figures, name) for name in figures.engines},
        "ratios": _ratios(figures),
        "startup_ms": {name: _of(spread(found)) for name, found in facts.startup.items()},
        "calls_a_plan": dict(facts.calls),
        "payload_kB": facts.payload,
        "goals": [
            {
                "id": each.id,
                "words": each.words,
                "value": _short(each.value),
                "unit": each.unit,
                "target": each.target,
                "comparison": "at least" if each.at_least else "at most",
                "met": each.is_met,
                "spread": _of(each.found),
                "note": each.note,
            }
            for each in goals(facts)
        ],
        "would_take": [*missed([*goals(facts)])],
        "changed_definitions": list(CHANGED),
    }


def _engine(figures: Figures, engine: str) -> dict[str, Any]:
    return {
        metric: _of(found)
        for metric in METRICS
        if (found := figures.spread(engine, metric)) is not None
    }


def _ratios(figures: Figures) -> list[dict[str, Any]]:
    """How many times as fast (or small) as a peer ours is, turn by turn."""
    return [
        {"engine": ours, "beside": peer, "scenario": metric, "times_as_fast": _of(found)}
        for ours in figures.engines
        if ours.startswith("Plansmith")
        for peer in figures.engines
        if is_peer(ours, peer)
        for metric in METRICS
        if (found := figures.times_as_fast(ours, peer, metric)) is not None
    ]


def is_peer(ours: str, peer: str) -> bool:
    """The floor on the same store, and every rival."""
    return is_rival(peer) or peer == ours.replace("Plansmith", "floor")


def _of(found: Spread | None) -> dict[str, Any] | None:
    if found is None:
        return None
    low, high = _short(found.low), _short(found.high)
    return {"n": found.n, "median": _short(found.median), "quartiles": [low, high]}


def _short(number: float | None) -> float | None:
    return None if number is None else float(f"{number:.4g}")
