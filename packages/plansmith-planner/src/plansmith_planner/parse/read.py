"""Finds the JSON value in a text, also a malformed one, and steps in a text still being written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, cast

import msgspec

from plansmith.errors import UnreadableText
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.text import SURROGATES
from plansmith_planner.parse import tolerant as t
from plansmith_planner.parse.scalars import clean, finite, number
from plansmith_planner.parse.tolerant import Escaped, Repaired, Tolerant, TooDeep

Fits = Callable[[Json], float]
_LANDMARK: Final = re.compile(
    r"(?P<fence>```+|~~~+)[ \t]*[\w+.-]*|(?P<think></?(?:think|thinking|reasoning|thought)>)"
    r"|(?P<open>[{\[｛［])",
    re.IGNORECASE,
)
_PARENTHESIS: Final = re.compile(r"\s*\(")
_REGEX_LITERAL: Final = re.compile(r"/(?:[^/\\\n]|\\.){1,500}/[a-z]*")
_BARE_START: Final = re.compile(
    r"\s*(?![\s\d\"'“‘`{\[\]}-]|true|false|null|True|False|None|//|/\*)"
)
_ESCAPED_ONCE: Final = re.compile(r"\\([\"'\\/])")
_SENTENCE: Final = re.compile(r"[.!?。！？…]\Z|\A[^\w\"'“‘/+.-]+\Z")
_NOISE: Final = re.compile(r"[\s,;)\]}]*")
# Only white space, commas and comments.
_BETWEEN: Final = re.compile(rf"(?>{t.GAP.pattern})(?:[,，;](?>{t.GAP.pattern}))*+")
# Reads what is in no standard, and says where a value ends.
_DECODER: Final = json.JSONDecoder(parse_constant=lambda _: None, parse_float=finite)


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
        return cast("Json", msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        pass  # ill-formed, or with NaN, lone surrogates or numbers beyond floats
    try:
        return _scrubbed(_DECODER.decode(text), text)
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


def _scrubbed(value: Json, text: str) -> Json:
    """Returns the value without lone surrogates, which UTF-8 cannot hold."""
    if "\\ud" not in text and "\\uD" not in text and not SURROGATES.search(text):
        return value
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [_scrubbed(each, text) for each in value]
    if isinstance(value, dict):
        return {clean(name): _scrubbed(each, text) for name, each in value.items()}
    return value


def _read(text: str, fits: Fits | None, *, again: bool = False) -> Json:
    body = text.strip()
    if _REGEX_LITERAL.fullmatch(body):
        return body
    if body and body[0] in t.OPENING_QUOTES and not body.startswith("```"):
        # A list of fields, or one quoted string.
        if t.QUOTED_KEY.match(body):
            return Tolerant("{" + body).read().value
        whole = Tolerant(body).read()
        if not body[whole.end :].strip(" \n\t,;"):
            return whole.value
    scanner = _Scanner(text)
    found = scanner.candidates()
    # Quotes with backslashes may also be in the prose around a valid value.
    if scanner.escaped and not again and not any(one.fenced and one.exact for one in found):
        raise Escaped
    if scanner.too_deep and not found:
        raise TooDeep
    return _choose(text, found, fits) if found else _bare(text)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A value found in a text, and what is needed to rank it."""

    value: Json
    start: int
    end: int
    exact: bool
    fenced: bool = False
    thought: bool = False

    @property
    def substance(self) -> int:
        """0 for an empty container, 1 for a list of plain values, 2 if there are fields."""
        if isinstance(self.value, dict):
            return 2 if self.value else 0
        if not isinstance(self.value, list) or not self.value:
            return 0
        return 2 if any(isinstance(item, (dict, list)) and item for item in self.value) else 1

    @property
    def merit(self) -> tuple[bool, bool, bool, int, bool]:
        """How good it is, most important criterion first; ties go to the earlier one."""
        found = self.substance
        return (not self.thought, found > 0, self.fenced, found, self.exact)


