"""Units of measure with exact factors, and combinations such as km/h or m^2."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import Final, NamedTuple

from plansmith.errors import ToolFailed
from plansmith.plan.sentence import Sentence

# Powers of metre, kilogram, second, byte and kelvin.
Dimension = tuple[int, ...]
_KINDS: Final[dict[str, Dimension]] = {
    "length": (1, 0, 0, 0, 0),
    "area": (2, 0, 0, 0, 0),
    "volume": (3, 0, 0, 0, 0),
    "mass": (0, 1, 0, 0, 0),
    "time": (0, 0, 1, 0, 0),
    "data": (0, 0, 0, 1, 0),
    "data rate": (0, 0, -1, 1, 0),
    "temperature": (0, 0, 0, 0, 1),
    "speed": (1, 0, -1, 0, 0),
    "acceleration": (1, 0, -2, 0, 0),
    "density": (-3, 1, 0, 0, 0),
    "frequency": (0, 0, -1, 0, 0),
    "force": (1, 1, -2, 0, 0),
    "energy": (2, 1, -2, 0, 0),
    "power": (2, 1, -3, 0, 0),
    "pressure": (-1, 1, -2, 0, 0),
    "number": (0, 0, 0, 0, 0),
}
# Words and signs that multiply a unit, and by which power of ten or of 1024.
_TENS: Final = """
peta P 15, tera T 12, giga G 9, mega M 6, kilo k 3, hecto h 2, deci d -1, centi c -2, milli m -3,
micro µ -6, micro μ -6, micro u -6, nano n -9, pico p -12
"""
_DATA: Final = "exa E 18, peta P 15, tera T 12, giga G 9, mega M 6, kilo k 3, kilo K 3"
_BINARY: Final = "kibi Ki 1, mebi Mi 2, gibi Gi 3, tebi Ti 4, pebi Pi 5, exbi Ei 6"

# What it measures, its names (+: with prefixes such as k and milli), what one of it is, and from
# where it is counted.
_TABLE: Final = """
length + m metre meter = 1
length in inch inches = 0.0254
length ft foot feet = 0.3048
length yd yard = 0.9144
length mi mile = 1609.344
length nmi nautical_mile = 1852
length au astronomical_unit = 149597870700
length ly light_year = 9460730472580800
mass + g gram gramme = 1/1000
mass t tonne metric_ton = 1000
mass lb lbs pound = 0.45359237
mass oz ounce = 0.45359237/16
mass st stone = 0.45359237*14
mass short_ton = 0.45359237*2000
mass long_ton = 0.45359237*2240
mass ct carat = 1/5000
time + s sec second = 1
time min minute = 60
time h hr hour = 3600
time d day = 86400
time wk week = 604800
time julian_year = 31557600
data + B byte = 1
data + b bit = 1/8
data rate + bps = 1/8
area ha hectare = 10000
area acre = 4046.8564224
volume + L l litre liter = 1/1000
volume gal gallon = 0.003785411784
volume qt quart = 0.003785411784/4
volume pint = 0.003785411784/8
volume cup = 0.003785411784/16
volume fl_oz fluid_ounce = 0.003785411784/128
volume tbsp tablespoon = 0.003785411784/256
volume tsp teaspoon = 0.003785411784/768
volume imperial_gallon = 0.00454609
volume imperial_pint = 0.00454609/8
volume imperial_fl_oz = 0.00454609/160
speed mph = 1609.344/3600
speed kmh kph = 1000/3600
speed kn knot = 1852/3600
frequency + Hz hertz = 1
force + N newton = 1
force lbf = 4.4482216152605
energy + J joule = 1
energy + Wh = 3600
energy + cal calorie = 4.184
energy BTU btu = 1055.05585262
power + W watt = 1
power hp horsepower = 745.69987158227022
pressure + Pa pascal = 1
pressure + bar = 100000
pressure atm = 101325
pressure psi = 4.4482216152605/0.00064516
pressure mmHg = 133.322387415
temperature K kelvin = 1
temperature °C C celsius degC deg_C degrees_celsius = 1 + 273.15
temperature °F F fahrenheit degF deg_F degrees_fahrenheit = 5/9 + 459.67*5/9
temperature R rankine = 5/9
number % percent = 1/100
number dozen = 12
"""
_UNCERTAIN: Final = {
    "ton": "write tonne (1,000 kg), short_ton (2,000 lb) or long_ton (2,240 lb)",
    "year": "years differ in length: use time.add and time.difference, or julian_year (365.25 d)",
    "month": "months differ in length: use time.add and time.difference",
    "pt": "write pint; a typographic point is not known",
}
_POWERS: Final = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
_FACTOR: Final = re.compile(r"(?P<name>[^\W\d_](?:\w*[^\W\d])?|%)(?:\^?(?P<power>-?[1-9]))?")
_LONGEST: Final = 100
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
    if len(text) > _LONGEST:
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
    for line in _TABLE.strip().splitlines():
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
