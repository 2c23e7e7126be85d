"""Numbers in digits, in English words and in Chinese; names of months, days and units."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from plansmith.lazy import lazy_pattern
from plansmith_planner.language import lines

_ONE_TO_TWELVE: Final = (
    *("one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
SPELT: Final = {
    **{word: number for number, word in enumerate(_ONE_TO_TWELVE, start=1)},
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
}
SCALES: Final = {
    "thousand": 10**3,
    "million": 10**6,
    "billion": 10**9,
    "百": 100,
    "千": 1000,
    "万": 10**4,
    "亿": 10**8,
}
MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July", "August"),
    *("September", "October", "November", "December"),
)
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_HAN: Final = {sign: number for number, sign in enumerate("零一二三四五六七八九")} | {
    "〇": 0,
    "两": 2,
    "兩": 2,
}
# Patterns of numbers: in digits, with commas between thousands, and in Chinese.
DIGITS: Final = r"(?:\d{1,3}(?:,\d{3}){1,9}(?:\.\d{1,30})?|\d{1,30}(?:\.\d{1,30})?|\.\d{1,30})"
HAN_NUMBER: Final = r"(?:\d{1,6}|[零〇一二两兩三四五六七八九十百]{1,5})"
# A number as texts write it, with any marks between its digits.
FIGURE: Final = re.compile(r"\d+(?:[.,]\d+)*")
_PLAIN: Final = re.compile(r"\d+(?:\.\d+)?")
_SUMS: Final = tuple(
    (lazy_pattern(words.replace("<number>", rf"(?<![\d,.])({DIGITS})"), re.IGNORECASE), written)
    for words, _, written in (line.partition(" => ") for line in lines("sums.txt"))
)


def in_signs(text: str) -> str:
    """Returns a sum with the words in it as the signs of the calculator."""
    for words, written in _SUMS:
        text = words.sub(written, text)
    return text


def readings(figure: str) -> list[Decimal]:
    """Returns the numbers that a figure may say: with commas of thousands first, then of decimals.

    There is none for a time, a date or a version.
    """
    ways = dict.fromkeys((figure.replace(",", ""), figure.replace(",", ".")))
    return [Decimal(way) for way in ways if _PLAIN.fullmatch(way)]


def number(text: str) -> int:
    """Reads a number below a thousand that a pattern found: 15, twelve, 十五, 一百二十."""
    if text.isdecimal():  # wide digits too
        return int(text)
    if text.isascii():
        return SPELT[text.lower()]
    total = digit = 0
    for each in text:
        if each in "十百":
            total += (digit or 1) * (10 if each == "十" else 100)
            digit = 0
        else:
            digit = _HAN[each]
    return total + digit


def month_of(name: str) -> int:
    """Returns the number of a month by its name or the start of it."""
    return [each[:3] for each in MONTHS].index(name[:3].capitalize()) + 1


# What the calculator calls the units of Chinese speakers.
CHINESE_UNITS: Final = {
    name: unit for unit, *names in map(str.split, lines("units.txt")) for name in names
}
_DEGREES: Final = re.compile(r"(?:degrees? |° ?)?(c(?:elsius)?|f(?:ahrenheit)?)", re.IGNORECASE)


def unit_name(text: str) -> str:
    """Returns a unit as the calculator writes it; what is not known stays as it was said."""
    name = CHINESE_UNITS.get(text.strip(), text.strip())
    if degrees := _DEGREES.fullmatch(name):
        return f"°{degrees[1][0].upper()}"
    return name.upper() if name in ("kb", "mb", "gb", "tb") else name
