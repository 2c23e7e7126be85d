"""Reads one value of malformed JSON, in a pass without recursion."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from plansmith.plan.data import Json
from plansmith_planner.parse.scalars import bare_value, clean, number, unescape

OPENING_QUOTES: Final = frozenset("\"“”„＂'‘’`´＇")
_DOUBLE: Final = '"“”„‟″＂'
_SINGLE: Final = "'‘’‛`´＇"
_OPENERS: Final = {"{": "{", "[": "[", "(": "(", "｛": "{", "［": "["}
_CLOSERS: Final = {"}": "{", "]": "[", ")": "(", "｝": "{", "］": "["}
_PAIRS: Final = {"{": "}", "[": "]", "(": ")"}
_COMMAS: Final = frozenset(",，;；、")
_COLONS: Final = frozenset(":：=")
_STOPS: Final = _COMMAS | _CLOSERS.keys()
_FIELD_SIGNS: Final = _STOPS | _COLONS
_COLON: Final = re.compile("(?:[:：]|=>?|->)")
_SPACE: Final = r"[\s\x00-\x20\u200b-\u200f\u2060\ufeff]"
GAP: Final = re.compile(
    rf"(?:{_SPACE}+|//[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|#(?![0-9a-fA-F]{{3,8}}\b)[^\n]*)*"
)
_ELLIPSIS: Final = re.compile(r"\.\.\.+|…+")
_SIMPLE_CALL: Final = re.compile(
    r"""(?:new\s+)?[A-Za-z_$][\w$.]{0,80}\(\s*+("[^"\\\n]*"|'[^'\\\n]*'|[-+.\w]*)\s*\)"""
    r"(?=\s*(?:[,;}\])\n]|/[/*]|\Z))"
)
_QUOTED: Final = re.compile(
    r"\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|[“”][^“”\n]{0,200}[“”\"]|[‘’`][^‘’`\n]{0,200}[‘’`']"
)
QUOTED_KEY: Final = re.compile(rf"{_SPACE}*\\?(?:{_QUOTED.pattern}){_SPACE}*{_COLON.pattern}")
ANOTHER_FIELD: Final = re.compile(rf"{_SPACE}*,{QUOTED_KEY.pattern}")
BARE_KEY: Final = re.compile(
    rf"{_SPACE}*[\w$][\w$.-]{{0,80}}(?: [\w$.-]{{1,40}}){{0,2}}[\"']?{_SPACE}*(?:[:：](?!//)|=>?)"
)
WORD_KEY: Final = re.compile(rf"{_SPACE}*[\w$][\w$.-]{{0,80}}{_SPACE}*[:：](?!//)")
# A word or several after a quote, up to the end of the field or, if spaced, to the next string.
BARE_VALUE: Final = re.compile(
    r"\s*(?!\.\.\.)[^\s\"'“”‘’`:：=,，;{}\[\]()+\\]"
    r"(?:[^\"“”:：=,，;{}\[\]\n]|:(?=//)|(?<=\d):(?=\d\d)){0,200}?"
    rf"(?=\s*(?:\n|[}}\]]|\Z|[,，;]\s*(?:[\"'“‘}}\]]|\Z|[\w$.-]+\s*{_COLON.pattern}))"
    r"|(?<=\s)[\"'“‘])"
)
GROUPED: Final = re.compile(r"-?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?(?!,\d|[.\w])")
_OPEN_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_WORD_STOP: Final = re.compile(r"[,，;\n\"“”{}\[\]｛｝［］():：`]|//|/\*|(?<=\s)#")
_KEY_STOP: Final = re.compile(r"[:：=,，\n\"'“”{}\[\]｛｝［］`]|->")
# The first quote after a bare word, if it directly follows the word.
_HANGING_QUOTE: Final = re.compile(r"(?:[^\"\\\n]++|\\.)++(?<![\s,{\[:])\"")
_LITERAL: Final = r"(?:[tT]rue|[fF]alse|null|None|-?\d[\d.eE+-]*)"
_SEVERAL_LITERALS: Final = re.compile(rf"(?:{_LITERAL}\s+)+{_LITERAL}")
_KEY_AND_LITERAL: Final = re.compile(rf"([^\W\d][\w$.-]*)\s+(?={_LITERAL}\s*(?:[,，;}}\]\n]|\Z))")
_JSON_WORD: Final = re.compile(r"true|false|null|-?\d[\d.eE+-]*")
# The text between the end of one field and the key of the next.
STRUCTURE: Final = re.compile(r"(?:\s*+[}\]])*+(?:\s*+[,，]|[^\S\n]*+\n)\s*+(?:[{\[]\s*+)*+")
_KEY_AND_COLON: Final = re.compile(r"[^\"'“”:：,，{}\[\]\n]{1,80}[:：]\s*(?:[\[{(]\s*)*\Z")
_WINDOW: Final = 200

