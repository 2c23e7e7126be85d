"""Reads one value of malformed JSON in a pass without recursion, and counts what it guessed."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

from plansmith.plan.data import Json
from plansmith_planner.parse import signs
from plansmith_planner.parse.scalars import bare_value, clean, closers_of, number, unescape

_WINDOW: Final = 200
_LONGEST_LOST: Final = 400
_MAX_LEVELS: Final = 5000


class TooDeep(Exception):
    """The value is nested too deeply for Python code."""


class Escaped(Exception):
    """The whole text is escaped once more: its quotes have backslashes."""


class Role(Enum):
    """What a string or word is used for; it decides what may follow it."""

    KEY = auto()
    VALUE = auto()
    ITEM = auto()
    ROOT = auto()


class Verdict(Enum):
    """The meaning of one quote inside a string."""

    END = auto()
    INNER = auto()
    NEXT = auto()  # opens the next string: this one lost its closing quote


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
    last: str = ""
    named: bool = False
    comma: bool = True

    def value(self, *, cut: bool) -> Json:
        """Returns the container's value; braces around plain items are read as a list."""
        if self.kind == "{":
            is_set = not self.named and self.items and not (cut and len(self.items) == 1)
            return self.items if is_set else self.fields
        if self.kind == "(" and len(self.items) == 1 and not self.comma:
            return self.items[0]
        return self.items


@dataclass(slots=True)
class _String:
    """A string that is being read; `inner` counts the quotes that it holds."""

    start: int
    quote: str
    role: Role
    inner: int = 0
    doubled: bool = False


