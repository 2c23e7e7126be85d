"""Verifies that a run was not altered: its hash chain, its fold and all results."""

from __future__ import annotations

from plansmith.clock import SystemClock
from plansmith.engine.journal import Journal
from plansmith.errors import JournalDamaged
from plansmith.plan.events import RequestAnswered, StepDone, StepReused, verify_chain
from plansmith.plan.sentence import Sentence
from plansmith.ports import Store
from plansmith.runs.journals import Journals


async def verify(store: Store, run: str) -> int:
    """Verifies a run's hash chain, its fold and all results; returns its number of events."""
    return len((await verified(store, run)).events)


async def verified(store: Store, run: str) -> Journal:
    """Returns the journal of a run; raises `JournalDamaged` if anything of it was altered."""
    # If it is damaged, lists tell of that from now on.
    journal = await Journals(store=store, clock=SystemClock()).load_verified(run)
    journal.require_sound()
    verify_chain(journal.events)
    for event in journal.events:
        if isinstance(event.body, StepDone | StepReused | RequestAnswered) and event.body.result:
            try:
                await store.get(event.body.result)
            except JournalDamaged as lost:
                hint = Sentence("`plansmith store repair {run}` continues without it", run=run)
                if journal.run.status.over:
                    hint = Sentence("restore the store from a backup; the run itself is over")
                raise JournalDamaged(lost.message, hint=hint) from None
    return journal
