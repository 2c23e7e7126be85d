"""The suite for stores fails stores that lose, mix up or alter what they are given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from plansmith.plan.data import Content, Json
from plansmith.plan.events import Event, RunFinished, StepDone
from plansmith.testing import MemoryStore
from plansmith.testing.contracts import PlanStoreContract


class DamagesEnds(MemoryStore):
    """Takes every event, and forgets the last one of each run that is over."""

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        found = list(await super().events(run, after=after))
        over = bool(found) and isinstance(found[-1].body, RunFinished)
        return found[:-1] if over and found[-1].number > 4 else found


class AltersResults(MemoryStore):
    """Writes another result than it was given into the journal."""

    async def append(
        self, events: Sequence[Event], values: Sequence[Json | Content] = (), **options: Any
    ) -> None:
        altered = [
            each.replace(body=each.body.replace(size=7))
            if isinstance(each.body, StepDone)
            else each
            for each in events
        ]
        await super().append(altered, values, **options)


def failing(kind: Callable[[], MemoryStore]) -> list[str]:
    """The tests of the suite that a store does not pass."""

    class Suite(PlanStoreContract):
        def make_store(self) -> MemoryStore:
            return kind()

    failed: list[str] = []
    for name, test in inspect.getmembers(Suite, inspect.isfunction):
        if not name.startswith("test_"):
            continue
        try:
            test(Suite())
        except Exception:  # noqa: BLE001 - however it fails, it fails
            failed.append(name)
    return failed


@pytest.mark.parametrize("kind", [DamagesEnds, AltersResults])
def test_a_store_whose_runs_end_damaged_fails_the_suite(kind: type[MemoryStore]) -> None:
    assert "test_a_run_that_was_run_is_whole_folds_and_has_all_its_results" in failing(kind)


def test_a_good_store_passes_the_suite() -> None:
    assert failing(MemoryStore) == []
