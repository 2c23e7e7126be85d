"""Finds the plans that undo and redo lead to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from plansmith.plan.events import Event, PlanProposed
from plansmith.plan.plan import Plan


class Version(NamedTuple):
    """A plan of a run, and the number of the event that proposed it."""

    number: int
    plan: Plan


class Versions(NamedTuple):
    """The plans that undo and redo lead to, if any; `current` is the event of the one now."""

    before: Version | None
    after: Version | None
    current: int = 0


def versions(events: Iterable[Event]) -> Versions:
    """Returns the plans that undo and redo lead to; after a new plan there is nothing to redo."""
    plans: dict[int, Plan] = {}
    before: dict[int, int] = {}
    current, undone = 0, list[int]()
    for event in events:
        body = event.body
        if not isinstance(body, PlanProposed):
            continue
        if not body.restores:
            plans[event.number], before[event.number] = body.plan, current
            current, undone = event.number, []
            continue
        if body.restores == before.get(current):
            undone.append(current)
        elif undone:
            undone.pop()
        current = body.restores
    back, forth = before.get(current), undone[-1] if undone else None
    return Versions(_at(plans, back), _at(plans, forth), current)


def _at(plans: dict[int, Plan], number: int | None) -> Version | None:
    return Version(number, plans[number]) if number in plans and number else None