# What a string or word is used for; it decides what may follow it.
_Role = Literal["key", "value", "item", "root"]
# What a quote inside a string is; "next" opens the next string: this one lost its closing quote.
_Verdict = Literal["end", "inner", "next"]
# Where a string may end that has no closing quote.
_UNCLOSED: Final[dict[_Role, re.Pattern[str]]] = {
    "key": re.compile(r"[:：,}\n]"),
    "value": re.compile(r"[,，}\]\n+]"),
    "item": re.compile(r"[,，\]}\n+]|/\*"),
}


class TooDeep(Exception):
    """The value is nested too deeply for Python code."""


class Escaped(Exception):
    """The whole text is escaped once more: its quotes have backslashes."""


class Repaired(NamedTuple):
    """A value, where its text ends, and whether its containers were closed there."""

    value: Json
    end: int
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
        # Braces around plain items are read as a list, parentheses around one as itself.
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
    role: _Role
    doubled: bool = False
    inner: int = 0


class Tolerant:
    """Reads one value at a given place of a text."""

    def __init__(self, text: str, start: int = 0, end: int | None = None) -> None:
        self.text = text
        self.pos = start
        self.end = len(text) if end is None else end
        self._root: Json = None
        self._stack: list[_Frame] = []
        self._opened: Counter[str] = Counter()
        self._cut = False
        # How many characters may be read again before every quote is taken for an end.
        self._budget = 8 * (self.end - start) + 4096

    def read(self) -> Repaired:
        """Reads the value; closes open containers at the end of the text."""
        self.pos = self._after_gap(self.pos)
        if self.pos < self.end:
            self._value("root")
        while self._stack:
            self.pos = self._after_gap(self.pos)
            if self.pos >= self.end or self.text.startswith(("```", "~~~"), self.pos):
                self._cut = True
                break
            self._advance(self._stack[-1], self.text[self.pos])
        closed = not self._stack and not self._cut
        while self._stack:
            self._close(cut=True)
        return Repaired(self._root, self.pos, closed)

    # Containers

    def _advance(self, frame: _Frame, char: str) -> None:
        if frame.key is not None:
            self._value("value")
        elif char in _CLOSERS:
            self._closer(_CLOSERS[char])
        elif char in _COMMAS:
            frame.comma = True
            self.pos += 1
        elif found := _ELLIPSIS.match(self.text, self.pos, self.end):
            self.pos = found.end()
        elif frame.kind == "{":
            self._key(frame, char)
        elif char in _COLONS:
            self._implicit_object(frame)
        else:
            self._value("item")

    def _push(self, kind: str) -> None:
        if len(self._stack) >= 5000:
            raise TooDeep
        self._stack.append(_Frame(kind))
        self._opened[kind] += 1

    def _close(self, *, cut: bool = False) -> None:
        frame = self._stack.pop()
        self._opened[frame.kind] -= 1
        if frame.key is not None:
            frame.fields[frame.key] = None
        self._put(frame.value(cut=cut))

    def _put(self, value: Json) -> None:
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
        if top.kind == kind:
            self.pos += 1
            goes_on = kind == "{" and self._is(ANOTHER_FIELD, self.pos)
            if len(self._stack) > 1 or not goes_on:
                self._close()
        elif not self._opened[kind]:
            self.pos += 1
        elif top.fields or top.items or top.key or self._stack[-2].key is not None:
            self._close()
        else:
            self._opened[self._stack.pop().kind] -= 1

    def _implicit_object(self, frame: _Frame) -> None:
        """Reads ``["key": value}``, where the brace before the key is missing."""
        self.pos += 1
        key = frame.items[-1] if frame.items and not frame.comma else None
        if not isinstance(key, str):
            return
        frame.items.pop()
        if frame.items and len(self._stack) > 1 and self._stack[-2].kind == "{":
            self._close()
        else:
            self._push("{")
        self._stack[-1].key, self._stack[-1].named = key, True

    # Keys

    def _key(self, frame: _Frame, char: str) -> None:
        if char in _OPENERS:
            self._opener_for_key(frame, _OPENERS[char])
            return
        quoted = char in OPENING_QUOTES
        word = self._string("key").rstrip("\n") if quoted else self._bare_key()
        self.pos = self._after_gap(self.pos)
        colon = _COLON.match(self.text, self.pos, self.end)
        if colon is None and self._char(self.pos) in ("", *_STOPS):
            # Without a value: an item of a set, or a field that was cut off.
            cut = self.pos >= self.end
            if frame.comma and not (cut and (word == "" or (frame.named and not quoted))):
                frame.fields.setdefault(word, None if cut else "")
                frame.items.append(word if quoted else bare_value(word))
                frame.comma = False
            return
        # A word before a quoted key is noise.
        noise = not (quoted and frame.comma) and self._is(QUOTED_KEY, self.pos)
        if colon is not None or not noise:
            frame.key, frame.named = word, True
        self.pos = colon.end() if colon else self.pos

    def _opener_for_key(self, frame: _Frame, kind: str) -> None:
        """Handles a bracket instead of a key: a lost closing bracket, more of a list, or noise."""
        if kind == "{" and len(self._stack) > 1 and self._stack[-2].kind != "{":
            self._close()
            return
        self.pos += 1
        more = frame.fields.get(frame.last)
        if isinstance(more, list):
            frame.key = frame.last
            self._push("[")
            self._stack[-1].items = more

    def _bare_key(self) -> str:
        self._refuse_escaped()
        text, start = self.text, self.pos
        if literal := _KEY_AND_LITERAL.match(text, start, self.end):
            self.pos = literal.end()
            return literal[1]
        found = _KEY_STOP.search(text, start, self.end)
        stop = found.start() if found else self.end
        hanging = start < stop < self.end and text[stop] in "\"'“”" and not text[stop - 1].isspace()
        self.pos = stop + 1 if hanging else max(stop, start + 1)
        return clean(text[start:stop].strip())

    # Values

    def _value(self, role: _Role) -> None:
        char = self.text[self.pos]
        if role == "value" and char in _STOPS:
            self._put("")  # one that is cut off by the end is unknown: null
        elif char in _OPENERS:
            self.pos += 1
            self._push(_OPENERS[char])
        elif char in OPENING_QUOTES:
            parts = [self._string(role)]
            self.pos = self._after_gap(self.pos)
            while self._char(self.pos) == "+":
                self.pos = self._after_gap(self.pos + 1)
                if self._char(self.pos) not in OPENING_QUOTES:
                    break
                parts.append(self._string(role))
                self.pos = self._after_gap(self.pos)
            if any(parts) or not self._cut or role != "item":
                self._put("".join(parts))
        else:
            self._refuse_escaped()
            self._bare_word(role)

    def _refuse_escaped(self) -> None:
        if self.text.startswith(('\\"', "\\'"), self.pos):
            raise Escaped

    def _bare_word(self, role: _Role) -> None:
        text, start = self.text, self.pos
        if call := _SIMPLE_CALL.match(text, start, self.end):
            self.pos, word = call.end(), call[1]
            self._put(word[1:-1] if word[:1] in ('"', "'") else bare_value(word or "null"))
            return
        grouped = GROUPED.match(text, start, self.end) if role == "value" else None
        if grouped:
            self.pos = grouped.end()
            self._put(number(grouped[0].replace(",", "")))
            return
        self.pos = self._lost_opening(role) or self._word_end()
        word = text[start : self.pos].strip()
        if self.pos == start:
            self.pos += 1
        elif role == "item" and _SEVERAL_LITERALS.fullmatch(word):
            for each in word.split():
                self._put(bare_value(each))
        else:
            self._words(start, word, role)

    def _words(self, start: int, word: str, role: _Role) -> None:
        first = word.partition(" ")[0]
        if first != word and role == "value" and _JSON_WORD.fullmatch(first):
            keyed = self._is(WORD_KEY, start + len(first))  # a comma is missing
            word, self.pos = (first, start + len(first)) if keyed else (word, self.pos)
        hanging = self._char(self.pos) in ('"', "“", "”") and not self.text[self.pos - 1].isspace()
        value = unescape(word) if "\\" in word else bare_value(word)
        self.pos += hanging
        self._put(clean(value) if isinstance(value, str) else value)

    def _lost_opening(self, role: _Role) -> int:
        """Returns where a string without an opening quote ends, else 0."""
        found = _HANGING_QUOTE.match(self.text, self.pos, min(self.end, self.pos + 400))
        if found is None or role == "root" or (role == "item" and "," in found[0]):
            return 0
        follow = self._after_gap(found.end())
        goes_on = self._char(follow) == "" or self._char(follow) in _CLOSERS
        if self._char(follow) == ",":
            goes_on = role == "item" or self._is(QUOTED_KEY, follow + 1)
        return found.end() - 1 if goes_on else 0

    def _word_end(self) -> int:
        text, position = self.text, self.pos
        while found := _WORD_STOP.search(text, position, self.end):
            at, sign, position = found.start(), found[0], 0
            if sign in _PAIRS and at > self.pos and (sign == "(" or text[at - 1].isalpha()):
                # Brackets on one line belong to the word, as in f(x).
                close = text.find(_PAIRS[sign], at, min(self.end, at + _WINDOW))
                if close > 0 and not re.search(r'[\n"]', text[at:close]):
                    position = close + 1
            if not position and (sign in ":：()" or (sign == "//" and text[at - 1] == ":")):
                position = found.end()
            if not position or (sign == ")" and self._opened["("]):
                return at
        return self.end

    # Strings

    def _string(self, role: _Role) -> str:
        text, start = self.text, self.pos
        quote = text[start]
        if text.startswith(('"""', "'''"), start):
            close = text.find(quote * 3, start + 3, self.end)
            if close > start + 3:
                self.pos = close + 3
                return unescape(text[start + 3 : close])
        after = text[start + 2 : start + 3]  # of a quote that is written twice: ""name""
        doubled = text[start + 1 : start + 2] == quote and after.isalnum()
        doubled = doubled and not (role == "item" and after.isdigit())
        string = _String(start + 1 + doubled, quote, role, doubled)
        found = self._scan(string)
        if doubled and self._char(self.pos) == quote == text[self.pos - 1]:
            self.pos += 1
        return found

    def _scan(self, string: _String) -> str:
        text, position, quote = self.text, string.start, string.quote
        closers = quote if quote in "\"'" else _DOUBLE if quote in _DOUBLE else _SINGLE
        inside = rf"[^{re.escape(closers)}\\]*"
        plain = re.compile(rf"{inside}(?:\\[\s\S]{inside})*")
        while True:
            found = plain.match(text, position, self.end)
            stop = found.end() if found else self.end
            self._budget -= stop - position + 1
            if stop >= self.end or text[stop] == "\\":
                return self._unclosed(string)
            verdict = "end" if self._budget < 0 else self._judge(string, stop)
            if verdict == "end":
                self.pos = stop + 1
                return unescape(text[string.start : stop])
            if verdict == "next":
                self.pos = self._end_before(string, stop)
                return unescape(text[string.start : self.pos].rstrip())
            string.inner += 1
            position = stop + 1

    def _judge(self, string: _String, at: int) -> _Verdict:
        role, even = string.role, string.inner % 2 == 0
        follow = self._after_gap(at + 1)
        char = self._char(follow)
        if char == "" or self.text.startswith(("```", "~~~"), follow):
            return "end"
        if role == "key":
            return self._judge_key(string, at, follow)
        if char in _COMMAS:
            is_end = even or role != "value" or self._is(QUOTED_KEY, self._after_gap(follow + 1))
        elif char in _CLOSERS:
            # Whether the bracket closes a container, and none that was opened in the string.
            kind = _CLOSERS[char]
            later = self._after_gap(self._after_gap(follow + 1) + 1)
            inside = self._open_inside(string, at, kind) and self._char(later).isalpha()
            is_end = not inside and (kind != "(" or bool(self._opened["("]))
        elif char in _COLONS:
            is_end = even and role != "root"
        elif char == "+":
            is_end = self._char(self._after_gap(follow + 1)) in ("", *OPENING_QUOTES)
        elif self._opens_next(string, at):
            return "next"
        else:
            is_end = self._is_before_word(string, at, follow)
        return "end" if is_end else "inner"

    def _judge_key(self, string: _String, at: int, follow: int) -> _Verdict:
        char = self.text[follow]
        if char in _FIELD_SIGNS:
            return "end"
        # Did the key lose its closing quote, so that more of its field was read as key?
        if _KEY_AND_COLON.match(self.text, string.start, at):
            found = _QUOTED.match(self.text, at, self.end)
            lost = (self._char(self._after_gap(found.end())) if found else "") in _FIELD_SIGNS
        else:
            lost = self._char_before(string, at) == "," and self._is(QUOTED_KEY, at)
            lost = lost and ":" in self.text[string.start : min(at, string.start + _WINDOW)]
        if lost:
            return "next"
        if char in _OPENERS or char.isdigit():
            return "end"
        value = char in OPENING_QUOTES or self._is(BARE_VALUE, follow)
        return "end" if value and string.inner % 2 == 0 else "inner"

    def _is_before_word(self, string: _String, at: int, follow: int) -> bool:
        """Decides on a quote before plain text or another quote."""
        text, char = self.text, self.text[follow]
        lines, spaced = "\n" in text[at:follow], follow > at + 1
        even = string.inner % 2 == 0
        if char in OPENING_QUOTES:
            twice = not spaced and text[at] == char and not string.doubled
            return not twice and (even or self._is(QUOTED_KEY, follow))
        if string.role == "item":
            shaped = spaced and not text[at - 1].isspace() and string.quote != "'"
            return char in _OPENERS or char.isdigit() or lines or (shaped and even)
        return lines and char in _OPENERS

    def _opens_next(self, string: _String, at: int) -> bool:
        """Whether the quote opens the next string, because this one was never closed."""
        before = self._char_before(string, at)
        if string.role == "value" and before and before != "+":
            fresh = before in ",，" or self._structure(string, at) >= 0
            return fresh and self._is(QUOTED_KEY, at)
        found = before in (",", "，", "+") and self._is(_QUOTED, at)
        return found and self._char(self._after_gap(at + 1)) not in OPENING_QUOTES

    def _end_before(self, string: _String, stop: int) -> int:
        """Returns where a string ends that lost its quote, given the quote of the next one."""
        if string.role == "value" and (cut := self._structure(string, stop)) >= 0:
            return cut
        if string.role == "key" and (cut := self.text.find(":", string.start, stop)) >= 0:
            return cut
        cut = self._before(string, stop)
        if cut > string.start and self.text[cut - 1] in ",，:：+":
            cut = self._before(string, cut - 1)
        return cut

    def _unclosed(self, string: _String) -> str:
        """Ends a string without closing quote where its container continues, or at the end."""
        text, role = self.text, string.role
        tail = len(text[string.start : self.end].rstrip()) + string.start - 1
        closed = role == "key"
        if not closed and role != "root" and tail >= string.start:
            # Does the last character belong to a container, not to the string?
            kind = _CLOSERS.get(text[tail])
            closed = not self._open_inside(string, tail, kind) if kind else text[tail] == ","
            closed = closed and (kind is not None or role != "value")
        stops = _UNCLOSED[role].finditer(text, string.start, self.end) if closed else ()
        for found in stops:
            if role != "value" or self._goes_on(found.start()):
                self._budget -= found.start() - string.start
                self.pos = found.start()
                return unescape(text[string.start : self.pos].rstrip())
        self.pos, self._cut = self.end, True
        return unescape(_OPEN_ESCAPE.sub("", text[string.start : self.end]))

    def _goes_on(self, at: int) -> bool:
        """Whether the object around an unclosed value continues at a sign."""
        char = self.text[at]
        follow = self._after_gap(at + 1)
        if (later := self._char(follow)) == "":
            return char != "+"
        closes = char == "\n" and later in _CLOSERS
        return closes or self._is(QUOTED_KEY, follow) or self._is(BARE_KEY, follow)

    # The text

    def _char(self, position: int) -> str:
        return self.text[position] if position < self.end else ""

    def _is(self, pattern: re.Pattern[str], position: int) -> bool:
        return pattern.match(self.text, position, self.end) is not None

    def _after_gap(self, position: int) -> int:
        """Returns the next place that is neither white space nor a comment."""
        found = GAP.match(self.text, position, self.end)
        self._budget -= (end := found.end() if found else position) - position
        return end

    def _open_inside(self, string: _String, at: int, kind: str) -> bool:
        """Whether a bracket of this kind was opened in the string and is still open."""
        self._budget -= at - string.start
        opened = self.text.count(kind, string.start, at)
        return opened > self.text.count(_PAIRS[kind], string.start, at)

    def _structure(self, string: _String, at: int) -> int:
        """Returns where the brackets and commas before a quote start, else -1."""
        window = self.text[max(string.start, at - _WINDOW) : at]
        self._budget -= len(window)
        kept = len(window.rstrip(" \t\r\n,，{}[]"))
        return at - len(window) + kept if STRUCTURE.fullmatch(window, kept) else -1

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
