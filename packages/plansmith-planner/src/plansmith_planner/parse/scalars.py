"""What single words and strings of malformed JSON mean: numbers, literals, escapes."""

from __future__ import annotations

import math
import re
from typing import Final

from plansmith.plan.data import Json
from plansmith.text import SURROGATES
from plansmith_planner.language import word_list

_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(\.\d*)?([eE][+-]?\d+)?|-?\.\d+([eE][+-]?\d+)?")
_OPEN_EXPONENT = re.compile(r"(-?(?:0|[1-9]\d*)(?:\.\d*)?)[eE][+-]?|-")
_UNDERSCORED = re.compile(r"-?\d[\d_]*(?:\.[\d_]*\d)?")
_LITERALS: Final[dict[str, Json]] = {"true": True, "false": False, "null": None, "none": None}
_NO_VALUES: Final = ("undefined", "NaN", "-NaN", "Infinity", "-Infinity", "+Infinity")
_ESCAPES: Final = dict(zip('bfnrt"\\/', '\b\f\n\r\t"\\/', strict=True))
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\s\S]|\Z)")
_WORD = re.compile(r"[A-Za-z]+")
_REGEX_SIGNS: Final = frozenset("dDwWsSBAzZpPhHRXGkKNQECvxuU.()[]{}*+?^$|-%_&#~,;:!<>=@ ")
# LaTeX commands whose first letter is also a JSON escape: "\theta" is not a tab and "heta".
_LATEX: Final = word_list("latex")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def bare_value(word: str) -> Json:
    """Returns the meaning of an unquoted word: a number, a literal, or its own text."""
    if word.lower() in _LITERALS:
        return _LITERALS[word.lower()]
    return None if word in _NO_VALUES else number(word)


def number(word: str) -> int | float | str:
    """Returns a finite number if the word is one, else the word itself."""
    if _NUMBER.fullmatch(word):
        if word.lstrip("-").isdecimal() and len(word) <= 1000:
            return int(word)
        return finite(word)
    if found := _OPEN_EXPONENT.fullmatch(word):
        return number(found[1]) if found[1] else 0
    if "_" in word and _UNDERSCORED.fullmatch(word):
        return number(word.replace("_", ""))
    return word


def finite(word: str) -> float | str:
    """Returns a number, or its text if it is too large for one."""
    value = float(word)
    return value if math.isfinite(value) else word


def unescape(raw: str) -> str:
    """Resolves the JSON escapes of a string; keeps other backslashes."""

    def resolved(found: re.Match[str]) -> str:
        code = found[1]
        if len(code) != 1:
            return chr(int(code[1:], 16)) if code else ""
        word = _WORD.match(raw, found.start(1))
        if code in _ESCAPES:
            return "\\" + code if word and word[0] in _LATEX else _ESCAPES[code]
        kept = code in _REGEX_SIGNS or code.isdigit() or bool(word and len(word[0]) > 1)
        return "\\" + code if kept else code

    return clean(_ESCAPE.sub(resolved, raw) if "\\" in raw else raw)


def clean(text: str) -> str:
    """Joins surrogate pairs, and replaces lone surrogates by U+FFFD."""
    if not SURROGATES.search(text):
        return text
    joined = _PAIR.sub(
        lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text
    )
    return SURROGATES.sub("\ufffd", joined)
