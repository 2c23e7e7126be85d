"""Replaces invented values of changes, and of tools outside, by questions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from plansmith.plan.data import Json, leaves, map_leaves
from plansmith.text import HAN
from plansmith_desk.model.known_names import is_beside
from plansmith_desk.model.signatures import Offered

ASK: Final = "?"
_INSIDE: Final = re.compile(r"\$[1-9]")
_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")
_WORD: Final = re.compile(r"[^\W\d_]+|\d+")
_CODE: Final = re.compile(r"[A-Za-z]{2,4}(?:[-_/][A-Za-z]{2,4})?")
_EXACT: Final = re.compile(r"[@/\\\d_]")  # in addresses, paths and numbers, which are no words
_PROGRAMS: Final = ("sql", "arithmetic")  # their words and figures are not those of the request
# Words that imply a date; "my last order" does not.
_RELATIVE: Final = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|now|ago|since|\w+day|weekend|noon|midnight)\b"
    r"|\b(?:next|this|last|past|coming)\s+(?:\w+\s+)?(?:day|night|week|month|year|quarter|hour"
    r"|minute|morning|afternoon|evening|spring|summer|autumn|fall|winter|jan|feb|mar|apr|may|jun"
    r"|jul|aug|sep|oct|nov|dec)\w*|\bin\s+(?:\d+|an?|one|two|three|half|the)\s+(?:\w+\s+)?"
    r"(?:day|week|month|year|hour|minute|morning|afternoon|evening)s?\b"
    r"|今|明天|明早|明晚|后天|昨|[上下本这]个?[周月]|周[一二三四五六日天]|星期|礼拜|现在|去年",
    re.IGNORECASE,
)
_MOMENTS: Final = ("date", "time", "date-time")
_MOMENT: Final = re.compile(r"\d{4}-\d\d-(\d\d)(?:[T ](\d\d):\d\d)?|(\d\d):\d\d")
_HALF_DAY: Final = 12  # "at 6 pm" is 18:00
# Arguments that are times of some kind: the clock is no value of any other.
_WHEN: Final = re.compile(
    r"date|time|day|when|start|end\b|begin|since|until|deadline|due|month|year|moment"
    r"|(?:^|_)(?:at|on|from|to|by|before|after)$|日|时|期|月|年",
    re.IGNORECASE,
)
_PLACE: Final = re.compile(r"path|file|folder|dir$|directory", re.IGNORECASE)
_FREE_FROM: Final = 4  # with this many words a text may be rephrased
# The number that such a word may mean in the unit of a tool.
_MEANT: Final = {
    "half": 30, "半": 30, "hour": 60, "minute": 60, "day": 24, "week": 7, "周": 7, "fortnight": 14,
    "dozen": 12, "hundred": 100, "百": 100, "thousand": 1000, "千": 1000, "万": 10_000,
}  # fmt: skip


def grounded(
    calls: Sequence[Mapping[str, Any]],
    tools: Mapping[str, Offered],
    request: str,
    context: str = "",
) -> list[dict[str, Any]]:
    """Returns the calls without invented values: a required one becomes `"?"`, others go.

    What only looks something up here does no harm: its values stay. A call that repeats the one
    before it goes, so that nothing is done twice, and so does one that knows nothing beside an
    earlier call of the same tool.
    """
    told = _Source(request, context)
    kept: list[dict[str, Any]] = []
    places: dict[int, int] = {}  # where the calls of the draft are now
    before: Mapping[str, Any] | None = None
    for drafted, call in zip(calls, without_later(calls, tools), strict=True):
        tool, args = tools[call["tool"]], call["args"]
        found = {name: told.value(v, name, tool.fields.get(name, {})) for name, v in args.items()}
        judged = {**call, "args": args if tool.is_safe else _known(found, tool)}
        twin = len(kept) if drafted == before else _fuller(judged, kept, places, tool)
        if not twin:
            kept.append(judged)
        places[len(places) + 1] = twin or len(kept)
        before = drafted

    def moved(value: Json) -> Json:
        """Returns a text whose references follow the calls that moved."""
        if not isinstance(value, str):
            return value
        return _INSIDE.sub(lambda sign: f"${places.get(int(sign[0][1:]), sign[0][1:])}", value)

    return [{**call, "args": map_leaves(call["args"], moved)} for call in kept]


def _fuller(
    call: Mapping[str, Any],
    earlier: Sequence[Mapping[str, Any]],
    places: Mapping[int, int],
    tool: Offered,
) -> int:
    """Returns the place of a call that has values where this one has none; 0 if none has.

    A change that is given nothing but the result of the same change is one call too many.
    """
    own = {place for place, each in enumerate(earlier, 1) if each["tool"] == call["tool"]}
    empty = [ASK]
    if not tool.only_reads:
        empty += [f"${number}" for number, place in places.items() if place in own]
    if not call["args"] or any(value not in empty for value in call["args"].values()):
        return 0
    return next((place for place in sorted(own) if not _only_asks(earlier[place - 1])), 0)


def _only_asks(call: Mapping[str, Any]) -> bool:
    return all(value == ASK for value in call["args"].values())


def without_later(
    calls: Sequence[Mapping[str, Any]], tools: Mapping[str, Offered]
) -> list[dict[str, Any]]:
    """Returns the calls without references to calls that do not come before."""
    kept: list[dict[str, Any]] = []
    for place, call in enumerate(calls):
        args = {
            name: ASK if any(each > place for each in _references(value)) else value
            for name, value in call["args"].items()
        }
        kept.append({"tool": call["tool"], "args": _known(args, tools[call["tool"]])})
    return kept


def _references(value: Json) -> Iterator[int]:
    """Yields the calls whose results a value refers to."""
    for text in leaves(value):
        if isinstance(text, str):
            yield from (int(sign[1:]) for sign in _INSIDE.findall(text))


def _known(args: Mapping[str, Json], tool: Offered) -> dict[str, Json]:
    """Returns the arguments without optional ones that are not known, and with defaults."""
    return {
        name: tool.fields.get(name, {}).get("default", ASK) if value == ASK else value
        for name, value in args.items()
        if value != ASK or name in tool.required
    }


class _Source:
    """The request and its context, in which values are looked up."""

    def __init__(self, request: str, context: str) -> None:
        self._request = request
        known = f"{request}\n{context}"
        self._plain = _plain(known)
        self._words = set(_words(known))
        self._numbers = set(_numbers(known))
        self._amounts = _amounts(request)
        self._is_han = bool(HAN.search(known))

    def value(self, value: Json, name: str, schema: Mapping[str, Any]) -> Json:
        """Returns what of a value was told; `"?"` if nothing was."""
        if isinstance(value, str):
            return value if self._has(value.strip(), name, schema) else ASK
        if isinstance(value, list):
            inner = cast("Mapping[str, Any]", schema.get("items") or {})
            items = [self.value(each, name, inner) for each in value]
            return [each for each in items if each != ASK] or ASK
        if isinstance(value, dict):
            inner = cast("Mapping[str, Any]", schema.get("properties") or {})
            parts = (
                (each, self.value(each, key, inner.get(key) or {})) for key, each in value.items()
            )
            # A part that the model itself asks for is not invented.
            return ASK if any(told == ASK != each for each, told in parts) else value
        if value is None or isinstance(value, bool):
            return ASK if value is None else value
        value = _in_wanted_unit(value, name, self._amounts)
        return value if float(value) in self._numbers else ASK

    def _has(self, value: str, name: str, schema: Mapping[str, Any]) -> bool:
        if _INSIDE.search(value) or "enum" in schema or "const" in schema:
            return True
        if schema.get("format") in _PROGRAMS:
            return True
        if _PLACE.search(name):
            return self._has_path(value)
        if schema.get("format") in _MOMENTS or _MOMENT.match(value):
            return self._has_moment(value, name, schema)
        return self._has_text(value)

    def _has_path(self, value: str) -> bool:
        """Whether a path stands in the request, or with its ending in the context."""
        plain = _plain(value)
        if is_beside(value, self._request) or not plain or "*" in value:
            return True
        return plain in (self._plain if "." in value else _plain(self._request))

    def _has_moment(self, value: str, name: str, schema: Mapping[str, Any]) -> bool:
        """Whether a time was told, or follows from a day, an hour or "tomorrow" of the request."""
        if _plain(value) in self._plain:
            return True
        if schema.get("format") not in _MOMENTS and not _WHEN.search(name):
            return False
        if _RELATIVE.search(self._request):
            return True
        found = _MOMENT.match(value)
        day, *hours = found.groups() if found else (None,)
        numbers = set(_numbers(self._request))
        known = {float(each) for each in hours if each}
        known |= {each - _HALF_DAY for each in known if each > _HALF_DAY}
        return bool(known & numbers) or (day is not None and float(day) in numbers)

    def _has_text(self, value: str) -> bool:
        plain = _plain(value)
        if not plain or plain in self._plain:
            return bool(plain)
        foreign = self._is_han and not HAN.search(value) and not _EXACT.search(value)
        if foreign or _CODE.fullmatch(value):
            return True
        words = list(_words(value))
        known = sum(map(self._knows, words))
        if len(words) >= _FREE_FROM or HAN.search(value):
            return known * 2 >= len(words)
        return known == len(words)

    def _knows(self, word: str) -> bool:
        if word in self._words or word in self._plain:
            return True
        stem = word[: max(4, len(word) - 3)]
        return len(word) > 4 and any(each.startswith(stem) for each in self._words)


def _plain(text: str) -> str:
    """Normalizes a text for comparison: case, spaces, punctuation."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(sign for sign in folded if sign.isalnum())


