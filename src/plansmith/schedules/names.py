"""Names a schedule after what it does."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from plansmith.plan.schedules import Schedule

_NAME_LENGTH: Final = 60


def free_name(schedule: Schedule, taken: AbstractSet[str]) -> str:
    """Returns a name that no other schedule has: the beginning of its request or goal."""
    text = schedule.request or (schedule.plan.goal if schedule.plan else "")
    words = "".join(each if each.isprintable() else " " for each in text or schedule.template)
    first = " ".join(words.split())[:_NAME_LENGTH].strip() or "schedule"
    names = (first, *(f"{first} {number}" for number in range(2, len(taken) + 3)))
    return next(each for each in names if each.lower() not in taken)
