"""Reads numbers written in digits, perhaps with a scale behind them."""

from __future__ import annotations

import re
from typing import Final

_SCALES: Final = {"thousand": 10**3, "million": 10**6, "billion": 10**9} | {
    "百": 100,
    "千": 1000,
    "万": 10**4,
    "亿": 10**8,
}
PLAIN: Final = r"(?:\d{1,3}(?:,\d{3}){1,9}(?:\.\d{1,30})?|\d{1,30}(?:\.\d{1,30})?|\.\d{1,30})"
NUMBER: Final = rf"(?:{PLAIN}(?:\s?[百千万亿]|\s(?:thousand|million|billion)\b)?(?!\d))"
_SCALED: Final = re.compile(rf"({PLAIN})(?:\s?([百千万亿]|thousand|million|billion))?")


def digits(text: str) -> str:
    """Returns a number in digits, as the calculator reads it; empty if it is none."""
    found = _SCALED.fullmatch(text.strip().lower())
    if found is None:
        return ""
    plain = found[1].replace(",", "")
    return f"({plain} * {_SCALES[found[2]]})" if found[2] else plain
