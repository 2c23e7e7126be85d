"""Reads amounts with units in a request, and tells them in the unit that a tool wants."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

_FROM_ZERO: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve",
    "零 一 二 三 四 五 六 七 八 九 十",
)
SPELLED: Final[Mapping[str, int]] = {
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
_COUNT: Final = rf"{_DIGITS}|(?<![a-z])(?:{'|'.join(SPELLED)}|half an?)|半"
_AMOUNT: Final = re.compile(
    rf"({_COUNT})(?:[\s-]*({_LATIN})(?![a-z])|\s*个?({_CHINESE}))", re.IGNORECASE
)
_PARTS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


class Amount(NamedTuple):
    """A number and its unit, as a request says them."""

    number: float
    unit: _Unit

    def numbers(self) -> Iterator[float]:
        """Yields the number in every unit that measures the same."""
        for unit in _UNITS:
            if unit.measures == self.unit.measures:
                yield self.number * self.unit.size / unit.size


def amounts(text: str) -> list[Amount]:
    """Returns the amounts that a text tells with a unit: "two minutes", "3 kg", "半小时"."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    told = [
        Amount(_number(found[1]), _BY_WORD[found[2] or found[3]])
        for found in _AMOUNT.finditer(plain)
    ]
    return [each for each in told if each.unit.measures != "months" or each.number < _CALENDAR_YEAR]


def _number(said: str) -> float:
    if said.startswith(("half", "半")):
        return 0.5
    return float(SPELLED[said]) if said in SPELLED else float(said.replace(",", ""))


def in_wanted_unit(value: float, name: str, told: list[Amount]) -> float:
    """Returns a number that was copied with another unit than its argument names, in that unit.

    `seconds` of "two minutes" is 120, not 2.
    """
    wanted = next((_BY_WORD[part] for part in _parts(name) if part in _BY_WORD), None)
    if wanted is None:
        return value
    copied = [
        each for each in told if each.number == value and each.unit.measures == wanted.measures
    ]
    if not copied or any(each.unit is wanted for each in copied):
        return value
    exact = value * copied[0].unit.size / wanted.size
    return int(exact) if exact.is_integer() else exact


def _parts(name: str) -> Iterator[str]:
    """Yields the words of an argument's name; single letters stand for too much."""
    return (part.casefold() for part in _PARTS.findall(name) if len(part) > 1)
