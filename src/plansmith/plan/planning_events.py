"""What happens while a plan is made: reads that start early, and planning that fails."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from plansmith.plan.data import Record
from plansmith.plan.problem import Problem
from plansmith.plan.sentence import ShownText


class PrefetchStarted(Record):
    """A read is about to be made before its plan stands; durable before the call."""

    type: Literal["prefetch_started"] = "prefetch_started"
    key: str
    tool: str
    inputs: str


class PrefetchEnded(Record):
    """A read that was made early has ended: with a result, stored by its hash, or without one.

    `seconds` is the time the call took; none when its process died and nobody knows.
    """

    type: Literal["prefetch_ended"] = "prefetch_ended"
    key: str
    result: str = ""
    error: ShownText = ""
    seconds: float | None = Field(default=None, ge=0)
    tokens: int = Field(default=0, ge=0)
    cost: str = ""


class PlanningFailed(Record):
    """Planning gave no plan that could be used; `record` is what models were asked and said."""

    type: Literal["planning_failed"] = "planning_failed"
    reason: ShownText
    problems: tuple[Problem, ...] = ()
    tokens: int = Field(default=0, ge=0)
    cost: str = ""
    record: str = ""
