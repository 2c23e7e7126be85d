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
_NAMES: Final = {dimension: kind for kind, dimension in _KINDS.items()}


def _powers(text: str) -> dict[str, int]:
    pairs = (each.partition("=") for each in text.split())
    return {name: int(power) for name, _, power in pairs}


_PREFIXES: Final = _powers("P=15 T=12 G=9 M=6 k=3 h=2 d=-1 c=-2 m=-3 µ=-6 μ=-6 u=-6 n=-9 p=-12")
_PREFIX_WORDS: Final = _powers(
    "peta=15 tera=12 giga=9 mega=6 kilo=3 hecto=2 "
    "deci=-1 centi=-2 milli=-3 micro=-6 nano=-9 pico=-12"
)
_DATA_PREFIXES: Final = _powers("k=3 K=3 M=6 G=9 T=12 P=15 E=18")
_BINARY: Final = _powers("Ki=1 Mi=2 Gi=3 Ti=4 Pi=5 Ei=6")
_BINARY_WORDS: Final = _powers("kibi=1 mebi=2 gibi=3 tebi=4 pebi=5")

# What it measures, its names (+: with prefixes such as k and milli), and what one of it is.
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


class Unit(NamedTuple):
    """A unit as a factor of metres, kilograms, seconds, bytes and kelvins."""

    factor: Fraction
    dimension: Dimension
    offset: Fraction = Fraction(0)

    @property
    def kind(self) -> str:
        """What the unit measures, in one word."""
        return _NAMES.get(self.dimension, "a quantity without a name")


def unit(text: str) -> Unit:
    """Parses a unit such as `km`, `kg*m/s^2` or `square feet`."""
    if len(text) > _LONGEST:
        raise ToolFailed(Sentence("the unit is too long"), hint=Sentence("such as km, kg or m/s"))
    plain = text.strip().translate(_SIGNS)
    plain = re.sub(r"(?<!\s)\s*+(?:\bper\b|/)\s*", "/", plain)
    divided = plain.split("/")
    found = [_product(divided[0])] if divided[0] or len(divided) == 1 else []
    found += [_to(_product(part), -1) for part in divided[1:]]
    return found[0] if len(found) == 1 else _times(found)


def _product(text: str) -> Unit:
    parts = [part.strip() for part in text.split("*")]
    found = [_single(part) for part in parts]
    return found[0] if len(found) == 1 else _times(found)


def _single(text: str) -> Unit:
    first, _, rest = text.partition(" ")
    raised = _POWERS.get(first.lower(), 1) if rest else 1
    name = "_".join((rest if raised > 1 else text).split()).rstrip(".")
    known = _known()
    if name in known:
        return _to(known[name], raised)
    match = _FACTOR.fullmatch(name)
    if match is None:
        raise ToolFailed(
            Sentence("'{text}' is not a unit", text=text),
            hint=Sentence("such as km, lb, m^2, km/h or °C"),
        )
    return _to(_named(match["name"]), raised * int(match["power"] or 1))


def _named(name: str) -> Unit:
    known = _known()
    if name in known:
        return known[name]
    singular = name.lower().removesuffix("s")
    if singular in _UNCERTAIN:
        raise ToolFailed(
            Sentence("'{name}' is not one certain unit", name=name), hint=_UNCERTAIN[singular]
        )
    alike = {each: known[each] for each in known if each.lower() == name.lower()}
    if len(set(alike.values())) == 1:
        return next(iter(alike.values()))
    if alike:
        hint = Sentence("write it exactly: {alike}", alike=" or ".join(sorted(alike)))
        raise ToolFailed(Sentence("'{name}' could be several units", name=name), hint=hint)
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.75)
    hint = (
        Sentence("did you mean {names}?", names=[*near])
        if near
        else Sentence("such as km, lb, m^2, km/h or °C")
    )
    raise ToolFailed(Sentence("there is no unit called '{name}'", name=name), hint=hint)


def _to(one: Unit, power: int) -> Unit:
    if power == 1:
        return one
    _refuse_degrees(one)
    return Unit(one.factor**power, tuple(each * power for each in one.dimension))


def _refuse_degrees(one: Unit) -> None:
    if one.offset:
        hint = Sentence("a difference of temperatures is in K")
        raise ToolFailed(Sentence("degrees cannot be part of a product"), hint=hint)


def _times(several: list[Unit]) -> Unit:
    factor, dimension = Fraction(1), _KINDS["number"]
    for each in several:
        _refuse_degrees(each)
        factor *= each.factor
        dimension = tuple(a + b for a, b in zip(dimension, each.dimension, strict=True))
    return Unit(factor, dimension)


@cache
def _known() -> dict[str, Unit]:
    """Returns all known unit names, with prefixes and plurals."""
    found: dict[str, Unit] = {}
    for line in _TABLE.strip().splitlines():
        left, _, right = line.partition(" = ")
        kind = next(kind for kind in sorted(_KINDS, key=len, reverse=True) if left.startswith(kind))
        names = left.removeprefix(kind).split()
        one = Unit(_fraction(right), _KINDS[kind])
        prefixed = names[0] == "+"
        for name in names[prefixed:]:
            found |= dict(_spelt(name, one, prefixed=prefixed))
    celsius = Unit(Fraction(1), _KINDS["temperature"], Fraction("273.15"))
    fahrenheit = Unit(Fraction(5, 9), _KINDS["temperature"], Fraction("459.67") * Fraction(5, 9))
    found |= dict.fromkeys(("°C", "C", "celsius", "degC", "deg_C", "degrees_celsius"), celsius)
    found |= dict.fromkeys(
        ("°F", "F", "fahrenheit", "degF", "deg_F", "degrees_fahrenheit"), fahrenheit
    )
    return found


def _spelt(name: str, one: Unit, *, prefixed: bool) -> Iterator[tuple[str, Unit]]:
    is_word = len(name) > 2 and name.islower() and name not in ("foot", "feet", "inches")
    scales = dict(_scales(name, is_data=bool(one.dimension[3]))) if prefixed else {}
    for prefix, scale in [("", Fraction(1)), *scales.items()]:
        for ending in ("", "s") if is_word else ("",):
            yield prefix + name + ending, Unit(one.factor * scale, one.dimension)


def _scales(name: str, *, is_data: bool) -> Iterator[tuple[str, Fraction]]:
    """Returns the prefixes for a name: symbols get short ones, words get long ones."""
    signs = _DATA_PREFIXES if is_data else _PREFIXES
    powers = (signs if len(name) <= 3 else {}) | (_PREFIX_WORDS if len(name) >= 3 else {})
    yield from ((prefix, Fraction(10) ** power) for prefix, power in powers.items())
    if is_data:
        binary = (_BINARY if len(name) <= 3 else {}) | (_BINARY_WORDS if len(name) >= 3 else {})
        yield from ((prefix, Fraction(1024) ** power) for prefix, power in binary.items())


def _fraction(text: str) -> Fraction:
    above, _, below = text.partition("/")
    first, _, second = above.partition("*")
    return Fraction(first) * Fraction(second or 1) / Fraction(below or 1)


_SIGNS: Final = str.maketrans({"²": "^2", "³": "^3", "·": "*", "×": "*", "⋅": "*"})
