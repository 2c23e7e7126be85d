"""Events of steps: start, progress, result, failure, skip and reset."""

from __future__ import annotations

from typing import Literal

import msgspec

from plansmith.plan.data import frozen_json
from plansmith.plan.event_body import (
    Count,
    EventBody,
    JsonField,
    Moment,
    Positive,
    Seconds,
    ShownField,
)


class StepStarted(EventBody, frozen=True, kw_only=True):
    """A step is about to be called under this key; stored before the call.

    A part of a map step is identified by `item`, a content hash, not by its place in the list.
    `prefetched` is the key of a prefetched read whose result is used instead of a call.
    """

    step: str
    attempt: Positive = 1
    key: str
    inputs: str = ""
    callee: str = ""
    item: str = ""
    prefetched: str = ""

    @property
    def call(self) -> str:
        """The mark of the call's inputs, with which its key ends; empty if nothing is called."""
        return self.key.rpartition("/")[2] if self.inputs else ""


class StepProgressed(EventBody, frozen=True, kw_only=True):
    """A running step reports its progress."""

    step: str
    text: str


class StepAdvised(EventBody, frozen=True, kw_only=True):
    """A running step reports that the plan should change or that the goal is met."""

    step: str
    advice: Literal["replan", "finish"]
    reason: ShownField = ""


class StepDone(EventBody, frozen=True, kw_only=True):
    """A step returned a result, stored under its content hash."""

    step: str
    result: str
    size: Count = 0
    tokens: Count = 0
    cost: str = ""


class StepReused(EventBody, frozen=True, kw_only=True):
    """A step uses the result of an earlier run, where it was done at `done_at`.

    If that is this same run, a changed plan had reset the step after its call.
    `program` is the program that gave the result as an answer, if it was not a person.
    """

    step: str
    result: str
    run: str
    program: str = ""
    done_at: Moment | None = None


FailureKind = Literal["tool", "time", "reference", "result", "person", "refused"]


class StepFailed(EventBody, frozen=True, kw_only=True):
    """A step's call failed; `again` when it will be retried.

    An `unsure` call may have taken effect; it is retried only because its key makes that safe.
    `passed`: the step's `on_error` says that the plan goes on, with `result` if there is one.
    `died`: the process died during the call, so nobody knows how long the call took.
    """

    step: str
    error: ShownField
    again: bool = False
    passed: bool = False
    result: str = ""
    kind: FailureKind = "tool"
    tokens: Count = 0
    cost: str = ""
    unsure: bool = False
    died: bool = False


class StepReplied(EventBody, frozen=True, kw_only=True):
    """The person answered a call's question: the step is called again with the answer.

    A `permit` allows the inputs with this content hash; it is not sent to the callee. It may hold
    values of the person's own: they are sent `instead_of` the inputs that the person saw.
    """

    step: str
    answer: JsonField = None
    state: str = ""
    permit: bool = False
    instead_of: str = ""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "answer", frozen_json(self.answer))


# Why the plan itself skips a step: its condition, a skipped step that it needs, or a failure.
SkipRule = Literal["when", "need", "error"]


class StepSkipped(EventBody, frozen=True, kw_only=True):
    """A step will not run. With a `rule`, the plan says so; `result` is then what stands in."""

    step: str
    reason: ShownField = ""
    rule: SkipRule | Literal[""] = ""
    result: str = ""


class StepWaits(EventBody, frozen=True, kw_only=True):
    """A step waits so long before its next round or try; without `seconds` it waits no more."""

    step: str
    seconds: Seconds = 0.0


class StepCancelled(EventBody, frozen=True, kw_only=True):
    """A step was stopped before it could take effect."""

    step: str
    reason: ShownField = ""


class StepUnknown(EventBody, frozen=True, kw_only=True):
    """It is not known whether a call took effect; `died`: its process died during the call."""

    step: str
    reason: ShownField = ""
    died: bool = False


class StepReset(EventBody, frozen=True, kw_only=True):
    """A step waits again, to run once more.

    `same_call`: a person had that very call made again, so what they allowed for it still holds.
    """

    step: str
    reason: ShownField = ""
    same_call: bool = False


StepBody = (
    StepStarted
    | StepProgressed
    | StepAdvised
    | StepDone
    | StepReused
    | StepFailed
    | StepReplied
    | StepSkipped
    | StepWaits
    | StepCancelled
    | StepUnknown
    | StepReset
)
