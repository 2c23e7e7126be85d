"""Puts drafts right: invented values become questions, or go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, Final, NamedTuple, cast

from plansmith.plan.data import Json, leaves, map_leaves
from plansmith_desk.calculator.units import Unit, unit
from plansmith_desk.model.prompt import Offered, Schema
from plansmith_planner.language import phrases
from plansmith_planner.language.characters import HAN
from plansmith_planner.language.numbers import CHINESE_UNITS, FIGURE, SCALES, SPELT, readings
from plansmith_planner.language.words import folded, letters, spelling

ASK: Final = "?"
Drafted = Mapping[str, Any]  # a call: its tool and its arguments
_SIGN: Final = re.compile(r"\$([1-9])")
_CODE: Final = re.compile(r"[A-Za-z]{2,4}(?:[-_/][A-Za-z]{2,4})?")
_EXACT: Final = re.compile(r"[@/\\\d_]")  # in addresses, paths and numbers, which are no words
_PROGRAMS: Final = ("sql", "arithmetic")  # their words and figures are not those of the request
# Words that imply a date; "my last order" does not.
_RELATIVE: Final = re.compile(phrases("relative_date"), re.IGNORECASE)
_MOMENTS: Final = ("date", "time", "date-time")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-(\d\d)(?:[T ](\d\d):\d\d)?|(\d\d):\d\d")
_HALF_DAY: Final = 12  # "at 6 pm" is 18:00
# Arguments that are times of some kind: the clock is no value of any other.
_WHEN: Final = re.compile(phrases("time_argument"), re.IGNORECASE)
_PLACE: Final = re.compile(r"path|file|folder|dir$|directory", re.IGNORECASE)
_FREE_FROM: Final = 4  # with this many words a text may be rephrased


def grounded(
    calls: Sequence[Drafted], tools: Mapping[str, Offered], request: str, context: str = ""
) -> list[dict[str, Any]]:
    """Returns the calls without invented values: a required one becomes `"?"`, others go.

    What only looks something up here does no harm: its values stay. A call that repeats the one
    before it goes, so that nothing is done twice.
    """
    given = _Given(request, context)
    kept: list[dict[str, Any]] = []
    places: dict[int, int] = {}  # where the calls of the draft are now
    before: Drafted | None = None
    for drafted, call in zip(calls, without_later(calls, tools), strict=True):
        tool = tools[call["tool"]]
        if not tool.is_safe:
            args = {
                name: given.value(value, name, tool.fields.get(name, {}))
                for name, value in call["args"].items()
            }
            call["args"] = _without_gaps(args, tool)
        if drafted != before:
            kept.append(call)
        places[len(places) + 1] = len(kept)
        before = drafted

    def moved(value: Json) -> Json:
        """Returns a text whose references follow the calls that moved."""
        if not isinstance(value, str):
            return value
        return _SIGN.sub(lambda sign: f"${places.get(int(sign[1]), sign[1])}", value)

    return [{**call, "args": map_leaves(call["args"], moved)} for call in kept]


def without_later(calls: Sequence[Drafted], tools: Mapping[str, Offered]) -> list[dict[str, Any]]:
    """Returns the calls without references to calls that do not come before."""
    kept: list[dict[str, Any]] = []
    for place, call in enumerate(calls):
        args: dict[str, Json] = {}
        for name, value in call["args"].items():
            texts = [text for text in leaves(value) if isinstance(text, str)]
            signs = [int(sign) for text in texts for sign in _SIGN.findall(text)]
            args[name] = ASK if any(sign > place for sign in signs) else value
        kept.append({"tool": call["tool"], "args": _without_gaps(args, tools[call["tool"]])})
    return kept


def _without_gaps(args: Mapping[str, Json], tool: Offered) -> dict[str, Json]:
    """Returns the arguments without optional ones that are not known, and with defaults."""
    return {
        name: tool.fields.get(name, {}).get("default", ASK) if value == ASK else value
        for name, value in args.items()
        if value != ASK or name in tool.required
    }


class _Given:
    """The request and its context, in which values are looked up."""

    def __init__(self, request: str, context: str) -> None:
        self._request = request
        known = f"{request}\n{context}"
        self._plain = letters(known)
        self._words = set(spelling(folded(known)))
        self._numbers = set(_numbers(known))
        self._amounts = _amounts(request)
        self._is_han = bool(HAN.search(known))

    def value(self, value: Json, name: str, schema: Schema) -> Json:
        """Returns what of a value was given; `"?"` if nothing was."""
        if isinstance(value, str):
            return value if self._has(value.strip(), name, schema) else ASK
        if isinstance(value, list):
            inner = cast("Schema", schema.get("items") or {})
            items = [self.value(each, name, inner) for each in value]
            return [each for each in items if each != ASK] or ASK
        if isinstance(value, dict):
            inner = cast("Schema", schema.get("properties") or {})
            # A part that the model itself asks for is not invented.
            invented = any(
                each != ASK == self.value(each, key, inner.get(key) or {})
                for key, each in value.items()
            )
            return ASK if invented else value
        if value is None or isinstance(value, bool):
            return ASK if value is None else value
        value = _in_wanted_unit(value, name, self._amounts)
        return value if float(value) in self._numbers else ASK

    def _has(self, value: str, name: str, schema: Schema) -> bool:
        form = schema.get("format")
        is_given = not schema.keys().isdisjoint({"enum", "const"}) or form in _PROGRAMS
        if _SIGN.search(value) or is_given:
            return True
        if _PLACE.search(name):
            stem, _, ending = value.casefold().rpartition(".")
            if stem and ending.isalnum() and "/" not in value and "\\" not in value:
                # The request may name the file with another ending.
                named = rf"(?<![a-z0-9_./-]){re.escape(stem)}\.\w"
                if re.search(named, self._request.casefold()):
                    return True
            plain = letters(value)
            if not plain or "*" in value:
                return True
            return plain in (self._plain if "." in value else letters(self._request))
        if form in _MOMENTS or _MOMENT.match(value):
            return self._has_moment(value, is_time=form in _MOMENTS or bool(_WHEN.search(name)))
        return self._has_text(value)

    def _has_moment(self, value: str, *, is_time: bool) -> bool:
        """Whether a time was given, or follows from a day, an hour or "tomorrow"."""
        if letters(value) in self._plain:
            return True
        if not is_time or _RELATIVE.search(self._request):
            return is_time
        found = _MOMENT.match(value)
        day, *hours = found.groups() if found else (None,)
        numbers = set(_numbers(self._request))
        known = {float(each) for each in hours if each}
        known |= {each - _HALF_DAY for each in known if each > _HALF_DAY}
        return bool(known & numbers) or (day is not None and float(day) in numbers)

    def _has_text(self, value: str) -> bool:
        plain = letters(value)
        if not plain or plain in self._plain:
            return bool(plain)
        foreign = self._is_han and not HAN.search(value) and not _EXACT.search(value)
        if foreign or _CODE.fullmatch(value):
            return True
        words = spelling(folded(value))
        known = sum(map(self._knows, words))
        if len(words) >= _FREE_FROM or HAN.search(value):
            return known * 2 >= len(words)
        return known == len(words)

    def _knows(self, word: str) -> bool:
        if word in self._words or word in self._plain:
            return True
        stem = word[: max(4, len(word) - 3)]
        return len(word) > 4 and any(each.startswith(stem) for each in self._words)


_SPELLED: Final[Mapping[str, float]] = {
    **SPELT,
    **{sign: number for number, sign in enumerate("零一二三四五六七八九十")},
    **dict.fromkeys(("a", "an", "once"), 1),
    **dict.fromkeys(("两", "twice", "both"), 2),
    **dict.fromkeys(("half", "半"), 0.5),
}
_LARGE: Final[Mapping[str, float]] = {**SCALES, "dozen": 12, "hundred": 100}
_UNITS: Final = (
    *("second", "sec", "minute", "min", "hour", "hr", "day", "week", "milligram", "mg", "gram"),
    *("g", "kilogram", "kg", "millimetre", "mm", "centimetre", "cm", "metre", "meter", "m"),
    *("kilometre", "kilometer", "km", "millilitre", "ml", "litre", "liter"),
)
_COUNTS, _LATIN, _CHINESE = (
    "|".join(sorted(each, key=len, reverse=True)) for each in (_SPELLED, _UNITS, CHINESE_UNITS)
)
_AMOUNT: Final = re.compile(
    rf"((?<!\d)\d{{1,20}}(?:(?:,\d{{3}}){{1,9}}|\.\d{{1,20}})?|(?<![a-z])(?:{_COUNTS}))"
    rf"(?: an?\b)?(?:[\s-]*({_LATIN})s?(?![a-z])|\s*个?({_CHINESE}))"
)
_NAME_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


@cache
def _units() -> dict[str, Unit]:
    """Returns the units that requests and arguments name, by their words."""
    found = {word: unit(word) for word in _UNITS}
    measured = {each.dimension for each in found.values()}
    chinese = {word: unit(name) for word, name in CHINESE_UNITS.items()}
    return found | {word: each for word, each in chinese.items() if each.dimension in measured}


class _Amount(NamedTuple):
    """A number with its unit, as a request says it."""

    number: float
    unit: Unit

    def within(self, other: Unit) -> float:
        """Returns the number in another unit that measures the same."""
        exact = float(Fraction(self.number) * self.unit.factor / other.factor)
        return int(exact) if exact.is_integer() else exact


def _numbers(text: str) -> Iterator[float]:
    """Yields every number that a text gives, in each unit that measures the same."""
    for found in FIGURE.findall(folded(text)):
        yield from map(float, readings(found))
        yield from map(float, re.findall(r"\d+", found))
    for amount in _amounts(text):
        alike = (each for each in _units().values() if each.dimension == amount.unit.dimension)
        yield from (amount.number, *map(amount.within, alike))
    for word in spelling(folded(text)):
        for known in (word, word.removesuffix("s")):
            yield from (each[known] for each in (_SPELLED, _LARGE) if known in each)


def _amounts(text: str) -> list[_Amount]:
    """Returns the amounts in a text that have a unit: "two minutes", "3 kg", "半小时"."""
    amounts: list[_Amount] = []
    for found in _AMOUNT.finditer(folded(text)):
        count, measure = found[1], _units().get(found[2] or found[3])
        number = _SPELLED[count] if count in _SPELLED else float(count.replace(",", ""))
        amounts += [_Amount(number, measure)] if measure else []
    return amounts


def _in_wanted_unit(value: float, name: str, given: Sequence[_Amount]) -> float:
    """Returns a number that was copied with another unit than its argument names, in that unit.

    `seconds` of "two minutes" is 120, not 2.
    """
    # The words of the argument's name; single letters stand for too much.
    parts = [part.casefold().removesuffix("s") for part in _NAME_PARTS.findall(name)]
    wanted = next(filter(None, (_units().get(part) for part in parts if part[1:])), None)
    if wanted is None:
        return value
    copied = [
        each for each in given if each.number == value and each.unit.dimension == wanted.dimension
    ]
    if not copied or any(each.unit == wanted for each in copied):
        return value
    return copied[0].within(wanted)
