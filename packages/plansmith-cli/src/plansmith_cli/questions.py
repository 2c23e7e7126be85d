"""Asks a person on a terminal: shows a question and who asks it, reads the answer."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import termios
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, Literal, NamedTuple, cast

from plansmith.check.schemas import BadSchema, Schema, validator
from plansmith.plan.data import Json, json_text
from plansmith.plan.events import QuestionAsked
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import AgentStep, MapStep, ToolStep
from plansmith.review.render import BAR, named_lines, table_lines, text_lines, value_cell
from plansmith.text import clip, safe
from plansmith_cli.session import Session
from plansmith_cli.ui.width import fitted_to

_YES: Final = frozenset({"y", "yes", "是", "是的", "好", "好的"})
_NO: Final = frozenset({"n", "no", "否", "不"})
_EDIT: Final = frozenset({"e", "edit", "编辑"})
_CHANGES: Final = frozenset({"c", "changes"})
_SOON_S: Final = 0.05


async def answer_seen(session: Session, run: Run, asked: QuestionAsked, value: Json) -> Run:
    """Gives an answer to exactly the question that this run showed."""
    seen = run.question_hash(asked.question)
    return await session.smith.answer(run.id, asked.question, value, by=session.by, of=seen)


class Choice(NamedTuple):
    """A person's decision on a plan; `later` is anything else that was typed, as `text`."""

    kind: Literal["yes", "no", "edit", "changes", "later"]
    text: str = ""


def read_choice(typed: str) -> Choice:
    """Reads a decision; only an explicit yes approves."""
    text = typed.strip()
    first, _, rest = text.partition(" ")
    if text.lower() in _YES:
        return Choice("yes")
    if text.lower() in _NO:
        return Choice("no")
    if text.lower() in _EDIT:
        return Choice("edit")
    if first.lower() in _CHANGES and rest.strip():
        return Choice("changes", rest.strip())
    return Choice("later", text)


def read_answer(asked: QuestionAsked, typed: str) -> Json:
    """Reads an answer: an option by its text or number, JSON if the question asks for it."""
    text = typed.strip()
    if asked.kind == "unknown" and text.startswith("{"):
        return _json_or_text(text)  # the call is done, and this was its result
    if asked.options:
        return _option(asked, text)
    schema = asked.answer_schema
    if schema is None or _is_text(schema, text):
        return text
    return _json_or_text(text)


def _option(asked: QuestionAsked, text: str) -> str:
    """Returns the option that a text means: itself, by its number, or the only yes or no."""
    options, kind = asked.options, read_choice(text).kind
    numbers = {str(number): each for number, each in enumerate(options, start=1)}
    if text in options or kind not in ("yes", "no"):
        return text if text in options else numbers.get(text, text)
    if asked.kind in ("consent", "limit", "unknown"):
        return options[0] if kind == "yes" else options[1]  # of our own: yes comes first
    same = [each for each in options if read_choice(each).kind == kind]
    return same[0] if len(same) == 1 else text


def _json_or_text(text: str) -> Json:
    try:
        return cast("Json", json.loads(text))
    except ValueError:
        return text


def _is_text(schema: Schema, text: str) -> bool:
    """Whether the schema accepts the text as a string; False for an unusable schema."""
    try:
        return validator(schema).is_valid(text)
    except BadSchema:
        return False


def ask_line(prompt: str) -> str | None:
    """Reads a line from the terminal; None at the end of input; Ctrl-C raises.

    Drops what was typed before the question was shown: it cannot be its answer.
    """
    drop_typed()
    words = prompt.rstrip()
    shown = "\n".join(fitted_to(sys.stderr, [words])) + prompt[len(words) :]
    # Before the question is shown: the person may press Ctrl-C as soon as it is.
    with interruptible():
        sys.stderr.write(shown)
        sys.stderr.flush()
        line = sys.stdin.readline()
    return line.rstrip("\n") if line else None


def agrees(prompt: str) -> bool:
    """Asks for a yes; only an explicit one counts."""
    return read_choice(ask_line(prompt) or "").kind == "yes"


def drop_typed() -> None:
    """Drops what was typed and not read yet."""
    termios.tcflush(sys.stdin, termios.TCIFLUSH)


