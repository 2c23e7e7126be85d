"""Settings of reviews, in a module of their own, so that reading settings loads little else."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from plansmith.plan.data import Record, StrictInt
from plansmith.plan.run_options import SecondPerson

MAX_ITEMS: Final = 20


class ReviewPolicy(Record):
    """Which plans a person reviews; by default those that change something.

    Calls that a new plan adds are reviewed even if `never_for` names them.

    Attributes:
        ask: `writes` reviews plans that change something, `always` reviews all plans.
        never_for: Name patterns of tools whose changes need no review, and that get data of other
            tools unasked. A tool whose effect is final must be named in full.
        most_items: How many items of a list from tools a map step may change before a person is
            asked, unless the step sets its own number.
        second_person: When the person who approves must be neither the one who asked for the plan
            nor the one who changed it last: `never`, for plans with `changes`, or `always`.
    """

    ask: Literal["always", "writes"] = "writes"
    never_for: tuple[str, ...] = ()
    most_items: StrictInt = Field(default=MAX_ITEMS, ge=1)
    second_person: SecondPerson = "never"
