"""Reads a plan while it is being written; returns each step as soon as it is complete."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from plansmith.errors import UnreadableText
from plansmith.plan.data import Json
from plansmith_planner.parse.characters import OPENING_QUOTES, closers_of
from plansmith_planner.parse.read import read_json

STEP_KEYS: Final = frozenset({"steps", "plan", "tasks", "execution_plan", "calls"})


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


_LANDMARK = re.compile(
    r"<(?:think|thinking|reasoning|thought)>|[{｛]|[\[［]\s*(?=\S)", re.IGNORECASE
)
_UNSURE = re.compile(r"(?:<[a-z]{0,9}|[\[［]\s*)\Z", re.IGNORECASE)
_THOUGHT_END = re.compile(r"</(?:think|thinking|reasoning|thought)>", re.IGNORECASE)
_PIECE = re.compile(
    r"\s*+([^\s\"“”„＂'‘’`´＇{}\[\]｛｝［］:：,，/#\\]+|//|/\*|```|~~~|.|\Z)", re.DOTALL
)
_OPEN: Final = {"{": "{", "[": "[", "｛": "{", "［": "["}
_CLOSE: Final = {"}": "{", "]": "[", "｝": "{", "］": "["}
_LONGEST_TAG: Final = 12
_LONGEST_KEY: Final = 40
_AFTER_STRING: Final = frozenset(",:}]，：｝］/#+)\"'“‘")


@dataclass(slots=True)
class _Text:
    """The whole text so far, and the part that is not parsed yet."""

    parts: list[str] = field(default_factory=list[str])
    tail: str = ""


class JsonStream:
    """Parses a text piece by piece; returns the steps as they become complete."""

    def __init__(self) -> None:
        self._text = _Text()
        self._mode: Callable[[str, int], int] | None = self._prose
        self._levels: list[_Level] = []
        self._before = ""
        self._closers = ""
        self._string: list[str] = []
        self._comment_end = ""
        self._element: list[str] | None = None
        self._element_depth = 0
        self._mark = 0
        self._count = 0
        self._found: list[Item] = []

    def feed(self, chunk: str) -> list[Item]:
        """Adds the next piece of text; returns the steps that it completes."""
        self._text.parts.append(chunk)
        if self._mode is None:
            return []
        data = self._text.tail + chunk
        self._text.tail = ""
        position = self._mark = 0
        while position < len(data) and self._mode is not None:
            position = self._mode(data, position)
        if self._element is not None:
            self._element.append(data[self._mark : len(data) - len(self._text.tail)])
        found, self._found = self._found, []
        return found

    def close(self) -> list[Item]:
        """Ends the text; returns the steps that only the whole text shows."""
        self._mode = None
        try:
            value = read_json("".join(self._text.parts))
        except UnreadableText:
            return []
        late = [Item(index, step) for index, step in enumerate(steps_in(value))]
        return late[self._count :]

    def _wait(self, data: str, position: int) -> int:
        """Keeps the rest until more text is there."""
        self._text.tail = data[position:]
        return len(data)

    def _prose(self, data: str, position: int) -> int:
        found = _LANDMARK.search(data, position)
        if found is None:
            unsure = _UNSURE.search(data, max(position, len(data) - _LONGEST_TAG))
            return self._wait(data, unsure.start()) if unsure else len(data)
        if found[0][0] == "<":
            self._mode = self._thought
            return found.end()
        kind = _OPEN[found[0][0]]
        if kind == "[" and data[found.end()] not in "{｛":
            return found.start() + 1
        self._levels = [_Level(kind, reachable=True)]
        self._before = kind
        self._mode = self._outside
        return found.end()

    def _thought(self, data: str, position: int) -> int:
        found = _THOUGHT_END.search(data, position)
        if found is None:
            return self._wait(data, max(position, len(data) - _LONGEST_TAG))
        self._mode = self._prose
        return found.end()

    def _outside(self, data: str, position: int) -> int:
        """Reads one piece of the text between strings."""
        found = _PIECE.match(data, position)
        if found is None or not found[1]:
            return len(data)
        piece, end = found[1], found.end()
        if piece[0] in "/`~" and end == len(data) and len(piece) < len("```"):
            return self._wait(data, end - len(piece))
        if piece in _OPEN:
            self._open(_OPEN[piece], end - 1)
        elif piece in _CLOSE:
            self._close(_CLOSE[piece], data, end)
        elif piece in ("```", "~~~"):
            self._leave()
        elif not self._starts_string(piece) and not self._starts_comment(piece):
            self._word(piece)
        self._before = piece[-1]
        return end

    def _word(self, piece: str) -> None:
        level = self._levels[-1]
        if piece in ":：":
            level.key, level.word = level.word.strip(), ""
        elif piece in ",，":
            level.key = level.word = ""
        else:
            level.word = (level.word + piece)[-_LONGEST_KEY:]

    def _starts_string(self, piece: str) -> bool:
        # A quote directly after a word closes a string that was never opened.
        if piece not in OPENING_QUOTES or self._before not in "{[(,:+，：｛［}]\"'“”’":
            return False
        self._closers = closers_of(piece)
        self._string = []
        self._mode = self._inside
        return True

    def _starts_comment(self, piece: str) -> bool:
        address = piece == "//" and self._before == ":" and self._levels[-1].word
        if piece in ("//", "#") and not address:
            self._comment_end = "\n"
        elif piece == "/*":
            self._comment_end = "*/"
        else:
            return False
        self._mode = self._comment
        return True

    def _comment(self, data: str, position: int) -> int:
        end = data.find(self._comment_end, position)
        if end < 0:
            half = self._comment_end == "*/" and data[-1] == "*"
            return self._wait(data, len(data) - 1) if half else len(data)
        self._mode = self._outside
        return end + len(self._comment_end)

    def _inside(self, data: str, position: int) -> int:
        end = position
        while end < len(data) and data[end] != "\\" and data[end] not in self._closers:
            end = self._next_stop(data, end)
        if self._levels[-1].reachable and len(self._string) < _LONGEST_KEY:
            self._string.append(data[position:end][:_LONGEST_KEY])
        if end >= len(data):
            return end
        if data[end] == "\\":
            return end + 2 if end + 1 < len(data) else self._wait(data, end)
        self._mode = self._after_quote
        return end + 1

    def _next_stop(self, data: str, position: int) -> int:
        stops = [data.find(stop, position) for stop in (*self._closers, "\\")]
        return min((stop for stop in stops if stop >= 0), default=len(data))

    def _after_quote(self, data: str, position: int) -> int:
        """Decides by the character after a quote whether the string has ended."""
        if data[position].isspace():
            return position + 1
        if data[position] not in _AFTER_STRING and not data.startswith("```", position):
            self._mode = self._inside
            return position
        self._levels[-1].word = "".join(self._string)
        self._before = '"'
        self._mode = self._outside
        return position

    def _open(self, kind: str, position: int) -> None:
        level = self._levels[-1]
        path = level.reachable and level.kind == "{" and level.key.strip() in STEP_KEYS
        if level.reachable and level.kind == "[" and kind == "{" and self._element is None:
            self._element = []
            self._element_depth = len(self._levels)
            self._mark = position
        self._levels.append(_Level(kind, reachable=path))

    def _close(self, kind: str, data: str, end: int) -> None:
        if self._levels[-1].kind != kind:
            if not any(level.kind == kind for level in self._levels[-3:]):
                return
            self._lose()
            return
        self._levels.pop()
        if self._element is not None and len(self._levels) == self._element_depth:
            self._finish(data, end)
        if not self._levels:
            self._leave()
        elif self._levels[-1].kind == "{":
            self._levels[-1].key = self._levels[-1].word = ""
        elif kind == "[" and self._count and self._levels[-1].reachable:
            self._lose()

    def _finish(self, data: str, end: int) -> None:
        """Reads a complete step; gives up if that fails."""
        parts, self._element = self._element or [], None
        parts.append(data[self._mark : end])
        try:
            value = read_json("".join(parts))
        except UnreadableText:
            value = None
        if not isinstance(value, dict):
            self._lose()
            return
        self._found.append(Item(self._count, value))
        self._count += 1

    def _leave(self) -> None:
        """Ends the outermost value; looks for the next one unless it was the plan."""
        self._levels = []
        self._element = None
        self._mode = None if self._count else self._prose

    def _lose(self) -> None:
        """Gives up streaming: the rest is read at the end."""
        self._mode = None
        self._element = None


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
