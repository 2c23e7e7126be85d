"""Finds every place of a text at which a JSON value may start, and reads each once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from plansmith.plan.data import Json
from plansmith.planner.jsontext.chars import GAP, QUOTED_KEY
from plansmith.planner.jsontext.mend import Escaped, Mended, Mender
from plansmith.planner.jsontext.nest import TooDeep
from plansmith.planner.jsontext.strict import Source

_LANDMARK = re.compile(
    r"(?P<fence>```+|~~~+)|(?P<think></?(?:think|thinking|reasoning|thought)>)|(?P<open>[{\[｛［])",
    re.IGNORECASE,
)
_INFO = re.compile(r"[ \t]*([\w+.-]*)[^\n`{\[(\"']*")
_TUPLE_START = re.compile(r"\s*\(")
_CODE = frozenset({"python", "py", "bash", "sh", "shell", "sql", "html", "css", "xml", "text"})
_BARE_START = re.compile(r"\s*(?![\s\d\"'“‘`{\[\]}-]|true|false|null|True|False|None|//|/\*)")
_MAX_RETRIES: Final = 16


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value found in a text, and what speaks for it."""

    value: Json
    start: int
    end: int
    flaws: int = 0
    closed: bool = True
    fenced: bool = False
    code: bool = False
    thought: bool = False


class Scanner:
    """Walks a text once and reads a value at every opening bracket outside other values."""

    def __init__(self, source: Source) -> None:
        self.text = source.text
        self.too_deep = False
        self.escaped = False
        self._source = source
        self._retries = 0
        self._fence = ""
        self._code = False
        self._thinking = False

    def candidates(self) -> list[Candidate]:
        """All values in the order of the text; those of a closed thought are marked."""
        found: list[Candidate] = []
        position = stray = 0
        opened = False
        while not self.too_deep:
            mark = _LANDMARK.search(self.text, position)
            if mark is None:
                break
            position = mark.end()
            if mark["fence"]:
                position = self._at_fence(mark)
                found.extend(self._tuple(position))
            elif mark["think"]:
                self._thinking = not mark[0].startswith("</")
                stray = position if not (self._thinking or opened) else stray
                opened = self._thinking
            else:
                found.extend(self._at(mark.start()))
            position = max(position, found[-1].end if found else 0)
        # A thought that was closed but never opened began with the text.
        return [replace(one, thought=one.thought or one.start < stray) for one in found]

    def _at_fence(self, mark: re.Match[str]) -> int:
        """Open or close a fence; the place after the mark and its language."""
        if self._fence:
            self._fence = ""
            return mark.end()
        self._fence = mark[0][:3]
        info = _INFO.match(self.text, mark.end())
        self._code = bool(info and info[1].lower() in _CODE)
        return mark.end() + (len(info[1]) if info and info[1] else 0)

    def _tuple(self, position: int) -> Iterator[Candidate]:
        """A fence may hold a Python tuple; elsewhere parentheses are prose."""
        if self._fence and _TUPLE_START.match(self.text, position):
            yield from self._at(position)

    def _at(self, start: int) -> Iterator[Candidate]:
        mended = self._strict(start)
        if mended is None:
            mended = self._mended(start)
        if mended is None:
            return
        one = Candidate(
            mended.value, start, mended.end, mended.flaws, mended.closed,
            bool(self._fence), self._code, self._thinking,
        )  # fmt: skip
        if self._swallowed_prose(one):
            self._retries += 1
            inner = _LANDMARK.search(self.text, start + 1)
            if inner and inner["open"]:
                yield replace(one, end=start + 1)
                return
        yield one

    def _swallowed_prose(self, one: Candidate) -> bool:
        """Whether a stray bracket of the prose ate the rest of the text."""
        if one.closed or one.fenced or self._retries >= _MAX_RETRIES:
            return False
        return bool(_BARE_START.match(self.text, one.start + 1))

    def _strict(self, start: int) -> Mended | None:
        found = self._source.strict_at(start) if self.text[start] in "{[" else None
        if found is None or (self.text[start] == "{" and _goes_on(self.text, found[1])):
            return None
        return Mended(*found)

    def _mended(self, start: int) -> Mended | None:
        try:
            return Mender(self._source, start, self._limit(start)).read()
        except TooDeep:
            self.too_deep = True
        except Escaped:
            self.escaped = True
        return None

    def _limit(self, start: int) -> int:
        """The end of the fenced block around a place, else the end of the text."""
        if not self._fence:
            return len(self.text)
        line = re.compile(rf"\n[ \t]*{self._fence}").search(self.text, start)
        return line.start() if line else len(self.text)


def _goes_on(text: str, end: int) -> bool:
    """Whether another field follows an object that is closed already."""
    comma = text.find(",", end, end + 80)
    return comma >= 0 and not text[end:comma].strip() and bool(QUOTED_KEY.match(text, comma + 1))


def only_gap(text: str, start: int, end: int) -> bool:
    """Whether nothing but white space, commas and comments lies between two places."""
    position = start
    while position < end:
        found = GAP.match(text, position, end)
        position = found.end() if found else position
        if position >= end:
            return True
        if text[position] not in ",，;":
            return False
        position += 1
    return True
