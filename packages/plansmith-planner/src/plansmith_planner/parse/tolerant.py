"""Parses malformed JSON in one pass without recursion, and counts its repairs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from plansmith.plan.data import Json
from plansmith_planner.parse.bare_words import bare_key, bare_word, call_around
from plansmith_planner.parse.characters import (
    CLOSERS,
    COLON,
    COLONS,
    COMMAS,
    ELLIPSIS,
    OPENERS,
    OPENING_QUOTES,
    QUOTED_KEY,
    REGEX_LITERAL,
    STRING_PREFIX,
    Source,
    after_gap,
    bare_value,
)
from plansmith_planner.parse.nesting import Frame, Nesting, Place, TooDeep, is_extra, is_typo
from plansmith_planner.parse.quotes import Reading, Role, Strings

# A missing value in a complete text is blank; one cut off by the end is unknown: null.
BLANK: Final = ""


class Escaped(Exception):
    """The whole text is escaped once more: its quotes have backslashes."""


@dataclass(slots=True)
class Repaired:
    """A value, where its text ends, and how much had to be guessed."""

    value: Json
    end: int
    flaws: int = 0
    closed: bool = True


_STRICT_STARTS: Final = ('{"', "{\n", "{ ", "{}", "[")
_FENCED_STRING = re.compile(r"[\"'`]```+\w*\s*(?=[{\[]\s*[\"'\]}])")
_FENCE_AND_QUOTE = re.compile(r"\s*```+\s*[\"'`]")


class TolerantParser:
    """Reads one value at a given place of a text."""

    def __init__(
        self, source: Source, start: int = 0, end: int | None = None, *, nested: bool = False
    ) -> None:
        self.text = source.text
        self.pos = start
        self.end = len(source.text) if end is None else end
        self.flaws = 0
        self._source = source
        self._nest = Nesting()
        self._stack = self._nest.stack
        self._strings = Strings(source, self.end, self._nest.opened)
        self._nested = nested
        self._cut = False

    def read(self) -> Repaired:
        """Reads the value; closes open containers at the end of the text."""
        self._skip()
        if self.pos < self.end:
            self._value(Role.ROOT)
        while self._stack:
            self._skip()
            if self.pos >= self.end or self.text.startswith(("```", "~~~"), self.pos):
                self._cut = True
                break
            frame = self._stack[-1]
            if frame.kind != "{":
                self._item(frame)
            elif frame.key is None:
                self._key(frame)
            else:
                self._field()
        closed = not self._stack
        while self._stack:
            self.flaws += 1
            self._nest.close(cut=True)
        value = self._nest.root
        return Repaired(value, self.pos, self.flaws, closed and not self._cut)

    # Objects

    def _key(self, frame: Frame) -> None:
        char = self.text[self.pos]
        if char in CLOSERS:
            self._closer(CLOSERS[char])
        elif char in COMMAS:
            self.flaws += frame.comma
            frame.comma = True
            self.pos += 1
        elif char in COLONS:
            self.pos += 1
            self.flaws += 1
            if not QUOTED_KEY.match(self.text, self.pos, self.end):
                frame.key, frame.dropping = "", True
        elif char in OPENERS:
            self._opener_for_key(frame, OPENERS[char])
        elif not self._ellipsis():
            self._read_key(frame)

    def _opener_for_key(self, frame: Frame, kind: str) -> None:
        """Handles a bracket instead of a key: a lost closing bracket, more of a list, or noise."""
        self.flaws += 1
        parent = self._stack[-2].kind if len(self._stack) > 1 else ""
        if kind == "{" and parent in ("[", "("):
            self._nest.close(cut=False)
        elif kind == "[" and frame.last is not None and isinstance(frame.fields[frame.last], list):
            frame.key, frame.merging = frame.last, True
            self._open(kind)
        else:
            self.pos += 1

    def _read_key(self, frame: Frame) -> None:
        quoted = self.text[self.pos] in OPENING_QUOTES
        word = self._string(Role.KEY).text.rstrip("\n") if quoted else self._bare_key()
        self._skip()
        if self._colon():
            frame.key, frame.named = word, True
            return
        self.flaws += 1
        char = self.text[self.pos] if self.pos < self.end else ""
        if char == "" or char in COMMAS or char in CLOSERS:
            self._keyless(frame, word, quoted=quoted)
        elif not (quoted and frame.comma) and QUOTED_KEY.match(self.text, self.pos, self.end):
            pass  # a word before a quoted key is noise
        elif quoted or frame.comma or not frame.named:
            frame.key, frame.named = word, True

    def _keyless(self, frame: Frame, word: str, *, quoted: bool) -> None:
        """Handles a key without a value: an item of a set, or a field that was cut off."""
        cut = self.pos >= self.end
        if not frame.comma or (cut and word == "") or (cut and frame.named and not quoted):
            return
        frame.fields.setdefault(word, None if cut else BLANK)
        frame.items.append(word if quoted else bare_value(word))
        frame.comma = False

    def _colon(self) -> bool:
        found = COLON.match(self.text, self.pos, self.end)
        if found:
            self.flaws += found[0] != ":"
            self.pos = found.end()
        return bool(found)

    def _field(self) -> None:
        char = self.text[self.pos]
        if char in COMMAS or char in CLOSERS:
            self.flaws += 1
            self._nest.put(BLANK)
        elif char in COLONS:
            self.flaws += 1
            self.pos += 1
        else:
            self._value(Role.VALUE)

    # Arrays

    def _item(self, frame: Frame) -> None:
        char = self.text[self.pos]
        if char in CLOSERS:
            self._closer(CLOSERS[char])
        elif char in COMMAS:
            self.flaws += frame.comma or char != ","
            frame.comma = True
            self.pos += 1
        elif char in COLONS:
            self._implicit_object(frame)
        elif not self._ellipsis():
            self.flaws += not frame.comma
            self._value(Role.ITEM)

    def _implicit_object(self, frame: Frame) -> None:
        """Reads ``["key": value}``, where the brace before the key is missing."""
        self.pos += 1
        self.flaws += 1
        key = frame.items[-1] if frame.items and not frame.comma else None
        if not isinstance(key, str):
            return
        frame.items.pop()
        last = frame.items[-1] if frame.items else None
        parent = self._stack[-2].kind if len(self._stack) > 1 else ""
        if parent == "{" and frame.items and not frame.doubled:
            self._nest.close(cut=False)
        else:
            self._nest.push("{")
            if isinstance(last, dict):
                self._stack[-1].fields = last
                frame.items.pop()
        self._stack[-1].key, self._stack[-1].named = key, True

    # Values

    def _value(self, role: Role) -> None:
        text, char = self.text, self.text[self.pos]
        if char in OPENERS:
            self.flaws += char not in "{["
            self._open(OPENERS[char])
        elif char in OPENING_QUOTES:
            self._quoted(role)
        elif self._is_escaped():
            raise Escaped
        elif char == "/" and (found := REGEX_LITERAL.match(text, self.pos, self.end)):
            self.pos = found.end()
            self.flaws += 1
            self._nest.put(found[0])
        else:
            self._unquoted(role)

    def _quoted(self, role: Role) -> None:
        if self._fenced_inside():
            return
        reading = self._string(role)
        parts = [reading.text]
        while True:
            self._skip()
            if self.pos >= self.end or self.text[self.pos] != "+":
                break
            self.flaws += 1
            self.pos += 1
            self._skip()
            if self.pos >= self.end or self.text[self.pos] not in OPENING_QUOTES:
                break
            parts.append(self._string(role).text)
        empty_cut = reading.cut and not any(parts) and role is Role.ITEM
        if not empty_cut:
            self._nest.put("".join(parts))

    def _fenced_inside(self) -> bool:
        """Reads ``"```json {"a": 1}```"``: a fenced value instead of a string."""
        fence = _FENCED_STRING.match(self.text, self.pos, self.end)
        if fence is None or self._nested:
            return False
        inner = TolerantParser(self._source, fence.end(), self.end, nested=True)
        try:
            repaired = inner.read()
        except (Escaped, TooDeep):
            return False
        close = _FENCE_AND_QUOTE.match(self.text, repaired.end, self.end)
        if close is None:
            return False
        self.pos = close.end()
        self.flaws += 1 + repaired.flaws
        self._nest.put(repaired.value)
        return True

    def _string(self, role: Role) -> Reading:
        reading = self._strings.read(self.pos, role)
        if self.text[self.pos] != '"' or reading.repaired:
            self.flaws += 1 + reading.repaired
        self.pos = reading.end
        self._cut = self._cut or reading.cut
        return reading

    def _unquoted(self, role: Role) -> None:
        """Reads a prefixed string, a call around a value, or a plain word."""
        prefix = STRING_PREFIX.match(self.text, self.pos, self.end)
        opening = call_around(self.text, self.pos, self.end)
        if prefix:
            self.pos = prefix.end()
            self._quoted(role)
        elif opening:
            self.flaws += 1
            self.pos = opening
            self._nest.push("(")
            self._stack[-1].comma = False
        else:
            word = bare_word(
                self.text, self.pos, self.end, role, closing=self._nest.opened["("] > 0
            )
            self.flaws += word.flaws
            self.pos = word.end
            for value in word.values:
                self._nest.put(value)

    def _bare_key(self) -> str:
        if self._is_escaped():
            raise Escaped
        word, self.pos = bare_key(self.text, self.pos, self.end)
        return word

    def _is_escaped(self) -> bool:
        return self.text.startswith(('\\"', "\\'"), self.pos)

    # Containers

    def _open(self, kind: str) -> None:
        plain = self.text.startswith(_STRICT_STARTS, self.pos) and self._stack
        found = self._source.strict_at(self.pos) if plain else None
        if found and found[1] <= self.end:
            value, self.pos = found
            self._nest.put(value)
            last = Place(self.text, self.pos - 1, self.end)
            self._stack[-1].doubled = last.before == self.text[self.pos - 1]
            return
        self.pos += 1
        self._nest.push(kind)

    def _closer(self, kind: str) -> None:
        top = self._stack[-1]
        if top.kind == kind:
            self._right_closer(kind)
            return
        self.flaws += 1
        place = Place(self.text, self.pos, self.end)
        if not self._nest.opened[kind] or is_extra(place, self._nest):
            self.pos += 1
            return
        if is_typo(place, self._stack, kind):
            self.pos += 1
        elif not (top.fields or top.items or top.key):
            self._nest.drop()
            return
        self._nest.close(cut=False)

    def _right_closer(self, kind: str) -> None:
        place = Place(self.text, self.pos, self.end)
        doubled = place.before == self.text[self.pos]
        self.pos += 1
        if len(self._stack) == 1 and kind == "{" and place.goes_on():
            self.flaws += 1
            return
        self._nest.close(cut=False)
        if self._stack:
            self._stack[-1].doubled = doubled

    # Gaps

    def _skip(self) -> None:
        self.pos = after_gap(self.text, self.pos, self.end)

    def _ellipsis(self) -> bool:
        found = ELLIPSIS.match(self.text, self.pos, self.end)
        if found:
            self.pos = found.end()
            self.flaws += 1
        return bool(found)
