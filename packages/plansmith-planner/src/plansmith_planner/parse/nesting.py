"""Keeps the open brackets of malformed JSON, and interprets unexpected closing brackets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from plansmith.plan.data import Json
from plansmith_planner.parse.characters import QUOTED_KEY, after_gap

MAX_LEVELS: Final = 5000
_WINDOW: Final = 80


class TooDeep(Exception):
    """The value is nested too deeply for Python code."""


@dataclass(slots=True)
class Frame:
    """A container that is still open."""

    kind: str
    fields: dict[str, Json] = field(default_factory=dict[str, Json])
    items: list[Json] = field(default_factory=list[Json])
    key: str | None = None
    last: str | None = None
    named: bool = False
    comma: bool = True
    dropping: bool = False
    merging: bool = False
    doubled: bool = False

    def value(self, *, cut: bool) -> Json:
        """Returns the container's value; braces around plain items are read as a list."""
        if self.kind == "{":
            if not self.named and self.items and not (cut and len(self.items) == 1):
                return self.items
            return self.fields
        if self.kind == "(" and len(self.items) == 1 and not self.comma:
            return self.items[0]
        return self.items

    def assign(self, value: Json) -> None:
        """Assigns a value to the pending key."""
        key, self.key = self.key or "", None
        self.comma = False
        if self.dropping:
            self.dropping = False
            return
        present = self.fields.get(key)
        if self.merging and isinstance(present, list) and isinstance(value, list):
            present.extend(value)
        else:
            self.fields[key] = value
        self.merging = False
        self.last = key


class Nesting:
    """The stack of open containers, and the outermost value."""

    def __init__(self) -> None:
        self.stack: list[Frame] = []
        self.opened: Counter[str] = Counter()
        self.root: Json = None

    def push(self, kind: str) -> None:
        if len(self.stack) >= MAX_LEVELS:
            raise TooDeep
        self.stack.append(Frame(kind))
        self.opened[kind] += 1

    def close(self, *, cut: bool) -> None:
        """Closes the innermost container and puts it into the one around it."""
        frame = self._pop()
        if frame.key is not None:
            frame.assign(None)
        self.put(frame.value(cut=cut))

    def drop(self) -> None:
        """Drops an empty innermost container, unless a key needs a value."""
        frame = self._pop()
        if self.stack[-1].key is not None:
            self.put(frame.value(cut=False))

    def put(self, value: Json) -> None:
        """Adds a value to the innermost container."""
        if not self.stack:
            self.root = value
            return
        frame = self.stack[-1]
        if frame.kind == "{":
            frame.assign(value)
        else:
            frame.items.append(value)
            frame.comma = False

    def _pop(self) -> Frame:
        frame = self.stack.pop()
        self.opened[frame.kind] -= 1
        return frame


@dataclass(frozen=True, slots=True)
class Place:
    """A closing bracket in the text, with its surroundings."""

    text: str
    at: int
    end: int

    @property
    def before(self) -> str:
        """The last character before the bracket that is not white space."""
        return self.text[max(0, self.at - _WINDOW) : self.at].rstrip()[-1:]

    def next(self) -> tuple[str, int]:
        """Returns the first character after the bracket, and the place after it."""
        follow = after_gap(self.text, self.at + 1, self.end)
        return (self.text[follow], follow + 1) if follow < self.end else ("", follow)

    def goes_on(self) -> bool:
        """Whether a comma and a quoted key follow the bracket."""
        char, follow = self.next()
        return char == "," and bool(QUOTED_KEY.match(self.text, follow, self.end))

    def next_object(self) -> bool:
        """Whether a comma and an opening brace follow the bracket."""
        char, follow = self.next()
        return char == "," and self.text.startswith("{", after_gap(self.text, follow, self.end))


def is_typo(place: Place, stack: Sequence[Frame], kind: str) -> bool:
    """Whether a wrong closing bracket was meant to close the innermost container."""
    if len(stack) < 2 or stack[-2].kind != kind:
        return False
    if kind == "[":
        return place.next_object()
    outer = stack[-3].kind if len(stack) > 2 else ""
    return outer != "{" and place.goes_on()


def is_extra(place: Place, nest: Nesting) -> bool:
    """Whether a closing bracket is superfluous, because the innermost container continues."""
    top = nest.stack[-1]
    if place.before != place.text[place.at] or top.kind == "(":
        return False
    if top.kind == "{":
        return place.goes_on()
    if place.next()[0] == "]":
        return nest.opened["["] == 1
    return place.next_object()
