"""Limits: a person is asked when one is reached, and only a person's word lifts it."""

from __future__ import annotations

from typing import Final

from plansmith.errors import Refused
from plansmith.plan.data import Json
from plansmith.plan.events import AnyBody, CancelAsked, LimitName, QuestionAsked, RunResumed
from plansmith.plan.fold import GO_ON
from plansmith.plan.limits import Limits
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence

STOP: Final = "stop"
OPTIONS: Final = (GO_ON, STOP)


# The name that programs of earlier releases import.
RunLimits = Limits


def limit_question(run: Run, limit: LimitName, text: str) -> QuestionAsked:
    """Ask whether to go on beyond a limit; each time is a question of its own."""
    number = run.grants.get(limit, 0) + 1
    name = f"{limit}:{number}"
    return QuestionAsked(question=name, text=text, options=OPTIONS, kind="limit", limit=limit)


def settle_limit(limit: LimitName, value: Json) -> list[AnyBody]:
    """What follows from the person's word on a limit."""
    if value not in OPTIONS:
        raise Refused(f"{value!r} is not one of {', '.join(OPTIONS)}")
    paused = [RunResumed()] if limit in ("budget", "shared_budget") else list[AnyBody]()
    if value == GO_ON or limit in ("replans", "iterations"):
        return [*paused]
    return [*paused, CancelAsked(reason=Sentence("cancel.limit", limit=Sentence(f"limit.{limit}")))]
