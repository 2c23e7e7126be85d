"""Decides how a run ends, and writes its end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from plansmith.engine.journal import Journal
from plansmith.engine.outcome import was_refused
from plansmith.plan import events as e
from plansmith.plan.fold import fold
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.plan.sentence import Sentence, joined

_OPEN = frozenset({StepStatus.WAITING, StepStatus.READY, StepStatus.RUNNING, StepStatus.ASKING})
_SHOWN: Final = 5


def verdict(run: Run, *, acting: Collection[str] = ()) -> RunStatus:
    """Returns the final status of a run: `done` if every approved change was made.

    `acting` are the steps of the plan that change something. What the plan itself skips is not
    missing, unless something failed before.
    """
    if run.cancel_asked:
        return RunStatus.CANCELLED
    if _all_done(run):
        return RunStatus.DONE
    active = {step.id for step in run.plan.steps if not step.disabled} if run.plan else set[str]()
    missing = {name for name in active if not run.steps[name].settled}
    if passed_over(run, acting):
        return RunStatus.PARTLY_DONE
    any_done = any(step.status is StepStatus.DONE for step in run.steps.values())
    skipped = {name for name in missing if run.steps[name].status is StepStatus.SKIPPED}
    met = _is_met(run) and any_done and missing == skipped and not missing & set(acting)
    if not run.dropped and (met or not missing):
        return RunStatus.DONE
    if any_done:
        return RunStatus.PARTLY_DONE
    by_person = {name for name in missing if run.steps[name].error_kind == "person"}
    return RunStatus.CANCELLED if missing and missing == skipped & by_person else RunStatus.FAILED


def _all_done(run: Run) -> bool:
    """Tells whether every step is done and no approved call was dropped, as in most runs."""
    return not run.dropped and not [
        step
        for step in run.steps.values()
        if step.status is not StepStatus.DONE and step.rule not in ("when", "need")
    ]


def passed_over(run: Run, acting: Collection[str]) -> list[str]:
    """Returns the changes that the plan passed over because something failed."""
    return [
        name
        for name, step in run.steps.items()
        if step.rule == "error" and name.split("/", maxsplit=1)[0] in acting
    ]


def _is_met(run: Run) -> bool:
    """Tells whether a step reported that the goal is met, so that the rest need not run."""
    return run.advice is not None and run.advice.advice == "finish"


def close_open_steps(run: Run, is_read: Callable[[str], bool]) -> Iterator[e.AnyBody]:
    """Yields the event that ends each step that is still open, with the reason.

    A call that was made and did not end may have taken effect: its step becomes unknown.
    """
    left = [name for name, step in run.steps.items() if step.status in _OPEN]
    if not left:
        return
    disabled = {step.id for step in run.plan.steps if step.disabled} if run.plan else set[str]()
    calls = set(run.calls_open)
    for name in left:
        step = run.steps[name]
        if step.unsure or (name in calls and not is_read(name)):
            yield e.StepUnknown(
                step=name,
                reason=Sentence("nobody saw how the call ended: it may have taken effect"),
            )
        elif run.cancel_asked:
            yield e.StepCancelled(step=name, reason=Sentence("the run was cancelled"))
        elif name in disabled:
            yield e.StepSkipped(step=name, reason=Sentence("switched off"))
        elif _is_met(run):
            yield e.StepSkipped(step=name, reason=Sentence("the goal is met already"))
        elif _is_of_another_plan(name, run):
            yield e.StepSkipped(
                step=name, reason=Sentence("the plan was revised, and no longer has it")
            )
        else:
            yield e.StepSkipped(step=name, reason=Sentence("a step it needs did not finish"))


def _is_of_another_plan(name: str, run: Run) -> bool:
    """Tells whether a part belongs to a step that is done without it."""
    whole = run.steps.get(name.rpartition("/")[0])
    return whole is not None and whole.status is StepStatus.DONE


def reason_for(
    run: Run, status: RunStatus, events: Sequence[e.Event], acting: Collection[str] = ()
) -> str:
    """Says why a run ended as it did, the most important reason first."""
    if status is not RunStatus.CANCELLED and _all_done(run):
        return ""
    reasons: list[str] = []
    if status is RunStatus.CANCELLED:
        asked = [event for event in events if isinstance(event.body, e.CancelAsked)]
        reasons += [_cancelled_by(event) for event in asked[-1:]]
    failed = [] if run.cancel_asked else _with_status(run, StepStatus.FAILED)
    refused = [name for name in failed if was_refused(run, name)]
    skipped = _with_status(run, StepStatus.SKIPPED)
    ends = {
        "end.unknown": _with_status(run, StepStatus.UNKNOWN),
        "end.failed": [name for name in failed if name not in refused],
        "end.refused": refused,
        "end.left_out": [name for name in skipped if run.steps[name].error_kind == "person"],
        "end.passed_over": passed_over(run, acting),
    }
    reasons += [Sentence(code, steps=_first_few(names)) for code, names in ends.items() if names]
    if not reasons and run.dropped:
        reasons.append(Sentence("not done: {calls}", calls=[*run.dropped]))
    return joined(reasons)


def _first_few(names: list[str]) -> list[str] | Sentence:
    """Returns all names, or the first few if there are many."""
    return names if len(names) <= _SHOWN else Sentence("{names} and more", names=names[:_SHOWN])


def _with_status(run: Run, status: StepStatus) -> list[str]:
    return [name for name, step in run.steps.items() if step.status is status]


def _cancelled_by(event: e.Event) -> str:
    whose = {"person": Sentence("a person"), "program": Sentence("a program")}
    name = event.by.name or whose.get(event.by.kind, "")
    text = Sentence("cancelled by {who}", who=name) if name else Sentence("cancelled")
    reason = event.body.reason if isinstance(event.body, e.CancelAsked) else ""
    return Sentence("{text}: {reason}", text=text, reason=reason) if reason else text


async def conclude(
    journal: Journal,
    *,
    is_read: Callable[[str], bool],
    acting: Collection[str] = (),
    reason: str = "",
) -> None:
    """Ends a run that has nothing left to do: closes open steps and writes the end.

    `is_read` tells by a step's name whether its call changes nothing.
    """
    run, rest = journal.run, list[e.AnyBody]()
    if run.questions:
        over = Sentence("the run is over")
        rest += [e.QuestionWithdrawn(question=name, reason=over) for name in run.questions]
    rest += close_open_steps(run, is_read)
    if rest:
        run = fold(journal.following(*rest), run)
    status = verdict(run, acting=acting)
    reason = reason or reason_for(run, status, journal.events, acting)
    # In one append: after a crash in between, nobody would be asked about the unknown steps.
    end = e.RunFinished(status=status.value, reason=reason)  # type: ignore[arg-type]
    await journal.append(*rest, end)
