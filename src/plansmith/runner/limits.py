"""Limits: a person is asked when one is reached, and only a person's word lifts it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from plansmith.errors import Refused
from plansmith.plan.data import Json
from plansmith.plan.events import AnyBody, CancelAsked, LimitName, QuestionAsked, RunResumed
from plansmith.plan.fold import GO_ON
from plansmith.plan.run import Run

STOP: Final = "stop"
OPTIONS: Final = (GO_ON, STOP)


@dataclass(frozen=True, slots=True)
class Caps:
    """How often a plan is made anew before the person is asked whether to go on.

    Each is counted apart: after a failure or an agent's advice, after all steps have run
    (1 plans once, as most do), and at the person's own wish.
    """

    replans: int = 2
    iterations: int = 1
    rejections: int = 3


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How wide a run goes, how often it tries, how long it waits, and what data may do.

    `data` is about values that came out of tools and reach a call that changes something: they
    are shown where the plan is reviewed, asked about before the very call, or denied; not for
    the tools of `data_free` (patterns).
    """

    width: int = 16
    per_tool: Mapping[str, int] = field(default_factory=dict[str, int])
    tries: int = 3
    first_wait_s: float = 0.5
    grace_s: float = 5.0
    data: Literal["show", "ask", "deny"] = "show"
    data_free: tuple[str, ...] = ()


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
    return [*paused, CancelAsked(reason=f"the limit of {limit.replace('_', ' ')}")]
