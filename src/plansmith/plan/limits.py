"""Limits and budgets of runs, defined once for the library, settings, the server and schedules."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from plansmith.plan.data import Flag, Number, Record, Whole


class Limits(Record):
    """How wide a run goes, how often it tries, how long it waits, and what data may do.

    `max_replans` counts new plans after a failure or an agent's advice, `max_iterations` plans
    after all steps have run (1 plans once, as most do), `max_rejections` those that a person sent
    back; beyond each the person is asked. `data` is about values that came out of tools and reach
    a call that changes something: they are shown where the plan is reviewed, asked about before
    the very call, or denied; not for the tools of `data_free` (patterns).
    """

    width: Whole = Field(default=16, ge=1)
    per_tool: dict[str, Annotated[Whole, Field(ge=1)]] = Field(default_factory=dict)
    tries: Whole = Field(default=3, ge=1)
    first_wait_s: Number = Field(default=0.5, ge=0)
    grace_s: Number = Field(default=5.0, ge=0)
    max_replans: Whole = Field(default=2, ge=0)
    max_iterations: Whole = Field(default=1, ge=1)
    max_rejections: Whole = Field(default=3, ge=0)
    data: Literal["show", "ask", "deny"] = "ask"
    data_free: tuple[str, ...] = ()
    early_start: Flag = True


class BudgetLimits(Record):
    """What a run, or all runs together, may take before they stop and ask; None is no limit."""

    money: Decimal | None = Field(default=None, gt=0, max_digits=20)
    tokens: Whole | None = Field(default=None, ge=1)
    steps: Whole | None = Field(default=None, ge=1)
    seconds: Number | None = Field(default=None, gt=0)
