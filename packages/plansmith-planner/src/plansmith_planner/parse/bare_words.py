"""Reads unquoted text in malformed JSON: where a bare word ends, and what it means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from plansmith.plan.data import Json
from plansmith_planner.parse.characters import (
    BARE_KEY,
    CALL,
    CLOSERS,
    GROUPED,
    OPENERS,
    QUOTED_KEY,
    SIMPLE_CALL,
    WORD_KEY,
    after_gap,
    bare_value,
    clean,
    number,
    unescape,
)
from plansmith_planner.parse.quotes import Role

_STOP = re.compile(r"[,，;\n\"“”{}\[\]｛｝［］():：`]|//|/\*|(?<=\s)#")
_KEY_END = re.compile(r"[:：=,，\n\"'“”{}\[\]｛｝［］`]|->")
# The first quote after a bare word, if it directly follows the word.
_HANGING_QUOTE = re.compile(r"(?:[^\"\\\n]++|\\.)++(?<![\s,{\[:])\"")
_LONGEST_LOST: Final = 400
_COMMA = re.compile(",")
_BALANCED: Final = {"{": "}", "[": "]", "(": ")"}
_LONGEST_BRACKET: Final = 200
_LITERAL = r"(?:[tT]rue|[fF]alse|null|None|-?\d[\d.eE+-]*)"
_LITERALS = re.compile(rf"(?:{_LITERAL}\s+)+{_LITERAL}")
_KEY_AND_LITERAL = re.compile(rf"([^\W\d][\w$.-]*)\s+(?={_LITERAL}\s*(?:[,，;}}\]\n]|\Z))")
_JSON_WORD = re.compile(r"true|false|null|-?\d[\d.eE+-]*")


@dataclass(frozen=True, slots=True)
class Word:
    """Unquoted values and where they end; none if only a character was skipped."""

    values: Sequence[Json]
    end: int
    flaws: int = 1


def bare_word(text: str, start: int, end: int, role: Role, *, closing: bool) -> Word:
    """Reads the unquoted value at a place; `closing` if a parenthesis may end it."""
    found = SIMPLE_CALL.match(text, start, end)
    if found:
        return Word([_argument(found[1])], found.end())
    grouped = GROUPED.match(text, start, end) if role is Role.VALUE else None
    if grouped and not BARE_KEY.match(text, grouped[0].index(",") + start + 1, end):
        return Word([number(grouped[0].replace(",", ""))], grouped.end())
    stop = _lost_opening(text, start, end, role) or _word_end(text, start, end, role, closing)
    if stop == start:
        return Word([], start + 1)
    word = text[start:stop].strip()
    first = word.split(maxsplit=1)[0] if word else ""
    if len(first) < len(word):
        if role is Role.ITEM and _LITERALS.fullmatch(word):
            items = [bare_value(item) for item in word.split()]
            return Word(items, stop, flaws=len(items))
        keyed = role is Role.VALUE and WORD_KEY.match(text, start + len(first), end)
        if keyed and _JSON_WORD.fullmatch(first):
            return Word([bare_value(first)], start + len(first))
    hanging = stop < end and text[stop] in '"“”' and not text[stop - 1].isspace()
    return _meaning(word, stop + hanging, hanging=hanging)


def _argument(word: str) -> Json:
    if not word:
        return None
    return word[1:-1] if word[0] in "\"'" else bare_value(word)


def _meaning(word: str, end: int, *, hanging: bool) -> Word:
    value = unescape(word) if "\\" in word else bare_value(word)
    if hanging and (value is None or isinstance(value, bool)):
        value = word
    if isinstance(value, str):
        return Word([clean(value)], end, flaws=2)
    return Word([value], end, flaws=0 if _JSON_WORD.fullmatch(word) else 1)


def call_around(text: str, start: int, end: int) -> int:
    """Returns where the argument of a call around a container starts, else 0."""
    found = CALL.match(text, start, end)
    if not found:
        return 0
    follow = after_gap(text, found.end(), end)
    return found.end() if follow < end and text[follow] in OPENERS else 0


def _lost_opening(text: str, start: int, end: int, role: Role) -> int:
    """Returns where a string without an opening quote ends, else 0."""
    found = _HANGING_QUOTE.match(text, start, min(end, start + _LONGEST_LOST))
    if found is None or role is Role.ROOT or (role is Role.ITEM and "," in found[0]):
        return 0
    if any(found[0].count(close) > found[0].count(opener) for opener, close in _BALANCED.items()):
        return 0
    if any(QUOTED_KEY.match(text, start + comma.end()) for comma in _COMMA.finditer(found[0])):
        return 0
    follow = after_gap(text, found.end(), end)
    if follow < end and text[follow] == ",":
        goes_on = role is Role.ITEM or QUOTED_KEY.match(text, follow + 1, end) is not None
    else:
        goes_on = follow >= end or text[follow] in CLOSERS
    return found.end() - 1 if goes_on else 0


def _word_end(text: str, start: int, end: int, role: Role, closing: bool) -> int:  # noqa: FBT001
    position = start
    while True:
        found = _STOP.search(text, position, end)
        if not found:
            return end
        position = _passed(text, start, end, found, role)
        if not position or (closing and found[0] == ")"):
            return found.start()


def _passed(text: str, start: int, end: int, found: re.Match[str], role: Role) -> int:
    """Returns where a word continues after a character that might end it, else 0."""
    at, sign = found.start(), found[0]
    if sign in _BALANCED and at > start:
        close = text.find(_BALANCED[sign], at, min(end, at + _LONGEST_BRACKET))
        glued = sign == "(" or text[at - 1].isalpha()
        inside = text[at:close] if glued and close > 0 else "\n"
        if "\n" not in inside and '"' not in inside:
            return close + 1
    if sign in ":：()" or (sign == "//" and text[at - 1] == ":"):
        return found.end()
    if sign == "，" and role is Role.VALUE:
        keyed = QUOTED_KEY.match(text, at + 1, end) or BARE_KEY.match(text, at + 1, end)
        return 0 if keyed else found.end()
    return found.end() if sign == "`" and not text.startswith("```", at) else 0


def bare_key(text: str, start: int, end: int) -> tuple[str, int]:
    """Reads the unquoted key at a place; returns it and where it ends."""
    found = _KEY_AND_LITERAL.match(text, start, end)
    if found:
        return found[1], found.end()
    found = _KEY_END.search(text, start, end)
    stop = found.start() if found else end
    hanging = start < stop < end and text[stop] in "\"'“”" and not text[stop - 1].isspace()
    return clean(text[start:stop].strip()), stop + 1 if hanging else max(stop, start + 1)
