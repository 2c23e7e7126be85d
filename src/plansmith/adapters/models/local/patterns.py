"""Regular expressions of schemas as expressions of a grammar, where they are plain enough."""

from __future__ import annotations

import re
from typing import Final

from plansmith.adapters.models.local.phrases import literal

_NEVER: Final = '"\\\\\\x00-\\x1f\\x7f'
_CLASSES: Final = {"d": "[0-9]", "w": "[a-zA-Z0-9_]", "s": '" "', "S": f"[^ {_NEVER}]"}
_INSIDE: Final = {"d": "0-9", "w": "a-zA-Z0-9_", "s": " "}
_SET_END: Final = re.compile(r"\^?(?:[^\]\\]|\\.)+\]")
_REPEAT: Final = re.compile(r"\{(\d+)(,?)(\d*)\}")
_BARRED: Final = re.compile(r'\\?"|\\\\')
_MOST: Final = 256
_ANY: Final = f"[^{_NEVER}]"


class _TooRich(Exception):
    """The pattern uses what no grammar here says."""


def pattern_expression(pattern: str) -> str | None:
    """The expression of the texts that match from end to end; None when it cannot be said."""
    try:
        reader = _Reader(_anchored(pattern))
        expression = reader.choice()
    except (_TooRich, IndexError):
        return None
    return expression if reader.is_done else None


def _anchored(pattern: str) -> str:
    """The pattern between its anchors; without them anything may stand around it."""
    start, end = pattern.startswith("^"), pattern.endswith("$") and not pattern.endswith("\\$")
    body = pattern[1 if start else 0 : len(pattern) - 1 if end else len(pattern)]
    if (start or end) and _top_level_bar(body):
        raise _TooRich
    return body


def _top_level_bar(body: str) -> bool:
    """Whether an anchor belongs to one alternative only: `^a|b$`."""
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
        """Members of a set; what a text cannot hold unescaped is never one of them."""
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
    """A character as it stands inside a JSON text."""
    if sign < " ":
        raise _TooRich
    return literal(f"\\{sign}" if sign in '"\\' else sign)
