"""What happens next with a run: decided purely, in one place, for library, server and terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from plansmith.plan.run import Run, RunStatus, StepStatus

UNDER_WAY: Final = frozenset({RunStatus.RUNNING, RunStatus.REPLANNING})
_WAITS: Final = frozenset({StepStatus.ASKING, StepStatus.UNKNOWN})


@dataclass(frozen=True, slots=True)
class MakePlan:
    """The planner makes a plan; `changed` means another one, as a person asked."""

    changed: bool = False


@dataclass(frozen=True, slots=True)
class AwaitReview:
    """A person decides on exactly the plan of this hash."""

    hash: str


@dataclass(frozen=True, slots=True)
class AwaitAnswer:
    """Somebody answers a question; nothing else can be done before. `begun`: steps have run."""

    questions: tuple[str, ...] = ()
    begun: bool = False


@dataclass(frozen=True, slots=True)
class Paused:
    """Somebody resumes the run, or answers the question it was paused for."""

    questions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Execute:
    """Steps run. `begun`: the plan was started before.

    `needs_start` is a plan that needs no approval and was made to be looked at: a server starts
    it when somebody says so, and a program by calling `run`.
    """

    begun: bool = True
    needs_start: bool = False


@dataclass(frozen=True, slots=True)
class Conclude:
    """Nothing is left to run: the run ends, or gets a new plan after a failure."""


@dataclass(frozen=True, slots=True)
class Damaged:
    """Nothing happens before somebody repairs the journal."""

    why: str


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing more happens."""

    status: RunStatus


Move = MakePlan | AwaitReview | AwaitAnswer | Paused | Execute | Conclude | Damaged | Over


def next_move(run: Run, *, idle: bool = False) -> Move:
    """What comes next; `idle` is the word of who executes it that no step can start now.

    Whether today's policy asks about a plan is not known here: who runs a plan writes that down
    first (`review_asked`), and then asks what comes next.
    """
    if run.damage:
        return Damaged(run.damage)
    if run.phase.over:
        return Over(run.phase)
    if run.cancel_asked or run.phase is RunStatus.REPORTING:
        return Conclude()
    if run.paused:
        return Paused(tuple(run.questions))
    return _under_way(run, idle=idle) if run.phase in UNDER_WAY else _before(run)


def goes_on(run: Run) -> bool:
    """Whether a run goes on by itself, with nobody's word."""
    match next_move(run):
        case MakePlan() | Conclude() | Execute(needs_start=False):
            return True
        case _:
            return False


def sees_first(run: Run) -> bool:
    """Whether the person wants to see every plan of a run before anything of it runs."""
    return run.options.mode == "review"


def _before(run: Run) -> Move:
    """The next move of a run whose plan has not been started."""
    asked = tuple(run.questions)
    if run.plan is None or run.changing:
        return AwaitAnswer(asked) if asked else MakePlan(changed=run.changing)
    if run.is_approved:
        return Execute(begun=False)
    if asked:
        return AwaitAnswer(asked)
    if run.phase is RunStatus.REVIEWING or sees_first(run):
        return AwaitReview(run.plan.hash)
    return Execute(begun=False, needs_start=run.options.mode != "read_only")


def _under_way(run: Run, *, idle: bool) -> Move:
    """The next move of a run whose steps have begun."""
    waits = bool(run.questions) or any(step.status in _WAITS for step in run.steps.values())
    if waits and (idle or not _can_start(run)):
        return AwaitAnswer(tuple(run.questions), begun=True)
    if run.phase is RunStatus.REPLANNING or idle:
        return Conclude()
    return Execute()


def _can_start(run: Run) -> bool:
    """Whether a step runs or can start although something waits for an answer."""
    if run.calls_open:
        return True
    asking = [name for name, step in run.steps.items() if step.status in _WAITS]
    for name, step in run.steps.items():
        if step.status is StepStatus.READY or ("/" in name and step.status is StepStatus.WAITING):
            return True
        # A step that only holds others goes on, unless one of those waits for an answer.
        if step.status is StepStatus.RUNNING and not any(a.startswith(f"{name}/") for a in asking):
            return True
    return False
