"""Exact sums and means for SQLite: decimals are added as decimals, so that no cent is lost.

SQLite keeps 0.1 as the nearest binary number, and adds those. A number that is a short decimal was
written as one, or is the product of such; anything else stays the binary number that it is.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Final

_EXACT: Final = Context(prec=400)
_SURE_DIGITS: Final = 15  # that a binary number keeps of a decimal
_SHORT_DIGITS: Final = 13  # a result that is so short by chance is one in a hundred
_WHOLE: Final = 2**63
_NUMBER: Final = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def exact_aggregates(database: sqlite3.Connection) -> None:
    """Replace SQLite's own sum, total and avg, also as window functions."""
    named = ("sum", _Sum), ("exact_sum", _Sum), ("total", _Total), ("avg", _Mean)
    for name, made in named:
        database.create_window_function(name, 1, made)


def exact(value: float) -> Decimal | Fraction:
    """What a number means: the decimal it was written as, or else exactly itself."""
    whole = Decimal(repr(value))
    if len(whole.as_tuple().digits) <= _SURE_DIGITS:
        return whole
    near = Decimal(f"{value:.{_SURE_DIGITS}g}").normalize(_EXACT)
    if len(near.as_tuple().digits) <= _SHORT_DIGITS:
        return near
    return Fraction(value)


def exact_cell(value: Any) -> Any:
    """The result of arithmetic on decimals, without what binary numbers leave behind."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    found = exact(value)
    return float(found) if isinstance(found, Decimal) else value


def is_decimal(value: Any) -> bool:
    """Whether a value is no number with more digits than a written decimal has."""
    if not isinstance(value, float) or not math.isfinite(value):
        return True
    return len(Decimal(repr(value)).as_tuple().digits) <= _SURE_DIGITS


def exact_mean(values: Sequence[float]) -> float:
    """The mean of at least one number."""
    found = _Mean()
    for value in values:
        found.step(value)
    return found.finalize() or 0.0


class _Sum:
    """Adds the numbers of a group, and takes them away again as a window moves on."""

    def __init__(self) -> None:
        self._decimals = Decimal(0)
        self._others = Fraction(0)
        self._wholes = 0
        self._count = self._broken = 0
        self._special: list[float] = []

    def step(self, value: Any) -> None:
        """Take a value in; what is missing does not count."""
        self._add(value, 1)

    def inverse(self, value: Any) -> None:
        """Take out a value that the window has left."""
        self._add(value, -1)

    def _add(self, value: Any, sign: int) -> None:
        if value is None:
            return
        self._count += sign
        number = value if isinstance(value, int | float) else _number(value)
        if isinstance(number, int):
            self._wholes += sign * number
            return
        self._broken += sign
        if not math.isfinite(number):
            self._special = [*self._special, number] if sign > 0 else self._special[1:]
            return
        found = exact(number)
        if isinstance(found, Decimal):
            self._decimals = _EXACT.add(self._decimals, found * sign)
        else:
            self._others += found * sign

    @property
    def _total(self) -> Fraction:
        return Fraction(self._decimals) + self._others + self._wholes

    def value(self) -> int | float | None:
        """The sum as it stands."""
        if not self._count:
            return None
        if not self._broken and -_WHOLE <= self._wholes < _WHOLE:
            return self._wholes
        return math.fsum(self._special) if self._special else _nearest(self._total)

    def finalize(self) -> int | float | None:
        """The sum of all."""
        return self.value()


class _Total(_Sum):
    def value(self) -> float:
        return float(super().value() or 0.0)


class _Mean(_Sum):
    def value(self) -> float | None:
        if not self._count:
            return None
        if self._special:
            return math.fsum(self._special)
        return _nearest(self._total / self._count)


def _nearest(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _number(value: object) -> float:
    """A text as SQLite takes it for a number: what it begins with, else nothing."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    found = _NUMBER.match(text)
    return float(found[0]) if found else 0.0
