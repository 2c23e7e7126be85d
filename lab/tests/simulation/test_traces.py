"""A seed of the simulation gives the same story wherever and however often it is played."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lab.simulation.story import play
from lab.simulation.world import World

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("seed", [3, 13, 31, 285])
def test_a_seed_gives_the_same_trace_each_time(seed: int) -> None:
    first, second = World(seed), World(seed)
    play(seed, first)
    play(seed, second)
    assert first.trace == second.trace
    assert first.digest() == second.digest()


def test_the_command_replays_a_seed_in_another_process() -> None:
    world = World(3)
    play(3, world)
    command = [sys.executable, "-m", "lab.bench.simulate", "--seed", "3"]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    told = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.splitlines()[-1] == f"seed 3, trace {world.digest()}: holds"
