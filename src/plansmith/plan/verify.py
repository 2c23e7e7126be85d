"""Proof that a journal is whole: no event is missing and none was altered."""

from __future__ import annotations

from collections.abc import Iterable

from plansmith.errors import JournalDamaged
from plansmith.plan.events import Event


def verify_chain(events: Iterable[Event], last: Event | None = None) -> Event | None:
    """Check numbers, links and hashes, return the last event, or say what was altered."""
    for event in events:
        number, before = (last.number + 1, last.hash) if last else (1, "")
        if event.number != number or (last and event.run != last.run):
            raise JournalDamaged(f"event {number} of run {event.run} is missing")
        if event.before != before or event.fresh_hash() != event.hash:
            raise JournalDamaged(f"event {number} of run {event.run} was altered")
        last = event
    return last
