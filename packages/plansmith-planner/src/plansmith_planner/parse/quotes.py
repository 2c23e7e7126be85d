"""Finds where a string ends when its quotes cannot be trusted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from plansmith_planner.parse.characters import (
    BARE_KEY,
    BARE_VALUE,
    CERTAIN_ITEM,
    CERTAIN_KEY,
    CERTAIN_VALUE,
    CLOSERS,
    COLONS,
    COMMAS,
    ELLIPSIS,
    OPENERS,
    OPENING_QUOTES,
    QUOTED,
    QUOTED_KEY,
    WORD_KEY,
    Source,
    after_gap,
    clean,
    closers_of,
    unescape,
)


class Role(Enum):
    """What a string is used for; it decides what may follow the closing quote."""

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
class Reading:
    """A string, where it ends, and whether it had to be repaired."""

    text: str
    end: int
    repaired: bool = False
    cut: bool = False


@dataclass(slots=True)
class _Scan:
    """A string that is being read: its place, its quotes, and the inner quotes so far."""

    start: int
    quote: str
    role: Role
    pattern: re.Pattern[str]
    inner: int = 0
    first_inner: int = -1
    doubled: bool = False


_PATTERNS: Final = {
    quote: re.compile(
        rf"[^{re.escape(closers_of(quote))}\\]*(?:\\[\s\S][^{re.escape(closers_of(quote))}\\]*)*"
    )
    for quote in OPENING_QUOTES
}
_CERTAIN: Final = {Role.KEY: CERTAIN_KEY, Role.VALUE: CERTAIN_VALUE, Role.ITEM: CERTAIN_ITEM}
_TRIPLE = re.compile(r'"""|\'\'\'')
_OPEN_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_ITEM_STOP = re.compile(r"[,，\]}\n+]|/\*")
_FIELD_STOP = re.compile(r"[,，}\]\n+]")
_KEY_STOP = re.compile(r"[:：,}\n]")
# The text between the end of one field and the key of the next.
_STRUCTURE = re.compile(r"(?:\s*+[}\]])*+(?:\s*+[,，]|[^\S\n]*+\n)\s*+(?:[{\[]\s*+)*+")
_KEY_AND_COLON = re.compile(r"[^\"'“”:：,，{}\[\]\n]{1,80}[:：]\s*(?:[\[{(]\s*)*\Z")
_AFTER_STRING: Final = COMMAS | COLONS | CLOSERS.keys()
_NOISE_AND_KEY = re.compile(rf"[\w ]{{1,40}}(?=[\"']){QUOTED_KEY.pattern}")
_MAX_RUN: Final = 200


