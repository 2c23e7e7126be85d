"""Asks a person on a terminal: shows who asks, quotes what they say, reads what was typed."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import unicodedata
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple, cast

from plansmith.cli.session import Session
from plansmith.plan.data import Json
from plansmith.plan.events import QuestionAsked
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.sentence import in_language
from plansmith.plan.steps import AgentStep, MapStep, ToolStep
from plansmith.planner.check.schemas import BadSchema, Schema, validator
from plansmith.text import clip, safe

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


ALL: Final = frozenset({"all", "全部"})
BAR: Final = "  │ "
_LONGEST_VALUE: Final = 1000
_LONGEST_TEXT: Final = 4000
_NARROWEST: Final = 40
_HEADS: Final = {
    "step": "plan_asks",
    "call": "call_asks",
    "request": "request_asked",
    "consent": "consent_asked",
}


async def consent_values(session: Session, asked: QuestionAsked) -> dict[str, Json] | None:
    """The very values a call would be made with, whole; None where no consent is asked for."""
    if asked.asks != "consent" or not asked.state:
        return None
    return cast("dict[str, Json]", await session.smith.store.get(asked.state))


def question_lines(
    asked: QuestionAsked, session: Session, run: Run, values: Mapping[str, Json] | None = None
) -> Iterator[str]:
    """A question with who asks it; for consent, the values, each with its size if it is long."""
    yield head_line(asked, session, run)
    if values is None:
        yield from quoted(clip(in_language(asked.text, session.words["locale"]), _LONGEST_TEXT))
    else:
        yield f"  {_origin(asked, session)}"
        for name, value in values.items():
            yield from _value_lines(name, value, session)
    for number, option in enumerate(asked.options, start=1):
        yield from quoted(f"{number}. {clip(option)}")


def _origin(asked: QuestionAsked, session: Session) -> str:
    """Where the values of a call came from, and for how many items it would be made."""
    # An earlier release told it only in the text.
    told = ", ".join(asked.sources) or asked.text.rpartition(" This comes from ")[2].rstrip(".")
    words = session.words["comes_from" if not asked.times else "items_from"]
    return words.format(sources=safe(clip(told, 200)), times=asked.times)


def head_line(asked: QuestionAsked, session: Session, run: Run) -> str:
    """Who asks: Plansmith itself, the plan, or a tool or an agent by its name."""
    callee = clip(safe(asked.callee or callee_of(run.plan, asked.step)), 80)
    words = session.words[_HEADS.get(asked.asks, "system_asks")]
    return words.format(name=safe(asked.question), step=safe(asked.step or ""), callee=callee)


def callee_of(plan: Plan | None, unit: str | None) -> str:
    """What the step of a unit calls, as far as the plan says."""
    step = plan.by_id.get((unit or "").partition("/")[0]) if plan else None
    inner = step.each if isinstance(step, MapStep) else step
    match inner:
        case ToolStep(tool=name) | AgentStep(agent=name):
            return name
        case _:
            return unit or ""


def whole_lines(values: Mapping[str, Json]) -> Iterator[str]:
    """Every value to its last letter, line by line, in plain text that steers no terminal."""
    for name, value in values.items():
        text = _text(value)
        yield f"{safe(name)} ({len(text):,}):"
        for line in text.split("\n"):
            yield from quoted(line)


def quoted(text: str) -> Iterator[str]:
    """A text behind a bar on every line, none wider than the terminal."""
    room = max(shutil.get_terminal_size().columns, _NARROWEST) - len(BAR) - 1
    line, used = "", 0
    for letter in safe(text):
        wide = _width(letter)
        if used + wide > room:
            yield f"{BAR}{line}"
            line, used = "", 0
        line, used = line + letter, used + wide
    yield f"{BAR}{line}"


def _value_lines(name: str, value: Json, session: Session) -> Iterator[str]:
    text = _text(value)
    if len(text) <= _LONGEST_VALUE:
        yield from quoted(f"{name} = {text}")
        return
    yield from quoted(f"{name} = {text[:_LONGEST_VALUE]}")
    size = {"shown": f"{_LONGEST_VALUE:,}", "size": f"{len(text):,}"}
    yield f"  {session.words['cut'].format(**size)}"


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)


def _width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
