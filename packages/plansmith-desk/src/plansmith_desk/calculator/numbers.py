"""Exact numbers for the calculator: fractions within bounds, functions and constants."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation, Overflow
from fractions import Fraction
from typing import Final, NamedTuple

from plansmith.errors import ToolFailed
from plansmith.plan.sentence import Sentence

MOST_BITS: Final = 12_000
MOST_DIGITS: Final = 1_000
_SURE: Final = 50
_FLOAT_SURE: Final = 15
_LONGEST_LITERAL: Final = 400
_LARGEST_EXPONENT: Final = 1_000
_EXACT: Final = Context(prec=_SURE + 15, Emax=999_999, Emin=-999_999)


class Num(NamedTuple):
    """A number; `sure` is how many of its digits are certain, None for all."""

    value: Fraction
    sure: int | None = None

    @property
    def is_exact(self) -> bool:
        """Whether the number is exact."""
        return self.sure is None


def literal(text: str) -> Num:
    """Parses a number exactly."""
    plain = text.replace("_", "")
    exponent = plain.lower().partition("e")[2]
    if len(plain) > _LONGEST_LITERAL or (exponent and abs(int(exponent)) > _LARGEST_EXPONENT):
        raise ToolFailed(
            Sentence("the number {text}… is too long", text=text[:20]),
            hint=Sentence("use a shorter one"),
        )
    return Num(Fraction(plain))


def kept(value: Fraction, *terms: Num) -> Num:
    """Makes a result as precise as its least precise operand; refuses too large ones."""
    bits = max(value.numerator.bit_length(), value.denominator.bit_length())
    if bits > MOST_BITS:
        raise too_large()
    return Num(value, min((each.sure for each in terms if each.sure is not None), default=None))


def too_large() -> ToolFailed:
    """Returns the error for numbers out of bounds."""
    return ToolFailed(
        Sentence("the result has more than {most} digits", most=MOST_DIGITS),
        hint=Sentence("use smaller numbers"),
    )


def divide(left: Num, right: Num) -> Num:
    """Returns the quotient."""
    if not right.value:
        raise ToolFailed(
            Sentence("something is divided by zero"), hint=Sentence("check the divisor")
        )
    return kept(left.value / right.value, left, right)


def modulo(left: Num, right: Num) -> Num:
    """Returns the remainder, with the sign of the divisor."""
    if not right.value:
        raise ToolFailed(
            Sentence("something is divided by zero"), hint=Sentence("check the divisor")
        )
    return kept(left.value % right.value, left, right)


def power(base: Num, exponent: Num) -> Num:
    """Returns a power; exact for whole exponents and exact roots."""
    number, times = base.value, exponent.value
    if not number and times < 0:
        raise ToolFailed(Sentence("zero to a negative power is a division by zero"))
    if times.denominator == 1:
        bits = max(number.numerator.bit_length(), number.denominator.bit_length())
        is_unit = abs(number.numerator) <= 1 and number.denominator == 1
        if not is_unit and abs(times.numerator) * max(1, bits - 1) > MOST_BITS:
            raise too_large()
        whole = times.numerator % 2 if is_unit and number else times.numerator
        return kept(number**whole, base, exponent)
    if number < 0:
        raise ToolFailed(Sentence("a root of a negative number is not a real number"))
    root = _root(number, times.denominator) if base.is_exact and exponent.is_exact else None
    if root is not None:
        return power(Num(root), Num(Fraction(times.numerator)))
    return near(lambda x: _EXACT.power(x, decimal(exponent)), base)


def root(number: Num, degree: int) -> Num:
    """Returns a root; odd roots of negative numbers are negative."""
    if number.value < 0 and degree % 2:
        positive = root(Num(-number.value, number.sure), degree)
        return Num(-positive.value, positive.sure)
    return power(number, Num(Fraction(1, degree)))


def _root(number: Fraction, degree: int) -> Fraction | None:
    """Returns the exact root of a fraction, or None."""
    if degree > 64:
        return None
    parts = [_whole_root(each, degree) for each in (number.numerator, number.denominator)]
    upper, lower = parts
    return None if upper is None or lower is None else Fraction(upper, lower)


def _whole_root(number: int, degree: int) -> int | None:
    low, high = 0, 1 << (number.bit_length() // degree + 1)
    while low < high:
        middle = (low + high) // 2
        if middle**degree < number:
            low = middle + 1
        else:
            high = middle
    return low if low**degree == number else None


def decimal(number: Num) -> Decimal:
    """Returns a number with the precision that inexact functions use."""
    upper, lower = Decimal(number.value.numerator), Decimal(number.value.denominator)
    return _EXACT.divide(upper, lower)


def near(function: Callable[[Decimal], Decimal], number: Num) -> Num:
    """Returns the result of an inexact function, to 50 digits."""
    try:
        found = function(decimal(number))
    except (InvalidOperation, Overflow):
        raise ToolFailed(
            Sentence("a function has no value there"), hint=Sentence("check its arguments")
        ) from None
    if not found.is_finite():
        raise too_large()
    if abs(found.adjusted()) > MOST_DIGITS * 3:
        raise too_large()
    return kept(Fraction(found), number, Num(Fraction(0), _SURE))


def exponential(number: Num) -> Num:
    """Returns e to the power of a number."""
    return near(_EXACT.exp, number)


def logarithm(number: Num, base: Num | None = None) -> Num:
    """Returns a logarithm; the natural one without a base."""
    if number.value <= 0 or (base is not None and (base.value <= 0 or base.value == 1)):
        raise ToolFailed(Sentence("a logarithm needs positive numbers and a base other than 1"))
    if base is None:
        return near(_EXACT.ln, number)
    exact = _exact_logarithm(number, base)
    return exact or divide(near(_EXACT.ln, number), near(_EXACT.ln, base))


def _exact_logarithm(number: Num, base: Num) -> Num | None:
    if not (number.is_exact and base.is_exact):
        return None
    guess = round(_EXACT.divide(_EXACT.ln(decimal(number)), _EXACT.ln(decimal(base))))
    if abs(guess) > MOST_BITS:
        return None
    return Num(Fraction(guess)) if base.value**guess == number.value else None


def by_float(function: Callable[[float], float], number: Num) -> Num:
    """Returns the result of a floating point function, to 15 digits."""
    try:
        found = function(float(number.value))
    except (OverflowError, ValueError):
        raise ToolFailed(
            Sentence("a function has no value there"), hint=Sentence("check its arguments")
        ) from None
    return kept(Fraction(found), number, Num(Fraction(0), _FLOAT_SURE))


PI: Final = Num(
    Fraction("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899"),
    _SURE,
)
E: Final = Num(
    Fraction("2.71828182845904523536028747135266249775724709369995957496696762772407663035354759"),
    _SURE,
)


def rounded(number: Fraction, places: int) -> Fraction:
    """Rounds to some decimal places, halves away from zero."""
    scale = Fraction(10) ** places
    up = math.floor(abs(number) * scale + Fraction(1, 2))
    return (up if number >= 0 else -up) / scale


def written(number: Num, digits: int) -> tuple[str, bool]:
    """Returns a number as decimal text, and whether the text is exact."""
    value = number.value
    if value.denominator == 1 and number.is_exact:
        return str(value.numerator), True
    finite = _places(value.denominator)
    if number.is_exact and finite is not None and finite <= 100:
        digits_only = value.numerator * (10**finite // value.denominator)
        return f"{Decimal(digits_only).scaleb(-finite, _WIDE):f}", True
    shown = min(digits, number.sure or digits)
    short = Context(prec=shown, Emax=999_999, Emin=-999_999)
    found = short.divide(Decimal(value.numerator), Decimal(value.denominator))
    far = not -20 < found.adjusted() < max(40, shown)
    text = str(found.normalize(short)) if far else f"{found.normalize(short):f}"
    return text, False


_WIDE: Final = Context(prec=MOST_BITS, Emax=999_999, Emin=-999_999)


def _places(denominator: int) -> int | None:
    """Returns how many decimal places a fraction has; None if they never end."""
    twos = (denominator & -denominator).bit_length() - 1
    rest, fives = denominator >> twos, 0
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives) if rest == 1 else None


_LARGEST_FACTORIAL: Final = 1_000
_MOST_PLACES: Final = 200


@dataclass(frozen=True, slots=True)
class Function:
    """A function; a list among its arguments counts as its numbers."""

    work: Callable[[list[Num]], Num]
    least: int = 1
    most: int | None = 1

    def apply(self, name: str, arguments: Sequence[Num | list[Num]]) -> Num:
        """Returns the function's value; raises what is wrong with its arguments."""
        flat: list[Num] = []
        for each in arguments:
            flat += each if isinstance(each, list) else [each]
        if len(flat) < self.least or (self.most is not None and len(flat) > self.most):
            many = f"{self.least}" if self.least == self.most else f"{self.least} or more"
            many = f"{self.least} to {self.most}" if self.most not in (None, self.least) else many
            raise ToolFailed(
                Sentence(
                    "{name} takes {many} numbers, not {count}",
                    name=name,
                    many=many,
                    count=len(flat),
                )
            )
        return self.work(flat)


