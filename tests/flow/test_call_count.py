"""The Python calls that a plan costs: the same on every machine, where times are not."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.profile import SHOWN, calls_a_plan, calls_by_stage

# Of a plan of ten steps on the memory store; lower it when the runner becomes cheaper.
MOST_CALLS: Final = 2_600
MOST_CALLS_AGAIN: Final = 2_020
# In the main thread; how many appends share a commit differs a little from time to time.
MOST_CALLS_ON_SQLITE: Final = 3_200
AT_ONCE: Final = 10


def test_a_plan_of_ten_steps_costs_no_more_python_calls_than_the_limit(tmp_path: Path) -> None:
    assert calls_a_plan("memory", tmp_path, at_once=AT_ONCE) <= MOST_CALLS


def test_a_plan_on_sqlite_costs_no_more_python_calls_than_its_own_limit(tmp_path: Path) -> None:
    assert calls_a_plan("sqlite", tmp_path, at_once=AT_ONCE) <= MOST_CALLS_ON_SQLITE


def test_a_plan_that_is_run_again_costs_no_more_python_calls_than_its_own_limit(
    tmp_path: Path,
) -> None:
    again = calls_a_plan("memory", tmp_path, at_once=AT_ONCE, same=True)
    assert again <= MOST_CALLS_AGAIN


def test_the_python_calls_of_a_plan_do_not_grow_with_the_runs_that_are_stored(
    tmp_path: Path,
) -> None:
    few = calls_a_plan("memory", tmp_path, at_once=AT_ONCE)
    many = calls_a_plan("memory", tmp_path, at_once=AT_ONCE, earlier=100)
    assert many <= 1.05 * few


def test_every_stage_of_a_plan_is_found_in_its_python_calls(tmp_path: Path) -> None:
    found = calls_by_stage("sqlite", tmp_path)
    assert all(found[stage] > 0 for stage in SHOWN)
