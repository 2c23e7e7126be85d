"""Loads the values that the references of a run's plan can use."""

from __future__ import annotations

from contextlib import suppress

from plansmith.engine.journal import load_results
from plansmith.errors import JournalDamaged
from plansmith.plan.data import Json
from plansmith.plan.run import Run
from plansmith.ports import JournalStore


async def load_values(store: JournalStore, run: Run) -> dict[str, Json]:
    """Loads what references of a run's plan can use: its results, and those of earlier runs.

    A result of an earlier run that is gone or was altered is left out: what uses it fails.
    """
    values = await load_results(store, run)
    for ref, digest in run.earlier.items():
        with suppress(JournalDamaged):
            values[ref] = await store.get(digest)
    return values