def factorial(number: Num) -> Num:
    """Returns the product of all whole numbers up to one."""
    value = _whole(number, Sentence("a factorial"))
    if not 0 <= value <= _LARGEST_FACTORIAL:
        raise ToolFailed(
            Sentence("a factorial is of a number from 0 to {most}", most=_LARGEST_FACTORIAL)
        )
    return kept(Fraction(math.factorial(value)))


def _whole(number: Num, what: str) -> int:
    if number.value.denominator != 1:
        raise ToolFailed(
            Sentence("{what} needs whole numbers", what=what), hint=Sentence("round them first")
        )
    return number.value.numerator


def _one(function: Callable[[Fraction], Fraction]) -> Function:
    return Function(lambda n: kept(function(n[0].value), n[0]))


def _wholes(function: Callable[..., int], what: str) -> Function:
    def work(given: list[Num]) -> Num:
        return kept(Fraction(function(*(_whole(each, what) for each in given))))

    return Function(work, least=1, most=None)


def _round(given: list[Num]) -> Num:
    places = _whole(given[1], "round") if len(given) > 1 else 0
    if abs(places) > _MOST_PLACES:
        raise ToolFailed(Sentence("round takes up to {most} places", most=_MOST_PLACES))
    return kept(rounded(given[0].value, places), given[0])


