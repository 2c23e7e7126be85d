"""The calculator's functions and constants, each with how many arguments it takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from plansmith.adapters.tools import calculator_numbers as numbers
from plansmith.adapters.tools.calculator_numbers import Num
from plansmith.errors import ToolFailed

_LARGEST_FACTORIAL: Final = 1_000
_MOST_PLACES: Final = 200


@dataclass(frozen=True, slots=True)
class Function:
    """One function; lists among its arguments count as their numbers."""

    work: Callable[[list[Num]], Num]
    least: int = 1
    most: int | None = 1

    def apply(self, name: str, arguments: Sequence[Num | list[Num]]) -> Num:
        """The function's value, or what is wrong with its arguments."""
        flat: list[Num] = []
        for each in arguments:
            flat += each if isinstance(each, list) else [each]
        if len(flat) < self.least or (self.most is not None and len(flat) > self.most):
            many = f"{self.least}" if self.least == self.most else f"{self.least} or more"
            many = f"{self.least} to {self.most}" if self.most not in (None, self.least) else many
            raise ToolFailed(f"{name} takes {many} numbers, not {len(flat)}")
        return self.work(flat)


def factorial(number: Num) -> Num:
    """The product of all whole numbers up to one."""
    value = _whole(number, "a factorial")
    if not 0 <= value <= _LARGEST_FACTORIAL:
        raise ToolFailed(f"a factorial is of a number from 0 to {_LARGEST_FACTORIAL:,}")
    return numbers.kept(Fraction(math.factorial(value)))


def _whole(number: Num, what: str) -> int:
    if number.value.denominator != 1:
        raise ToolFailed(f"{what} needs whole numbers", hint="round them first")
    return number.value.numerator


def _one(function: Callable[[Fraction], Fraction]) -> Function:
    return Function(lambda n: numbers.kept(function(n[0].value), n[0]))


def _wholes(function: Callable[..., int], what: str) -> Function:
    def work(given: list[Num]) -> Num:
        return numbers.kept(Fraction(function(*(_whole(each, what) for each in given))))

    return Function(work, least=1, most=None)


def _round(given: list[Num]) -> Num:
    places = _whole(given[1], "round") if len(given) > 1 else 0
    if abs(places) > _MOST_PLACES:
        raise ToolFailed(f"round takes up to {_MOST_PLACES} places")
    return numbers.kept(numbers.rounded(given[0].value, places), given[0])


def _sum(given: list[Num]) -> Num:
    total = Num(Fraction(0))
    for each in given:
        total = numbers.kept(total.value + each.value, total, each)
    return total


def _product(given: list[Num]) -> Num:
    total = Num(Fraction(1))
    for each in given:
        total = numbers.kept(total.value * each.value, total, each)
    return total


def _mean(given: list[Num]) -> Num:
    return numbers.divide(_sum(given), Num(Fraction(len(given))))


def _median(given: list[Num]) -> Num:
    ordered = sorted(given)
    middle = len(ordered) // 2
    return _mean(ordered[middle : middle + 1] if len(ordered) % 2 else ordered[middle - 1 :][:2])


def _variance(given: list[Num], *, sample: bool) -> Num:
    mean = _mean(given)
    total = _sum([numbers.kept((each.value - mean.value) ** 2, each, mean) for each in given])
    return numbers.divide(total, Num(Fraction(len(given) - sample)))


def _log(given: list[Num]) -> Num:
    return numbers.logarithm(given[0], given[1] if len(given) > 1 else None)


def _float(function: Callable[[float], float]) -> Function:
    return Function(lambda given: numbers.by_float(function, given[0]))


def _of(base: int) -> Function:
    return Function(lambda given: numbers.logarithm(given[0], Num(Fraction(base))))


def _scaled(given: Num, upper: Num, lower: Num) -> Num:
    return numbers.divide(numbers.kept(given.value * upper.value, given, upper), lower)


_HALF_TURN: Final = Num(Fraction(180))
CONSTANTS: Final = {"pi": numbers.PI, "e": numbers.E, "tau": Num(2 * numbers.PI.value, 50)}
FUNCTIONS: Final[dict[str, Function]] = {
    "abs": _one(abs),
    "floor": _one(lambda x: Fraction(math.floor(x))),
    "ceil": _one(lambda x: Fraction(math.ceil(x))),
    "trunc": _one(lambda x: Fraction(math.trunc(x))),
    "sign": _one(lambda x: Fraction((x > 0) - (x < 0))),
    "round": Function(_round, 1, 2),
    "sqrt": Function(lambda given: numbers.root(given[0], 2)),
    "cbrt": Function(lambda given: numbers.root(given[0], 3)),
    "exp": Function(lambda given: numbers.exponential(given[0])),
    "ln": Function(lambda given: numbers.logarithm(given[0])),
    "log": Function(_log, 2, 2),
    "log2": _of(2),
    "log10": _of(10),
    "sin": _float(math.sin),
    "cos": _float(math.cos),
    "tan": _float(math.tan),
    "asin": _float(math.asin),
    "acos": _float(math.acos),
    "atan": _float(math.atan),
    "rad": Function(lambda given: _scaled(given[0], numbers.PI, _HALF_TURN)),
    "deg": Function(lambda given: _scaled(given[0], _HALF_TURN, numbers.PI)),
    "factorial": Function(lambda given: factorial(given[0])),
    "gcd": _wholes(math.gcd, "gcd"),
    "lcm": _wholes(math.lcm, "lcm"),
    "min": Function(min, 1, None),
    "max": Function(max, 1, None),
    "sum": Function(_sum, 0, None),
    "product": Function(_product, 0, None),
    "count": Function(lambda given: Num(Fraction(len(given))), 0, None),
    "mean": Function(_mean, 1, None),
    "median": Function(_median, 1, None),
    "variance": Function(lambda given: _variance(given, sample=True), 2, None),
    "stdev": Function(lambda given: numbers.root(_variance(given, sample=True), 2), 2, None),
    "pvariance": Function(lambda given: _variance(given, sample=False), 1, None),
    "pstdev": Function(lambda given: numbers.root(_variance(given, sample=False), 2), 1, None),
}
