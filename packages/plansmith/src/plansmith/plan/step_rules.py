"""The rules of a step: when it runs, how often, and what holds if it does not end well."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from plansmith.plan.data import Number, Record, Whole
from plansmith.plan.field_types import Filled, Inputs, Value

MOST_ROUNDS: Final = 1000
MOST_RETRIES: Final = 100
LONGEST_PAUSE_S: Final = 31 * 24 * 3600.0


class Instead(Record):
    """A value that stands in for the result of a step that has none."""

    value: Value


class Repeat(Record):
    """Runs a step until a condition holds, `at_most` so many rounds, one `every` so many seconds.

    The condition may refer to the result of the step itself, which is that of the last round.
    """

    until: Inputs
    at_most: Whole = Field(ge=1, le=MOST_ROUNDS)
    every: Number = Field(default=0.0, ge=0, le=LONGEST_PAUSE_S)


class Retry(Record):
    """Makes a call that failed again, `at_most` so many times, after `every` so many seconds.

    A call that may have taken effect is made again only if its key makes that harmless.
    """

    at_most: Whole = Field(ge=1, le=MOST_RETRIES)
    every: Number = Field(default=0.0, ge=0, le=LONGEST_PAUSE_S)


class Undo(Record):
    """The call of a tool that takes back what a step did; made only by a plan of its own."""

    tool: Filled
    inputs: Inputs = Field(default_factory=dict)


OnError = Literal["fail", "skip", "collect"] | Instead
# The fields of a step that are rules, and those whose references may name the step itself.
RULES: Final = frozenset({"when", "otherwise", "repeat", "on_error", "retry", "undo_with"})
AFTERWARDS: Final = frozenset({"repeat", "undo_with"})
# Where a reference begins that may be to the step itself, or to the inner step of a map.
MAY_BE_OWN: Final = AFTERWARDS | {"each"}
