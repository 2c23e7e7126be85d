"""Units of measure with exact factors, and combinations such as km/h or m^2."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from plansmith.errors import ToolFailed
from plansmith.plan.sentence import Sentence

Dimension = tuple[int, ...]


def _lines(name: str) -> list[str]:
    """Returns the lines of a list that lies in this folder, without its heading."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines()[1:]


_KINDS: Final[dict[str, Dimension]] = {
    name.replace("_", " "): tuple(map(int, powers))
    for name, *powers in map(str.split, _lines("kinds.txt"))
}
# Words and signs that multiply a unit, and by which power of ten or of 1024.
_TENS: Final = """
peta P 15, tera T 12, giga G 9, mega M 6, kilo k 3, hecto h 2, deci d -1, centi c -2, milli m -3,
micro µ -6, micro μ -6, micro u -6, nano n -9, pico p -12
"""
_DATA: Final = "exa E 18, peta P 15, tera T 12, giga G 9, mega M 6, kilo k 3, kilo K 3"
_BINARY: Final = "kibi Ki 1, mebi Mi 2, gibi Gi 3, tebi Ti 4, pebi Pi 5, exbi Ei 6"

_UNCERTAIN: Final = {
    "ton": "write tonne (1,000 kg), short_ton (2,000 lb) or long_ton (2,240 lb)",
    "year": "years differ in length: use time.add and time.difference, or julian_year (365.25 d)",
    "month": "months differ in length: use time.add and time.difference",
    "pt": "write pint; a typographic point is not known",
}
_POWERS: Final = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
_FACTOR: Final = re.compile(r"(?P<name>[^\W\d_](?:\w*[^\W\d])?|%)(?:\^?(?P<power>-?[1-9]))?")
_MAX_LENGTH: Final = 100
_SUCH: Final = Sentence("such as km, lb, m^2, km/h or °C")


class Unit(NamedTuple):
    """A unit as a factor of metres, kilograms, seconds, bytes and kelvins."""

    factor: Fraction
    dimension: Dimension
    offset: Fraction = Fraction(0)

    @property
    def kind(self) -> str:
        kinds = (kind for kind, dimension in _KINDS.items() if dimension == self.dimension)
        return next(kinds, "a quantity without a name")

    def to(self, power: int) -> Unit:
        if power == 1:
            return self
        _refuse_degrees(self)
        return Unit(self.factor**power, tuple(each * power for each in self.dimension))


def unit(text: str) -> Unit:
    """Parses a unit such as `km`, `kg*m/s^2` or `square feet`."""
    if len(text) > _MAX_LENGTH:
        raise ToolFailed(Sentence("the unit is too long"))
    plain = re.sub(r"(?<!\s)\s*+(?:\bper\b|/)\s*", "/", text.strip().translate(_SIGNS))
    first, *divided = plain.split("/")
    found = [_single(part) for part in first.split("*")] if first or not divided else []
    found += [_single(part).to(-1) for each in divided for part in each.split("*")]
    if len(found) == 1:
        return found[0]
    factor, dimension = Fraction(1), _KINDS["number"]
    for each in found:
        _refuse_degrees(each)
        factor *= each.factor
        dimension = tuple(a + b for a, b in zip(dimension, each.dimension, strict=True))
    return Unit(factor, dimension)


def _refuse_degrees(one: Unit) -> None:
    if one.offset:
        hint = Sentence("a difference of temperatures is in K")
        raise ToolFailed(Sentence("degrees cannot be part of a product"), hint=hint)


def _single(text: str) -> Unit:
    text = text.strip()
    first, _, rest = text.partition(" ")
    raised = _POWERS.get(first.lower(), 1) if rest else 1
    name = "_".join((rest if raised > 1 else text).split()).rstrip(".")
    if name in _known():
        return _known()[name].to(raised)
    match = _FACTOR.fullmatch(name)
    if match is None:
        raise ToolFailed(Sentence("'{text}' is not a unit", text=text), hint=_SUCH)
    return _by_name(match["name"]).to(raised * int(match["power"] or 1))


def _by_name(name: str) -> Unit:
    known = _known()
    if name in known:
        return known[name]
    singular = name.lower().removesuffix("s")
    if singular in _UNCERTAIN:
        message = Sentence("'{name}' is not one certain unit", name=name)
        raise ToolFailed(message, hint=_UNCERTAIN[singular])
    alike = {each: known[each] for each in known if each.lower() == name.lower()}
    if len(set(alike.values())) == 1:
        return next(iter(alike.values()))
    if alike:
        hint = Sentence("write it exactly: {alike}", alike=" or ".join(sorted(alike)))
        raise ToolFailed(Sentence("'{name}' could be several units", name=name), hint=hint)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.75)
    hint = Sentence("did you mean {names}?", names=[*near]) if near else _SUCH
    raise ToolFailed(Sentence("there is no unit called '{name}'", name=name), hint=hint)


@cache
def _known() -> dict[str, Unit]:
    found: dict[str, Unit] = {}
    for line in _lines("units.txt"):
        left, _, right = line.partition(" = ")
        kind = next(kind for kind in sorted(_KINDS, key=len, reverse=True) if left.startswith(kind))
        names = left.removeprefix(kind).split()
        size, _, offset = right.partition(" + ")
        one = Unit(_fraction(size), _KINDS[kind], _fraction(offset or "0"))
        prefixed = names[0] == "+"
        for name in names[prefixed:]:
            found |= dict(_spelt(name, one, prefixed=prefixed))
    return found


def _spelt(name: str, one: Unit, *, prefixed: bool) -> Iterator[tuple[str, Unit]]:
    """Yields a name with its plural and prefixes: signs get short ones, words get long ones."""
    is_word = len(name) > 2 and name.islower() and name not in ("foot", "feet", "inches")
    scales = {"": Fraction(1)}
    is_data = bool(one.dimension[3])
    for base, table in ((10, _DATA if is_data else _TENS), (1024, _BINARY if is_data else "")):
        for word, sign, power in map(str.split, table.split(",") if prefixed and table else ()):
            scales |= {sign: Fraction(base) ** int(power)} if len(name) <= 3 else {}
            scales |= {word: Fraction(base) ** int(power)} if len(name) >= 3 else {}
    for prefix, scale in scales.items():
        for ending in ("", "s") if is_word else ("",):
            yield prefix + name + ending, one._replace(factor=one.factor * scale)


def _fraction(text: str) -> Fraction:
    above, _, below = text.partition("/")
    first, _, second = above.partition("*")
    return Fraction(first) * Fraction(second or 1) / Fraction(below or 1)


_SIGNS: Final = str.maketrans({"²": "^2", "³": "^3", "·": "*", "×": "*", "⋅": "*"})
