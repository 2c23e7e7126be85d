"""Plays a recorded run back offline and compares it event by event."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, Protocol

from plansmith.engine.call import Callees
from plansmith.errors import NotFound, PlansmithError
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.fold import fold
from plansmith.plan.next_move import MakePlan, next_move
from plansmith.plan.run import StepStatus
from plansmith.plan.sentence import Sentence, with_hint
from plansmith.replay.tape import Ended, Tape, spend, taped_runs
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
        tape = self._tape
        while tape.next is not None and tape.different is None:
            activity = tape.activity
            self._make_happen(tape.next)
            seen, quiet = -1, 0
            while quiet < _QUIET:
                await asyncio.sleep(0)
                quiet = quiet + 1 if seen == tape.activity else 0
                seen = tape.activity
            if tape.activity == activity:
                return

    async def stop(self) -> None:
        self._tape.forget_calls()
        await self._again.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _make_happen(self, event: e.Event) -> None:
        tape, body = self._tape, event.body
        name = getattr(body, "step", None)
        active = self._running is not None and not self._running.done()
        died = isinstance(body, e.StepFailed | e.StepUnknown) and body.died
        if event.number == 1:
            self._start(self._begin(event))
        elif active and died and name in tape.calls:
            self._restart()
        elif active and isinstance(body, e.CancelAsked):
            self._cancel(event)
        elif active and self._pause():
            pass
        elif event.by.speaks:
            self._start(self._decide(event))
        elif active and (name in tape.calls or name in tape.sleepers):
            self._release(event)
        elif not active:
            self._running = self._start(self._continue())

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
        given: dict[str, Any] = {name: getattr(event.body, name) for name in _CREATED}
        second = self._tape.events[1] if len(self._tape.events) > 1 else None
        if second is not None and isinstance(second.body, e.PlanProposed):
            plan, at = second.body, second.at
            together = takewhile(lambda each: each.at == at, self._tape.events[2:])
            bodies = [each.body for each in together]
            asked = [each for each in bodies if isinstance(each, e.ReviewAsked)]
            new = NewRun(
                **given,
                plan=plan.plan,
                by=event.by,
                kept=[each for each in bodies if isinstance(each, e.StepReused)],
                plan_origin=plan.origin,
                reviewed=asked if plan.origin == "rerun" else None,
            )
            await self._again.create(new)
            return
        journal = await self._again.create(NewRun(**given, by=event.by))
        await self._again.planning.plan(journal)

    async def _continue(self) -> None:
        journal = await self._again.journals.load(self._run)
        match next_move(fold(self._tape.events[: self._tape.position])):
            case MakePlan(changed=True):
                await self._again.reviser.change(journal)
            case MakePlan():
                await self._again.planning.plan(journal)
            case _:
                await self._again.run(self._run)

    def _restart(self) -> None:
        self._tape.forget_calls()
        self._tape.activity += 1
        if self._running is not None:
            self._running.cancel()
        old, self._again = self._again, taped_runs(self._tape, self._runs, self._callees)
        self._start(old.close())
        self._running = self._start(self._continue())

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
            case e.QuestionAnswered(question=question, answer=answer):
                # Consent may also name the files that were seen.
                match self._tape.events[event.number : event.number + 1]:
                    case [e.Event(body=e.StepReplied(permit=True, answer=given))]:
                        answer = given
                    case _:
                        pass
                await again.planned(await again.answer(run, question, answer, by=by))
            case _:
                await self._control(event)

    async def _control(self, event: e.Event) -> None:
        by, stopping, run = event.by, self._again.stopping, self._run
        match event.body:
            case e.RunPaused(reason=reason):
                await stopping.pause(run, by=by, reason=reason)
            case e.RunResumed(reason=reason) if reason:
                await stopping.record_takeover(run, reason, by=by)
            case e.RunResumed():
                await stopping.resume(run, by=by)
            case e.CancelAsked(reason=reason):
                await stopping.cancel(run, by=by, reason=reason)
            case e.StepSkipped(step=step):
                await stopping.skip(run, step, by=by)
            case e.QuestionWithdrawn():  # of a step that is skipped next
                await self._control(self._tape.events[event.number])
            case _:
                return

    def _cancel(self, event: e.Event) -> None:
        """Cancels; the progress of calls up to then is written after it."""
        self._start(self._control(event))
        for later in self._tape.ahead[1:]:
            if not isinstance(later.body, _PROGRESS):
                return
            self._report(later.body)

    def _pause(self) -> bool:
        """Pauses from where the record shows no new start; true if that is now."""
        for event in self._tape.ahead:
            if isinstance(event.body, e.RunPaused) and event.by.speaks:
                if event.number == self._pausing:
                    return False
                self._pausing = event.number
                self._tape.activity += 1
                self._start(self._control(event))
                return True
            if not isinstance(event.body, (*_ENDS, *_PROGRESS)) or event.by.speaks:
                return False
        return False

    def _release(self, first: e.Event) -> None:
        """Ends the calls that ended next, all that were written in one append."""
        tape = self._tape
        together = [*takewhile(lambda each: each.at == first.at, tape.ahead)]
        ends = self._report_until_ends(together)
        # Waiting steps start again after the calls that end now.
        starting = False
        for event in together:
            starting = starting or isinstance(event.body, e.StepStarted)
            if starting and not isinstance(event.body, e.StepStarted):
                break
            if isinstance(event.body, e.StepStarted) and event.body.step in tape.sleepers:
                tape.sleepers.pop(event.body.step).set_result(None)
        # For a pause that is in the journal nobody sleeps.
        paused = {body.step for body in tape.bodies(e.StepWaits)}
        for event in ends:
            name = str(getattr(event.body, "step", ""))
            if isinstance(event.body, e.StepFailed) and event.body.again and name not in paused:
                tape.failing.append(name)
            pending, outcome = tape.calls.pop(name), tape.outcome(event.body, name)
            assert outcome is not None  # noqa: S101 - chosen for having one
            spend(pending.call, [event], name)
            pending.future.set_result(outcome)

    def _report_until_ends(self, together: list[e.Event]) -> list[e.Event]:
        """Reports the next progress; returns the ends of calls before the next one starts."""
        tape = self._tape
        states = fold(tape.events[: tape.position]).steps
        ends: list[e.Event] = []
        for event in together:
            body = event.body
            if event.by.speaks:
                break
            if isinstance(body, _PROGRESS) and not ends:
                self._report(body)
            elif not isinstance(body, _ENDS):
                break
            elif body.step in tape.calls and tape.outcome(body, body.step):
                ends.append(event)
            else:
                # A map or plan step, which makes no call itself, may end among them.
                state = states.get(body.step or "")
                if state is None or state.status is not StepStatus.RUNNING or state.inputs:
                    break
        return ends

    def _report(self, body: e.AnyBody) -> None:
        pending = self._tape.calls.get(getattr(body, "step", ""))
        if pending is not None and isinstance(body, e.StepProgressed):
            pending.call.progress(body.text)
        elif pending is not None and isinstance(body, e.StepAdvised):
            pending.call.advise(body.advice, body.reason)
