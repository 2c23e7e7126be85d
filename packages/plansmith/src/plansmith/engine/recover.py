"""Decides about calls that were running when their process died, and repairs damaged journals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from plansmith.engine.call import Callees
from plansmith.engine.journal import Journal
from plansmith.engine.units import named_unit
from plansmith.errors import JournalDamaged, Refused
from plansmith.plan import events as e
from plansmith.plan.ids import question_name
from plansmith.plan.plan import Plan
from plansmith.plan.question_options import UNKNOWN
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence, joined
from plansmith.ports import Store

_SHOWN: Final = 500
_DIED: Final = Sentence("the process ended during the call")
# Calls and how they ended really happened, whatever is wrong with the journal. A repair keeps
# them, so that no call is repeated only because its record was moved aside.
_FACTS: Final = (e.StepStarted, e.StepDone, e.StepFailed, e.StepUnknown)


def settle_after_crash(
    run: Run, templates: Mapping[str, Plan], callees: Callees
) -> list[e.AnyBody]:
    """Returns the events that settle the calls left running by a dead process.

    Reads and keyed calls are repeated, and a person is asked about all others. Map and plan steps,
    which make no call themselves, stay open.
    """
    if run.plan is None:
        return []
    bodies: list[e.AnyBody] = []
    for name, step in run.steps.items():
        if step.status is not StepStatus.RUNNING:
            continue
        unit = named_unit(run.plan, name, templates)
        if unit is not None and unit.is_group:
            continue
        if unit is not None and callees.is_repeatable(unit):
            unsure = not callees.is_read(unit)
            again = e.StepFailed(step=name, error=_DIED, again=True, unsure=unsure, died=True)
            bodies.append(again)
        else:
            asked = unknown_question(name, _DIED, callee=unit.callee if unit else "")
            bodies += [e.StepUnknown(step=name, reason=_DIED, died=True), asked]
    return bodies


def unended_prefetches(run: Run) -> list[e.PrefetchEnded]:
    """Returns the end of each early read whose process died."""
    error = Sentence("it is not known how it ended")
    return [
        e.PrefetchEnded(key=key, error=error)
        for key, each in run.prefetches.items()
        if not each.over
    ]


def unknown_question(name: str, reason: str, *, callee: str = "") -> e.QuestionAsked:
    """Returns the question to a person how a step ended whose end was not recorded."""
    why = reason if len(reason) <= _SHOWN else f"{reason[:_SHOWN]}…"
    text = Sentence(
        "It is not known whether {callee} took effect in the step '{step}' ({reason}). Did it?",
        callee=callee or name,
        step=name,
        reason=why,
    )
    question = question_name("unknown", name)
    return e.QuestionAsked(question=question, text=text, options=UNKNOWN, step=name, kind="unknown")


async def repair(store: Store, journal: Journal, *, by: e.Actor) -> None:
    """Moves damaged events aside; the run continues, paused, after its last good event."""
    lost = await _lost_results(store, journal) if journal.damage is None else ()
    if lost:
        _go_back(journal, lost)
    if journal.damage is None:
        raise Refused(
            Sentence("run.not_damaged", run=journal.id), hint=Sentence("run.verify_checks")
        )
    good, beyond = len(journal.events), journal.beyond
    events: list[e.Event] = []
    if not journal.run.phase.over:
        unread = max(journal.last - good - len(beyond), 0)
        reasons = [Sentence("repaired: {damage}", damage=journal.damage.message)]
        if unread:
            reasons.append(
                Sentence(
                    "{count} events cannot be read, so that steps which are "
                    "waiting may have been called already: make sure of that "
                    "before you go on",
                    count=unread,
                )
            )
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
