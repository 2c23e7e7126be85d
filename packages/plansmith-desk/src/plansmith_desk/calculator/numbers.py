"""Exact numbers for the calculator: fractions within bounds, functions and constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal, InvalidOperation, Overflow
from fractions import Fraction
from functools import reduce
from typing import Final, NamedTuple

from plansmith.errors import ToolFailed
from plansmith.plan.sentence import Sentence

MAX_DIGITS: Final = 1_000
_MAX_BITS: Final = 12_000
_MAX_LITERAL: Final = 400
_LARGEST_EXPONENT: Final = 1_000
_LARGEST_FACTORIAL: Final = 1_000
_MAX_PLACES: Final = 200
_ALL: Final = 1_000_000  # sure digits of an exact number
_SURE: Final = 50
_FLOAT_SURE: Final = 15
_FINE: Final = Context(prec=_SURE + 15, Emax=999_999, Emin=-999_999)
_WIDE: Final = Context(prec=_MAX_BITS, Emax=999_999, Emin=-999_999)


@dataclass(frozen=True, slots=True, order=True)
class Num:
    """A number, how many of its digits are certain, and whether it was written as percent."""

    value: Fraction
    sure: int = _ALL
    is_percent: bool = False

    @property
    def is_exact(self) -> bool:
        return self.sure == _ALL

    def __add__(self, other: Num) -> Num:
        return bounded(self.value + other.value, self, other)

    def __sub__(self, other: Num) -> Num:
        return bounded(self.value - other.value, self, other)

    def __mul__(self, other: Num) -> Num:
        return bounded(self.value * other.value, self, other)

    def __truediv__(self, other: Num) -> Num:
        return bounded(self.value / other.divisor(), self, other)

    def __mod__(self, other: Num) -> Num:
        return bounded(self.value % other.divisor(), self, other)

    def __neg__(self) -> Num:
        return replace(self, value=-self.value)

    def divisor(self) -> Fraction:
        """Returns the value, which must not be zero."""
        if not self.value:
            raise ToolFailed(Sentence("something is divided by zero"))
        return self.value


def num(value: int) -> Num:
    """Returns a whole number."""
    return Num(Fraction(value))


def literal(text: str) -> Num:
    """Parses a number exactly."""
    plain = text.replace("_", "")
    exponent = plain.lower().partition("e")[2]
    if len(plain) > _MAX_LITERAL or (exponent and abs(int(exponent)) > _LARGEST_EXPONENT):
        raise ToolFailed(Sentence("the number {text}… is too long", text=text[:20]))
    return Num(Fraction(plain))


def bounded(value: Fraction, *terms: Num) -> Num:
    """Makes a result as precise as its least precise operand; refuses too large ones."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > _MAX_BITS:
        raise too_large()
    return Num(value, min((each.sure for each in terms), default=_ALL))


def too_large() -> ToolFailed:
    """Returns the error for numbers out of bounds."""
    return ToolFailed(Sentence("the result has more than {most} digits", most=MAX_DIGITS))


def power(base: Num, exponent: Num) -> Num:
    """Returns a power; exact for whole exponents and exact roots."""
    number, times = base.value, exponent.value
    if not number and times < 0:
        raise ToolFailed(Sentence("zero to a negative power is a division by zero"))
    if times.denominator == 1:
        bits = max(number.numerator.bit_length(), number.denominator.bit_length())
        is_unit = abs(number.numerator) <= 1 and number.denominator == 1
        if not is_unit and abs(times.numerator) * max(1, bits - 1) > _MAX_BITS:
            raise too_large()
        whole = times.numerator % 2 if is_unit and number else times.numerator
        return bounded(number**whole, base, exponent)
    if number < 0:
        raise ToolFailed(Sentence("a root of a negative number is not a real number"))
    if base.is_exact and exponent.is_exact and times.denominator <= 64:
        roots = [_root(each, times.denominator) for each in (number.numerator, number.denominator)]
        if roots[0] is not None and roots[1] is not None:
            return power(Num(Fraction(roots[0], roots[1])), num(times.numerator))
    return _near(lambda x: _FINE.power(x, _decimal(exponent)), base)