def _sum(given: list[Num]) -> Num:
    total = Num(Fraction(0))
    for each in given:
        total = kept(total.value + each.value, total, each)
    return total


def _product(given: list[Num]) -> Num:
    total = Num(Fraction(1))
    for each in given:
        total = kept(total.value * each.value, total, each)
    return total


def _mean(given: list[Num]) -> Num:
    return divide(_sum(given), Num(Fraction(len(given))))


def _median(given: list[Num]) -> Num:
    ordered = sorted(given)
    middle = len(ordered) // 2
    return _mean(ordered[middle : middle + 1] if len(ordered) % 2 else ordered[middle - 1 :][:2])


def _variance(given: list[Num], *, sample: bool) -> Num:
    mean = _mean(given)
    total = _sum([kept((each.value - mean.value) ** 2, each, mean) for each in given])
    return divide(total, Num(Fraction(len(given) - sample)))


def _log(given: list[Num]) -> Num:
    return logarithm(given[0], given[1] if len(given) > 1 else None)


def _float(function: Callable[[float], float]) -> Function:
    return Function(lambda given: by_float(function, given[0]))


def _of(base: int) -> Function:
    return Function(lambda given: logarithm(given[0], Num(Fraction(base))))


def _scaled(given: Num, upper: Num, lower: Num) -> Num:
    return divide(kept(given.value * upper.value, given, upper), lower)


_HALF_TURN: Final = Num(Fraction(180))
CONSTANTS: Final = {"pi": PI, "e": E, "tau": Num(2 * PI.value, 50)}
FUNCTIONS: Final[dict[str, Function]] = {
    "abs": _one(abs),
    "floor": _one(lambda x: Fraction(math.floor(x))),
    "ceil": _one(lambda x: Fraction(math.ceil(x))),
    "trunc": _one(lambda x: Fraction(math.trunc(x))),
    "sign": _one(lambda x: Fraction((x > 0) - (x < 0))),
    "round": Function(_round, 1, 2),
    "sqrt": Function(lambda given: root(given[0], 2)),
    "cbrt": Function(lambda given: root(given[0], 3)),
    "exp": Function(lambda given: exponential(given[0])),
    "ln": Function(lambda given: logarithm(given[0])),
    "log": Function(_log, 2, 2),
    "log2": _of(2),
    "log10": _of(10),
    "sin": _float(math.sin),
    "cos": _float(math.cos),
    "tan": _float(math.tan),
    "asin": _float(math.asin),
    "acos": _float(math.acos),
    "atan": _float(math.atan),
    "rad": Function(lambda given: _scaled(given[0], PI, _HALF_TURN)),
    "deg": Function(lambda given: _scaled(given[0], _HALF_TURN, PI)),
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
    "stdev": Function(lambda given: root(_variance(given, sample=True), 2), 2, None),
    "pvariance": Function(lambda given: _variance(given, sample=False), 1, None),
    "pstdev": Function(lambda given: root(_variance(given, sample=False), 2), 1, None),
}