@contextmanager
def interruptible() -> Generator[None]:
    """Makes Ctrl-C raise at once: the event loop's handler would wait for the line."""
    handled = threading.Event()

    def interrupt(_: int, __: FrameType | None) -> None:
        if not handled.is_set():
            handled.set()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with _repeated(handled):
            yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _repeated(handled: threading.Event) -> Generator[None]:
    """Sends Ctrl-C again until it is handled.

    A signal that comes after the prompt is shown, but before the read begins to wait, does not
    end the wait.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    args = (reading, handled, threading.get_ident())
    repeater = threading.Thread(target=_repeat, args=args, daemon=True)
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    repeater.start()
    try:
        yield
    finally:
        handled.set()
        signal.set_wakeup_fd(wakeup)
        os.close(writing)
        repeater.join()
        os.close(reading)


def _repeat(signals: int, handled: threading.Event, thread: int) -> None:
    while number := os.read(signals, 1):
        while number[0] == signal.SIGINT and not handled.wait(_SOON_S):
            signal.pthread_kill(thread, signal.SIGINT)


_ITEM: Final = re.compile(r"/\d+(?=/|$)")
Group = tuple[QuestionAsked, ...]


def question_groups(questions: Iterable[QuestionAsked]) -> list[Group]:
    """Returns questions, those together that ask consent to one call for items of one list."""
    groups: dict[tuple[str, str], Group] = {}
    for each in questions:
        key = (_item_step(each), each.callee) if each.kind == "consent" else (each.question, "")
        groups[key] = (*groups.get(key, ()), each)
    return list(groups.values())


def _item_step(asked: QuestionAsked) -> str:
    """Returns the step of a question without the numbers of its items."""
    return _ITEM.sub("", asked.step or "")


def group_name(group: Group) -> str:
    """Returns how a command names a group: one question by its own name, several by their step."""
    return group[0].question if len(group) == 1 else _item_step(group[0])


ALL: Final = frozenset({"all", "全部"})
_LONGEST_TEXT: Final = 4000
Values = Mapping[str, Json] | None


def question_lines(
    asked: QuestionAsked,
    session: Session,
    run: Run,
    values: Values = None,
    effects: Iterable[str] = (),
) -> Iterator[str]:
    """Yields a question and who asks it; for consent, what the call does and its values."""
    yield head_line((asked,), session, run)
    if values is None:
        yield from quoted(clip(in_language(asked.text, session.locale), _LONGEST_TEXT))
    else:
        yield from (*effects, f"  {origin_line(asked, session, run)}")
        for name, value in values.items():
            yield from (f"  {line}" for line in named_lines(name, value, session.locale))
    for number, option in enumerate(asked.options, start=1):
        yield from quoted(f"{number}. {clip(option)}")


def group_lines(
    group: Group,
    session: Session,
    run: Run,
    values: Sequence[Values],
    effects: Iterable[str] = (),
) -> Iterator[str]:
    """Yields a question; or several about the items of a list, with a table of their values."""
    if len(group) == 1:
        yield from question_lines(group[0], session, run, values[0], effects)
        return
    yield head_line(group, session, run)
    yield from (*effects, f"  {origin_line(group[0], session, run)}")
    names = dict.fromkeys(name for each in values for name in each or {})
    rows = [
        [str(number), *(value_cell((each or {}).get(name)) for name in names)]
        for number, each in enumerate(values, start=1)
    ]
    yield from (f"  {BAR}{line}" for line in table_lines(["", *names], rows))


def origin_line(asked: QuestionAsked, session: Session, run: Run) -> str:
    """Says where the values of a call come from, and for how many items it is made."""
    # By what they called: titles are the plan's own words, and could say anything here.
    called = [(each, callee_of(run.plan, each)) for each in asked.sources]
    sources = ", ".join(each if each == name else f"{each} ({name})" for each, name in called)
    return session.own_text(
        "{times} times, once for each of these items, which came out of: {sources}"
        if asked.times
        else "with these values, which came out of: {sources}",
        sources=safe(clip(sources, 200)),
        times=asked.times,
    )


def head_line(group: Group, session: Session, run: Run) -> str:
    """Returns the line that says who asks: Plansmith, the plan, a tool or an agent."""
    asked = group[0]
    who: dict[str, Any] = {
        "callee": clip(safe(asked.callee or callee_of(run.plan, asked.step)), 80),
        "step": safe(asked.step or ""),
        "name": safe(group_name(group)),
        "count": len(group),
    }
    match asked.kind:
        case _ if len(group) > 1:
            told = Sentence(
                "Plansmith asks for your consent to call {callee} {count} times ({name}):", **who
            )
        case "step":
            told = Sentence("The plan asks, in its step {step} ({name}):", **who)
        case "call":
            told = Sentence("The tool or agent {callee} asks, in the step {step} ({name}):", **who)
        case "request":
            told = Sentence("The planner asks about your request ({name}):", **who)
        case "consent":
            told = Sentence("Plansmith asks for your consent to call {callee} ({name}):", **who)
        case _:
            told = Sentence("Plansmith asks ({name}):", **who)
    return in_language(told, session.locale)


def callee_of(plan: Plan | None, unit: str | None) -> str:
    """Returns the tool or agent that a step calls."""
    step = plan.by_id.get((unit or "").partition("/")[0]) if plan else None
    inner = step.each if isinstance(step, MapStep) else step
    match inner:
        case ToolStep(tool=name) | AgentStep(agent=name):
            return name
        case _:
            return unit or ""


def whole_lines(values: Mapping[str, Json]) -> Iterator[str]:
    """Yields every value in full, as text without control characters."""
    for name, value in values.items():
        text = value if isinstance(value, str) else json_text(value, 1)
        yield f"{safe(name)} ({len(text):,}):"
        yield from quoted(text)


def quoted(text: str) -> Iterator[str]:
    """Yields a text with a bar before every line."""
    return (f"  {BAR}{line}" for line in text_lines(text))
