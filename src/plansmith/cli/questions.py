"""Questions on a terminal: who asks is said at the margin, what they say is quoted below it.

Lines that begin at the margin are Plansmith's own. What a plan, a tool or data says stands behind
a bar on every line, wrapped here, so that no text can reach the margin by its length.
"""

from __future__ import annotations

import json
import shutil
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final, cast

from plansmith.cli.session import Session
from plansmith.plan.data import Json
from plansmith.plan.events import QuestionAsked
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.sentence import in_language
from plansmith.plan.steps import AgentStep, MapStep, ToolStep
from plansmith.text import clip, safe

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
