"""Finds the steps of a plan in a text that is still being written."""

from __future__ import annotations

import re
from typing import Final

from plansmith.errors import UnreadableText
from plansmith.plan.data import Json
from plansmith_planner.parse.read import read_json

_STEP_KEYS: Final = frozenset({"steps", "plan", "tasks", "execution_plan", "calls"})
_START: Final = re.compile(
    r"(<(?:think|thinking|reasoning|thought)>)|\{|\[(?=\s*\{)", re.IGNORECASE
)
_THOUGHT_END: Final = re.compile(r"</(?:think|thinking|reasoning|thought)>", re.IGNORECASE)
_TOKEN: Final = re.compile(r"\s*+([\w.+-]++|[{}\[\]:,\"'])")
_KEPT: Final = 40  # characters in which a mark may have begun, and of the longest key


class JsonStream:
    """Returns each step as soon as its text is complete.

    It follows strings and brackets only. At anything else, such as a comment, it gives up: the
    whole text is read when it has ended.
    """

    def __init__(self) -> None:
        self._text = ""  # from the step that has begun, or from what is not read yet
        self._at = 0
        self._thinking = self._over = False
        self._quote = self._word = self._key = ""
        self._levels: list[tuple[str, bool]] = []  # its bracket, and whether it may have steps
        self._step_at = -1
        self._step_level = 0

    def feed(self, piece: str) -> list[dict[str, Json]]:
        """Adds the next piece of text; returns the steps that it completes."""
        found: list[dict[str, Json]] = []
        self._text += "" if self._over else piece
        while not self._over and (sign := self._next()):
            if sign in "{[":
                self._open(sign)
            elif sign in "}]":
                self._close(sign, found)
            elif sign == ":":
                self._key, self._word = self._word, ""
            elif sign == ",":
                self._key = self._word = ""
        keep = self._at if self._step_at < 0 else self._step_at
        self._text, self._at = self._text[keep:], self._at - keep
        self._step_at = min(self._step_at, 0)
        return found

    def _next(self) -> str:
        """Returns the next sign; empty if it is not there yet."""
        if self._quote:
            return self._string()
        if self._thinking or not self._levels:
            pattern = _THOUGHT_END if self._thinking else _START
            found = pattern.search(self._text, self._at)
            self._at = found.end() if found else max(self._at, len(self._text) - _KEPT)
            thought = found is not None and (self._thinking or bool(found[1]))
            self._thinking ^= thought
            return "" if found is None else "<" if thought else found[0]
        token = _TOKEN.match(self._text, self._at)
        if token is None:
            self._over = bool(self._text[self._at :].strip())
            return ""
        self._at = token.end()
        if token[1] in "\"'":
            self._quote, self._word = token[1], ""
            return self._string()
        if token[1] not in "{}[]:,":
            self._word += token[1][:_KEPT]
        return token[1]

    def _string(self) -> str:
        """Reads the string that is open to its end."""
        while found := re.compile(rf"[{self._quote}\\]").search(self._text, self._at):
            self._word += self._text[self._at : found.start()][:_KEPT]
            self._at = found.start()
            if found[0] == self._quote:
                self._quote, self._at = "", found.end()
                return '"'
            if found.end() == len(self._text):
                return ""
            self._at += 2
        self._word += self._text[self._at :][:_KEPT]
        self._at = len(self._text)
        return ""

    def _open(self, bracket: str) -> None:
        around, reachable = self._levels[-1] if self._levels else ("", True)
        if around == "[" and reachable and bracket == "{" and self._step_at < 0:
            self._step_at, self._step_level = self._at - 1, len(self._levels)
        inside = not around or (reachable and around == "{" and self._key in _STEP_KEYS)
        self._levels.append((bracket, inside))
        self._key = self._word = ""

    def _close(self, bracket: str, found: list[dict[str, Json]]) -> None:
        kind, had_steps = self._levels.pop()
        if kind + bracket not in ("{}", "[]"):
            self._over = True
        elif self._step_at >= 0 and len(self._levels) == self._step_level:
            try:
                value = read_json(self._text[self._step_at : self._at])
            except UnreadableText:  # nested too deeply
                value = None
            found += [value] if isinstance(value, dict) else []
            self._step_at = -1
        else:
            self._over = kind == "[" and had_steps
