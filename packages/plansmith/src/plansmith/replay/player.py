"""Plays a recorded run back offline and compares it event by event."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from plansmith.engine.call import Callees
from plansmith.errors import NotFound, PlansmithError
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.fold import fold
from plansmith.plan.next_move import MakePlan, next_move
from plansmith.plan.run import StepState, StepStatus
from plansmith.plan.sentence import Sentence, with_hint
from plansmith.replay.replayed_runs import taped_runs
from plansmith.replay.tape import Ended, Tape, outcome_of, spend
from plansmith.runs.editing import versions
from plansmith.runs.intake import NewRun
from plansmith.runs.service import RunService

_QUIET: Final = 20  # turns of the event loop without activity: then everything waits for the tape
_CREATED: Final = ("request", "locale", "options", "origin", "folder")
_ENDS: Final = (e.StepDone, e.StepFailed, e.StepUnknown, e.QuestionAsked)
_PROGRESS: Final = (e.StepProgressed, e.StepAdvised)


@dataclass(frozen=True, slots=True)
class Replayed:
    """How many events of a replay equal the record, and the first pair that differs.

    `replayed` is None if the replay ended earlier than the record; `refused` may say why.
    """

    run: str
    events: int
    same: int
    recorded: e.Event | None = None
    replayed: e.Event | None = None
    refused: str = ""

    @property
    def identical(self) -> bool:
        """Tells whether every event was reproduced byte for byte."""
        return self.same == self.events

    def to_json(self) -> dict[str, Json]:
        return {
            "run": self.run,
            "identical": self.identical,
            "events": self.events,
            "same": self.same,
            "recorded": self.recorded.to_json() if self.recorded else None,
            "replayed": self.replayed.to_json() if self.replayed else None,
            "refused": self.refused,
        }


class HasRuns(Protocol):
    """A Plansmith, or anything else with a `RunService`."""

    @property
    def runs(self) -> RunService: ...


async def replay(run_id: str, smith: HasRuns) -> Replayed:
    """Plays a run back with the settings and tool descriptions of this Plansmith.

    Nothing is called, asked or stored: the answers of tools, models and people are recorded.
    """
    runs = smith.runs
    tape = await Tape.load(runs.store, run_id)
    if not tape.events:
        raise NotFound(
            Sentence("there is no run '{name}'", name=run_id),
            hint=Sentence("plansmith runs lists them"),
        )
    player = _Player(tape, runs, await runs.intake.callees())
    try:
        await player.play()
    finally:
        await player.stop()
    refused = player.refused if tape.next is not None and tape.different is None else ""
    return Replayed(run_id, len(tape.events), tape.position, tape.next, tape.different, refused)


class _Player:
    """Repeats what people did in a recorded run, and ends calls when they ended then."""

    def __init__(self, tape: Tape, runs: RunService, callees: Callees) -> None:
        self._tape = tape
        self._runs = runs
        self._callees = callees
        self._run = tape.events[0].run
        self._again = taped_runs(tape, runs, callees)
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: asyncio.Task[None] | None = None
        self._pausing = 0
        self.refused = ""

    async def play(self) -> None:
        """Plays until the end of the tape, or until an event differs."""
        while self._tape.next is not None and self._tape.different is None:
            activity = self._tape.activity
            self._make_next_happen(self._tape.next)
            await self._settle()
            if self._tape.activity == activity:
                return

    async def stop(self) -> None:
        self._tape.forget_calls()
        await self._again.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _settle(self) -> None:
        seen, quiet = -1, 0
        while quiet < _QUIET:
            await asyncio.sleep(0)
            quiet = quiet + 1 if seen == self._tape.activity else 0
            seen = self._tape.activity

    def _make_next_happen(self, event: e.Event) -> None:
        body = event.body
        name = getattr(body, "step", None)
        if event.number == 1:
            self._start(self._begin(event))
        elif self._process_died(event):
            self._restart()
        elif self._is_active and isinstance(body, e.CancelAsked):
            self._cancel(event)
        elif self._is_active and self._pause():
            pass
        elif event.by.speaks:
            self._start(self._decide(event))
        elif self._is_active and (name in self._tape.calls or name in self._tape.sleepers):
            self._release()
        elif not self._is_active:
            self._running = self._start(self._continue())

    @property
    def _is_active(self) -> bool:
        return self._running is not None and not self._running.done()

    def _start(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[None]:
        async def guarded() -> None:
            # The end of the tape, and a refused operation, show in the events.
            try:
                await work
            except Ended:
                return
            except PlansmithError as error:
                self.refused = with_hint(error.message, error.hint)

        task = asyncio.create_task(guarded())
        self._tasks.add(task)
        return task

    async def _begin(self, event: e.Event) -> None:
        """Creates the run as recorded: with a plan, or with a request that is planned."""
        given: dict[str, Any] = {name: getattr(event.body, name) for name in _CREATED}
        second = self._tape.events[1].body if len(self._tape.events) > 1 else None
        if isinstance(second, e.PlanProposed):
            kept = [b for b in self._bodies(2) if isinstance(b, e.StepReused)]
            asked = [b for b in self._bodies(2) if isinstance(b, e.ReviewAsked)]
            new = NewRun(
                **given,
                plan=second.plan,
                by=event.by,
                kept=kept,
                plan_origin=second.origin,
                reviewed=asked if second.origin == "rerun" else None,
            )
            await self._again.create(new)
            return
        journal = await self._again.create(NewRun(**given, by=event.by))
        await self._again.planning.plan(journal)

    def _bodies(self, start: int) -> Iterator[e.AnyBody]:
        """Yields the events that follow at the same time."""
        at = self._tape.events[start - 1].at
        for event in self._tape.events[start:]:
            if event.at != at:
                return
            yield event.body

    async def _continue(self) -> None:
        """Continues the run, as a new process would."""
        journal = await self._again.journals.load(self._run)
        match next_move(fold(self._tape.events[: self._tape.position])):
            case MakePlan(changed=True):
                await self._again.reviser.change(journal)
            case MakePlan():
                await self._again.planning.plan(journal)
            case _:
                await self._again.run(self._run)

    async def _decide(self, event: e.Event) -> None:
        """Repeats what a person did, by the first event that it wrote."""
        by, again, run = event.by, self._again, self._run
        match event.body:
            case e.PlanApproved(hash=digest):
                await again.decide(run, approve=digest, by=by)
            case e.PlanRejected():
                await again.decide(run, reject=True, by=by)
            case e.ChangesAsked(text=text):
                await again.editing.request_changes(run, text, by=by)
            case e.PlanProposed(restores=number) if number:
                found = versions(self._tape.events[: event.number - 1]).before
                goes_back = found is not None and found.number == number
                edits = again.editing
                await (edits.undo if goes_back else edits.redo)(run, by=by)
            case e.PlanProposed(plan=plan):
                await again.editing.edit(run, plan, by=by)
            case e.QuestionAnswered(question=question):
                answer = self._given(event.number, event.body)
                await again.planned(await again.answer(run, question, answer, by=by))
            case _:
                await self._control(event)

    def _given(self, number: int, body: e.QuestionAnswered) -> Json:
        """Returns an answer as it was given: consent may also name the files that were seen."""
        match self._tape.events[number : number + 1]:
            case [e.Event(body=e.StepReplied(permit=True, answer=answer))]:
                return answer
            case _:
                return body.answer

    async def _control(self, event: e.Event) -> None:
        match event.body:
            case e.RunPaused(reason=reason):
                await self._again.stopping.pause(self._run, by=event.by, reason=reason)
            case e.RunResumed(reason=reason) if reason:
                await self._again.stopping.record_takeover(self._run, reason, by=event.by)
            case e.RunResumed():
                await self._again.stopping.resume(self._run, by=event.by)
            case e.CancelAsked(reason=reason):
                await self._again.stopping.cancel(self._run, by=event.by, reason=reason)
            case e.StepSkipped(step=step):
                await self._again.stopping.skip(self._run, step, by=event.by)
            case e.QuestionWithdrawn():  # of a step that is skipped next
                await self._control(self._tape.events[event.number])
            case _:
                return

    def _process_died(self, event: e.Event) -> bool:
        """Tells whether an event shows that the process of the run died."""
        match event.body:
            case e.StepFailed(died=True, step=step) | e.StepUnknown(died=True, step=step):
                return self._is_active and step in self._tape.calls
            case _:
                return False

    def _restart(self) -> None:
        """Continues the run in a new service, as after a crash."""
        self._tape.forget_calls()
        self._tape.activity += 1
        if self._running is not None:
            self._running.cancel()
        old, self._again = self._again, taped_runs(self._tape, self._runs, self._callees)
        self._start(old.close())
        self._running = self._start(self._continue())

    def _cancel(self, event: e.Event) -> None:
        """Cancels; the progress of calls up to then is written after it."""
        reason = event.body.reason if isinstance(event.body, e.CancelAsked) else ""
        self._start(self._again.stopping.cancel(self._run, by=event.by, reason=reason))
        for later in self._tape.events[self._tape.position + 1 :]:
            if not isinstance(later.body, _PROGRESS):
                return
            self._report(later.body)

    def _pause(self) -> bool:
        """Pauses from where the record shows no new start; true if that is now."""
        for event in self._tape.events[self._tape.position :]:
            if isinstance(event.body, e.RunPaused) and event.by.speaks:
                if event.number == self._pausing:
                    return False
                self._pausing = event.number
                self._tape.activity += 1
                self._start(
                    self._again.stopping.pause(self._run, by=event.by, reason=event.body.reason)
                )
                return True
            if not isinstance(event.body, (*_ENDS, *_PROGRESS)) or event.by.speaks:
                return False
        return False

    def _release(self) -> None:
        """Ends the calls that ended next, all that were written in one append."""
        progress, ends = self._next_ends()
        for body in progress:
            self._report(body)
        waking = self._wake_next()
        for step in waking:
            self._tape.sleepers.pop(step).set_result(None)
        self._tape.failing += [
            event.body.step
            for event in ends
            if isinstance(event.body, e.StepFailed) and event.body.again
            if event.body.step not in self._waiting_longer()
        ]
        for event in ends:
            self._end(event)

    def _waiting_longer(self) -> set[str]:
        """Returns the steps whose next pause is in the journal, so that nobody sleeps for it."""
        following = self._tape.events[self._tape.position :]
        return {event.body.step for event in following if isinstance(event.body, e.StepWaits)}

    def _next_ends(self) -> tuple[list[e.StepProgressed | e.StepAdvised], list[e.Event]]:
        """Returns the next progress and ends of calls, up to the next event that starts one."""
        first = self._tape.events[self._tape.position]
        states = fold(self._tape.events[: self._tape.position]).steps
        progress: list[e.StepProgressed | e.StepAdvised] = []
        ends: list[e.Event] = []
        for event in self._tape.events[self._tape.position :]:
            body = event.body
            if event.at != first.at or event.by.speaks:
                break
            if isinstance(body, _PROGRESS) and not ends:
                progress.append(body)
            elif not isinstance(body, _ENDS):
                break
            elif body.step in self._tape.calls and outcome_of(body, self._tape, body.step):
                ends.append(event)
            elif body.step is None or not _ends_without_call(states, body.step):
                break
        return progress, ends

    def _report(self, body: e.StepProgressed | e.StepAdvised) -> None:
        pending = self._tape.calls.get(body.step)
        if pending is not None and isinstance(body, e.StepProgressed):
            pending.call.progress(body.text)
        elif pending is not None and isinstance(body, e.StepAdvised):
            pending.call.advise(body.advice, body.reason)

    def _end(self, event: e.Event) -> None:
        step = str(getattr(event.body, "step", ""))
        pending = self._tape.calls.pop(step)
        outcome = outcome_of(event.body, self._tape, step)
        assert outcome is not None  # noqa: S101 - chosen for having one
        spend(pending.call, [event], step)
        pending.future.set_result(outcome)

    def _wake_next(self) -> list[str]:
        """Returns the waiting steps that start again after the calls that end now."""
        first = self._tape.events[self._tape.position]
        waking: list[str] = []
        starting = False
        for event in self._tape.events[self._tape.position :]:
            starting = starting or isinstance(event.body, e.StepStarted)
            if event.at != first.at or (starting and not isinstance(event.body, e.StepStarted)):
                break
            if isinstance(event.body, e.StepStarted) and event.body.step in self._tape.sleepers:
                waking.append(event.body.step)
        return waking


def _ends_without_call(states: Mapping[str, StepState], name: str) -> bool:
    """Tells whether a step is a map or plan step, which makes no call itself."""
    state = states.get(name)
    return state is not None and state.status is StepStatus.RUNNING and not state.inputs
