"""Answers: what a person's word means for the step that waits for it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import jsonschema_rs

from plansmith.errors import Refused
from plansmith.plan.data import Json, canonical_json, content_hash
from plansmith.plan.events import (
    AnyBody,
    QuestionAnswered,
    QuestionAsked,
    StepDone,
    StepFailed,
    StepReplied,
    StepReset,
    StepSkipped,
)
from plansmith.plan.refs import value_text
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.planner.checking.schemas import BadSchema, validator
from plansmith.runner.answerable import Known, behind, refuses
from plansmith.runner.labels import settle_data
from plansmith.runner.limits import settle_limit
from plansmith.runner.recover import UNKNOWN_OPTIONS


def settle(asked: QuestionAsked, value: Json, *, run: Run, known: Known) -> list[AnyBody]:
    """The events an answer leads to; an answer that does not fit the question is refused.

    A no to something that acts leaves it out: that is no result to go on with.
    """
    if asked.limit_asked:
        return settle_limit(asked.limit_asked, value)
    if asked.step is None:
        return []
    if asked.asks == "unknown":
        return _settle_unknown(asked.step, value)
    _check(asked, value)
    if asked.asks == "consent":
        return settle_data(asked, value)
    if asked.state:
        return [StepReplied(step=asked.step, answer=value, state=asked.state)]
    if refuses(run, asked, value, known):
        return _settle_no(run, asked.step, value)
    size = len(canonical_json(value))
    return [StepDone(step=asked.step, result=content_hash(value), size=size)]


def expired(run: Run, now: datetime) -> Iterator[list[AnyBody]]:
    """What closes each question whose time is up: no answer is one of its own, never a choice."""
    for asked in run.questions.values():
        if asked.expires_at is not None and asked.expires_at <= now:
            closed: list[AnyBody] = [QuestionAnswered(question=asked.question, no_answer=True)]
            if asked.step is not None:
                error = Sentence("step.no_answer")
                closed.append(StepFailed(step=asked.step, error=error, kind="person"))
            yield closed


def _settle_no(run: Run, step: str, value: Json) -> list[AnyBody]:
    """What a no leaves out: the question's step, and all of the plan that waits for it."""
    left = [StepSkipped(step=step, reason=Sentence("step.answered_no", answer=value_text(value)))]
    denied = Sentence("step.denied", step=step)
    return [*left, *(StepSkipped(step=name, reason=denied) for name in behind(run, step))]


def _settle_unknown(step: str, value: Json) -> list[AnyBody]:
    if value not in UNKNOWN_OPTIONS:
        raise Refused(f"{value!r} is not one of {', '.join(UNKNOWN_OPTIONS)}")
    if value == "done":
        return [StepDone(step=step, result=content_hash(value))]
    if value == "not_done":
        return [StepFailed(step=step, error=Sentence("step.not_happened"), kind="person")]
    return [StepReset(step=step, reason=Sentence("step.try_again"))]


def _check(asked: QuestionAsked, value: Json) -> None:
    if asked.answer_schema is not None:
        try:
            validator(asked.answer_schema).validate(value)
        except BadSchema as error:
            raise Refused(f"the question's schema is not usable: {error}") from None
        except jsonschema_rs.ValidationError as error:
            raise Refused(f"the answer does not fit: {error.message}") from None
    elif asked.options and value not in asked.options:
        raise Refused(f"{value!r} is not one of {', '.join(asked.options)}")
