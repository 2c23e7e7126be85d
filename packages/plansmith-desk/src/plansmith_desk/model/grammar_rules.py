"""Grammar rules for texts, numbers, ranges and regular expressions."""

from __future__ import annotations

import json
import re
from typing import Final

from plansmith.plan.data import Json

_DAY: Final = (
    '(("0" [13578] | "1" [02]) "-" ("0" [1-9] | [12] [0-9] | "3" [01])'
    ' | ("0" [469] | "11") "-" ("0" [1-9] | [12] [0-9] | "30")'
    ' | "02-" ("0" [1-9] | "1" [0-9] | "2" [0-8]))'
)
_LEAP_DAY: Final = '[0-9]{2} ("0" [48] | [2468] [048] | [13579] [26]) "-02-29"'
_HOUR: Final = '([01] [0-9] | "2" [0-3])'
_OFFSET: Final = f'("Z" | [+-] {_HOUR} ":" [0-5] [0-9])'
_WORD: Final = '[a-zA-Z0-9]+ ("-" [a-zA-Z0-9]+){0,4}'
_OCTET: Final = '("25" [0-5] | "2" [0-4] [0-9] | "1" [0-9]{2} | [1-9] [0-9] | [0-9])'

# Rules that may be named in expressions; each is written out only when it is used.
RULES: Final = {
    "ws": '" "?',
    "char": '[^"\\\\\\x00-\\x1f\\x7f] | "\\\\" ["\\\\/bfnrt]',
    "string": '"\\"" char* "\\""',
    "whole": '"-"? ("0" | [1-9] [0-9]{0,14})',
    "number": 'whole ("." [0-9]{1,12})?',
    "boolean": '"true" | "false"',
    "null": '"null"',
    "value": "object | array | string | number | boolean | null",
    "array": '"[" ws (value ("," ws value)*)? "]"',
    "object": '"{" ws (pair ("," ws pair)*)? "}"',
    "pair": 'string ":" ws value',
    "day": f'[0-9]{{4}} "-" {_DAY} | {_LEAP_DAY}',
    "moment": f'{_HOUR} ":" [0-5] [0-9] ":" [0-5] [0-9] ("." [0-9]{{1,6}})? {_OFFSET}',
    "date": '"\\"" day "\\""',
    "time": '"\\"" moment "\\""',
    "date-time": '"\\"" day "T" moment "\\""',
    "email": f'"\\"" {_WORD} ("." {_WORD}){{0,4}} "@" {_WORD} ("." {_WORD}){{1,4}} "\\""',
    "ipv4": f'"\\"" {_OCTET} ("." {_OCTET}){{3}} "\\""',
    "uuid": '"\\"" hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12} "\\""',
    "uri": f'"\\"" ("http" "s"? | "ftp" | "file") "://" {_WORD} ("." {_WORD}){{0,6}} path "\\""',
    "hostname": f'"\\"" {_WORD} ("." {_WORD}){{0,6}} "\\""',
    "uri-reference": '"\\"" [a-zA-Z0-9._~-]+ path "\\""',
    "path": '("/" [a-zA-Z0-9._~-]*)* ("?" [a-zA-Z0-9._~=&+-]*)?',
    "hex": "[0-9a-fA-F]",
}
FORMATS: Final = frozenset(
    ("date", "time", "date-time", "email", "hostname", "ipv4", "uuid", "uri", "uri-reference")
)
USES: Final = {
    "string": ("char",),
    "number": ("whole",),
    "value": ("object", "array", "string", "number", "boolean", "null"),
    "array": ("ws", "value"),
    "object": ("ws", "pair"),
    "pair": ("string", "ws", "value"),
    "date": ("day",),
    "time": ("moment",),
    "date-time": ("day", "moment"),
    "uuid": ("hex",),
    "uri": ("path",),
    "uri-reference": ("path",),
}


def literal(text: str) -> str:
    """Returns an expression for exactly this text."""
    return '"' + "".join(_ESCAPED.get(each) or _plain(each) for each in text) + '"'


_ESCAPED: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _plain(character: str) -> str:
    return character if character >= " " else f"\\x{ord(character):02x}"


