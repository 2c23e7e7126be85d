"""Reads what a message is for by rules: an answer, a change, a why, an approval or a request."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import jsonschema_rs

from plansmith.check.schemas import BadSchema, validator
from plansmith.plan.sentence import Sentence
from plansmith.plan.thread import Reading
from plansmith_planner.language.messages import asks, asks_for_change, is_rejection, is_why, orders
from plansmith_planner.language.yes_or_no import EDGE, is_yes, says_no

if TYPE_CHECKING:
    from plansmith.plan.data import Json
    from plansmith.plan.events import QuestionAsked
    from plansmith_planner.threads.situation import Situation, Waiting

_LONGEST_ANSWER: Final = 200
_LONGEST_NUMBER: Final = 300


def read_by_rules(text: str, now: Situation) -> Reading | None:
    """Returns what a message is beyond doubt; None if that is a matter of judgement."""
    exact = [*_exact_answers(text, now)]
    if is_yes(text) or (is_rejection(text) and (now.review or now.decisions)):
        return _about_decision([found for _, found in exact], now)
    decided = [each for each in now.decisions if _option(each.question, text) is not None]
    acts = next((each for each, _ in exact if each.guards), None)
    if acts is not None and len(exact) + len(decided) > 1:
        # It fits several questions, and one of them lets something be changed.
        reason = Sentence("something is changed after this question, so it takes the answer itself")
        return Reading("review", acts.run.id, _name(acts), reason=reason)
    if exact:
        return exact[0][1]
    if decided:
        return Reading("review", run=decided[0].run.id, question=_name(decided[0]))
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
        first = now.decisions[0] if now.decisions else now.questions[0]
        return Reading("review", run=first.run.id, question=_name(first))
    return None if now.questions else Reading("request")


class Guess(NamedTuple):
    """What a message is by its form; `sure` if no model needs to look at it."""

    reading: Reading
    sure: bool


def guess(text: str, now: Situation) -> Guess:
    """Decides by the form of a message."""
    asking = asks(text)
    short, plain = len(text) <= _LONGEST_ANSWER, not asking and not orders(text)
    if now.runs and is_why(text):
        return Guess(Reading("why", run=now.runs[0].id), sure=True)
    free = next((each for each in now.questions if _takes_text(each.question)), None)
    if free is not None and short and not asking:
        found = free_answer(text, free)
        if found is not None and plain:
            if free.guards and not (now.waits_once and _allows(free, text)):
                reason = Sentence(
                    "something is changed after this question, so it takes the answer itself"
                )
                reading = Reading("review", free.run.id, _name(free), reason=reason)
                return Guess(reading, sure=not now.waits_once)
            reason = Sentence("a short reply to the question")
            return Guess(found._replace(reason=reason), sure=len(now.questions) == 1)
    wants_other = short and not asking and asks_for_change(text)
    if now.review is not None and free is None and wants_other:
        reading = Reading("change", run=now.review.id, reason=Sentence("it asks for another plan"))
        return Guess(reading, sure=plain)
    if not now.questions and now.planned is None:
        return Guess(Reading("request"), sure=True)
    return Guess(
        Reading("request", reason=Sentence("it does not read like an answer or a change")),
        sure=False,
    )


def in_turn(text: str, now: Situation) -> Reading:
    """Reads a message as the answer to what the newest run that asks something asked first.

    The words of a decision do not answer another question, and no message decides.
    """
    waiting = [*now.questions, *now.decisions]
    asking = {each.run.id for each in waiting}
    newest = next((run.id for run in now.runs if run.id in asking), "")
    asked = [each for each in now.questions if each.run.id == newest]
    held = [each for each in now.decisions if each.run.id == newest]
    if held and (not asked or any(_option(each.question, text) is not None for each in held)):
        return Reading("review", newest, _name(held[-1]))
    if not asked:
        return Reading("request")
    if asked[-1].guards and not (now.waits_once and _allows(asked[-1], text)):
        reason = Sentence("something is changed after this question, so it takes the answer itself")
        return Reading("review", newest, _name(asked[-1]), reason=reason)
    return free_answer(text, asked[-1]) or Reading("answer", newest, _name(asked[-1]), text)


def free_answer(text: str, waiting: Waiting) -> Reading | None:
    """Returns a message as the answer to a question in free words; None if it must be typed."""
    value = _typed(waiting.question, text)
    if value is None:
        return None
    return Reading("answer", waiting.run.id, _name(waiting), value)


def _allows(waiting: Waiting, text: str) -> bool:
    """Tells whether words may answer: a question whether to go on takes a plain yes or no."""
    if not waiting.permits or waiting.question.options:
        return True
    value = _typed(waiting.question, text)
    return is_yes(text) or says_no(value) or isinstance(value, bool)


def _takes_text(asked: QuestionAsked) -> bool:
    if asked.options:
        return False
    return asked.answer_schema is None or _fits(asked.answer_schema, "some words")


def _exact_answers(text: str, now: Situation) -> Iterator[tuple[Waiting, Reading]]:
    """Yields the questions whose typed answer the message is, newest first."""
    for each in now.questions:
        value: Json = _option(each.question, text)
        if value is None and each.question.answer_schema is not None:
            value = _of_schema(each.question.answer_schema, text)
        if value is not None:
            yield each, Reading("answer", each.run.id, _name(each), value)


def _typed(asked: QuestionAsked, text: str) -> Json:
    """Returns a message as an answer that fits the question; None if it does not."""
    if asked.options:
        return _option(asked, text)
    if asked.answer_schema is None:
        return text.strip()
    found = _of_schema(asked.answer_schema, text)
    return found if found is not None else _text_for(asked.answer_schema, text)


def _text_for(schema: dict[str, Json], text: str) -> str | None:
    return text.strip() if _fits(schema, text.strip()) else None


def _option(asked: QuestionAsked, text: str) -> str | None:
    """Returns the option that a message is, by its words or by its number."""
    said = text.strip(EDGE).casefold()
    for option in asked.options:
        if said == option.strip(EDGE).casefold():
            return option
    number = re.fullmatch(r"(?:option |number |no\.? ?|#|第)?(\d{1,2})(?:个|项|\))?", said)
    digits = any(any(map(str.isdigit, option)) for option in asked.options)
    if number and not digits and 1 <= int(number[1]) <= len(asked.options):
        return asked.options[int(number[1]) - 1]
    return None


def _of_schema(schema: dict[str, Json], text: str) -> Json:
    """Returns the value other than text that a message is, if it fits the schema."""
    if _fits(schema, "some words"):
        return None  # any words fit: this needs judgement
    said = text.strip()
    for value in (_number(said), _boolean(said), said):
        if value is not None and _fits(schema, value):
            return value
    return None


def _number(text: str) -> Json:
    if len(text) > _LONGEST_NUMBER:
        return None
    try:
        value = json.loads(text.replace(",", "") if re.fullmatch(r"[\d,.]+", text) else text)
    except ValueError:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if number and math.isfinite(value) else None


def _boolean(text: str) -> Json:
    word = text.strip(EDGE).casefold()
    if word in {"yes", "true", "y", "是", "对"}:
        return True
    return False if word in {"no", "false", "n", "否", "不"} else None


def _fits(schema: dict[str, Json], value: Json) -> bool:
    try:
        validator(schema).validate(value)
    except (BadSchema, jsonschema_rs.ValidationError):
        return False
    return True


def _name(waiting: Waiting) -> str:
    return waiting.question.question