def root(number: Num, degree: int) -> Num:
    """Returns a root; odd roots of negative numbers are negative."""
    if number.value < 0 and degree % 2:
        return -root(-number, degree)
    return power(number, Num(Fraction(1, degree)))


def _root(number: int, degree: int) -> int | None:
    """Returns the root of a whole number if it is whole, too."""
    low, high = 0, 1 << (number.bit_length() // degree + 1)
    while low < high:
        middle = (low + high) // 2
        if middle**degree < number:
            low = middle + 1
        else:
            high = middle
    return low if low**degree == number else None


def _decimal(number: Num) -> Decimal:
    return _FINE.divide(Decimal(number.value.numerator), Decimal(number.value.denominator))


def _near(function: Callable[[Decimal], Decimal], number: Num) -> Num:
    """Returns the result of an inexact function, to 50 digits."""
    try:
        found = function(_decimal(number))
    except (InvalidOperation, Overflow):
        raise _no_value() from None
    if not found.is_finite() or abs(found.adjusted()) > MAX_DIGITS * 3:
        raise too_large()
    return bounded(Fraction(found), number, Num(Fraction(0), _SURE))


def _no_value() -> ToolFailed:
    return ToolFailed(Sentence("a function has no value there"))


def decimal_text(number: Num, digits: int) -> tuple[str, bool]:
    """Returns a number as decimal text, and whether the text is exact."""
    value = number.value
    if value.denominator == 1 and number.is_exact:
        return str(value.numerator), True
    twos = (value.denominator & -value.denominator).bit_length() - 1
    rest, fives = value.denominator >> twos, 0
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    finite = max(twos, fives) if rest == 1 else None
    if number.is_exact and finite is not None and finite <= 100:
        digits_only = value.numerator * (10**finite // value.denominator)
        return f"{Decimal(digits_only).scaleb(-finite, _WIDE):f}", True
    precision = min(digits, number.sure)
    short = Context(prec=precision, Emax=999_999, Emin=-999_999)
    found = short.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(short)
    far = not -20 < found.adjusted() < max(40, precision)
    return str(found) if far else f"{found:f}", False


class Function(NamedTuple):
    """A function and how many numbers it takes."""

    work: Callable[..., Num]
    least: int = 1
    most: int | None = 1

    def apply(self, name: str, given: Sequence[Num]) -> Num:
        """Returns the function's value; refuses too few and too many numbers."""
        if len(given) < self.least or (self.most is not None and len(given) > self.most):
            many = f"{self.least} to {self.most}" if self.most else f"{self.least} or more"
            many = str(self.least) if self.least == self.most else many
            count = len(given)
            message = Sentence(
                "{name} takes {many} numbers, not {count}", name=name, many=many, count=count
            )
            raise ToolFailed(message)
        return self.work(*given)


def factorial(number: Num) -> Num:
    """Returns the product of all whole numbers up to one."""
    value = _whole(number, Sentence("a factorial"))
    if not 0 <= value <= _LARGEST_FACTORIAL:
        message = Sentence("a factorial is of a number from 0 to {most}", most=_LARGEST_FACTORIAL)
        raise ToolFailed(message)
    return bounded(Fraction(math.factorial(value)))


def _whole(number: Num, what: str) -> int:
    if number.value.denominator != 1:
        raise ToolFailed(Sentence("{what} needs whole numbers", what=what))
    return number.value.numerator


def _round(number: Num, places: Num | None = None) -> Num:
    """Rounds to some decimal places, halves away from zero."""
    wanted = _whole(places, "round") if places else 0
    if abs(wanted) > _MAX_PLACES:
        raise ToolFailed(Sentence("round takes up to {most} places", most=_MAX_PLACES))
    scale = Fraction(10) ** wanted
    up = math.floor(abs(number.value) * scale + Fraction(1, 2))
    return bounded((up if number.value >= 0 else -up) / scale, number)


def _log(number: Num, base: Num | None = None) -> Num:
    """Returns a logarithm; the natural one without a base."""
    if number.value <= 0 or (base is not None and (base.value <= 0 or base.value == 1)):
        raise ToolFailed(Sentence("a logarithm needs positive numbers and a base other than 1"))
    found = _near(_FINE.ln, number)
    if base is None:
        return found
    found = found / _near(_FINE.ln, base)
    guess = round(found.value)
    is_exact = number.is_exact and base.is_exact and abs(guess) <= _MAX_BITS
    return num(guess) if is_exact and base.value**guess == number.value else found


def _sum(*given: Num) -> Num:
    return reduce(Num.__add__, given, num(0))


def _mean(*given: Num) -> Num:
    return _sum(*given) / num(len(given))


def _median(*given: Num) -> Num:
    ordered, middle = sorted(given), len(given) // 2
    return _mean(*ordered[middle - 1 + len(given) % 2 : middle + 1])


def _variance(*given: Num, sample: bool = True) -> Num:
    mean = _mean(*given)
    return _sum(*((each - mean) * (each - mean) for each in given)) / num(len(given) - sample)


def _many(work: Callable[[tuple[Num, ...]], Num], least: int) -> Function:
    def unpacked(*given: Num) -> Num:
        return work(given)

    return Function(unpacked, least, None)


def _one(work: Callable[[Num], Num]) -> Function:
    return Function(work)


def _exact(function: Callable[[Fraction], Fraction | int]) -> Function:
    return _one(lambda n: bounded(Fraction(function(n.value)), n))


def _wholes(function: Callable[..., int]) -> Function:
    def work(*given: Num) -> Num:
        return bounded(Fraction(function(*(_whole(each, function.__name__) for each in given))))

    return Function(work, 1, None)


def _float(function: Callable[[float], float]) -> Function:
    def work(number: Num) -> Num:
        try:
            found = function(float(number.value))
        except (OverflowError, ValueError):
            raise _no_value() from None
        return bounded(Fraction(found), number, Num(Fraction(0), _FLOAT_SURE))

    return Function(work)


_PI: Final = Num(
    Fraction("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899"),
    _SURE,
)
_E: Final = Num(Fraction(_FINE.exp(Decimal(1))), _SURE)
CONSTANTS: Final = {"pi": _PI, "e": _E, "tau": num(2) * _PI}
FUNCTIONS: Final[dict[str, Function]] = {
    "abs": _exact(abs),
    "floor": _exact(math.floor),
    "ceil": _exact(math.ceil),
    "trunc": _exact(math.trunc),
    "sign": _exact(lambda x: (x > 0) - (x < 0)),
    "round": Function(_round, 1, 2),
    "sqrt": _one(lambda n: root(n, 2)),
    "cbrt": _one(lambda n: root(n, 3)),
    "exp": _one(lambda n: _near(_FINE.exp, n)),
    "ln": Function(_log),
    "log": Function(_log, 2, 2),
    "log2": _one(lambda n: _log(n, num(2))),
    "log10": _one(lambda n: _log(n, num(10))),
    **{each.__name__: _float(each) for each in (math.sin, math.cos, math.tan)},
    **{each.__name__: _float(each) for each in (math.asin, math.acos, math.atan)},
    "rad": _one(lambda n: n * _PI / num(180)),
    "deg": _one(lambda n: n * num(180) / _PI),
    "factorial": Function(factorial),
    "gcd": _wholes(math.gcd),
    "lcm": _wholes(math.lcm),
    "min": _many(min, 1),
    "max": _many(max, 1),
    "sum": Function(_sum, 0, None),
    "product": _many(lambda given: reduce(Num.__mul__, given, num(1)), 0),
    "count": _many(lambda given: num(len(given)), 0),
    "mean": Function(_mean, 1, None),
    "median": Function(_median, 1, None),
    "variance": Function(_variance, 2, None),
    "stdev": _many(lambda given: root(_variance(*given), 2), 2),
    "pvariance": _many(lambda given: _variance(*given, sample=False), 1),
    "pstdev": _many(lambda given: root(_variance(*given, sample=False), 2), 1),
}
