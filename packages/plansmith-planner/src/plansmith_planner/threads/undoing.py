"""Takes back what a message was taken for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.review.policy import active_steps
from plansmith.runs.editing import versions

if TYPE_CHECKING:
    from plansmith.plan.thread import Reading, ThreadMessage
    from plansmith.runs.service import RunService

_PUT_RIGHT = Sentence("start a new request that puts it right")
_TAKEN_BACK = Sentence("The message was taken back.")
_NOTHING_YET = frozenset({StepStatus.WAITING, StepStatus.READY, StepStatus.SKIPPED})


async def undo(said: ThreadMessage, reading: Reading, runs: RunService, *, by: e.Actor) -> Run:
    """Undoes the effect of a message on its run; returns the run that goes on in its place.

    A request is cancelled. A change goes back to the plan before, if no other plan came after it.
    An answer is taken back in a new run that asks again and keeps what the answer has nothing to
    do with.
    """
    match reading.kind:
        case "request" if reading.run:
            return await _cancelled(reading.run, runs, by)
        case "change":
            return await _changed_back(said, reading.run, runs, by)
        case "answer":
            return await _asked_again(reading, runs, by)
        case "request" | "why" | "review":
            raise Refused(Sentence("this message changed nothing: there is nothing to undo"))


async def _cancelled(run_id: str, runs: RunService, by: e.Actor) -> Run:
    run = await runs.journals.get(run_id)
    acted = await _first_acting(run, runs)
    if acted:
        hint = Sentence("plansmith runs cancel {run} stops what is left of it", run=run_id)
        message = Sentence("{acted} has run since: the request cannot be taken back", acted=acted)
        raise Refused(message, hint=hint)
    if run.status is RunStatus.CANCELLED:
        return run  # perhaps by a process that died before it had noted that
    if run.status.over:
        message = Sentence("run {run} is over: {status}", run=run_id, status=run.status)
        raise Refused(message, hint=_PUT_RIGHT)
    return await runs.stopping.cancel(run_id, by=by, reason=_TAKEN_BACK)


async def _changed_back(said: ThreadMessage, run_id: str, runs: RunService, by: e.Actor) -> Run:
    journal = await runs.journals.own(run_id)
    run, asked = journal.run, change_asked(said, journal.events)
    later = [event for event in journal.events if asked and event.number > asked.number]
    made = next((each.number for each in later if isinstance(each.body, e.PlanProposed)), 0)
    if run.changing and later == []:
        hint = Sentence("undo it once the plan is made")
        raise Refused(Sentence("run {run} is being changed", run=run_id), hint=hint)
    found = versions(journal.events)
    if not made or (found.after is not None and found.after.number == made):
        return await runs.journals.whole(journal)  # no plan came of it, or it was undone by hand
    if found.current != made:
        hint = Sentence("take back what came after it first, or say what you want instead")
        raise Refused(Sentence("run {run} has got another plan since", run=run_id), hint=hint)
    begun = [each.body.step for each in later if isinstance(each.body, e.StepStarted)]
    acted = await _first_acting(run, runs, begun)
    if acted:
        message = Sentence("{acted} has run since: the change cannot be taken back", acted=acted)
        raise Refused(message, hint=_PUT_RIGHT)
    return await runs.editing.undo(run_id, by=by)


def change_asked(said: ThreadMessage, events: Sequence[e.Event]) -> e.Event | None:
    """Returns the event in which the change that a message asks for was asked for."""
    for each in events:
        asked = each.body.text if isinstance(each.body, e.ChangesAsked) else None
        if asked == said.text and each.at >= said.at:
            return each
    return None


async def _asked_again(reading: Reading, runs: RunService, by: e.Actor) -> Run:
    journal = await runs.journals.own(reading.run)
    run, bodies = journal.run, [event.body for event in journal.events]
    asked = [each for each in bodies if isinstance(each, e.QuestionAsked)]
    step = next((each.step for each in asked if each.question == reading.question), None)
    acted = await _first_acting(run, runs)
    if acted:
        message = Sentence("{acted} has run since: the answer cannot be taken back", acted=acted)
        raise Refused(message, hint=_PUT_RIGHT)
    if not run.status.over:
        await runs.stopping.cancel(run.id, by=by, reason=_TAKEN_BACK)
    if step is None:
        old = await runs.journals.get(run.id)
        return await runs.journals.whole(await runs.repeating.ask_again(old, by=by))
    return await runs.repeating.retry(run.id, from_step=step.partition("/")[0], by=by)


async def _first_acting(run: Run, runs: RunService, begun: Sequence[str] | None = None) -> str:
    """Returns a step that changes something and has begun; empty if none has."""
    if run.plan is None:
        return ""
    if begun is None:
        begun = [name for name, state in run.steps.items() if state.status not in _NOTHING_YET]
    acting = set(await runs.intake.acting(run.plan, run.templates))
    acting &= {each.id for each in active_steps(run.plan, run.templates)}
    return next((name for name in begun if name.partition("/")[0] in acting), "")
