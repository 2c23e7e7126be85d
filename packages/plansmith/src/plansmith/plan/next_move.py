"""Decides what comes next for a run: plan, review, answer, execute, end or replan, or nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from plansmith.plan.run import Run, RunStatus, StepIndex, StepStatus

UNDER_WAY: Final = frozenset({RunStatus.RUNNING, RunStatus.REPLANNING})


class MakePlan(msgspec.Struct, frozen=True):
    """The planner has to make a plan; `changed` when a person asked for another one."""

    changed: bool = False


class AwaitReview(msgspec.Struct, frozen=True):
    """A person has to decide on the plan with this hash."""

    hash: str


class AwaitAnswer(msgspec.Struct, frozen=True):
    """A question has to be answered before anything else; `begun` when steps have run."""

    questions: tuple[str, ...] = ()
    begun: bool = False


class Paused(msgspec.Struct, frozen=True):
    """Somebody has to resume the run, or answer the question for which it was paused."""

    questions: tuple[str, ...] = ()


class Execute(msgspec.Struct, frozen=True):
    """Steps have to run; `begun` when the plan was started before.

    `needs_start`: the plan needs no approval, but somebody has to start it: a person in the
    server's page, or a program by calling `run`.
    """

    begun: bool = True
    needs_start: bool = False


class AwaitTime(msgspec.Struct, frozen=True):
    """Steps wait for a time: the run goes on then, and nothing is held until then."""

    at: datetime


class EndOrReplan(msgspec.Struct, frozen=True):
    """Nothing is left to run: the run ends, or gets a new plan after a failure."""


class Damaged(msgspec.Struct, frozen=True):
    """Somebody has to repair the journal first."""

    why: str


class Over(msgspec.Struct, frozen=True):
    """Nothing more happens."""

    status: RunStatus


Wait = AwaitReview | AwaitAnswer | AwaitTime | Paused
Move = MakePlan | Wait | Execute | EndOrReplan | Damaged | Over


def next_move(run: Run, *, idle: bool = False, wakes_at: datetime | None = None) -> Move:
    """Returns what comes next; `idle` means the executor found no step that can start now.

    `wakes_at` is when the executor could start one.

    The review policy is not known here: whoever executes a plan applies the policy first, appends
    `review_asked` if needed, and then calls this.
    """
    if run.damage:
        return Damaged(run.damage)
    if run.phase.over:
        return Over(run.phase)
    if run.cancel_asked:
        return EndOrReplan()
    if run.paused:
        return Paused(tuple(run.questions))
    return _under_way(run, idle=idle, wakes_at=wakes_at) if run.phase in UNDER_WAY else _before(run)


def goes_on(run: Run) -> bool:
    """Tells whether the run continues without a decision or an answer from anybody."""
    match next_move(run):
        case MakePlan() | EndOrReplan() | Execute(needs_start=False):
            return True
        case AwaitReview():
            return bool(run.previewing)
        case _:
            return False


def sees_first(run: Run) -> bool:
    """Tells whether the person wants to see every plan of the run before any step runs."""
    return run.options.mode == "review"


def _before(run: Run) -> Move:
    asked = tuple(run.questions)
    if run.plan is None or run.change_asked:
        return AwaitAnswer(asked) if asked else MakePlan(changed=run.change_asked)
    if run.is_approved:
        return Execute(begun=False)
    if asked:
        return AwaitAnswer(asked)
    if run.phase is RunStatus.REVIEWING or run.previewing or sees_first(run):
        return AwaitReview(run.plan.hash)
    return Execute(begun=False, needs_start=run.options.mode != "read_only")


def _under_way(run: Run, *, idle: bool, wakes_at: datetime | None) -> Move:
    steps = run.steps.index
    if (run.questions or _asking(steps)) and (idle or not _can_start(run, steps)):
        return AwaitAnswer(tuple(run.questions), begun=True)
    if idle and wakes_at is not None:
        return AwaitTime(wakes_at)
    return EndOrReplan() if run.phase is RunStatus.REPLANNING or idle else Execute()


def _asking(steps: StepIndex) -> list[str]:
    return [*steps.names(StepStatus.ASKING), *steps.names(StepStatus.UNKNOWN)]


def _can_start(run: Run, steps: StepIndex) -> bool:
    """Tells whether a step runs, or can start, while others wait for an answer."""
    if run.calls_open or run.startable_steps:
        return True
    if steps.count(StepStatus.WAITING, parts=True):
        return True
    # A map or plan step goes on, unless one of its parts waits for an answer.
    asking = _asking(steps)
    wholes = (f"{name}/" for name in steps.names(StepStatus.RUNNING))
    return any(not any(each.startswith(whole) for each in asking) for whole in wholes)
