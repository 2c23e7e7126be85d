"""Settings of reviews, apart from what decides by them, so that to read settings loads no more."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from plansmith.plan.data import Record, StrictInt
from plansmith.plan.run_options import SecondPerson

MOST_ITEMS: Final = 20


class ReviewPolicy(Record):
    """Plans that only read need no review; `never_for` names changing tools that need none either.

    Calls that a new plan adds are reviewed even if `never_for` names them.

    Attributes:
        ask: `writes`: plans that change something are reviewed; `always`: all plans.
        never_for: Tools whose changes need no review, by patterns of names. A tool whose effect is
            final has to be named whole.
        most_items: How many items of a list from tools a map step may change before a person is
            asked, unless the step sets its own number.
        second_person: For which plans the person who approves must be neither the one who asked
            nor the one who changed the plan last: `never`, `changes` or `always`.
    """

    ask: Literal["always", "writes"] = "writes"
    never_for: tuple[str, ...] = ()
    most_items: StrictInt = Field(default=MOST_ITEMS, ge=1)
    second_person: SecondPerson = "never"
