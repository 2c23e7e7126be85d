"""What clients may say about schedules."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AwareDatetime, Field, StringConstraints, model_validator

from plansmith.plan.data import Json, Whole
from plansmith.plan.limits import BudgetLimits
from plansmith.plan.schedules import Missed, Overlap
from plansmith.plan.timing import Timing
from plansmith.server.route import Input

Short = Annotated[str, StringConstraints(max_length=300)]


class Behaviour(Input):
    """How a schedule behaves; what is not said is as it was, or usual."""

    overlap: Overlap | None = None
    missed: Missed | None = None
    window_minutes: Whole | None = Field(default=None, ge=1, le=10**7)
    jitter_seconds: Whole | None = Field(default=None, ge=0, le=86_400)
    max_failures: Whole | None = Field(default=None, ge=1, le=10**6)
    budget: BudgetLimits | None = None

    def settings(self) -> Any:
        """What was said, as the library takes it."""
        names = Behaviour.model_fields
        return {name: value for name in names if (value := getattr(self, name)) is not None}


class NewSchedule(Behaviour):
    """When, and what: a plan, a run's plan, a template or a request; and the approved hash."""

    timing: Timing | None = None
    name: Short = ""
    plan: dict[str, Any] | None = None
    run: Short = ""
    template: Short = ""
    parameters: dict[str, Json] = {}
    request: Annotated[str, StringConstraints(max_length=200_000)] = ""
    approve: Short = ""


class ChangedSchedule(Behaviour):
    """What shall be different."""

    timing: Timing | None = None
    plan: dict[str, Any] | None = None
    approve: Short = ""


class Reason(Input):
    """Why it is paused."""

    reason: Annotated[str, StringConstraints(max_length=2000)] = ""


class Backfill(Input):
    """From when to when."""

    from_: AwareDatetime = Field(alias="from")
    to: AwareDatetime


class HistoryQuery(Input):
    """How many."""

    limit: int = Field(default=50, ge=1, le=1000)


class Preview(Input):
    """A timing, and how many of its fires to compute."""

    every_minutes: Whole | None = Field(default=None, ge=1, le=10**7)
    daily_at: Short | None = None
    cron: Short | None = None
    once_at: Short | None = None
    timezone: Short = "UTC"
    count: int = Field(default=5, ge=1, le=100)
    after: AwareDatetime | None = None

    def timing(self) -> Timing:
        """The timing alone."""
        fields = self.model_dump(exclude={"count", "after"}, exclude_none=True)
        return Timing.model_validate(fields)

    @model_validator(mode="after")
    def _a_timing(self) -> Self:
        self.timing()
        return self
