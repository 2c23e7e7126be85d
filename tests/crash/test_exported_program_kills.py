"""A written program that is killed goes on where it was, and makes no finished call again."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from tests.exported import command, plan_of, with_engine, written
from tests.waiting import until

from plansmith.programs.targets import Target

ITEMS = {"tool": "slow", "inputs": {"name": "item {{item}}"}}
PLAN = plan_of(
    {"id": "a", "tool": "slow", "inputs": {"name": "a"}},
    {"id": "m", "over": [1, 2, 3], "each": ITEMS, "after": ["a"], "width": 2},
    {"id": "b", "tool": "slow", "inputs": {"name": "b", "gate": "gate"}, "after": ["m"]},
    {"id": "c", "tool": "echo", "inputs": {"value": "{{a}} {{m}}"}},
    {"id": "d", "tool": "echo", "inputs": {"value": "{{b}}"}},
)


@pytest.mark.parametrize("target", ["langgraph", "dbos"])
def test_a_killed_program_goes_on_and_repeats_no_effect(target: Target, tmp_path: Path) -> None:
    environment = with_engine(target)
    words = command(written(PLAN, target, tmp_path), target, tmp_path)
    effects = tmp_path / "effects.txt"
    first = subprocess.Popen(words, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    try:
        begun = until(lambda: effects.exists() and "begin b" in effects.read_text(encoding="utf-8"))
        asyncio.run(begun)
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    (tmp_path / "gate").touch()
    for _ in range(2):  # the second time nothing is left to do
        again = subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        told = json.loads(again.stdout)
        assert (again.returncode, told["not_run"]) == (1, ["d"]), again.stderr
        assert told["results"]["c"] == 'a ["item 1", "item 2", "item 3"]'
        # Nobody knows whether it took effect, so it is not made again.
        assert "may have taken effect" in told["failed"]["b"]
    lines = [line for line in effects.read_text(encoding="utf-8").splitlines() if "begin" in line]
    assert sorted(lines) == ["begin a", "begin b", *(f"begin item {n}" for n in (1, 2, 3))]
