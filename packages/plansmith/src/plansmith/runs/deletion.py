"""Deletes runs; a call of theirs whose outcome nobody knows leaves a tombstone in the store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from plansmith.errors import NotFound, Refused
from plansmith.plan import events as e
from plansmith.plan.data import Json, hash_in
from plansmith.plan.ids import call_key
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence

if TYPE_CHECKING:
    from datetime import datetime

    from plansmith.runs.journals import Journals

_KNOWN: Final = (StepStatus.DONE, StepStatus.SKIPPED)


async def delete_run(journals: Journals, run_id: str, *, by: e.Who = "") -> bool:
    """Deletes a run that is over and that no process works on; false if there is none.

    The intent of a call is stored before the call. So a journal that has not grown since its
    tombstones were made names every call there was.

    Raises:
        Refused: The run is not over, or the store cannot delete.
        RunBusy: A living process has not let go of the run.
    """
    while True:
        try:
            journal = await journals.load_verified(run_id)
        except NotFound:
            return False
        if not journal.run.status.over:
            hint = Sentence("cancel it first: plansmith runs cancel {run}", run=run_id)
            raise Refused(Sentence("run {run} is not over", run=run_id), hint=hint)
        await journals.ownership.require_released(run_id)
        found = [*_tombstones(journal.run, e.actor(by), journals.clock.now())]
        if await journals.store.delete_run(run_id, last=journal.last, tombstones=found):
            return True


def _tombstones(run: Run, by: e.Actor, now: datetime) -> Iterator[Json]:
    for name, step in run.steps.items():
        if step.status is StepStatus.UNKNOWN or (step.unsure and step.status not in _KNOWN):
            yield {
                "run": run.id,
                "step": name,
                "callee": step.callee,
                "key": call_key(run.id, name, step.call_mark),
                "inputs": hash_in(step.inputs),
                "began_at": step.started_at.isoformat() if step.started_at else "",
                "deleted_at": now.isoformat(),
                "deleted_by": by.label,
            }
