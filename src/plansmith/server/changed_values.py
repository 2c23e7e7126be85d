"""Returns inputs and results of the steps that changed, for clients that fold events themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from plansmith.plan import events as e
from plansmith.plan.data import Json, canonical_json
from plansmith.ports import JournalStore
from plansmith.server.serialize import CLIP, clip


async def changed_values(store: JournalStore, events: Sequence[e.Event]) -> dict[str, Json]:
    """Returns what the events tell of each step: the inputs of its call, and its result."""
    inputs: dict[str, str] = {}
    results: dict[str, str] = {}
    for event in events:
        match event.body:
            case e.StepStarted(step=step, inputs=digest):
                inputs[step] = digest
                results.pop(step, None)
            case (
                e.StepDone(step=step, result=digest)
                | e.StepReused(step=step, result=digest)
                | e.StepFailed(step=step, result=digest)
                | e.StepSkipped(step=step, result=digest)
            ):
                results[step] = digest
            case _:
                pass
    wanted = sorted({each for each in (*inputs.values(), *results.values()) if each})
    values = dict(zip(wanted, await asyncio.gather(*map(store.get, wanted)), strict=True))
    found: dict[str, dict[str, Json]] = {}
    for step, digest in inputs.items():
        found[step] = {"inputs": clip(values.get(digest), CLIP), "result_hash": ""}
    for step, digest in results.items():
        found[step] = found.get(step, {}) | _result(digest, values.get(digest))
    return {**found}


def _result(digest: str, value: Json) -> dict[str, Json]:
    """Returns a result as `serialize.step_view` does."""
    if not digest:
        return {"result_hash": ""}
    size = len(canonical_json(value))
    return {
        "result": clip(value, CLIP),
        "result_hash": digest,
        "result_size": size,
        "clipped": size > CLIP,
    }
