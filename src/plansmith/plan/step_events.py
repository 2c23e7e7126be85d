"""What happens to a step: bodies of events, from its call to its end and its return."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from plansmith.plan.data import Instant, Record
from plansmith.plan.sentence import ShownText
from plansmith.plan.steps import Value


class StepStarted(Record):
    """A step is about to be called under this key; durable before the call.

    A part of a map step is known by its `item`, a content hash, wherever that stands in the list.
    `prefetched` is the key of an early read whose result it takes instead of calling again.
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
    """A running step says how far it is."""

    type: Literal["step_progressed"] = "step_progressed"
    step: str
    text: str


class StepAdvised(Record):
    """A running step says that the plan should change, or that its goal is met already."""

    type: Literal["step_advised"] = "step_advised"
    step: str
    advice: Literal["replan", "finish"]
    reason: ShownText = ""


class StepDone(Record):
    """A step gave a result, stored under its content hash."""

    type: Literal["step_done"] = "step_done"
    step: str
    result: str
    size: int = Field(default=0, ge=0)
    tokens: int = Field(default=0, ge=0)
    cost: str = ""


class StepReused(Record):
    """A step's result is taken over from the earlier run in which it was done, at `done_at`.

    With its own run, a changed plan had the step wait again, and its call is the one made before.
    `program` is the name of the program whose answer the result is, if it is one's.
    """

    type: Literal["step_reused"] = "step_reused"
    step: str
    result: str
    run: str
    program: str = ""
    done_at: Instant | None = None


FailureKind = Literal["tool", "time", "reference", "result", "person"]


class StepFailed(Record):
    """A step's call failed; `again` when it will be tried once more.

    An `unsure` one may have taken effect: it is made again only because its key allows that.
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
    """The person answered what a call asked: the step is called again with the answer.

    A `permit` allows the inputs of this content hash, and is not for the callee's ears.
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
    """A step died in mid-effect: nobody knows whether it happened."""

    type: Literal["step_unknown"] = "step_unknown"
    step: str
    reason: ShownText = ""


class StepReset(Record):
    """A step goes back to waiting, to run again."""

    type: Literal["step_reset"] = "step_reset"
    step: str
    reason: ShownText = ""
