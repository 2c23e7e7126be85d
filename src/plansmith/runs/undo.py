"""Finds the plan before the present one, however often it was changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from plansmith.plan.events import Event, PlanProposed
from plansmith.plan.plan import Plan


class Version(NamedTuple):
    """A plan of a run, by the number of the event that brought it."""

    number: int
    plan: Plan


class Versions(NamedTuple):
    """The plans one can go to from the current one; None where there is none."""

    before: Version | None
    after: Version | None


def versions(events: Iterable[Event]) -> Versions:
    """What undo and redo lead to; a new plan leaves nothing to redo."""
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
    return Versions(_at(plans, before.get(current)), _at(plans, undone[-1] if undone else None))


def _at(plans: dict[int, Plan], number: int | None) -> Version | None:
    return Version(number, plans[number]) if number in plans and number else None
