"""Scales of charts: round ticks, values to places on the page, numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from plansmith.errors import ToolFailed

_LARGEST: Final = 1e300
_STEPS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)


@dataclass(frozen=True, slots=True)
class Scale:
    """A range of values on a range of places."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]

    def place(self, value: float) -> float:
        """Where a value is."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def scale(values: Sequence[float], start: float, end: float, *, zero: bool) -> Scale:
    """A scale that has room for all values; with zero where sizes are compared."""
    low, high = min(values), max(values)
    if max(abs(low), abs(high)) > _LARGEST:
        raise ToolFailed("the values are too large to be drawn", hint="use a larger unit")
    if zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if low == high:
        # One value alone has no range: give it some room on both sides.
        low, high = (low - 1, high + 1) if low == 0 else (low - abs(low) / 2, high + abs(high) / 2)
        low = 0.0 if zero and high > 0 else low
    step = _step((high - low) / 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(number * step for number in range(first, last + 1))
    return Scale(ticks[0], ticks[-1], start, end, ticks)


def _step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(each * power for each in _STEPS if each * power >= rough * 0.999_999)


def number(value: float) -> str:
    """A number as it is read: thousands apart, no digits that say nothing."""
    if value == 0:
        return "0"
    if abs(value) >= 1e15 or abs(value) < 1e-4:
        return f"{value:.4g}"
    text = f"{value:,.6f}" if abs(value) < 1e6 else f"{value:,.2f}"
    return text.rstrip("0").rstrip(".")
