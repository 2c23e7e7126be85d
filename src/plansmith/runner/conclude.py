"""Conclude: how a run ends, judged from what its steps came to and from nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from plansmith.plan import events as e
from plansmith.plan.data import Json, content_hash
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.runner.journal import Journal
from plansmith.runner.report import report
from plansmith.runner.requested import missing_in

_WAITS = frozenset({StepStatus.ASKING, StepStatus.UNKNOWN})
_OPEN = frozenset({StepStatus.WAITING, StepStatus.READY, StepStatus.RUNNING})


def is_waiting(run: Run) -> bool:
    """Whether a person has to answer before anything more can happen."""
    return bool(run.questions) or any(step.status in _WAITS for step in run.steps.values())


def goes_on(run: Run) -> bool:
    """Whether a run under way can do something now, without anybody's word."""
    if run.phase not in (RunStatus.RUNNING, RunStatus.REPLANNING) or run.paused:
        return False
    busy = (StepStatus.READY, StepStatus.RUNNING)
    return not is_waiting(run) or any(step.status in busy for step in run.steps.values())


def verdict(run: Run) -> RunStatus:
    """The status a run ends with: a failed step is never called done, nor a deed left out."""
    if run.cancel_asked:
        return RunStatus.CANCELLED
    active = {step.id for step in run.plan.steps if not step.disabled} if run.plan else set[str]()
    states = [run.steps[name].status for name in active]
    done = sum(status is StepStatus.DONE for status in states)
    skipped = sum(status is StepStatus.SKIPPED for status in states)
    met = _is_met(run) and done > 0 and done + skipped == len(states)
    if met or done == len(states):
        return RunStatus.PARTLY_DONE if missing_in(run.problems) else RunStatus.DONE
    return RunStatus.PARTLY_DONE if done else RunStatus.FAILED


def _is_met(run: Run) -> bool:
    """Whether a step has said that the goal is met, so that the rest need not run."""
    return run.advice is not None and run.advice.advice == "finish"


def left_over(run: Run) -> Iterator[e.AnyBody]:
    """The steps that will never run, each with the reason."""
    disabled = {step.id for step in run.plan.steps if step.disabled} if run.plan else set[str]()
    for name, step in run.steps.items():
        if step.status not in _OPEN:
            continue
        if run.cancel_asked:
            yield e.StepCancelled(step=name, reason="the run was cancelled")
        elif name in disabled:
            yield e.StepSkipped(step=name, reason="switched off")
        elif _is_met(run):
            yield e.StepSkipped(step=name, reason="the goal is met already")
        else:
            yield e.StepSkipped(step=name, reason="a step it needs did not finish")


async def conclude(
    journal: Journal,
    results: Mapping[str, Json],
    *,
    reason: str = "",
) -> Run:
    """End a run that has nothing left to do: skip the rest, report, close."""
    over = "the run is over"
    rest: list[e.AnyBody] = [
        e.QuestionWithdrawn(question=name, reason=over) for name in journal.run.questions
    ]
    rest += left_over(journal.run)
    if rest:
        await journal.append(*rest)
    run = journal.run
    status = verdict(run)
    text = report(run, status, results, journal.events)
    names = [name for name, step in run.steps.items() if step.status is StepStatus.FAILED]
    reason = reason or (f"failed: {', '.join(names[:5])}" if names else "")
    reason = reason or "; ".join(missing_in(run.problems))
    await journal.append(
        e.ReportStarted(),
        e.ReportMade(result=content_hash(text)),
        e.RunFinished(status=status.value, reason=reason),  # type: ignore[arg-type]
        values=[text],
    )
    return journal.run
