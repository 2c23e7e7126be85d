"""Events of steps: start, progress, result, failure, skip and reset."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from plansmith.plan.data import Instant, Record
from plansmith.plan.sentence import ShownText
from plansmith.plan.steps import Value


class StepStarted(Record):
    """A step is about to be called under this key; stored before the call.

    A part of a map step is identified by `item`, a content hash, not by its place in the list.
    `prefetched` is the key of a prefetched read whose result is used instead of a call.
    """

    type: Literal["step_started"] = "step_started"
    step: str
    attempt: int = Field(default=1, ge=1)
    key: str
    inputs: str = ""
    callee: str = ""
    item: str = ""
    prefetched: str = ""


class StepProgressed(Record):
    """A running step reports its progress."""

    type: Literal["step_progressed"] = "step_progressed"
    step: str
    text: str


class StepAdvised(Record):
    """A running step reports that the plan should change or that the goal is met."""

    type: Literal["step_advised"] = "step_advised"
    step: str
    advice: Literal["replan", "finish"]
    reason: ShownText = ""


class StepDone(Record):
    """A step returned a result, stored under its content hash."""

    type: Literal["step_done"] = "step_done"
    step: str
    result: str
    size: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)
    cost: str = ""


class StepReused(Record):
    """A step uses the result of an earlier run, where it was done at `done_at`.

    If that is this same run, a changed plan had reset the step after its call.
    `program` is the program that gave the result as an answer, if it was not a person.
    """

    type: Literal["step_reused"] = "step_reused"
    step: str
    result: str
    run: str
    program: str = ""
    done_at: Instant | None = None


FailureKind = Literal["tool", "time", "reference", "result", "person"]


class StepFailed(Record):
    """A step's call failed; `again` when it will be retried.

    An `unsure` call may have taken effect; it is retried only because its key makes that safe.
    """

    type: Literal["step_failed"] = "step_failed"
    step: str
    error: ShownText
    again: bool = False
    kind: FailureKind = "tool"
    tokens: int = Field(default=0, ge=0)
    cost: str = ""
    unsure: bool = False


class StepReplied(Record):
    """The person answered a call's question: the step is called again with the answer.

    A `permit` allows the inputs with this content hash; it is not sent to the callee.
    """

    type: Literal["step_replied"] = "step_replied"
    step: str
    answer: Value = None
    state: str = ""
    permit: bool = False


class StepSkipped(Record):
    """A step will not run."""

    type: Literal["step_skipped"] = "step_skipped"
    step: str
    reason: ShownText = ""


class StepCancelled(Record):
    """A step was stopped before it could take effect."""

    type: Literal["step_cancelled"] = "step_cancelled"
    step: str
    reason: ShownText = ""


class StepUnknown(Record):
    """The process died during the call: it is not known whether it took effect."""

    type: Literal["step_unknown"] = "step_unknown"
    step: str
    reason: ShownText = ""


class StepReset(Record):
    """A step waits again, to run once more."""

    type: Literal["step_reset"] = "step_reset"
    step: str
    reason: ShownText = ""
