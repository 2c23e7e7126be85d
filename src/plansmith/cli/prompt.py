"""Asking a person on a terminal: what was typed, and what it means."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple, cast

from plansmith.plan.data import Json
from plansmith.plan.events import QuestionAsked
from plansmith.planner.checking.schemas import BadSchema, Schema, validator

if sys.platform != "win32":
    import termios

_YES: Final = frozenset({"y", "yes", "是", "好"})
_NO: Final = frozenset({"n", "no", "否", "不"})
_EDIT: Final = frozenset({"e", "edit", "编辑"})
_CHANGES: Final = frozenset({"c", "changes"})


class Choice(NamedTuple):
    """What a person decided about a plan; `later` is whatever is none of the others."""

    kind: Literal["yes", "no", "edit", "changes", "later"]
    text: str = ""


def read_choice(typed: str) -> Choice:
    """The decision in what was typed: only an explicit yes approves."""
    words = typed.strip()
    first, _, rest = words.partition(" ")
    if words.lower() in _YES:
        return Choice("yes")
    if words.lower() in _NO:
        return Choice("no")
    if words.lower() in _EDIT:
        return Choice("edit")
    if first.lower() in _CHANGES and rest.strip():
        return Choice("changes", rest.strip())
    return Choice("later")


def read_answer(asked: QuestionAsked, typed: str) -> Json:
    """The answer in what was typed: an option by its text or number, JSON where it is wanted."""
    text = typed.strip()
    if asked.options:
        numbers = {str(number): each for number, each in enumerate(asked.options, start=1)}
        return text if text in asked.options else numbers.get(text, text)
    schema = asked.answer_schema
    if schema is None or _is_text(schema, text):
        return text
    try:
        return cast("Json", json.loads(text))
    except ValueError:
        return text


def _is_text(schema: Schema, text: str) -> bool:
    """Whether a schema takes what was typed as it stands; one that cannot be used says nothing."""
    try:
        return validator(schema).is_valid(text)
    except BadSchema:
        return False


def ask_line(prompt: str) -> str | None:
    """One line from the person; None when there is no more. Ctrl-C is KeyboardInterrupt.

    What was typed before the question could be read is thrown away: it cannot be its answer.
    """
    if sys.platform != "win32":
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    # Before the question is to be seen: whoever sees it may give up at once.
    with _interruptible():
        sys.stderr.write(prompt)
        sys.stderr.flush()
        line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


@contextmanager
def _interruptible() -> Generator[None]:
    """The event loop's own handler would wait for the line to be finished."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