class Strings:
    """Reads the strings of one text."""

    def __init__(self, source: Source, end: int, opened: Mapping[str, int]) -> None:
        self.text = source.text
        self.end = end
        self.opened = opened
        self._source = source

    def read(self, start: int, role: Role) -> Reading:
        """Reads the string whose opening quote is at `start`."""
        text = self.text
        pattern = _CERTAIN.get(role)
        if pattern and (certain := pattern.match(text, start, self.end)):
            self._source.budget -= certain.end() - start
            return Reading(clean(certain[0][1:-1]), certain.end())
        quote = text[start]
        if _TRIPLE.match(text, start):
            close = text.find(text[start : start + 3], start + 3, self.end)
            if close > start + 3:
                return Reading(unescape(text[start + 3 : close]), close + 3, repaired=True)
        doubled = self._doubled(start, role)
        scan = _Scan(start + 1 + doubled, quote, role, _PATTERNS[quote], doubled=doubled)
        if doubled:
            reading = self._scan(scan)
            tail = reading.end
            if tail < self.end and text[tail] == quote and text[tail - 1] == quote:
                reading.end += 1
            reading.repaired = True
            return reading
        return self._scan(scan)

    def _doubled(self, start: int, role: Role) -> bool:
        """Whether the opening quote is written twice, as in ``""name""``."""
        text, second = self.text, start + 1
        if second + 1 >= self.end or text[second] != text[start]:
            return False
        after = text[second + 1]
        return after.isalnum() and not (role is Role.ITEM and after.isdigit())

    def _scan(self, scan: _Scan) -> Reading:
        text, position = self.text, scan.start
        while True:
            found = scan.pattern.match(text, position, self.end)
            stop = found.end() if found else self.end
            self._source.budget -= stop - position + 1
            if stop >= self.end or text[stop] == "\\":
                return self._unclosed(scan)
            verdict = Verdict.END if self._source.budget < 0 else self._judge(scan, stop)
            if verdict is Verdict.END:
                return Reading(unescape(text[scan.start : stop]), stop + 1, repaired=scan.inner > 0)
            if verdict is Verdict.NEXT:
                return self._before(scan, stop)
            if not scan.inner:
                scan.first_inner = stop
            scan.inner += 1
            position = stop + 1

    def _before(self, scan: _Scan, stop: int) -> Reading:
        """Ends the string before the separator in front of the quote at `stop`."""
        cut = self._structure(scan, stop) if scan.role is Role.VALUE else -1
        if scan.role is Role.KEY:
            cut = self.text.find(":", scan.start, stop)
        if cut < 0:
            cut = self._back(scan, stop)
            if cut > scan.start and self.text[cut - 1] in ",，:：+":
                cut = self._back(scan, cut - 1)
        return Reading(unescape(self.text[scan.start : cut].rstrip()), cut, repaired=True)

    def _judge(self, scan: _Scan, at: int) -> Verdict:
        """Decides what the quote at `at` is, by the text around it."""
        follow = self._skip(at + 1)
        if follow >= self.end or self.text.startswith(("```", "~~~"), follow):
            return Verdict.END
        char = self.text[follow]
        if scan.role is Role.KEY:
            return self._judge_key(scan, at, char)
        if char in COMMAS:
            return self._after_comma(scan, follow + 1)
        if char in CLOSERS:
            return self._before_closer(scan, at, follow)
        if char in COLONS:
            odd = scan.inner % 2 == 1 or (scan.role is Role.ROOT)
            return Verdict.INNER if odd else Verdict.END
        if char == "+":
            beyond = self._skip(follow + 1)
            return Verdict.END if self._is_quote(beyond) or beyond >= self.end else Verdict.INNER
        return self._before_word(scan, at, follow)

    def _judge_key(self, scan: _Scan, at: int, char: str) -> Verdict:
        if char in COLONS or char in COMMAS or char in CLOSERS:
            return Verdict.END
        if self._lost_key_end(scan, at):
            return Verdict.NEXT
        if char in OPENERS or char.isdigit():
            return Verdict.END
        if self._before_char(scan, at) in COLONS and not self._closes_pair(scan):
            return Verdict.NEXT
        value = char in OPENING_QUOTES or BARE_VALUE.match(self.text, self._skip(at + 1), self.end)
        return Verdict.END if value and scan.inner % 2 == 0 else Verdict.INNER

    def _lost_key_end(self, scan: _Scan, at: int) -> bool:
        """Whether a key lost its closing quote, so that more of its field was read as key."""
        if _KEY_AND_COLON.match(self.text, scan.start, at):
            string = QUOTED.match(self.text, at, self.end)
            follow = self._skip(string.end()) if string else self.end
            return follow < self.end and self.text[follow] in _AFTER_STRING
        fresh = self._before_char(scan, at) == "," and QUOTED_KEY.match(self.text, at, self.end)
        return bool(fresh) and ":" in self.text[scan.start : min(at, scan.start + _MAX_RUN)]

    def _after_comma(self, scan: _Scan, position: int) -> Verdict:
        """Whether the text after a comma can follow a value of this kind."""
        if scan.role is not Role.VALUE:
            return Verdict.END
        follow = self._skip(position)
        if follow >= self.end:
            return Verdict.END
        if self._is_quote(follow):
            paired = self._closes_pair(scan) and not QUOTED_KEY.match(self.text, follow, self.end)
            return Verdict.INNER if paired else Verdict.END
        char = self.text[follow]
        if char in CLOSERS or char in OPENERS or char in COMMAS or char in "`~\\":
            return Verdict.END
        text, end = self.text, self.end
        if ELLIPSIS.match(text, follow, end) or BARE_KEY.match(text, follow, end):
            return Verdict.END
        # A word before a quoted key that is no key itself is noise.
        return Verdict.END if _NOISE_AND_KEY.match(text, follow, end) else Verdict.INNER

    def _before_closer(self, scan: _Scan, at: int, follow: int) -> Verdict:
        """Whether a closing bracket after the quote closes a container, not one in the string."""
        kind = CLOSERS[self.text[follow]]
        inside = self._open_inside(scan, at, kind)
        if kind == "(" and not self.opened.get("("):
            return Verdict.INNER
        beyond = self._skip(follow + 1)
        if beyond >= self.end:
            return Verdict.INNER if inside and not any(self.opened.values()) else Verdict.END
        char = self.text[beyond]
        if char in CLOSERS or self.text.startswith("```", beyond):
            return Verdict.END
        if char in COMMAS:
            next_char = self._skip(beyond + 1)
            sane = next_char >= self.end or not self.text[next_char].isalpha()
            sane = sane or bool(BARE_KEY.match(self.text, next_char, self.end))
            return Verdict.END if sane or not inside else Verdict.INNER
        if inside:
            return Verdict.INNER
        lowest = sum(self.opened.values()) <= 1
        opens = char in OPENERS or char in OPENING_QUOTES or char.isdigit()
        ended = lowest or opens or self._line_between(follow, beyond)
        return Verdict.END if ended else Verdict.INNER

    def _open_inside(self, scan: _Scan, at: int, kind: str) -> bool:
        """Whether a bracket of this kind was opened in the string and is still open."""
        close = {"{": "}", "[": "]", "(": ")"}[kind]
        self._source.budget -= at - scan.start
        opened = self.text.count(kind, scan.start, at)
        return opened > self.text.count(close, scan.start, at)

    def _before_word(self, scan: _Scan, at: int, follow: int) -> Verdict:
        """Decides on a quote before plain text or another quote."""
        text, char = self.text, self.text[follow]
        if self._opens_next(scan, at):
            return Verdict.NEXT
        if char in OPENING_QUOTES:
            return self._before_quote(scan, at, follow)
        lines = self._line_between(at, follow)
        if scan.role is Role.ITEM:
            if char in OPENERS or char.isdigit() or lines:
                return Verdict.END
            shaped = follow > at + 1 and not text[at - 1].isspace() and scan.quote != "'"
            return Verdict.END if shaped and scan.inner % 2 == 0 else Verdict.INNER
        if scan.role is Role.ROOT:
            return Verdict.END if lines or char == ";" else Verdict.INNER
        key = BARE_KEY if lines else WORD_KEY
        spaced = follow > at + 1 and scan.inner % 2 == 0
        if spaced and key.match(text, follow, self.end):
            return Verdict.END
        return Verdict.END if lines and char in OPENERS else Verdict.INNER

    def _before_quote(self, scan: _Scan, at: int, follow: int) -> Verdict:
        twice = follow == at + 1 and self.text[at] == self.text[follow] and not scan.doubled
        if twice and self._judge(replace(scan, inner=0, doubled=True), follow) is Verdict.END:
            return Verdict.INNER
        if scan.role is Role.VALUE and QUOTED_KEY.match(self.text, follow, self.end):
            return Verdict.END
        return Verdict.INNER if self._closes_pair(scan) else Verdict.END

    def _opens_next(self, scan: _Scan, at: int) -> bool:
        """Whether the quote opens the next string, because this one was never closed."""
        before = self._before_char(scan, at)
        text = self.text
        if before == "+":
            joins = QUOTED.match(text, at, self.end)
            return joins is not None and text[self._skip(at + 1)] not in OPENING_QUOTES
        if scan.role is Role.VALUE:
            fresh = before in ",，" or self._structure(scan, at) >= 0
            return bool(before and fresh and QUOTED_KEY.match(text, at, self.end))
        if before not in ",，" or not before or scan.role is Role.KEY:
            return False
        found = QUOTED.match(text, at, self.end)
        if not found:
            return False
        beyond = self._skip(found.end())
        return beyond >= self.end or text[beyond] in COMMAS or text[beyond] in CLOSERS

    def _structure(self, scan: _Scan, at: int) -> int:
        """Returns where the brackets and commas before a quote start, else -1."""
        window = self.text[max(scan.start, at - _MAX_RUN) : at]
        self._source.budget -= len(window)
        kept = len(window.rstrip(" \t\r\n,，{}[]"))
        while kept < len(window) and window[kept] in "}]":
            opener = "{" if window[kept] == "}" else "["
            if window.count(opener, 0, kept) <= window.count(window[kept], 0, kept):
                break
            kept += 1
        return at - len(window) + kept if _STRUCTURE.fullmatch(window, kept) else -1

    def _unclosed(self, scan: _Scan) -> Reading:
        """Ends a string without closing quote where its container continues, or at the end."""
        text = self.text
        if scan.role is Role.VALUE and scan.inner % 2 == 1 and self._looks_closed(scan.first_inner):
            raw = text[scan.start : scan.first_inner]
            return Reading(unescape(raw), scan.first_inner + 1, repaired=True)
        tail = self.end
        while tail > scan.start and text[tail - 1].isspace():
            tail -= 1
        closed = tail > scan.start and self._ends_container(scan, tail - 1)
        if scan.role is Role.KEY or (closed and scan.role is not Role.ROOT):
            stop = self._stop(scan)
            if stop < self.end:
                return Reading(unescape(text[scan.start : stop].rstrip()), stop, repaired=True)
        raw = _OPEN_ESCAPE.sub("", text[scan.start : self.end])
        return Reading(unescape(raw), self.end, repaired=True, cut=True)

    def _ends_container(self, scan: _Scan, at: int) -> bool:
        """Whether the last character belongs to a container, not to the string."""
        char = self.text[at]
        if char in CLOSERS:
            return not self._open_inside(scan, at, CLOSERS[char])
        return char == "," and scan.role is not Role.VALUE

    def _looks_closed(self, at: int) -> bool:
        after = self.text[at + 1 : at + 2]
        return not self.text[at - 1].isspace() and after.isspace()

    def _stop(self, scan: _Scan) -> int:
        """Returns the first place where the container of an unclosed string continues."""
        patterns = {Role.KEY: _KEY_STOP, Role.VALUE: _FIELD_STOP}
        pattern = patterns.get(scan.role, _ITEM_STOP)
        for found in pattern.finditer(self.text, scan.start, self.end):
            if scan.role is not Role.VALUE or self._goes_on(scan, found.start()):
                self._source.budget -= found.start() - scan.start
                return found.start()
        return self.end

    def _goes_on(self, scan: _Scan, at: int) -> bool:
        char, text = self.text[at], self.text
        if char in CLOSERS and self._open_inside(scan, at, CLOSERS[char]):
            return False
        follow = self._skip(at + 1)
        if follow >= self.end:
            return char != "+"
        if char in CLOSERS:
            return text[follow] in CLOSERS or text[follow] in COMMAS
        if char == "\n" and text[follow] in CLOSERS:
            return True
        return bool(
            QUOTED_KEY.match(text, follow, self.end) or BARE_KEY.match(text, follow, self.end)
        )

    def _closes_pair(self, scan: _Scan) -> bool:
        return scan.inner % 2 == 1

    def _before_char(self, scan: _Scan, at: int) -> str:
        position = self._back(scan, at)
        return self.text[position - 1] if position > scan.start else ""

    def _back(self, scan: _Scan, at: int) -> int:
        """Returns the end of the text before white space and comments."""
        text, position = self.text, at
        while position > scan.start:
            if text[position - 1].isspace():
                position -= 1
            elif text.endswith("*/", scan.start, position):
                opening = text.rfind("/*", scan.start, position)
                if opening < 0:
                    break
                position = opening
            else:
                break
        self._source.budget -= at - position
        return position

    def _is_quote(self, position: int) -> bool:
        return position < self.end and self.text[position] in OPENING_QUOTES

    def _line_between(self, start: int, end: int) -> bool:
        return "\n" in self.text[start:end]

    def _skip(self, position: int) -> int:
        end = after_gap(self.text, position, self.end)
        self._source.budget -= end - position
        return end
