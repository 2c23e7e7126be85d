"""What the runner bench tells of its samples, read by a program and by a person."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab.bench.runner import main
from lab.bench.runner_engines import ENGINES
from lab.bench.runner_extent import TURNS_A_ROUND, is_measured, takes_turn
from lab.bench.runner_goals import CHANGED

FULL = "SQLite FULL"


def engine(speed: float, **more: list[float]) -> dict[str, list[float]]:
    """An engine that runs this many plans a second."""
    return {
        "chain": [100 / speed, 120 / speed],
        "fan": [1.1],
        "uneven": [1.04, 1.05, 1.06],
        "plans1": [speed / 4],
        "plans100": [speed],
        "cpu": [1000 / speed],
        **more,
    }


def samples(*, turns: int = 5) -> dict[str, Any]:
    """Of a machine without PostgreSQL, where LangGraph took part in two turns only."""
    own = {"storage": [300.0], "park": [0.4], "threads": [0.0], "idle": [0.0]}
    crash = {"again": [0.0, 0.0], "kept": [8.0, 9.0], "long resume": [100.0], "open": [1.5]}
    measured = [
        {
            f"floor, {FULL}": engine(1100),
            "floor, SQLite NORMAL": engine(1500),
            f"Plansmith, {FULL}": engine(550, **{"storage later": [310.0]})
            | ({} if turn else own | crash),
            "Plansmith, SQLite NORMAL": engine(600),
            "LangGraph, SQLite": engine(50) if turn in (0, turns - 1) else {},
        }
        for turn in range(turns)
    ]
    startup = {"Plansmith, ready to use": [200.0, 220.0], "plansmith --help": [90.0]}
    return {
        "quick": True,
        "measured": measured,
        "startup": startup | {"plansmith runs": [500.0]},
        "calls": {
            f"{store}{again}": 2400.0
            for store in ("memory", "sqlite")
            for again in ("", ", one plan again")
        },
        "payload": 170.0,
        "rivals": ["langgraph 1.2.20"],
        "database": "",
        "left_out": ["everything on PostgreSQL: it is not installed"],
        "load": [0.1, 0.2],
        "seconds": 200.0,
    }


@pytest.fixture
def told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """What `scripts/bench runner` prints of these samples."""

    def tell(*options: str) -> str:
        kept = tmp_path / "samples.json"
        kept.write_text(json.dumps(samples()), encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["runner", "--samples", str(kept), *options])
        main()
        return capsys.readouterr().out

    return tell


def test_the_runner_bench_prints_one_json_object_with_every_goal(
    told: Callable[..., str],
) -> None:
    found = json.loads(told("--json"))
    goals = {each["id"]: each for each in found["goals"]}
    assert len(goals) == len(found["goals"])
    assert all({"words", "value", "target", "met"} <= each.keys() for each in goals.values())
    plans = goals["plans-floor"]
    assert (plans["value"], plans["target"], plans["met"]) == (2.0, 2.5, True)
    assert plans["spread"]["n"] == 5
    assert goals["plans-langgraph"]["value"] == 11.0
    assert goals["plans-langgraph"]["met"] is False
    assert goals["runs"]["met"] is False
    assert goals["resume-open"]["met"] is False


def test_the_runner_bench_says_null_for_a_goal_that_was_not_measured(
    told: Callable[..., str],
) -> None:
    found = json.loads(told("--json"))
    goals = {each["id"]: each for each in found["goals"]}
    for name in ("plans-dbos", "plans-dbos-postgres", "again-postgres"):
        assert (goals[name]["value"], goals[name]["met"]) == (None, None)
    assert found["machine"]["postgresql"] is None
    assert found["left_out"] == ["everything on PostgreSQL: it is not installed"]


def test_the_runner_bench_counts_the_samples_of_an_engine_that_sat_turns_out(
    told: Callable[..., str],
) -> None:
    found = json.loads(told("--json"))
    assert found["engines"]["LangGraph, SQLite"]["plans100"]["n"] == 2
    (ratio,) = (
        each["times_as_fast"]
        for each in found["ratios"]
        if each["engine"] == f"Plansmith, {FULL}"
        and (each["beside"], each["scenario"]) == ("LangGraph, SQLite", "plans100")
    )
    assert ratio == {"n": 2, "median": 11.0, "quartiles": [11.0, 11.0]}


def test_the_runner_bench_tables_name_every_goal_and_every_changed_definition(
    told: Callable[..., str],
) -> None:
    text = told()
    goals = json.loads(told("--json"))["goals"]
    assert all(f"| {each['words']} |" in text for each in goals)
    assert text.count("not measured") == sum(each["met"] is None for each in goals)
    words = " ".join(text.split())
    assert all(each in words for each in CHANGED)


def test_the_full_runner_bench_measures_every_engine_in_every_round() -> None:
    rounds = [range(start, start + TURNS_A_ROUND) for start in (0, TURNS_A_ROUND)]
    for name in ENGINES:
        assert is_measured(name, quick=False)
        for turns in rounds:
            assert any(takes_turn(name, "plans", turn, quick=False) for turn in turns)


def test_floor_plansmith_and_langgraph_on_sqlite_run_plans_in_every_turn_of_the_full_bench() -> (
    None
):
    for name in (f"floor, {FULL}", f"Plansmith, {FULL}", "LangGraph, SQLite"):
        assert all(takes_turn(name, "plans", turn, quick=False) for turn in range(6))
