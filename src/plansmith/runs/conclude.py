"""Decides how a run ends, and writes its end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from plansmith.engine.journal import Journal
from plansmith.engine.requested import missing_in
from plansmith.lazy import lazy_modules
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_hash
from plansmith.plan.fold import fold
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.plan.sentence import Sentence, joined

if TYPE_CHECKING:
    from plansmith.report import build
else:
    lazy_modules(globals(), build="plansmith.report.build")

_OPEN = frozenset({StepStatus.WAITING, StepStatus.READY, StepStatus.RUNNING, StepStatus.ASKING})
_SHOWN: Final = 5


def verdict(run: Run, *, acting: Collection[str] = ()) -> RunStatus:
    """Returns the final status of a run: `done` if every approved change was made.

    `acting` are the steps of the plan that change something.
    """
    if run.cancel_asked:
        return RunStatus.CANCELLED
    active = {step.id for step in run.plan.steps if not step.disabled} if run.plan else set[str]()
    missing = {name for name in active if run.steps[name].status is not StepStatus.DONE}
    any_done = any(step.status is StepStatus.DONE for step in run.steps.values())
    skipped = {name for name in missing if run.steps[name].status is StepStatus.SKIPPED}
    met = _is_met(run) and any_done and missing == skipped and not missing & set(acting)
    if not run.dropped and (met or not missing):
        return RunStatus.PARTLY_DONE if missing_in(run.problems) else RunStatus.DONE
    if any_done:
        return RunStatus.PARTLY_DONE
    by_person = {name for name in missing if run.steps[name].error_kind == "person"}
    return RunStatus.CANCELLED if missing and missing == skipped & by_person else RunStatus.FAILED


def _is_met(run: Run) -> bool:
    """Tells whether a step reported that the goal is met, so that the rest need not run."""
    return run.advice is not None and run.advice.advice == "finish"


def close_open_steps(run: Run, is_read: Callable[[str], bool]) -> Iterator[e.AnyBody]:
    """Yields the event that ends each step that is still open, with the reason.

    A call that was made and did not end may have taken effect: its step becomes unknown.
    """
    disabled = {step.id for step in run.plan.steps if step.disabled} if run.plan else set[str]()
    calls = set(run.calls_open)
    for name, step in run.steps.items():
        if step.status not in _OPEN:
            continue
        if step.unsure or (name in calls and not is_read(name)):
            yield e.StepUnknown(step=name, reason=Sentence("step.not_seen"))
        elif run.cancel_asked:
            yield e.StepCancelled(step=name, reason=Sentence("step.cancelled"))
        elif name in disabled:
            yield e.StepSkipped(step=name, reason=Sentence("step.off"))
        elif _is_met(run):
            yield e.StepSkipped(step=name, reason=Sentence("step.goal_met"))
        elif _is_of_another_plan(name, run):
            yield e.StepSkipped(step=name, reason=Sentence("step.revised_away"))
        else:
            yield e.StepSkipped(step=name, reason=Sentence("step.need_failed"))


def _is_of_another_plan(name: str, run: Run) -> bool:
    """Tells whether a part belongs to a step that is done without it."""
    whole = run.steps.get(name.rpartition("/")[0])
    return whole is not None and whole.status is StepStatus.DONE


def reason_for(run: Run, status: RunStatus, events: Sequence[e.Event]) -> str:
    """Says why a run ended as it did, the most important reason first."""
    reasons: list[str] = []
    asked = [event for event in events if isinstance(event.body, e.CancelAsked)]
    if status is RunStatus.CANCELLED and asked:
        reasons.append(_cancelled_by(asked[-1]))
    if names := _with_status(run, StepStatus.UNKNOWN):
        reasons.append(Sentence("end.unknown", steps=_first_few(names)))
    if (names := _with_status(run, StepStatus.FAILED)) and not run.cancel_asked:
        reasons.append(Sentence("end.failed", steps=_first_few(names)))
    skipped = _with_status(run, StepStatus.SKIPPED)
    if names := [name for name in skipped if run.steps[name].error_kind == "person"]:
        reasons.append(Sentence("end.left_out", steps=_first_few(names)))
    return joined(reasons)


def _first_few(names: list[str]) -> list[str] | Sentence:
    """Returns all names, or the first few if there are many."""
    return names if len(names) <= _SHOWN else Sentence("text.and_more", names=names[:_SHOWN])


def _with_status(run: Run, status: StepStatus) -> list[str]:
    return [name for name, step in run.steps.items() if step.status is status]


def _cancelled_by(event: e.Event) -> str:
    whose = {"person": Sentence("who.person"), "program": Sentence("who.program")}
    name = event.by.name or whose.get(event.by.kind, "")
    text = Sentence("end.cancelled_by", who=name) if name else Sentence("end.cancelled")
    reason = event.body.reason if isinstance(event.body, e.CancelAsked) else ""
    return Sentence("text.with_reason", text=text, reason=reason) if reason else text


async def conclude(
    journal: Journal,
    results: Mapping[str, Json],
    *,
    is_read: Callable[[str], bool],
    acting: Collection[str] = (),
    reason: str = "",
) -> Run:
    """Ends a run that has nothing left to do: closes open steps, writes the report and the end.

    `is_read` tells by a step's name whether its call changes nothing.
    """
    over = Sentence("step.run_over")
    rest: list[e.AnyBody] = [
        e.QuestionWithdrawn(question=name, reason=over) for name in journal.run.questions
    ]
    rest += close_open_steps(journal.run, is_read)
    ends = journal.following(*rest)
    run, events = fold(ends, journal.run), [*journal.events, *ends]
    status = verdict(run, acting=acting)
    text = build.report(run, status, results, events)
    reason = reason or reason_for(run, status, events)
    reason = reason or (Sentence("end.dropped", calls=[*run.dropped]) if run.dropped else "")
    reason = reason or joined(missing_in(run.problems))
    # In one append: after a crash in between, nobody would be asked about the unknown steps.
    await journal.append(
        *rest,
        e.ReportStarted(),
        e.ReportMade(result=content_hash(text)),
        e.RunFinished(status=status.value, reason=reason),  # type: ignore[arg-type]
        values=[text],
        at=ends[0].at if ends else None,  # the report counts each step's time up to then
    )
    return journal.run
