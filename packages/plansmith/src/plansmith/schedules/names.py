"""Names a schedule after what it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from plansmith.errors import Refused
from plansmith.plan.sentence import Sentence

if TYPE_CHECKING:
    from plansmith.plan.schedules import Schedule

_NAME_LENGTH: Final = 60


def free_name(schedule: Schedule, others: Sequence[Schedule], *, wanted: str) -> str:
    """Returns a name that no other schedule has: the wanted one, or its request or goal."""
    taken = {each.name.lower() for each in others}
    if wanted:
        if " ".join(wanted.split()).lower() in taken:
            raise Refused(
                Sentence("there is a schedule '{name}' already; use another name", name=wanted)
            )
        return wanted
    text = schedule.request or (schedule.plan.goal if schedule.plan else "")
    words = "".join(each if each.isprintable() else " " for each in text or schedule.template)
    first = " ".join(words.split())[:_NAME_LENGTH].strip() or "schedule"
    names = (first, *(f"{first} {number}" for number in range(2, len(taken) + 3)))
    return next(each for each in names if each.lower() not in taken)
