"""Halting: a run is paused at once, and a step left out with all that needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from plansmith.errors import Refused, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.runner.answerable import NOT_BEGUN, behind
from plansmith.runner.runs import Runs

_REASON: Final = Sentence("step.left_out")


class LeftOut(NamedTuple):
    """A step that a person left out, and those that cannot run without it."""

    step: str
    with_it: tuple[str, ...] = ()


async def pause_at_once(runs: Runs, run_id: str, *, by: e.Who = "", reason: str = "") -> None:
    """Write down that nothing more starts, while calls still run; who conducts the run heeds it."""
    while True:
        journal = await runs.journal(run_id)
        if journal.run.status.over or journal.run.paused:
            raise Refused(f"run {run_id} is {journal.run.status}")
        try:
            await journal.append(e.RunPaused(reason=reason), by=e.actor(by))
        except StaleWriter:
            continue  # it went on meanwhile: that changes nothing about the wish
        return


async def skip_step(runs: Runs, run_id: str, step: str, *, by: e.Who = "") -> LeftOut:
    """Leave a step out that has not begun, or that asks, and tell what cannot run without it.

    It is one append, heeded by whoever conducts the run: nothing is paused, what runs goes on.
    """
    while True:
        journal = await runs.own_journal(run_id)
        _check(journal.run, step)
        with_it = behind(journal.run, step)
        try:
            bodies = _left_out(journal.run, step, with_it)
            await journal.append(*bodies, by=e.actor(by))
        except StaleWriter:
            continue  # it went on meanwhile: perhaps the step has begun, which is looked at again
        return LeftOut(step, with_it)


def _check(run: Run, step: str) -> None:
    state = run.steps.get(step)
    if state is None:
        raise Refused(f"run {run.id} has no step {step!r}")
    if run.status.over:
        raise Refused(f"run {run.id} is over: it is {run.status}")
    if state.status is StepStatus.UNKNOWN or state.unsure:
        hint = "answer its question: done, not_done or retry"
        raise Refused(f"it is not known whether {step!r} took effect", hint=hint)
    if state.status not in NOT_BEGUN | {StepStatus.ASKING}:
        hint = "only a step that has not begun, or that asks, can be left out"
        raise Refused(f"step {step!r} is {state.status}", hint=hint)


def _left_out(run: Run, step: str, with_it: tuple[str, ...]) -> Iterator[e.AnyBody]:
    for name, asked in run.questions.items():
        if asked.step == step:
            yield e.QuestionWithdrawn(question=name, reason=_REASON)
    yield e.StepSkipped(step=step, reason=_REASON)
    for name in with_it:
        yield e.StepSkipped(step=name, reason=Sentence("step.left_out_need", step=step))
