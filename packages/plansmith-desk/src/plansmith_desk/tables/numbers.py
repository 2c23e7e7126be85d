"""Numbers as files write them: plain, with thousands, a currency or percent, or as missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from plansmith.plan.data import written_number

_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})")
_NUMBER: Final = re.compile(r"[+-]?(?:(?:0|[1-9]\d{0,300})(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2})?")
_JSON: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_SURE_DIGITS: Final = 15
_MISSING: Final = frozenset(
    {
        "n/a",
        "na",
        "#n/a",
        "nan",
        "null",
        "none",
        "-",
        "--",
        "\u2013",
        "\u2014",
        "无",
        "缺失",
        "暂无",
    }
)
_UNIT: Final = r"[$€£¥￥%]|元|usd|eur|gbp|cny|rmb"


def _form(figures: str) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<sign>[+-]?)(?P<front>(?:{_UNIT})?)\s?(?P<figures>{figures})\s?(?P<back>(?:{_UNIT})?)",
        re.IGNORECASE,
    )


_POINT: Final = _form(r"(?:\d{1,3}(?:,\d{3})+|0|[1-9]\d*)(?:\.\d+)?")
# Where a semicolon separates the cells, a comma is that of decimals.
_COMMA: Final = _form(r"(?:\d{1,3}(?:\.\d{3})+|0|[1-9]\d*)(?:,\d+)?")


def number_of(text: str) -> float:
    """Returns the number that a text is, with its digits."""
    return written_number(text) if _JSON.fullmatch(text) else float(text)


def is_whole(text: str) -> bool:
    """Whether a text is a plain whole number."""
    return _INTEGER.fullmatch(text) is not None


def is_number(text: str) -> bool:
    """Whether a text is a plain number that loses no digit."""
    if _NUMBER.fullmatch(text) is None:
        return False
    return len(text) <= _SURE_DIGITS or Decimal(repr(float(text))) == Decimal(text)


class Marked(NamedTuple):
    """A column of numbers that are not plain: how its cells are converted, and a note."""

    kind: str
    convert: Callable[[str], float | None]
    note: str


def marked_numbers(cells: Iterable[str], *, comma: bool) -> Marked | None:
    """Returns how to read a column of numbers with marks; None if it is no such column."""
    distinct = list(dict.fromkeys(cells))
    missing = [cell for cell in distinct if cell.casefold() in _MISSING]
    numbers = [cell for cell in distinct if cell.casefold() not in _MISSING]
    texts = _plain(numbers, comma=comma)
    if not numbers or texts is None or not all(map(is_number, texts)):
        return None
    whole = all(map(is_whole, texts))
    values = {
        cell: int(text) if whole else number_of(text)
        for cell, text in zip(numbers, texts, strict=True)
    }
    shown = next((cell for cell in numbers if cell not in texts), "")
    notes = [f"{shown} is read as {values[shown]}"] if shown else []
    notes += [f"{' and '.join(map(repr, missing))} is read as missing"] if missing else []
    kind = "integer" if whole else "number"

    def convert(cell: str) -> float | None:
        return values.get(cell.strip())

    return Marked(kind, convert, ", ".join(notes))


def _plain(cells: Sequence[str], *, comma: bool) -> list[str] | None:
    """Returns numbers without marks; None if one is no number, or their units differ."""
    if all(map(is_number, cells)):
        return list(cells)
    form = _COMMA if comma else _POINT
    found = [match for cell in cells if (match := form.fullmatch(cell)) is not None]
    units = {(match["front"] or match["back"]).casefold() for match in found}
    if len(found) < len(cells) or len(units) > 1:
        return None
    figures = [match["sign"] + match["figures"] for match in found]
    if not comma:
        return [text.replace(",", "") for text in figures]
    if _could_be_thousands(figures):
        return None
    return [text.replace(".", "").replace(",", ".") for text in figures]


def _could_be_thousands(figures: Sequence[str]) -> bool:
    """Whether every mark has three digits after it, so that nobody knows what it means."""
    marked = [text for text in figures if "," in text or "." in text]
    return all(re.fullmatch(r"[+-]?\d{1,3}[.,]\d{3}", text) for text in marked) and bool(marked)