def _words(text: str) -> Iterator[str]:
    for word in _WORD.findall(unicodedata.normalize("NFKC", text).casefold()):
        if HAN.search(word):
            yield from word
        else:
            yield word


def _numbers(text: str) -> Iterator[float]:
    plain = unicodedata.normalize("NFKC", text).casefold()
    for found in _NUMBER.findall(plain):
        for way in (found, found.replace(",", ""), found.replace(",", ".")):
            try:
                yield float(way)
            except ValueError:
                continue
        yield from map(float, re.findall(r"\d+", found))
    for amount in _amounts(text):
        yield from amount.numbers()
    for word in _words(text):
        for known in (word, word.removesuffix("s")):
            yield from (float(each[known]) for each in (_SPELLED, _MEANT) if known in each)


_FROM_ZERO: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve",
    "零 一 二 三 四 五 六 七 八 九 十",
)
_SPELLED: Final[Mapping[str, int]] = {
    **{word: number for words in _FROM_ZERO for number, word in enumerate(words.split())},
    **dict.fromkeys(("a", "an", "once"), 1),
    **dict.fromkeys(("两", "twice", "both"), 2),
}
_CALENDAR_YEAR: Final = 1_000  # "2026年" is a date, no amount


class _Unit(NamedTuple):
    """A unit: what it measures, how many of the smallest unit it holds, its words."""

    measures: str
    size: int
    words: str