def exactly(value: Json) -> str:
    """Returns an expression for exactly this JSON value."""
    return literal(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


_LONGEST: Final = 15  # digits: beyond this a number is no longer exact everywhere


def whole_range(low: int | None, high: int | None) -> str:
    """Returns an expression for the whole numbers from `low` to `high`; None is no limit."""
    least = -(10**_LONGEST) + 1 if low is None else low
    most = 10**_LONGEST - 1 if high is None else high
    if least > most:
        return ""
    parts: list[str] = []
    if least < 0:
        below = _between(max(1, -most), -least)
        parts.append(f'"-" ({below})')
    if least <= 0 <= most:
        parts.append('"0"')
    if most > 0:
        parts.append(_between(max(1, least), most))
    return " | ".join(parts)


def number_range(low: int | None, high: int | None) -> str:
    """Returns an expression for numbers from `low` to `high`, with fractions."""
    parts: list[str] = []
    if low is None or low < 0:
        sizes = _sizes(max(0, -high) if high is not None else 0, None if low is None else -low)
        parts += [f'"-" ({sizes})'] if sizes else []
    if high is None or high >= 0:
        sizes = _sizes(max(0, low or 0), high)
        parts += [sizes] if sizes else []
    return " | ".join(parts)


def _sizes(least: int, most: int | None) -> str:
    """Numbers without a sign; the largest whole number gets no fraction."""
    inner = whole_range(least, None if most is None else most - 1)
    parts = [f'({inner}) ("." [0-9]{{1,12}})?'] if inner else []
    if most is not None and most >= least:
        parts.append(f'"{most}"')
    return " | ".join(parts)


def _between(low: int, high: int) -> str:
    """Returns expressions for the numbers between two positive ones, by number of digits."""
    parts: list[str] = []
    for length in range(len(str(low)), len(str(high)) + 1):
        first = str(max(low, 10 ** (length - 1)))
        last = str(min(high, 10**length - 1))
        parts.append(_digits(first, last))
    return " | ".join(parts)


def _digits(low: str, high: str) -> str:
    """Returns an expression for digit texts between two of the same length."""
    if low == high:
        return f'"{low}"'
    if low == "0" * len(low) and high == "9" * len(high):
        return f"[0-9]{{{len(low)}}}"
    if len(low) == 1:
        return f"[{low}-{high}]"
    if low[0] == high[0]:
        return f'"{low[0]}" ({_digits(low[1:], high[1:])})'
    return _spread(low, high)


def _spread(low: str, high: str) -> str:
    """Splits a range by first digit: the lowest, those between, the highest."""
    rest = len(low) - 1
    zeros, nines = "0" * rest, "9" * rest
    parts: list[str] = []
    start, end = int(low[0]), int(high[0])
    if low[1:] != zeros:
        parts.append(f'"{low[0]}" ({_digits(low[1:], nines)})')
        start += 1
    if high[1:] != nines:
        end -= 1
    if start <= end:
        parts.append(f"[{start}-{end}] [0-9]{{{rest}}}")
    if high[1:] != nines:
        parts.append(f'"{high[0]}" ({_digits(zeros, high[1:])})')
    return " | ".join(parts)


_NEVER: Final = '"\\\\\\x00-\\x1f\\x7f'
_CLASSES: Final = {"d": "[0-9]", "w": "[a-zA-Z0-9_]", "s": '" "', "S": f"[^ {_NEVER}]"}
_INSIDE: Final = {"d": "0-9", "w": "a-zA-Z0-9_", "s": " "}
_SET_END: Final = re.compile(r"\^?(?:[^\]\\]|\\.)+\]")
_REPEAT: Final = re.compile(r"\{(\d++)(,?)(\d*+)\}")
_BARRED: Final = re.compile(r'\\?"|\\\\')
_MOST: Final = 256
_ANY: Final = f"[^{_NEVER}]"


class _TooRich(Exception):
    """The pattern cannot be expressed as a grammar here."""


def pattern_expression(pattern: str) -> str | None:
    """Returns an expression for the texts that match a pattern; None if impossible."""
    try:
        reader = _Reader(_anchored(pattern))
        expression = reader.choice()
    except (_TooRich, IndexError):
        return None
    return expression if reader.is_done else None


def _anchored(pattern: str) -> str:
    """Returns the pattern without its anchors; without them any text may surround it."""
    start, end = pattern.startswith("^"), pattern.endswith("$") and not pattern.endswith("\\$")
    body = pattern[1 if start else 0 : len(pattern) - 1 if end else len(pattern)]
    if (start or end) and _top_level_bar(body):
        raise _TooRich
    return body


def _top_level_bar(body: str) -> bool:
    """Whether an anchor belongs to only one alternative, as in `^a|b$`."""
    depth, place = 0, 0
    while place < len(body):
        sign = body[place]
        if sign == "\\":
            place += 1
        elif sign == "[":
            found = _SET_END.match(body, place + 1)
            place = found.end() - 1 if found else place
        depth += (sign == "(") - (sign == ")")
        if sign == "|" and depth == 0:
            return True
        place += 1
    return False


class _Reader:
    """Reads a pattern from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._text)

    def choice(self) -> str:
        parts = [self._sequence()]
        while not self.is_done and self._text[self._at] == "|":
            self._at += 1
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else f"({' | '.join(parts)})"

    def _sequence(self) -> str:
        parts: list[str] = []
        while not self.is_done and self._text[self._at] not in "|)":
            parts.append(self._atom() + self._repeat())
        return " ".join(parts) or '""'

    def _atom(self) -> str:
        sign = self._text[self._at]
        self._at += 1
        match sign:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case ".":
                return _ANY
            case "\\":
                return self._escape()
            case "^" | "$" | "*" | "+" | "?" | "{":
                raise _TooRich
            case _:
                return _safe(sign)

    def _group(self) -> str:
        if self._text.startswith("?", self._at):
            if not self._text.startswith("?:", self._at):
                raise _TooRich
            self._at += 2
        inside = self.choice()
        if self.is_done:
            raise _TooRich
        self._at += 1
        return f"({inside})"

    def _escape(self) -> str:
        sign = self._text[self._at]
        self._at += 1
        if sign in _CLASSES:
            return _CLASSES[sign]
        if sign.isalnum():
            raise _TooRich
        return _safe(sign)

    def _class(self) -> str:
        """Reads a character set; leaves out characters that JSON must escape."""
        start = self._at
        found = _SET_END.match(self._text, start)
        if found is None:
            raise _TooRich
        self._at = found.end()
        body = self._text[start : found.end() - 1]
        if body.startswith("^"):
            # Quotes and backslashes are never members: they need not be taken out again.
            return f"[^{_members(re.sub(_BARRED, '', body[1:]))}{_NEVER}]"
        members = f"[{_members(body)}]"
        if any(re.fullmatch(members, sign) for sign in '"\\\n\t'):
            raise _TooRich
        return members

    def _repeat(self) -> str:
        if self.is_done:
            return ""
        sign = self._text[self._at]
        if sign in "*+?":
            self._at += 1
            self._refuse_lazy()
            return sign
        found = _REPEAT.match(self._text, self._at)
        if found is None:
            return ""
        low, comma, high = found.groups()
        if int(high or low) > _MOST:
            raise _TooRich
        self._at = found.end()
        self._refuse_lazy()
        return f"{{{low}{comma}{high}}}"

    def _refuse_lazy(self) -> None:
        if not self.is_done and self._text[self._at] in "?+":
            raise _TooRich


def _members(body: str) -> str:
    parts: list[str] = []
    place = 0
    while place < len(body):
        sign = body[place]
        if sign == "\\":
            place += 1
            sign = body[place]
            if sign not in _INSIDE and sign.isalnum():
                raise _TooRich
            parts.append(_INSIDE.get(sign) or _member(sign))
        elif sign == "-" and 0 < place < len(body) - 1:
            parts.append("-")
        else:
            parts.append(_member(sign))
        place += 1
    return "".join(parts)


def _member(sign: str) -> str:
    if sign in '"\\' or sign < " ":
        raise _TooRich
    return f"\\{sign}" if sign in "]^" else "\\x2d" if sign == "-" else sign


def _safe(sign: str) -> str:
    """Returns a character as it is written inside a JSON text."""
    if sign < " ":
        raise _TooRich
    return literal(f"\\{sign}" if sign in '"\\' else sign)