class Tolerant:
    """Reads one value at a given place of a text."""

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
        closed = not self._stack and not self._cut
        while self._stack:
            self.flaws += 1
            self._close(cut=True)
        return Repaired(self._root, self.pos, self.flaws, closed)

    # Containers

    def _push(self, kind: str) -> None:
        if len(self._stack) >= _MAX_LEVELS:
            raise TooDeep
        self._stack.append(_Frame(kind))
        self._opened[kind] += 1

    def _close(self, *, cut: bool = False) -> None:
        """Closes the innermost container and puts it into the one around it."""
        frame = self._stack.pop()
        self._opened[frame.kind] -= 1
        if frame.key is not None:
            frame.fields[frame.key] = None
        self._put(frame.value(cut=cut))

    def _put(self, value: Json) -> None:
        """Adds a value to the innermost container."""
        if not self._stack:
            self._root = value
            return
        frame = self._stack[-1]
        frame.comma = False
        if frame.kind == "{":
            frame.last, frame.key = frame.key or "", None
            frame.fields[frame.last] = value
        else:
            frame.items.append(value)

    def _closer(self, kind: str) -> None:
        top = self._stack[-1]
        if top.kind != kind:
            self.flaws += 1
            if not self._opened[kind]:
                self.pos += 1
            elif top.fields or top.items or top.key or self._stack[-2].key is not None:
                self._close()
            else:
                self._opened[self._stack.pop().kind] -= 1
            return
        self.pos += 1
        if len(self._stack) == 1 and kind == "{" and self._is(signs.ANOTHER_FIELD, self.pos):
            self.flaws += 1
        else:
            self._close()

    # Objects and arrays

    def _key(self, frame: _Frame) -> None:
        char = self.text[self.pos]
        if char in signs.CLOSERS:
            self._closer(signs.CLOSERS[char])
        elif char in signs.COMMAS:
            self.flaws += frame.comma
            frame.comma = True
            self.pos += 1
        elif char in signs.OPENERS:
            self._opener_for_key(frame, signs.OPENERS[char])
        elif not self._ellipsis():
            self._read_key(frame)

    def _opener_for_key(self, frame: _Frame, kind: str) -> None:
        """Handles a bracket instead of a key: a lost closing bracket, more of a list, or noise."""
        self.flaws += 1
        if kind == "{" and len(self._stack) > 1 and self._stack[-2].kind != "{":
            self._close()
            return
        self.pos += 1
        more = frame.fields.get(frame.last)
        if isinstance(more, list):
            frame.key = frame.last
            self._push("[")
            self._stack[-1].items = more

    def _read_key(self, frame: _Frame) -> None:
        quoted = self.text[self.pos] in signs.OPENING_QUOTES
        word = self._string(Role.KEY).rstrip("\n") if quoted else self._bare_key()
        self._skip()
        colon = signs.COLON.match(self.text, self.pos, self.end)
        if colon:
            self.flaws += colon[0] != ":"
            self.pos = colon.end()
            frame.key, frame.named = word, True
            return
        self.flaws += 1
        char = self._char(self.pos)
        if char == "" or char in signs.COMMAS or char in signs.CLOSERS:
            self._keyless(frame, word, quoted=quoted)
        elif not (quoted and frame.comma) and self._is(signs.QUOTED_KEY, self.pos):
            pass  # a word before a quoted key is noise
        else:
            frame.key, frame.named = word, True

    def _keyless(self, frame: _Frame, word: str, *, quoted: bool) -> None:
        """Handles a key without a value: an item of a set, or a field that was cut off."""
        cut = self.pos >= self.end
        if not frame.comma or (cut and (word == "" or (frame.named and not quoted))):
            return
        frame.fields.setdefault(word, None if cut else "")
        frame.items.append(word if quoted else bare_value(word))
        frame.comma = False

    def _field(self) -> None:
        char = self.text[self.pos]
        if char in signs.COMMAS or char in signs.CLOSERS:
            self.flaws += 1
            self._put("")  # one that is cut off by the end is unknown: null
        else:
            self._value(Role.VALUE)

    def _item(self, frame: _Frame) -> None:
        char = self.text[self.pos]
        if char in signs.CLOSERS:
            self._closer(signs.CLOSERS[char])
        elif char in signs.COMMAS:
            self.flaws += frame.comma or char != ","
            frame.comma = True
            self.pos += 1
        elif char in signs.COLONS:
            self._implicit_object(frame)
        elif not self._ellipsis():
            self.flaws += not frame.comma
            self._value(Role.ITEM)

    def _implicit_object(self, frame: _Frame) -> None:
        """Reads ``["key": value}``, where the brace before the key is missing."""
        self.pos += 1
        self.flaws += 1
        key = frame.items[-1] if frame.items and not frame.comma else None
        if not isinstance(key, str):
            return
        frame.items.pop()
        if frame.items and len(self._stack) > 1 and self._stack[-2].kind == "{":
            self._close()
        else:
            self._push("{")
        self._stack[-1].key, self._stack[-1].named = key, True

    # Values

    def _value(self, role: Role) -> None:
        char = self.text[self.pos]
        if char in signs.OPENERS:
            self.flaws += char not in "{["
            self.pos += 1
            self._push(signs.OPENERS[char])
        elif char in signs.OPENING_QUOTES:
            self._quoted(role)
        else:
            self._refuse_escaped()
            self._bare_word(role)

    def _quoted(self, role: Role) -> None:
        parts = [self._string(role)]
        while True:
            self._skip()
            if self._char(self.pos) != "+":
                break
            self.flaws += 1
            self.pos += 1
            self._skip()
            if self._char(self.pos) not in signs.OPENING_QUOTES:
                break
            parts.append(self._string(role))
        if any(parts) or not self._cut or role is not Role.ITEM:
            self._put("".join(parts))

    def _refuse_escaped(self) -> None:
        if self.text.startswith(('\\"', "\\'"), self.pos):
            raise Escaped

    def _ellipsis(self) -> bool:
        found = signs.ELLIPSIS.match(self.text, self.pos, self.end)
        if found:
            self.pos = found.end()
            self.flaws += 1
        return bool(found)

    # Bare words

    def _bare_key(self) -> str:
        self._refuse_escaped()
        text, start = self.text, self.pos
        literal = signs.KEY_AND_LITERAL.match(text, start, self.end)
        if literal:
            self.pos = literal.end()
            return literal[1]
        found = signs.KEY_STOP.search(text, start, self.end)
        stop = found.start() if found else self.end
        hanging = start < stop < self.end and text[stop] in "\"'“”" and not text[stop - 1].isspace()
        self.pos = stop + 1 if hanging else max(stop, start + 1)
        return clean(text[start:stop].strip())

    def _bare_word(self, role: Role) -> None:
        """Reads unquoted text: a call with a plain argument, a number, literals, or words."""
        text, start = self.text, self.pos
        self.flaws += 1
        call = signs.SIMPLE_CALL.match(text, start, self.end)
        grouped = signs.GROUPED.match(text, start, self.end) if role is Role.VALUE else None
        if call:
            self.pos, word = call.end(), call[1]
            self._put(word[1:-1] if word[:1] in ('"', "'") else bare_value(word or "null"))
        elif grouped:
            self.pos = grouped.end()
            self._put(number(grouped[0].replace(",", "")))
        else:
            self.pos = self._lost_opening(role) or self._word_end()
            word = text[start : self.pos].strip()
            if self.pos == start:
                self.pos += 1
            elif role is Role.ITEM and signs.SEVERAL_LITERALS.fullmatch(word):
                for each in word.split():
                    self._put(bare_value(each))
            else:
                self._words(start, word, role)

    def _words(self, start: int, word: str, role: Role) -> None:
        first = word.partition(" ")[0]
        if first != word and role is Role.VALUE and signs.JSON_WORD.fullmatch(first):
            keyed = self._is(signs.WORD_KEY, start + len(first))  # a comma is missing
            word, self.pos = (first, start + len(first)) if keyed else (word, self.pos)
        spaced = self.text[self.pos - 1].isspace()
        hanging = self._char(self.pos) in ('"', "“", "”") and not spaced
        value = unescape(word) if "\\" in word else bare_value(word)
        self.pos += hanging
        self.flaws += isinstance(value, str) - bool(signs.JSON_WORD.fullmatch(word))
        self._put(clean(value) if isinstance(value, str) else value)

    def _lost_opening(self, role: Role) -> int:
        """Returns where a string without an opening quote ends, else 0."""
        text, start = self.text, self.pos
        found = signs.HANGING_QUOTE.match(text, start, min(self.end, start + _LONGEST_LOST))
        if found is None or role is Role.ROOT or (role is Role.ITEM and "," in found[0]):
            return 0
        follow = self._after_gap(found.end())
        goes_on = self._char(follow) == "" or self._char(follow) in signs.CLOSERS
        if self._char(follow) == ",":
            goes_on = role is Role.ITEM or self._is(signs.QUOTED_KEY, follow + 1)
        return found.end() - 1 if goes_on else 0

    def _word_end(self) -> int:
        position = self.pos
        while found := signs.WORD_STOP.search(self.text, position, self.end):
            position = self._passed(found)
            if not position or (found[0] == ")" and self._opened["("]):
                return found.start()
        return self.end

    def _passed(self, found: re.Match[str]) -> int:
        """Returns where a word continues after a character that might end it, else 0."""
        text, at, sign = self.text, found.start(), found[0]
        if sign in signs.PAIRS and at > self.pos and (sign == "(" or text[at - 1].isalpha()):
            close = text.find(signs.PAIRS[sign], at, min(self.end, at + _WINDOW))
            if close > 0 and not re.search(r'[\n"]', text[at:close]):
                return close + 1
        if sign in ":：()" or (sign == "//" and text[at - 1] == ":"):
            return found.end()
        return 0

    # Strings

    def _string(self, role: Role) -> str:
        """Reads the string whose opening quote is here."""
        text, start = self.text, self.pos
        quote = text[start]
        self.flaws += quote != '"'
        if text.startswith(('"""', "'''"), start):
            close = text.find(quote * 3, start + 3, self.end)
            if close > start + 3:
                self.flaws += 1
                self.pos = close + 3
                return unescape(text[start + 3 : close])
        after = text[start + 2 : start + 3]  # of a quote that is written twice: ""name""
        doubled = text[start + 1 : start + 2] == quote and after.isalnum()
        doubled = doubled and not (role is Role.ITEM and after.isdigit())
        string = _String(start + 1 + doubled, quote, role, doubled=doubled)
        found = self._scan(string)
        if doubled and self._char(self.pos) == quote == text[self.pos - 1]:
            self.pos += 1
        self.flaws += doubled or string.inner > 0
        return found

    def _scan(self, string: _String) -> str:
        text, position = self.text, string.start
        inside = rf"[^{re.escape(closers_of(string.quote))}\\]*"
        plain = re.compile(rf"{inside}(?:\\[\s\S]{inside})*")
        while True:
            found = plain.match(text, position, self.end)
            stop = found.end() if found else self.end
            self._budget -= stop - position + 1
            if stop >= self.end or text[stop] == "\\":
                self.flaws += 1
                return self._unclosed(string)
            verdict = Verdict.END if self._budget < 0 else self._judge(string, stop)
            if verdict is Verdict.END:
                self.pos = stop + 1
                return unescape(text[string.start : stop])
            if verdict is Verdict.NEXT:
                self.flaws += 1
                self.pos = self._end_before(string, stop)
                return unescape(text[string.start : self.pos].rstrip())
            string.inner += 1
            position = stop + 1

    def _end_before(self, string: _String, stop: int) -> int:
        """Returns where a string ends that lost its quote, given the quote of the next one."""
        if string.role is Role.VALUE and (cut := self._structure(string, stop)) >= 0:
            return cut
        if string.role is Role.KEY and (cut := self.text.find(":", string.start, stop)) >= 0:
            return cut
        cut = self._before(string, stop)
        if cut > string.start and self.text[cut - 1] in ",，:：+":
            cut = self._before(string, cut - 1)
        return cut

    def _judge(self, string: _String, at: int) -> Verdict:
        """Decides what the quote at `at` is, by the text around it."""
        follow = self._after_gap(at + 1)
        char = self._char(follow)
        if char == "" or self.text.startswith(("```", "~~~"), follow):
            return Verdict.END
        if string.role is Role.KEY:
            return self._judge_key(string, at, follow)
        if char in signs.COMMAS:
            keyed = self._is(signs.QUOTED_KEY, self._after_gap(follow + 1))
            ends = keyed or string.inner % 2 == 0 or string.role is not Role.VALUE
        elif char in signs.CLOSERS:
            ends = self._is_before_closer(string, at, follow)
        elif char in signs.COLONS:
            ends = string.inner % 2 == 0 and string.role is not Role.ROOT
        elif char == "+":
            ends = self._char(self._after_gap(follow + 1)) in ("", *signs.OPENING_QUOTES)
        elif self._opens_next(string, at):
            return Verdict.NEXT
        else:
            ends = self._is_before_word(string, at, follow)
        return Verdict.END if ends else Verdict.INNER

    def _judge_key(self, string: _String, at: int, follow: int) -> Verdict:
        char = self.text[follow]
        if char in signs.ENDS:
            return Verdict.END
        if self._lost_key_end(string, at):
            return Verdict.NEXT
        if char in signs.OPENERS or char.isdigit():
            return Verdict.END
        value = char in signs.OPENING_QUOTES or self._is(signs.BARE_VALUE, follow)
        return Verdict.END if value and string.inner % 2 == 0 else Verdict.INNER

    def _lost_key_end(self, string: _String, at: int) -> bool:
        """Whether a key lost its closing quote, so that more of its field was read as key."""
        if signs.KEY_AND_COLON.match(self.text, string.start, at):
            found = signs.QUOTED.match(self.text, at, self.end)
            follow = self._char(self._after_gap(found.end())) if found else ""
            return follow in signs.ENDS
        fresh = self._char_before(string, at) == "," and self._is(signs.QUOTED_KEY, at)
        return fresh and ":" in self.text[string.start : min(at, string.start + _WINDOW)]

    def _is_before_closer(self, string: _String, at: int, follow: int) -> bool:
        """Whether a closing bracket after the quote closes a container, not one in the string."""
        kind = signs.CLOSERS[self.text[follow]]
        inside = self._open_inside(string, at, kind)
        beyond = self._after_gap(follow + 1)
        if kind == "(" and not self._opened["("]:
            return False
        later = self._after_gap(beyond + 1)
        return not (inside and self._char(later).isalpha()) or self._is(signs.BARE_KEY, later)

    def _open_inside(self, string: _String, at: int, kind: str) -> bool:
        """Whether a bracket of this kind was opened in the string and is still open."""
        self._budget -= at - string.start
        opened = self.text.count(kind, string.start, at)
        return opened > self.text.count(signs.PAIRS[kind], string.start, at)

    def _is_before_word(self, string: _String, at: int, follow: int) -> bool:
        """Decides on a quote before plain text or another quote."""
        text, char = self.text, self.text[follow]
        lines, spaced = "\n" in text[at:follow], follow > at + 1
        even = string.inner % 2 == 0
        if char in signs.OPENING_QUOTES:
            twice = not spaced and text[at] == char and not string.doubled
            return not twice and (even or self._is(signs.QUOTED_KEY, follow))
        if string.role is Role.ITEM:
            shaped = spaced and not text[at - 1].isspace() and string.quote != "'"
            return char in signs.OPENERS or char.isdigit() or lines or (shaped and even)
        keyed = spaced and even and self._is(signs.WORD_KEY, follow)
        return keyed or (lines and char in signs.OPENERS)

    def _opens_next(self, string: _String, at: int) -> bool:
        """Whether the quote opens the next string, because this one was never closed."""
        before = self._char_before(string, at)
        if string.role is Role.VALUE and before and before != "+":
            fresh = before in ",，" or self._structure(string, at) >= 0
            return fresh and self._is(signs.QUOTED_KEY, at)
        found = signs.QUOTED.match(self.text, at, self.end) if before and before in ",，+" else None
        return found is not None and self._char(self._after_gap(at + 1)) not in signs.OPENING_QUOTES

    def _structure(self, string: _String, at: int) -> int:
        """Returns where the brackets and commas before a quote start, else -1."""
        window = self.text[max(string.start, at - _WINDOW) : at]
        self._budget -= len(window)
        kept = len(window.rstrip(" \t\r\n,，{}[]"))
        return at - len(window) + kept if signs.STRUCTURE.fullmatch(window, kept) else -1

    def _unclosed(self, string: _String) -> str:
        """Ends a string without closing quote where its container continues, or at the end."""
        text = self.text
        tail = len(text[string.start : self.end].rstrip()) + string.start - 1
        closed = tail >= string.start and self._ends_container(string, tail)
        if string.role is Role.KEY or (closed and string.role is not Role.ROOT):
            ends = {Role.KEY: r"[:：,}\n]", Role.VALUE: r"[,，}\]\n+]"}
            stops = re.compile(ends.get(string.role, r"[,，\]}\n+]|/\*"))
            for found in stops.finditer(text, string.start, self.end):
                if string.role is not Role.VALUE or self._goes_on(found.start()):
                    self._budget -= found.start() - string.start
                    self.pos = found.start()
                    return unescape(text[string.start : self.pos].rstrip())
        self.pos, self._cut = self.end, True
        return unescape(signs.OPEN_ESCAPE.sub("", text[string.start : self.end]))

    def _ends_container(self, string: _String, at: int) -> bool:
        """Whether the last character belongs to a container, not to the string."""
        char = self.text[at]
        if char in signs.CLOSERS:
            return not self._open_inside(string, at, signs.CLOSERS[char])
        return char == "," and string.role is not Role.VALUE

    def _goes_on(self, at: int) -> bool:
        """Whether the object around an unclosed value continues at a sign."""
        char = self.text[at]
        follow = self._after_gap(at + 1)
        if (later := self._char(follow)) == "":
            return char != "+"
        closes = char == "\n" and later in signs.CLOSERS
        return closes or self._is(signs.QUOTED_KEY, follow) or self._is(signs.BARE_KEY, follow)

    # The text

    def _char(self, position: int) -> str:
        return self.text[position] if position < self.end else ""

    def _is(self, pattern: re.Pattern[str], position: int) -> bool:
        return pattern.match(self.text, position, self.end) is not None

    def _skip(self) -> None:
        self.pos = self._after_gap(self.pos)

    def _after_gap(self, position: int) -> int:
        """Returns the next place that is neither white space nor a comment."""
        found = signs.GAP.match(self.text, position, self.end)
        self._budget -= (end := found.end() if found else position) - position
        return end

    def _char_before(self, string: _String, at: int) -> str:
        position = self._before(string, at)
        return self.text[position - 1] if position > string.start else ""

    def _before(self, string: _String, at: int) -> int:
        """Returns the end of the text before white space and comments."""
        start = max(string.start, at - _WINDOW)
        body = self.text[start:at].rstrip()
        while body.endswith("*/") and (opened := body.rfind("/*", 0, -2)) >= 0:
            if "*/" in body[opened + 2 : -2]:
                break
            body = body[:opened].rstrip()
        self._budget -= at - start
        return start + len(body)
