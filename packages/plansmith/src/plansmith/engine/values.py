"""Loads the stored values of a run: its results, and what references of its plan can use."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol, runtime_checkable

from plansmith.errors import JournalDamaged
from plansmith.plan.data import Json
from plansmith.plan.run import Run, StepStatus
from plansmith.ports import JournalStore, Reply


@runtime_checkable
class ManyValuesStore(Protocol):
    """A store that returns many values at once; of others they are asked for one by one."""

    async def get_many(self, digests: Sequence[str]) -> Sequence[Json]:
        """Returns the values with these content hashes, in this order, each a new object.

        Raises `JournalDamaged` if one of them is missing or altered.
        """
        ...


async def load_results(store: JournalStore, run: Run) -> dict[str, Json]:
    """Loads the results of all finished steps, with one query where the store can do so."""
    done = {
        name: step.result_hash
        for name, step in run.steps.items()
        if step.result_hash and (step.status is StepStatus.DONE or step.rule)
    }
    if not done:
        return {}
    return dict(zip(done, await _get_many(store, [*done.values()]), strict=True))


async def _get_many(store: JournalStore, digests: Sequence[str]) -> Sequence[Json]:
    if isinstance(store, ManyValuesStore):
        return await store.get_many(digests)
    return await asyncio.gather(*map(store.get, digests))


async def results_left(store: JournalStore, run: Run) -> dict[str, Json]:
    """Loads the results of a damaged run that can still be read."""
    results: dict[str, Json] = {}
    for name, step in run.steps.items():
        if step.settled and step.result_hash:
            with suppress(JournalDamaged):
                results[name] = await store.get(step.result_hash)
    return results


async def load_replies(store: JournalStore, run: Run) -> dict[str, Reply]:
    """Loads the answers to questions of calls, with the state that the calls left."""
    return {
        name: Reply(step.reply.answer, await store.get(step.reply.state))
        for name, step in run.steps.items()
        if step.reply is not None
    }


async def load_values(store: JournalStore, run: Run) -> dict[str, Json]:
    """Loads what references of a run's plan can use: its results, and those of earlier runs.

    A result of an earlier run that is gone or was altered is left out: what uses it fails.
    """
    values = await load_results(store, run)
    for ref, digest in run.earlier.items():
        with suppress(JournalDamaged):
            values[ref] = await store.get(digest)
    return values
