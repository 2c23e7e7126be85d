"""Decides how a run ends, and writes its end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final

from plansmith.engine.journal import Journal
from plansmith.engine.outcome import was_refused
from plansmith.plan import events as e
from plansmith.plan.fold import fold
from plansmith.plan.ids import parent_of, root_of
from plansmith.plan.run import UNFINISHED, Run, RunStatus, StepStatus
from plansmith.plan.sentence import Sentence, joined

_SHOWN: Final = 5


async def conclude(
    journal: Journal,
    *,
    is_read: Callable[[str], bool],
    acting: Collection[str] = (),
    reason: str = "",
) -> None:
    """Ends a run that has nothing left to do: closes open steps and writes the end.

    `is_read` tells by a step's name whether its call changes nothing; `acting` are the steps that
    change something by the tools of now, which those of the proposal may not know yet.
    """
    run, over = journal.run, Sentence("the run is over")
    acting = {*acting, *run.acts}
    rest: list[e.AnyBody] = [
        e.QuestionWithdrawn(question=name, reason=over) for name in run.questions
    ]
    rest += _close_open_steps(run, is_read)
    if rest:
        run = fold(journal.following(*rest), run)
    # Changes that the plan passed over because something failed.
    passed_over = [
        name for name, step in run.steps.items() if step.rule == "error" and root_of(name) in acting
    ]
    status = _verdict(run, acting, passed_over)
    if not reason and (status is RunStatus.CANCELLED or not _all_done(run)):
        reason = joined([*_reasons(run, status, journal, passed_over)])
    # In one append: after a crash in between, nobody would be asked about the unknown steps.
    end = e.RunFinished(status=status.value, reason=reason)  # type: ignore[arg-type]
    await journal.append(*rest, end)


def _verdict(run: Run, acting: Collection[str], passed_over: list[str]) -> RunStatus:
    """Returns the final status of a run: `done` if every approved change was made.

    What the plan itself skips is not missing, unless something failed before.
    """
    if run.cancel_asked:
        return RunStatus.CANCELLED
    if _all_done(run):
        return RunStatus.DONE
    if passed_over:
        return RunStatus.PARTLY_DONE
    active = {step.id for step in run.plan.steps if not step.disabled} if run.plan else set[str]()
    missing = {name for name in active if not run.steps[name].counts_as_done}
    any_done = any(step.status is StepStatus.DONE for step in run.steps.values())
    skipped = {name for name in missing if run.steps[name].status is StepStatus.SKIPPED}
    met = _is_met(run) and any_done and missing == skipped and not missing & {*acting}
    if not run.drops_approved and (met or not missing):
        return RunStatus.DONE
    if any_done:
        return RunStatus.PARTLY_DONE
    by_person = {name for name in missing if run.steps[name].error_kind == "person"}
    return RunStatus.CANCELLED if missing and missing == skipped & by_person else RunStatus.FAILED


def _all_done(run: Run) -> bool:
    """Tells whether every step is done and no approved call was dropped, as in most runs."""
    return not run.drops_approved and all(
        step.status is StepStatus.DONE or step.rule in ("when", "need")
        for step in run.steps.values()
    )


def _is_met(run: Run) -> bool:
    """Tells whether a step reported that the goal is met, so that the rest need not run."""
    return run.advice is not None and run.advice.advice == "finish"


def _close_open_steps(run: Run, is_read: Callable[[str], bool]) -> Iterator[e.AnyBody]:
    """Yields the event that ends each step that is still open, with the reason.

    A call that was made and did not end may have taken effect: its step becomes unknown.
    """
    left = [name for name, step in run.steps.items() if step.status in UNFINISHED]
    if not left:
        return
    disabled = {step.id for step in run.plan.steps if step.disabled} if run.plan else set[str]()
    calls = set(run.calls_open)
    for name in left:
        if run.steps[name].unsure or (name in calls and not is_read(name)):
            why = Sentence("nobody saw how the call ended: it may have taken effect")
            yield e.StepUnknown(step=name, reason=why)
            continue
        if run.cancel_asked:
            yield e.StepCancelled(step=name, reason=Sentence("the run was cancelled"))
            continue
        whole = run.steps.get(parent_of(name))
        if name in disabled:
            why = Sentence("switched off")
        elif _is_met(run):
            why = Sentence("the goal is met already")
        elif whole is not None and whole.status is StepStatus.DONE:
            why = Sentence("the plan was revised, and no longer has it")
        else:
            why = Sentence("a step it needs did not finish")
        yield e.StepSkipped(step=name, reason=why)


def _reasons(
    run: Run, status: RunStatus, journal: Journal, passed_over: list[str]
) -> Iterator[str]:
    """Yields why a run ended as it did, the most important reason first."""
    asked = [event for event in journal.events if isinstance(event.body, e.CancelAsked)]
    if status is RunStatus.CANCELLED and asked:
        yield _cancelled_by(asked[-1])

    def named(status: StepStatus) -> list[str]:
        return [name for name, step in run.steps.items() if step.status is status]

    failed = [] if run.cancel_asked else named(StepStatus.FAILED)
    refused = [name for name in failed if was_refused(run, name)]
    skipped = named(StepStatus.SKIPPED)
    stopped = {
        "end.unknown": named(StepStatus.UNKNOWN),
        "end.failed": [name for name in failed if name not in refused],
        "end.refused": refused,
        "end.left_out": [name for name in skipped if run.steps[name].error_kind == "person"],
        "end.passed_over": passed_over,
    }
    for code, names in stopped.items():
        if len(names) > _SHOWN:
            yield Sentence(code, steps=Sentence("{names} and more", names=names[:_SHOWN]))
        elif names:
            yield Sentence(code, steps=names)
    by_person = asked and status is RunStatus.CANCELLED
    if run.drops_approved and not by_person and not any(stopped.values()):
        yield Sentence("not done: {calls}", calls=[*run.drops_approved])


def _cancelled_by(event: e.Event) -> str:
    whose = {"person": Sentence("a person"), "program": Sentence("a program")}
    name = event.by.name or whose.get(event.by.kind, "")
    text = Sentence("cancelled by {who}", who=name) if name else Sentence("cancelled")
    reason = event.body.reason if isinstance(event.body, e.CancelAsked) else ""
    return Sentence("{text}: {reason}", text=text, reason=reason) if reason else text
