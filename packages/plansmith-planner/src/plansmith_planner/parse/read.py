"""Finds the JSON value in a text, and reads it even if it is malformed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from plansmith.errors import UnreadableText
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith_planner.parse.characters import (
    GAP,
    GROUPED,
    OPENING_QUOTES,
    QUOTED_KEY,
    REGEX_LITERAL,
    Source,
    document,
    number,
)
from plansmith_planner.parse.nesting import TooDeep
from plansmith_planner.parse.tolerant import Escaped, Repaired, TolerantParser

_LANDMARK = re.compile(
    r"(?P<fence>```+|~~~+)|(?P<think></?(?:think|thinking|reasoning|thought)>)|(?P<open>[{\[｛［])",
    re.IGNORECASE,
)
_INFO = re.compile(r"[ \t]*([\w+.-]*)[^\n`{\[(\"']*")
_TUPLE_START = re.compile(r"\s*\(")
_FENCE_LINES = {fence: re.compile(rf"\n[ \t]*{fence}") for fence in ("```", "~~~")}
_CODE = frozenset({"python", "py", "bash", "sh", "shell", "sql", "html", "css", "xml", "text"})
_BARE_START = re.compile(r"\s*(?![\s\d\"'“‘`{\[\]}-]|true|false|null|True|False|None|//|/\*)")
_MAX_RETRIES: Final = 16
Fits = Callable[[Json], float]
_ESCAPED_ONCE = re.compile(r"\\([\"'\\/])")
_SENTENCE = re.compile(r"[.!?。！？…]\Z|\A[^\w\"'“‘/+.-]+\Z")
_NOISE = re.compile(r"[\s,;)\]}]*")
_MAX_BARE_WORDS: Final = 4
_FLAWS_TO_DOUBT: Final = 12


@dataclass(frozen=True, slots=True)
class Candidate:
    """A value found in a text, and what is needed to rank it."""

    value: Json
    start: int
    end: int
    flaws: int = 0
    closed: bool = True
    fenced: bool = False
    code: bool = False
    thought: bool = False


class Scanner:
    """Scans a text once, and reads a value at every opening bracket outside other values."""

    def __init__(self, source: Source) -> None:
        self.text = source.text
        self.too_deep = False
        self.escaped = False
        self._source = source
        self._retries = 0
        self._fence = ""
        self._fence_end = ("", 0)
        self._code = False
        self._thinking = False

    def candidates(self) -> list[Candidate]:
        """Returns all values in the order of the text; marks those inside a thought."""
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
        # A thought that is closed but never opened starts with the text.
        return [replace(one, thought=one.thought or one.start < stray) for one in found]

    def _at_fence(self, mark: re.Match[str]) -> int:
        """Opens or closes a code fence; returns the place after it and its language."""
        if self._fence:
            self._fence = ""
            return mark.end()
        self._fence = mark[0][:3]
        info = _INFO.match(self.text, mark.end())
        self._code = bool(info and info[1].lower() in _CODE)
        return mark.end() + (len(info[1]) if info and info[1] else 0)

    def _tuple(self, position: int) -> Iterator[Candidate]:
        """Reads a Python tuple at the start of a fence; elsewhere parentheses are prose."""
        if self._fence and _TUPLE_START.match(self.text, position):
            yield from self._at(position)

    def _at(self, start: int) -> Iterator[Candidate]:
        found = self._strict(start)
        if found is None:
            found = self._tolerant(start)
        if found is None:
            return
        one = Candidate(
            found.value, start, found.end, found.flaws, found.closed,
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
        """Whether a stray bracket in prose was read as a value up to the end."""
        if one.closed or one.fenced or self._retries >= _MAX_RETRIES:
            return False
        return bool(_BARE_START.match(self.text, one.start + 1))

    def _strict(self, start: int) -> Repaired | None:
        found = self._source.strict_at(start) if self.text[start] in "{[" else None
        if found is None or (self.text[start] == "{" and _goes_on(self.text, found[1])):
            return None
        return Repaired(*found)

    def _tolerant(self, start: int) -> Repaired | None:
        try:
            return TolerantParser(self._source, start, self._limit(start)).read()
        except TooDeep:
            self.too_deep = True
        except Escaped:
            self.escaped = True
        return None

    def _limit(self, start: int) -> int:
        """Returns the end of the fenced block around a place, else the end of the text."""
        if not self._fence:
            return len(self.text)
        fence, end = self._fence_end
        if fence != self._fence or end < start:
            line = _FENCE_LINES[self._fence].search(self.text, start)
            end = line.start() if line else len(self.text)
            self._fence_end = self._fence, end
        return end


def _goes_on(text: str, end: int) -> bool:
    """Whether another field follows an object that is already closed."""
    comma = text.find(",", end, end + 80)
    return comma >= 0 and not text[end:comma].strip() and bool(QUOTED_KEY.match(text, comma + 1))


def only_gap(text: str, start: int, end: int) -> bool:
    """Whether only white space, commas and comments are between two places."""
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


def read_json(text: str, *, fits: Fits | None = None) -> Json:
    """Returns the JSON value in a text, as models write it: with prose, fences and errors.

    Args:
        text: The text.
        fits: Scores a value; among several in the text, the best is returned.

    Raises:
        UnreadableText: There is no JSON value in the text.

    Examples:
        >>> from plansmith_planner import read_json
        >>> read_json("Here you are: {'item': 'bolt', count: 9,}")
        {'item': 'bolt', 'count': 9}
    """
    try:
        return document(text)
    except (ValueError, RecursionError):
        pass
    try:
        return _read(text.lstrip("\ufeff"), fits)
    except Escaped:
        plain = _ESCAPED_ONCE.sub(r"\1", text)
    except TooDeep as error:
        raise UnreadableText(Sentence("the value is nested too deeply")) from error
    try:
        return _read(plain, fits, again=True)
    except (Escaped, TooDeep) as error:
        raise UnreadableText(Sentence("no JSON value could be read from the text")) from error


def _read(text: str, fits: Fits | None, *, again: bool = False) -> Json:
    whole = _whole(text)
    if whole is not None:
        return whole[0]
    scanner = Scanner(Source(text))
    found = scanner.candidates()
    # Quotes with backslashes may also be in the prose around a valid value.
    if scanner.escaped and not again and not any(one.fenced and not one.flaws for one in found):
        raise Escaped
    if found:
        return _choose(text, found, fits).value
    if scanner.too_deep:
        raise TooDeep
    return _bare(text)


def _whole(text: str) -> list[Json] | None:
    """Returns the value of a text that as a whole is a quoted string or a list of fields."""
    body = text.strip()
    if REGEX_LITERAL.fullmatch(body):
        return [body]
    if not body or body[0] not in OPENING_QUOTES or body.startswith("```"):
        return None
    if QUOTED_KEY.match(body):
        return [TolerantParser(Source("{" + body)).read().value]
    found = TolerantParser(Source(body)).read()
    return [found.value] if not body[found.end :].strip(" \n\t,;") else None


def _choose(text: str, found: Sequence[Candidate], fits: Fits | None) -> Candidate:
    groups = _groups(text, found)
    if fits is None:
        return max(groups, key=_merit)
    grouped = {id(group) for group in groups}
    pool = [*groups, *(one for one in found if id(one) not in grouped)]
    return max(pool, key=lambda one: (not one.thought, fits(one.value), _merit(one)))


def _groups(text: str, found: Sequence[Candidate]) -> list[Candidate]:
    """Groups values with no word between them; they are one list."""
    groups: list[list[Candidate]] = []
    for one in found:
        last = groups[-1][-1] if groups else None
        if last and last.thought == one.thought and only_gap(text, last.end, one.start):
            groups[-1].append(one)
        else:
            groups.append([one])
    return [
        _joined(group, alone=len(groups) == 1 and not text[: found[0].start].strip("`json \n"))
        for group in groups
    ]


def _joined(group: Sequence[Candidate], *, alone: bool) -> Candidate:
    """Joins values into one list, without empty ones."""
    most = max(_substance(one.value) for one in group)
    least = 1 if alone else most
    full = [one for one in group if _substance(one.value) >= max(1, least)]
    if len(full) < 2:
        return full[0] if full else group[0]
    first = full[0]
    adjacent = all(left.end == right.start for left, right in pairwise(full))
    if adjacent and all(isinstance(one.value, list) for one in full):
        return full[-1]  # an array directly after an array is a second attempt
    return Candidate(
        [one.value for one in full], first.start, full[-1].end, sum(one.flaws for one in full),
        full[-1].closed, first.fenced, first.code, first.thought,
    )  # fmt: skip


def _merit(one: Candidate) -> tuple[bool, bool, bool, int, bool]:
    """Ranks a candidate, most important criterion first; ties go to the earlier one."""
    substance = _substance(one.value)
    return (
        not one.thought,
        substance > 0 and one.flaws <= _FLAWS_TO_DOUBT + (one.end - one.start) // 20,
        one.fenced and not one.code,
        substance,
        one.flaws == 0,
    )


def _substance(value: Json) -> int:
    """Returns 0 for an empty container, 1 for a list of plain values, 2 if there are fields."""
    if isinstance(value, dict):
        return 2 if value else 0
    if not isinstance(value, list) or not value:
        return 0
    return 2 if any(isinstance(item, (dict, list)) and item for item in value) else 1


def _bare(text: str) -> Json:
    """Returns the value of a text without brackets: a word, a number, or a list of them."""
    body = _unfenced(text).strip()
    if GROUPED.fullmatch(body):
        return number(body.replace(",", ""))
    if not any(char.isalnum() or char in OPENING_QUOTES for char in body):
        raise UnreadableText(Sentence("there is no JSON value in the text"))
    values: list[Json] = []
    words = position = 0
    source = Source(body)
    while position < len(body):
        found = TolerantParser(source, position).read()
        piece = body[position : found.end]
        quoted = piece[:1] in OPENING_QUOTES
        words = max(words, 1 if quoted else len(piece.split()))
        values.append(found.value)
        noise = _NOISE.match(body, max(found.end, position + 1))
        position = noise.end() if noise else found.end
    limit = _MAX_BARE_WORDS if len(values) == 1 else 1
    if not values or words > limit or (words > 1 and _SENTENCE.search(body)):
        raise UnreadableText(Sentence("there is no JSON value in the text"))
    return values[0] if len(values) == 1 else values


def _unfenced(text: str) -> str:
    return re.sub(r"(?:```+|~~~+)\w*", "", text)
