"""Models of the parts of a run in responses: its steps, origin, early reads and failure."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from plansmith.plan.data import Json
from plansmith.plan.origin import OriginKind


class StepView(BaseModel):
    """The state of a step; a large result is cut, the step's own address has it in full."""

    status: str
    attempts: int
    inputs: Json
    result: Json
    result_hash: str
    result_size: int
    clipped: bool
    error: str
    error_kind: str
    progress: str
    tokens: int
    started_at: datetime | None
    finished_at: datetime | None
    prefetched: bool = Field(description="read before the plan was complete")
    reused_from: str = Field(description="the earlier run in which it was done, if not in this one")
    rule: str = Field(description="why the plan itself skipped it: when, need or error")
    wakes_at: datetime | None = Field(description="when it starts, if it waits for a time")


class PrefetchView(BaseModel):
    """A read that was made before the plan was complete; `step` uses its result."""

    key: str
    tool: str
    inputs: Json
    started_at: datetime
    ended_at: datetime | None
    error: str
    step: str | None


class ContinuesView(BaseModel):
    """How many steps are done, and would not run again in a continued run."""

    done: int
    total: int


class OriginView(BaseModel):
    """What a run was made from."""

    kind: OriginKind
    id: str = ""
    event: int = 0
    thread: str = ""
    user: str = ""
    handed_over: bool = False


class FailureView(BaseModel):
    """Why planning gave no plan, and what the model wrote."""

    reason: str
    model: str
    output: str
