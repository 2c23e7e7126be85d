"""Reads what a message is for: an answer, a change, a why, an approval or a request.

Rules read what is beyond doubt; a model judges the rest, or the form of the message if there is no
model. No message decides on a plan, and nothing that guards a change is answered by judgement.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import jsonschema_rs

from plansmith.check.schemas import BadSchema, validator
from plansmith.errors import UnreadableText
from plansmith.plan.briefs import MessageBrief
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.thread import Reading
from plansmith.ports import ChatModel, Clock, Message, Prompt, Usage
from plansmith.text import clip, visible
from plansmith_planner.context.fence import fence
from plansmith_planner.context.timeouts import Failed, with_timeout
from plansmith_planner.language.messages import (
    asks,
    asks_for_change,
    is_rejection,
    is_why,
    option_number,
    orders,
)
from plansmith_planner.language.yes_or_no import EDGE, is_yes, says_no, yes_or_no
from plansmith_planner.model_calls import read_answer, render
from plansmith_planner.parse.read import read_json

if TYPE_CHECKING:
    from plansmith.plan.data import Json
    from plansmith.plan.events import QuestionAsked
    from plansmith_planner.threads.situation import Situation, Waiting

SCHEMA: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "enum": ["answer", "change", "why", "request"]},
        "question": {"type": "string"},
        "option": {"type": "string"},
        "reason": {"type": "string"},
    },
    "required": ["kind", "question", "option", "reason"],
    "additionalProperties": False,
}
JUDGING_S: Final = 15.0
_LONGEST: Final = 2_000
_LONGEST_ANSWER: Final = 200
_LONGEST_NUMBER: Final = 300
_LONGEST_REASON: Final = 300


def read_by_rules(text: str, now: Situation) -> Reading | None:
    """Returns what a message is beyond doubt; None if that is a matter of judgement."""
    exact = [(each, found) for each in now.questions if (found := _exact(text, each)) is not None]
    if is_yes(text) or (is_rejection(text) and (now.review or now.decisions)):
        return _about_decision([found for _, found in exact], now)
    decided = [each for each in now.decisions if _option(each.question, text) is not None]
    acts = next((each for each, _ in exact if each.guards), None)
    if acts is not None and len(exact) + len(decided) > 1:
        return _needs_own_answer(acts)  # it fits several questions
    if exact:
        return exact[0][1]
    if decided:
        return Reading("review", decided[0].run.id, decided[0].name)
    if not now.questions and now.planned is None and not (now.runs and is_why(text)):
        return Reading("request")
    return None


def _about_decision(exact: list[Reading], now: Situation) -> Reading | None:
    """Reads a mere yes or no: it answers the one thing that waits, and never decides on a plan."""
    if len(exact) == 1 and now.waits_once:
        return exact[0]
    if now.review is not None:
        return Reading("review", run=now.review.id)
    if now.decisions or exact:
        first = [*now.decisions, *now.questions][0]
        return Reading("review", first.run.id, first.name)
    return None if now.questions else Reading("request")


def _needs_own_answer(waiting: Waiting) -> Reading:
    reason = Sentence("something is changed after this question, so it takes the answer itself")
    return Reading("review", waiting.run.id, waiting.name, reason=reason)


class Guess(NamedTuple):
    """What a message is by its form; `sure` if no model needs to look at it."""

    reading: Reading
    sure: bool


def guess(text: str, now: Situation) -> Guess:
    """Decides by the form of a message."""
    if now.runs and is_why(text):
        return Guess(Reading("why", run=now.runs[0].id), sure=True)
    short = len(text) <= _LONGEST_ANSWER and not asks(text)
    free = next((each for each in now.questions if _takes_text(each.question)), None)
    found = free_answer(text, free) if free is not None and short and not orders(text) else None
    if free is not None and found is not None:
        if free.guards and not (now.waits_once and _allows(free, text)):
            return Guess(_needs_own_answer(free), sure=not now.waits_once)
        reason = Sentence("a short reply to the question")
        return Guess(found._replace(reason=reason), sure=len(now.questions) == 1)
    if now.review is not None and free is None and short and asks_for_change(text):
        reading = Reading("change", run=now.review.id, reason=Sentence("it asks for another plan"))
        return Guess(reading, sure=not orders(text))
    if not now.questions and now.planned is None:
        return Guess(Reading("request"), sure=True)
    reason = Sentence("it does not read like an answer or a change")
    return Guess(Reading("request", reason=reason), sure=False)


def in_turn(text: str, now: Situation) -> Reading:
    """Reads a message as the answer to what the newest run that asks something asked first.

    The words of a decision do not answer another question, and no message decides.
    """
    asking = {each.run.id for each in (*now.questions, *now.decisions)}
    newest = next((run.id for run in now.runs if run.id in asking), "")
    asked = [each for each in now.questions if each.run.id == newest]
    held = [each for each in now.decisions if each.run.id == newest]
    if held and (not asked or any(_option(each.question, text) is not None for each in held)):
        return Reading("review", newest, held[-1].name)
    if not asked:
        return Reading("request")
    if asked[-1].guards and not (now.waits_once and _allows(asked[-1], text)):
        return _needs_own_answer(asked[-1])
    return free_answer(text, asked[-1]) or Reading("answer", newest, asked[-1].name, text)


def free_answer(text: str, waiting: Waiting) -> Reading | None:
    """Returns a message as the answer to a question in free words; None if it must be typed."""
    value = _typed(waiting.question, text)
    return None if value is None else Reading("answer", waiting.run.id, waiting.name, value)


def _exact(text: str, waiting: Waiting) -> Reading | None:
    """Returns a message as the typed answer to a question: an option, or a value of its type."""
    asked = waiting.question
    value: Json = _option(asked, text)
    if value is None and asked.answer_schema is not None:
        value = _of_schema(asked.answer_schema, text)
    return None if value is None else Reading("answer", waiting.run.id, waiting.name, value)


def _allows(waiting: Waiting, text: str) -> bool:
    """Tells whether words may answer: a question whether to go on takes a plain yes or no."""
    if not waiting.permits or waiting.question.options:
        return True
    value = _typed(waiting.question, text)
    return is_yes(text) or says_no(value) or isinstance(value, bool)


def _takes_text(asked: QuestionAsked) -> bool:
    schema = asked.answer_schema
    return not asked.options and (schema is None or _fits(schema, "some words"))


def _typed(asked: QuestionAsked, text: str) -> Json:
    """Returns a message as an answer that fits the question; None if it does not."""
    if asked.options:
        return _option(asked, text)
    said, schema = text.strip(), asked.answer_schema
    if schema is None:
        return said
    found = _of_schema(schema, text)
    return said if found is None and _fits(schema, said) else found


def _option(asked: QuestionAsked, text: str) -> str | None:
    """Returns the option that a message is, by its words or by its number."""
    said = text.strip(EDGE).casefold()
    for option in asked.options:
        if said == option.strip(EDGE).casefold():
            return option
    number = option_number(said)
    digits = any(any(map(str.isdigit, option)) for option in asked.options)
    return asked.options[number - 1] if not digits and 0 < number <= len(asked.options) else None


def _of_schema(schema: dict[str, Json], text: str) -> Json:
    """Returns the value other than text that a message is, if it fits the schema."""
    if _fits(schema, "some words"):
        return None  # any words fit: this needs judgement
    said = text.strip()
    values = (_number(said), yes_or_no(said), said)
    return next((each for each in values if each is not None and _fits(schema, each)), None)


def _number(text: str) -> Json:
    if len(text) > _LONGEST_NUMBER:
        return None
    try:
        value = json.loads(text.replace(",", "") if re.fullmatch(r"[\d,.]+", text) else text)
    except ValueError:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number and math.isfinite(value) else None


def _fits(schema: dict[str, Json], value: Json) -> bool:
    try:
        validator(schema).validate(value)
    except (BadSchema, jsonschema_rs.ValidationError):
        return False
    return True


async def judge(
    text: str,
    now: Situation,
    *,
    model: ChatModel,
    clock: Clock,
    locale: str,
    prompts: Path | None = None,
) -> tuple[Reading | None, Usage]:
    """Asks a model what a message is for; None if it takes too long or says nothing usable.

    The value of an answer is always the person's own words or a listed option.
    """
    waiting = fence("what waits for the person", clip(_waiting(now), _LONGEST))
    message = fence("message", clip(visible(text), _LONGEST))
    asked = render("message", folder=prompts, locale=locale, waiting=waiting, message=message)
    prompt = Prompt([Message("user", asked)], schema=SCHEMA, brief=MessageBrief(visible(text)))
    # Whoever speaks next in the thread waits for this.
    answer = await with_timeout(read_answer(model.stream(prompt)), seconds=JUDGING_S, clock=clock)
    if isinstance(answer, Failed):
        return None, Usage()
    try:
        value = read_json(answer.text)
    except UnreadableText:
        value = None
    return _judged(text, value, now) if isinstance(value, dict) else None, answer.usage


def _waiting(now: Situation) -> str:
    lines: list[dict[str, Json]] = []
    for each in now.questions:
        lines.append({"question": each.name, "asks": in_language(each.question.text, "en")})
        if each.question.options:
            lines[-1]["options"] = [*each.question.options]
    if now.planned is not None and now.planned.plan is not None:
        plan = now.planned.plan
        steps: list[Json] = [each.title or each.id for each in plan.steps[:20]]
        lines.append({"plan waiting for review": plan.goal, "steps": steps})
    if not lines and now.runs:
        lines.append({"last request": now.runs[0].request})
    return "\n".join(json.dumps(each, ensure_ascii=False) for each in lines)


def _judged(text: str, value: dict[str, Json], now: Situation) -> Reading | None:
    match value.get("kind"):
        case "answer":
            found = _judged_answer(text, value, now)
        case "change" if now.planned is not None and not is_yes(text):
            found = Reading("change", run=now.planned.id)
        case "why" if now.runs:
            found = Reading("why", run=now.runs[0].id)
        case "request" | "change" | "why":
            found = Reading("request")
        case _:
            found = None
    reason = value.get("reason")
    said = clip(visible(reason), _LONGEST_REASON) if isinstance(reason, str) else ""
    return found._replace(judge="model", reason=said) if found is not None else None


def _judged_answer(text: str, value: dict[str, Json], now: Situation) -> Reading | None:
    named = [each for each in now.questions if each.name == value.get("question")]
    known = named[:1] or (now.questions if len(now.questions) == 1 else [])
    if not known:
        return None
    option = value.get("option")
    picked = option if isinstance(option, str) and option in known[0].question.options else text
    found = free_answer(picked, known[0])
    # What changes something is decided by the person's own typed answer.
    return _needs_own_answer(known[0]) if known[0].guards or found is None else found
