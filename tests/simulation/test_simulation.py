"""Seeded stories of a run: whatever dies, lies or attacks, what was approved is what happened."""

from __future__ import annotations

import os

import pytest
from tests.simulation.story import play

SEEDS = 20_000 if os.environ.get("PLANSMITH_LONG") else 150
BATCH = 25


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_no_seed_breaks_a_promise_about_effects_guards_and_endings(first: int) -> None:
    for seed in range(first, first + BATCH):
        try:
            play(seed)
        except Exception as error:
            error.add_note(f"seed {seed}: PYTHONPATH=. python -m tests.simulation.story {seed}")
            raise
