"""Repair: a damaged journal goes on from its last good event, and nothing is thrown away."""

from __future__ import annotations

from typing import Final

from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.ports import PlanStore, RepairStore
from plansmith.runner.journal import Journal

# What is a fact about the world, whatever became of the journal: calls, and how they ended. They
# are taken over, so that nothing is called again only because its record was set aside.
_FACTS: Final = (e.StepStarted, e.StepDone, e.StepFailed, e.StepUnknown)


async def repair(store: PlanStore, journal: Journal, *, by: e.Actor) -> None:
    """Set aside what does not fit or cannot be read, and go on, paused, with what is certain."""
    if journal.damage is None:
        raise Refused(f"run {journal.id} is not damaged", hint="plansmith verify proves it")
    if not isinstance(store, RepairStore):
        raise Refused("this store cannot repair a run", hint="use SQLite or PostgreSQL")
    good = len(journal.events)
    events: list[e.Event] = []
    if not journal.run.phase.over:
        facts = [(each.body, each.by) for each in journal.beyond if isinstance(each.body, _FACTS)]
        events = journal.following((_told(journal), by), *facts)
    await store.set_aside(journal.id, good, events)
    await journal.catch_up()


def _told(journal: Journal) -> e.AnyBody:
    good, read = len(journal.events), len(journal.beyond)
    lost = max(journal.last - good - read, 0)
    reason = f"repaired: {journal.damage.message if journal.damage else ''}"
    if lost:
        reason += (
            f"; {lost} events cannot be read, so that steps which are waiting may have been"
            " called already: make sure of that before you go on"
        )
    return e.RunRepaired(aside=read + lost, lost=lost, reason=reason)
