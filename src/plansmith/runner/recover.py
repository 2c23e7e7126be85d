"""Recover: what to write for steps that were running when a process died, decided purely."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from plansmith.plan.events import AnyBody, QuestionAsked, StepFailed, StepUnknown
from plansmith.plan.run import Run, StepStatus

UNKNOWN_PREFIX = "unknown:"
UNKNOWN_OPTIONS = ("done", "not_done", "retry")


def recover(
    run: Run, is_repeatable: Callable[[str], bool], *, apart: Collection[str] = ()
) -> Iterator[AnyBody]:
    """A read or a keyed call is made again under its key; anything else asks the person.

    `apart` are steps that only hold others together: they go on by themselves.
    """
    for name, step in run.steps.items():
        if step.status is not StepStatus.RUNNING or name in apart:
            continue
        if is_repeatable(name):
            yield StepFailed(step=name, error="the process ended during the call", again=True)
        else:
            yield StepUnknown(step=name, reason="the process ended during the call")
            yield unknown_question(name)


def unknown_question(name: str) -> QuestionAsked:
    """Ask the person how a step ended that nobody saw the end of."""
    return QuestionAsked(
        question=f"{UNKNOWN_PREFIX}{name}",
        text=f"It is not known whether {name!r} took effect. Did it?",
        options=UNKNOWN_OPTIONS,
        step=name,
        kind="unknown",
    )
