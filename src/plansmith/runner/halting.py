"""Halting: a run is paused at once, and a step left out with all that needs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from plansmith.errors import Refused, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.run import Run, StepStatus
from plansmith.runner.runs import Runs

_NOT_BEGUN: Final = frozenset({StepStatus.WAITING, StepStatus.READY})
_ASKS: Final = frozenset({StepStatus.ASKING, StepStatus.UNKNOWN})
_REASON: Final = "a person left it out"


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


async def skip_step(runs: Runs, run_id: str, step: str, *, by: e.Who = "") -> None:
    """Leave a step out that has not begun, or that asks; nothing that runs is touched.

    The run is paused for it, since whoever conducts it must not start the step meanwhile.
    """
    run = (await runs.own_journal(run_id)).run
    _check(run, step)
    if not run.paused:
        await pause_at_once(runs, run_id, by=by, reason=_REASON)
        await runs.pause(run_id, by=by)
    journal = await runs.journal(run_id)
    resumed = [] if run.paused or not journal.run.paused else [e.RunResumed()]
    try:
        await journal.append(*_left_out(journal.run, step), *resumed, by=e.actor(by))
    except StaleWriter:
        raise StaleDecision(f"run {run_id} went on meanwhile", hint="look at it again") from None


def _check(run: Run, step: str) -> None:
    state = run.steps.get(step)
    if state is None:
        raise Refused(f"run {run.id} has no step {step!r}")
    if run.status.over or state.status not in _NOT_BEGUN | _ASKS:
        hint = "only a step that has not begun, or that asks, can be left out"
        raise Refused(f"step {step!r} is {state.status}", hint=hint)


def _left_out(run: Run, step: str) -> Iterator[e.AnyBody]:
    """What leaves a step out, as it stands by now; nothing when it has begun meanwhile."""
    status = run.steps[step].status
    if status in _NOT_BEGUN:
        yield e.StepSkipped(step=step, reason=_REASON)
    elif status in _ASKS:
        for name, asked in run.questions.items():
            if asked.step == step:
                yield e.QuestionWithdrawn(question=name, reason=_REASON)
        yield e.StepFailed(step=step, error=_REASON, kind="person")