_UNITS: Final = (
    _Unit("time", 1, "seconds second secs sec 秒钟 秒"),
    _Unit("time", 60, "minutes minute mins min 分钟"),
    _Unit("time", 3_600, "hours hour hrs hr 小时 钟头"),
    _Unit("time", 86_400, "days day 天"),
    _Unit("time", 604_800, "weeks week 周 星期"),
    _Unit("months", 1, "months month 个月"),
    _Unit("months", 12, "years year 年"),
    _Unit("mass", 1, "milligrams milligram mg 毫克"),
    _Unit("mass", 1_000, "grams gram g 克"),
    _Unit("mass", 1_000_000, "kilograms kilogram kilos kilo kg 公斤 千克"),
    _Unit("mass", 1_000_000_000, "tonnes tonne tons ton 吨"),
    _Unit("length", 1, "millimetres millimetre millimeters millimeter mm 毫米"),
    _Unit("length", 10, "centimetres centimetre centimeters centimeter cm 厘米"),
    _Unit("length", 1_000, "metres metre meters meter m 米"),
    _Unit("length", 1_000_000, "kilometres kilometre kilometers kilometer km 公里 千米"),
    _Unit("volume", 1, "millilitres millilitre milliliters milliliter ml 毫升"),
    _Unit("volume", 1_000, "litres litre liters liter 升"),
)
_BY_WORD: Final = {word: unit for unit in _UNITS for word in unit.words.split()}
_LONGEST_FIRST: Final = sorted(_BY_WORD, key=len, reverse=True)
_LATIN: Final = "|".join(word for word in _LONGEST_FIRST if word.isascii())
_CHINESE: Final = "|".join(word for word in _LONGEST_FIRST if not word.isascii())
_DIGITS: Final = r"(?<!\d)\d{1,20}(?:(?:,\d{3}){1,9}|\.\d{1,20})?"
_COUNT: Final = rf"{_DIGITS}|(?<![a-z])(?:{'|'.join(_SPELLED)}|half an?)|半"
_AMOUNT: Final = re.compile(
    rf"({_COUNT})(?:[\s-]*({_LATIN})(?![a-z])|\s*个?({_CHINESE}))", re.IGNORECASE
)
_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


class _Amount(NamedTuple):
    """A number and its unit, as a request says them."""

    number: float
    unit: _Unit

    def numbers(self) -> Iterator[float]:
        """Yields the number in every unit that measures the same."""
        for unit in _UNITS:
            if unit.measures == self.unit.measures:
                yield self.number * self.unit.size / unit.size


def _amounts(text: str) -> list[_Amount]:
    """Returns the amounts that a text tells with a unit: "two minutes", "3 kg", "半小时"."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    told = [
        _Amount(_number(found[1]), _BY_WORD[found[2] or found[3]])
        for found in _AMOUNT.finditer(plain)
    ]
    return [each for each in told if each.unit.measures != "months" or each.number < _CALENDAR_YEAR]


def _number(said: str) -> float:
    if said.startswith(("half", "半")):
        return 0.5
    return float(_SPELLED[said] if said in _SPELLED else said.replace(",", ""))


def _in_wanted_unit(value: float, name: str, told: list[_Amount]) -> float:
    """Returns a number that was copied with another unit than its argument names, in that unit.

    `seconds` of "two minutes" is 120, not 2.
    """
    # The words of the argument's name; single letters stand for too much.
    parts = [part.casefold() for part in _PARTS.findall(name) if len(part) > 1]
    wanted = next((_BY_WORD[part] for part in parts if part in _BY_WORD), None)
    if wanted is None:
        return value
    copied = [
        each for each in told if each.number == value and each.unit.measures == wanted.measures
    ]
    if not copied or any(each.unit is wanted for each in copied):
        return value
    exact = value * copied[0].unit.size / wanted.size
    return int(exact) if exact.is_integer() else exact
