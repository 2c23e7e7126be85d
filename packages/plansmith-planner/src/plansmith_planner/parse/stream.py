"""Reads a plan while it is being written; returns each step as soon as it is complete."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final

from plansmith.errors import UnreadableText
from plansmith.plan.data import Json
from plansmith_planner.parse.read import read_json
from plansmith_planner.parse.scalars import closers_of
from plansmith_planner.parse.signs import OPENING_QUOTES

STEP_KEYS: Final = frozenset({"steps", "plan", "tasks", "execution_plan", "calls"})
_LANDMARK = re.compile(
    r"<(?:think|thinking|reasoning|thought)>|[{｛]|[\[［]\s*(?=\S)", re.IGNORECASE
)
_UNSURE = re.compile(r"(?:<[a-z]{0,9}|[\[［]\s*)\Z", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(?:think|thinking|reasoning|thought)>", re.IGNORECASE)
_PIECE = re.compile(
    r"\s*+([^\s\"“”„＂'‘’`´＇{}\[\]｛｝［］:：,，/#\\]+|//|/\*|```|~~~|.|\Z)", re.DOTALL
)
_VISIBLE = re.compile(r"\s*(\S)")
_OPEN: Final = {"{": "{", "[": "[", "｛": "{", "［": "["}
_CLOSE: Final = {"}": "{", "]": "[", "｝": "{", "］": "["}
_FENCES: Final = ("```", "~~~")
_LONGEST_TAG: Final = 12
_LONGEST_KEY: Final = 40
_BEFORE_STRING: Final = frozenset("{[(,:+，：｛［}]\"'“”’")
_AFTER_STRING: Final = frozenset(",:}]，：｝］/#+)\"'“‘")


@dataclass(frozen=True, slots=True)
class Item:
    """One step of a plan, in the order of the text."""

    index: int
    value: dict[str, Json]


@dataclass(slots=True)
class _Level:
    """An open container: whether it may contain steps, and the last word read in it."""

    kind: str
    reachable: bool = False
    word: str = ""
    key: str = ""


class _Lost(Exception):
    """The text cannot be followed: the rest is read at the end."""


class JsonStream:
    """Parses a text piece by piece; returns the steps as they become complete."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._data = ""  # what is not read yet, and the whole of a step that is begun
        self._pos = 0
        self._step_at = -1
        self._count = 0
        self._found: list[Item] = []
        self._work: Generator[None] | None = self._values()

    def feed(self, chunk: str) -> list[Item]:
        """Adds the next piece of text; returns the steps that it completes."""
        self._parts.append(chunk)
        if self._work is None:
            return []
        self._data += chunk
        try:
            next(self._work)
        except (StopIteration, _Lost, UnreadableText):
            self._work = None
        found, self._found = self._found, []
        return found

    def close(self) -> list[Item]:
        """Ends the text; returns the steps that only the whole text shows."""
        self._work = None
        try:
            value = read_json("".join(self._parts))
        except UnreadableText:
            return []
        late = [Item(index, step) for index, step in enumerate(steps_in(value))]
        return late[self._count :]

    def _more(self) -> Generator[None]:
        """Waits for more text, and forgets what is read."""
        keep = self._pos if self._step_at < 0 else self._step_at
        self._data = self._data[keep:]
        self._pos -= keep
        self._step_at = min(self._step_at, 0)
        yield

    def _values(self) -> Generator[None]:
        """Reads one value after the other until one of them has steps."""
        while not self._count:
            found = _LANDMARK.search(self._data, self._pos)
            if found is None:
                tail = max(self._pos, len(self._data) - _LONGEST_TAG)
                unsure = _UNSURE.search(self._data, tail)
                self._pos = unsure.start() if unsure else len(self._data)
                yield from self._more()
                continue
            self._pos = found.end()
            if found[0][0] == "<":
                yield from self._thought()
            elif found[0][0] in "[［" and self._data[self._pos] not in "{｛":
                self._pos = found.start() + 1
            else:
                yield from self._value(_OPEN[found[0][0]])
                self._step_at = -1

    def _thought(self) -> Generator[None]:
        while (found := _THOUGHT_END.search(self._data, self._pos)) is None:
            self._pos = max(self._pos, len(self._data) - _LONGEST_TAG)
            yield from self._more()
        self._pos = found.end()

    def _value(self, kind: str) -> Generator[None]:
        levels = [_Level(kind, reachable=True)]
        before, depth = kind, 0
        while levels:
            top = levels[-1]
            piece, word = yield from self._token(before, top.word)
            before = piece[-1]
            if piece in _OPEN:
                if top.reachable and top.kind == "[" and _OPEN[piece] == "{" and self._step_at < 0:
                    self._step_at, depth = self._pos - 1, len(levels)
                inside = top.reachable and top.kind == "{" and top.key in STEP_KEYS
                levels.append(_Level(_OPEN[piece], inside))
            elif piece in _CLOSE:
                self._close(levels, _CLOSE[piece], depth)
            elif piece in _FENCES:
                return
            elif piece in ":：":
                top.key, top.word = top.word.strip(), ""
            elif piece in ",，":
                top.key = top.word = ""
            else:
                top.word = word if piece == '"' else (top.word + word)[-_LONGEST_KEY:]

    def _close(self, levels: list[_Level], kind: str, depth: int) -> None:
        if levels[-1].kind != kind:
            if any(level.kind == kind for level in levels[-3:]):
                raise _Lost
            return
        levels.pop()
        if self._step_at >= 0 and len(levels) == depth:
            value = read_json(self._data[self._step_at : self._pos])
            if not isinstance(value, dict):
                raise _Lost
            self._found.append(Item(self._count, value))
            self._count += 1
            self._step_at = -1
        if levels and levels[-1].kind == "{":
            levels[-1].key = levels[-1].word = ""
        elif levels and kind == "[" and self._count and levels[-1].reachable:
            raise _Lost

    def _token(self, before: str, word: str) -> Generator[None, None, tuple[str, str]]:
        """Reads a sign, a word, or a string, which is returned as a quote and its text."""
        while True:
            found = _PIECE.match(self._data, self._pos)
            piece = found[1] if found else ""
            half = piece != "" and piece[0] in "/`~" and len(piece) < len("```")
            if found is None or not piece or (half and found.end() == len(self._data)):
                yield from self._more()
                continue
            self._pos = found.end()
            # A quote directly after a word closes a string that was never opened.
            if piece in OPENING_QUOTES and before in _BEFORE_STRING:
                return '"', (yield from self._string(closers_of(piece)))
            if piece == "/*":
                yield from self._comment("*/")
            elif piece == "#" or (piece == "//" and not (before == ":" and word)):
                yield from self._comment("\n")
            else:
                return piece, piece

    def _comment(self, end: str) -> Generator[None]:
        while (at := self._data.find(end, self._pos)) < 0:
            self._pos = max(self._pos, len(self._data) - len(end) + 1)
            yield from self._more()
        self._pos = at + len(end)

    def _string(self, closers: str) -> Generator[None, None, str]:
        """Reads to the quote behind which a string can have ended; returns its beginning."""
        stops = re.compile(rf"[{re.escape(closers)}\\]")
        text = ""
        while True:
            found = stops.search(self._data, self._pos)
            end = found.start() if found else len(self._data)
            text = (text + self._data[self._pos : end])[:_LONGEST_KEY]
            self._pos = end
            if found is None or (found[0] == "\\" and end + 1 == len(self._data)):
                yield from self._more()
            elif found[0] == "\\":
                self._pos = end + 2
            else:
                self._pos = end + 1
                while (after := _VISIBLE.match(self._data, self._pos)) is None:
                    yield from self._more()
                if after[1] in _AFTER_STRING or self._data.startswith("```", after.start(1)):
                    return text


def steps_in(value: Json) -> Iterator[dict[str, Json]]:
    """Returns the steps of a plan value: the objects of its first list that has any."""
    steps = _step_list(value, 0)
    return (step for step in steps or [] if isinstance(step, dict))


def _step_list(value: Json, depth: int) -> list[Json] | None:
    if isinstance(value, list):
        return value if any(isinstance(item, dict) for item in value) else None
    if isinstance(value, dict) and depth < len(STEP_KEYS):
        for key, child in value.items():
            found = _step_list(child, depth + 1) if key in STEP_KEYS else None
            if found is not None:
                return found
    return None