class _Scanner:
    """Scans a text once, and reads a value at every opening bracket outside other values."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.too_deep = False
        self.escaped = False
        self._retries = 0
        self._patience = 64 * len(text) + 65536
        self._fence = ""
        self._thinking = False

    def candidates(self) -> list[_Candidate]:
        """Returns all values in the order of the text; marks those inside a thought."""
        found: list[_Candidate] = []
        position = stray = 0
        opened = False
        while not self.too_deep and (mark := _LANDMARK.search(self.text, position)):
            at, position = mark.start(), mark.end()
            if mark["think"]:
                self._thinking = not mark[0].startswith("</")
                stray = position if not (self._thinking or opened) else stray
                opened = self._thinking
                continue
            if mark["fence"]:
                closes, self._fence = bool(self._fence), "" if self._fence else mark[0][:3]
                at, position = (-1, mark.end("fence")) if closes else (position, position)
                # A Python tuple; elsewhere than in a fence parentheses are prose.
                if closes or not _PARENTHESIS.match(self.text, at):
                    continue
            one = self._at(at)
            if one is not None:
                found.append(one)
                position = max(position, one.end)
        # A thought that is closed but never opened starts with the text.
        return [replace(one, thought=one.thought or one.start < stray) for one in found]

    def _at(self, start: int) -> _Candidate | None:
        strict = self._strict(start)
        found = strict or self._tolerant(start)
        if found is None:
            return None
        end, fenced = found.end, bool(self._fence)
        # A stray bracket in prose is read as a value up to the end.
        if not found.closed and not fenced and self._retries < 16:
            inner = _LANDMARK.search(self.text, start + 1)
            if _BARE_START.match(self.text, start + 1) and inner and inner["open"]:
                self._retries += 1
                end = start + 1
        exact = strict is not None
        return _Candidate(found.value, start, end, exact, fenced, self._thinking)

    def _strict(self, start: int) -> Repaired | None:
        if self.text[start] not in "{[" or self._patience < 0:
            return None
        try:
            value, end = _DECODER.raw_decode(self.text, start)
        except (ValueError, RecursionError):
            self._patience -= len(self.text)
            return None
        if self.text[start] == "{" and t.ANOTHER_FIELD.match(self.text, end):
            return None
        return Repaired(_scrubbed(value, self.text[start:end]), end)

    def _tolerant(self, start: int) -> Repaired | None:
        end = self.text.find(f"\n{self._fence}", start) if self._fence else -1
        try:
            return Tolerant(self.text, start, end if end >= 0 else None).read()
        except TooDeep:
            self.too_deep = True
        except Escaped:
            self.escaped = True
        return None


def _choose(text: str, found: Sequence[_Candidate], fits: Fits | None) -> Json:
    """Returns the best value; those with no word between them are one list."""
    groups: list[list[_Candidate]] = []
    for one in found:
        last = groups[-1][-1] if groups else None
        between = _BETWEEN.fullmatch(text, last.end, one.start) if last else None
        if last and last.thought == one.thought and between:
            groups[-1].append(one)
        else:
            groups.append([one])
    alone = len(groups) == 1 and not text[: found[0].start].strip("`json \n")
    joined = [_joined(group, alone=alone) for group in groups]
    if fits is None:
        return max(joined, key=lambda one: one.merit).value
    pool = [*joined, *(one for one in found if not any(one is other for other in joined))]
    return max(pool, key=lambda one: (not one.thought, fits(one.value), one.merit)).value


def _joined(group: Sequence[_Candidate], *, alone: bool) -> _Candidate:
    least = 1 if alone else max(1, *(one.substance for one in group))
    full = [one for one in group if one.substance >= least]
    if len(full) < 2:
        return full[0] if full else group[0]
    adjacent = all(left.end == right.start for left, right in pairwise(full))
    if adjacent and all(isinstance(one.value, list) for one in full):
        return full[-1]  # an array directly after an array is a second attempt
    values: list[Json] = [one.value for one in full]
    exact = all(one.exact for one in full)
    return replace(full[0], value=values, end=full[-1].end, exact=exact)


def _bare(text: str) -> Json:
    """Returns the value of a text without brackets: a word, a number, or a list of them."""
    body = re.sub(r"(?:```+|~~~+)\w*", "", text).strip()
    if t.GROUPED.fullmatch(body):
        return number(body.replace(",", ""))
    values: list[Json] = []
    words = 0
    position = 0 if any(char.isalnum() or char in t.OPENING_QUOTES for char in body) else len(body)
    while position < len(body):
        found = Tolerant(body, position).read()
        piece = body[position : found.end]
        words = max(words, 1 if piece[:1] in t.OPENING_QUOTES else len(piece.split()))
        values.append(found.value)
        noise = _NOISE.match(body, max(found.end, position + 1))
        position = noise.end() if noise else found.end
    limit = 4 if len(values) == 1 else 1
    if not values or words > limit or (words > 1 and _SENTENCE.search(body)):
        raise UnreadableText(Sentence("there is no JSON value in the text"))
    return values[0] if len(values) == 1 else values


# Where the list of steps begins: behind its name, or alone.
_STEPS: Final = re.compile(
    r"(?:\"(?:steps|plan|tasks|execution_plan|calls)\"\s*+:|\A|```\w*+)\s*+\[(?=\s*\{)"
)
_THOUGHT: Final = re.compile(
    r"<(think|thinking|reasoning|thought)>(?:.*</\1>|.*)", re.IGNORECASE | re.DOTALL
)
_LONGEST: Final = 50_000  # letters in which the list has to begin, or a step has to end


class JsonStream:
    """Returns each step as soon as its text is complete.

    It reads exact JSON only: of any other text nothing is known before it has ended.
    """

    def __init__(self) -> None:
        self._text = ""  # what is not read yet
        self._is_listed = False  # whether the list of steps has begun

    def feed(self, piece: str) -> list[dict[str, Json]]:
        """Adds the next piece of text; returns the steps that it completes."""
        self._text += piece if len(self._text) < _LONGEST else ""
        found: list[dict[str, Json]] = []
        if "{" in piece and not self._is_listed:
            plain = _THOUGHT.sub("", self._text)
            if start := _STEPS.search(plain):
                self._is_listed, self._text = True, plain[start.end() :]
        while "}" in piece and self._is_listed:
            rest = self._text.lstrip(" \t\r\n,")
            try:
                value, end = _DECODER.raw_decode(rest)
            except (ValueError, RecursionError):
                break
            self._text = rest[end:]
            step = _scrubbed(value, rest[:end])
            found += [step] if isinstance(step, dict) else []
        return found
