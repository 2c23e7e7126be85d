"""Settings of reviews, apart from what decides by them, so that to read settings loads no more."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from plansmith.plan.data import Record, Whole
from plansmith.plan.run_options import SecondPerson

MOST_ITEMS: Final = 20


class ReviewPolicy(Record):
    """Plans that only read need no review; `never_for` names changing tools that need none either.

    A tool whose effect is final is freed by its whole name, never by a pattern.
    A map step that changes something for each item of a list from tools asks again beyond
    `most_items` items, unless the step sets its own number. Calls that a new plan adds are
    reviewed even if `never_for` names them. `second_person` says for which plans the person who
    approves must be neither the one who asked nor the one who changed the plan last.
    """

    ask: Literal["always", "writes"] = "writes"
    never_for: tuple[str, ...] = ()
    most_items: Whole = Field(default=MOST_ITEMS, ge=1)
    second_person: SecondPerson = "never"
