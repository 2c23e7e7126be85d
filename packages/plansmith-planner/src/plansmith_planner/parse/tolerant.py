"""Reads one value of malformed JSON in a pass without recursion, and counts what it guessed."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal

from plansmith.plan.data import Json
from plansmith_planner.parse.scalars import bare_value, clean, unescape

_QUOTES: Final = frozenset("\"“”„＂'‘’`´＇")
_DOUBLE: Final = '"“”„‟″＂'
_SINGLE: Final = "'‘’‛`´＇"
_OPENERS: Final = {"{": "{", "[": "[", "｛": "{", "［": "["}
_CLOSERS: Final = {"}": "{", "]": "[", "｝": "{", "］": "["}
_COMMAS: Final = frozenset(",，;；、")
_STOPS: Final = _COMMAS | _CLOSERS.keys()
_SPACE: Final = r"[\s\x00-\x20\u200b-\u200f\u2060\ufeff]"
GAP: Final = re.compile(
    rf"(?:{_SPACE}+|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|#(?![0-9a-fA-F]{{3,8}}\b)[^\n]*)*"
)
_ELLIPSIS: Final = re.compile(r"\.\.\.+|…+")
_QUOTED: Final = re.compile(
    r"\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|[“”][^“”\n]{0,200}[“”\"]|[‘’`][^‘’`\n]{0,200}[‘’`']"
)
_QUOTED_KEY: Final = re.compile(rf"{_SPACE}*\\?(?:{_QUOTED.pattern}){_SPACE}*[:：]")
# Behind the last bracket: it closed too early.
ANOTHER_FIELD: Final = re.compile(rf"{_SPACE}*,{_QUOTED_KEY.pattern}")
_OPEN_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_KEY: Final = re.compile(r"[^:：=,，\n\"'“”{}\[\]｛｝［］`]*")
_WORD: Final = re.compile(r"(?:(?!\s(?://|#)|/\*)[^,，;；\n\"“”{}\[\]｛｝［］`])*")
_JSON_WORD: Final = re.compile(r"true|false|null|-?\d[\d.eE+-]*")
# What a string or word is used for; it decides what may follow it.
_Role = Literal["key", "value", "item"]


class TooDeep(Exception):
    """The value is nested too deeply for Python code."""


@dataclass(slots=True)
class Repaired:
    """A value, where its text ends, and how much had to be guessed."""

    value: Json
    end: int
    flaws: int = 0
    closed: bool = True


@dataclass(slots=True)
class _Frame:
    """A container that is still open."""

    kind: str
    fields: dict[str, Json] = field(default_factory=dict[str, Json])
    items: list[Json] = field(default_factory=list[Json])
    key: str | None = None
    comma: bool = True


class Tolerant:
    """Reads one list or object at a given place of a text."""

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        self.text = text
        self.pos = start
        self.end = len(text) if end is None else end
        self.flaws = 0
        self._root: Json = None
        self._stack: list[_Frame] = []
        self._opened: Counter[str] = Counter()
        self._cut = False
        # How many characters may be read again before every quote is taken for an end.
        self._budget = 8 * (self.end - start) + 4096

    def read(self) -> Repaired:
        """Reads the value at an opening bracket; closes open containers at the end of the text."""
        self._value("item")
        while self._stack:
            self.pos = self._after_gap(self.pos)
            if self._is_over(self.pos):
                self._cut = True
                break
            self._advance(self._stack[-1], self.text[self.pos])
        closed = not self._stack and not self._cut
        while self._stack:
            self.flaws += 1
            self._close()
        return Repaired(self._root, self.pos, self.flaws, closed)

    # Containers

    def _advance(self, frame: _Frame, char: str) -> None:
        if frame.key is not None:
            self._value("value")
        elif char in _CLOSERS:
            self._closer(_CLOSERS[char])
        elif char in _COMMAS:
            self.flaws += frame.comma or (frame.kind != "{" and char != ",")
            frame.comma = True
            self.pos += 1
        elif found := _ELLIPSIS.match(self.text, self.pos, self.end):
            self.pos = found.end()
            self.flaws += 1
        elif frame.kind == "{":
            self._key(frame, char)
        else:
            self.flaws += not frame.comma
            self._value("item")

    def _push(self, kind: str) -> None:
        if len(self._stack) >= 5000:
            raise TooDeep
        self._stack.append(_Frame(kind))
        self._opened[kind] += 1

    def _close(self) -> None:
        frame = self._stack.pop()
        self._opened[frame.kind] -= 1
        if frame.key is not None:
            frame.fields[frame.key] = None
        self._put(frame.fields if frame.kind == "{" else frame.items)

    def _put(self, value: Json) -> None:
        if not self._stack:
            self._root = value
            return
        frame = self._stack[-1]
        frame.comma = False
        if frame.kind == "{":
            frame.fields[frame.key or ""] = value
            frame.key = None
        else:
            frame.items.append(value)

    def _closer(self, kind: str) -> None:
        if self._stack[-1].kind != kind:
            self.flaws += 1
            if self._opened[kind]:  # the closer of the inner one is missing
                self._close()
            else:
                self.pos += 1
            return
        self.pos += 1
        if len(self._stack) == 1 and kind == "{" and self._is(ANOTHER_FIELD, self.pos):
            self.flaws += 1
        else:
            self._close()

    def _key(self, frame: _Frame, char: str) -> None:
        if char in _OPENERS:
            # Instead of a key: the closer between two objects of a list is missing, or it is noise.
            self.flaws += 1
            if _OPENERS[char] == "{" and len(self._stack) > 1 and self._stack[-2].kind != "{":
                self._close()
            else:
                self.pos += 1
            return
        word = self._string("key").rstrip("\n") if char in _QUOTES else self._bare_key()
        self.pos = self._after_gap(self.pos)
        following = self._char(self.pos)
        if following in (":", "：", "="):
            self.pos += 1
            frame.key = word
        elif following and following not in _STOPS:
            frame.key = word  # a colon is missing
        elif following:
            frame.fields.setdefault(word, "")
            frame.comma = False
        self.flaws += following != ":"

    def _bare_key(self) -> str:
        start, found = self.pos, _KEY.match(self.text, self.pos, self.end)
        self.pos = max(found.end() if found else start, start + 1)
        return clean(self.text[start : self.pos].strip())

    # Values

    def _value(self, role: _Role) -> None:
        char = self.text[self.pos]
        if role == "value" and char in _STOPS:
            self.flaws += 1
            self._put("")  # one that is cut off by the end is unknown: null
        elif char in _OPENERS:
            self.flaws += char not in "{["
            self.pos += 1
            self._push(_OPENERS[char])
        elif char in _QUOTES:
            said = self._string(role)
            if said or not self._cut or role != "item":
                self._put(said)
        else:
            self._bare_word()

    def _bare_word(self) -> None:
        start, found = self.pos, _WORD.match(self.text, self.pos, self.end)
        word = found[0] if found else ""
        self.flaws += 1
        self.pos = start + max(len(word), 1)
        word = word.strip()
        if word:
            value = unescape(word) if "\\" in word else bare_value(word)
            self.flaws += isinstance(value, str) - bool(_JSON_WORD.fullmatch(word))
            self._put(clean(value) if isinstance(value, str) else value)

    # Strings

    def _string(self, role: _Role) -> str:
        text, start, quote = self.text, self.pos + 1, self.text[self.pos]
        self.flaws += quote != '"'
        closers = quote if quote in "\"'" else _DOUBLE if quote in _DOUBLE else _SINGLE
        inside = rf"[^{closers}\\]*"
        plain = re.compile(rf"{inside}(?:\\[\s\S]{inside})*")
        position, inner = start, 0
        while True:
            found = plain.match(text, position, self.end)
            stop = found.end() if found else self.end
            self._budget -= stop - position + 1
            if stop >= self.end or text[stop] == "\\":
                self.flaws += 1
                self.pos, self._cut = self.end, True
                return unescape(_OPEN_ESCAPE.sub("", text[start : self.end]))
            if self._budget < 0 or role == "key" or self._ends(role, stop, inner):
                self.pos = stop + 1
                self.flaws += inner > 0
                return unescape(text[start:stop])
            inner += 1
            position = stop + 1

    def _ends(self, role: _Role, at: int, inner: int) -> bool:
        """Whether a quote ends its string, by what follows it; `inner` quotes were before it."""
        follow, even = self._after_gap(at + 1), inner % 2 == 0
        char = self._char(follow)
        if self._is_over(follow):
            return True
        if char in _COMMAS:
            after_comma = self._after_gap(follow + 1)
            return even or role != "value" or self._is(_QUOTED_KEY, after_comma)
        if char in _CLOSERS:
            return True
        lines, spaced = "\n" in self.text[at:follow], follow > at + 1
        if char in _QUOTES:
            return self._is(_QUOTED_KEY, follow) or (role == "item" and spaced and even)
        return role == "item" and even and (lines or char in _OPENERS or char.isdigit())

    # The text

    def _char(self, position: int) -> str:
        return self.text[position] if position < self.end else ""

    def _is(self, pattern: re.Pattern[str], position: int) -> bool:
        return pattern.match(self.text, position, self.end) is not None

    def _is_over(self, position: int) -> bool:
        return position >= self.end or self.text.startswith(("```", "~~~"), position)

    def _after_gap(self, position: int) -> int:
        """Returns the next place that is neither white space nor a comment."""
        found = GAP.match(self.text, position, self.end)
        self._budget -= (end := found.end() if found else position) - position
        return end
