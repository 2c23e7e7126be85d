"""Repairs damaged journals: moves aside what cannot be read or does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plansmith.engine.journal import Journal
from plansmith.errors import JournalDamaged, Refused
from plansmith.plan import events as e
from plansmith.plan.sentence import Sentence, joined
from plansmith.ports import Store

# Calls and how they ended really happened, whatever is wrong with the journal. A repair keeps
# them, so that no call is repeated only because its record was moved aside.
_FACTS: Final = (e.StepStarted, e.StepDone, e.StepFailed, e.StepUnknown)


async def repair(store: Store, journal: Journal, *, by: e.Actor) -> None:
    """Moves damaged events aside; the run continues, paused, after its last good event."""
    lost = await _lost_results(store, journal) if journal.damage is None else ()
    if lost:
        _go_back(journal, lost)
    if journal.damage is None:
        raise Refused(
            Sentence("run.not_damaged", run=journal.id), hint=Sentence("run.verify_checks")
        )
    (error, beyond, last), good = journal.damage, len(journal.events)
    events: list[e.Event] = []
    if not journal.run.phase.over:
        unread = max(last - good - len(beyond), 0)
        reasons = [Sentence("repaired: {damage}", damage=error.message)]
        if unread:
            why = Sentence(
                "{count} events cannot be read, so that steps which are waiting may have been "
                "called already: make sure of that before you go on",
                count=unread,
            )
            reasons.append(why)
        repaired = e.RunRepaired(aside=len(beyond) + unread, lost=unread, reason=joined(reasons))
        facts = [
            (each.body, each.by)
            for each in beyond
            if isinstance(each.body, _FACTS) and each.number not in lost
        ]
        events = journal.following((repaired, by), *facts)
    await store.set_aside(journal.id, good, events)
    await journal.catch_up()


async def _lost_results(store: Store, journal: Journal) -> Sequence[int]:
    """Returns the numbers of the events whose result is missing in the store or altered."""
    lost: list[int] = []
    for event in journal.events:
        if isinstance(event.body, e.StepDone):
            try:
                await store.get(event.body.result)
            except JournalDamaged:
                lost.append(event.number)
    return lost


def _go_back(journal: Journal, lost: Sequence[int]) -> None:
    """Goes back to before the first step whose result is lost; its call still counts as made."""
    if journal.run.status.over:
        hint = Sentence("run.results_lost")
        raise Refused(Sentence("run.over_for_good", run=journal.id), hint=hint)
    bodies = [event.body for event in journal.events]
    names = [body.step for n in lost if isinstance(body := bodies[n - 1], e.StepDone)]
    first = lost[0]
    while isinstance(bodies[first - 2], e.QuestionAnswered):
        first -= 1  # the question is asked again
    steps = [Sentence("ps.quoted", text=name) for name in dict.fromkeys(names)]
    journal.rewind(first, Sentence("the result of {steps} cannot be read", steps=steps))
