"""Executes the steps of a plan in parallel; writes ends and the next starts in one append."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import cast

from plansmith.engine.budget import Budget, CallReservations
from plansmith.engine.call import Callees
from plansmith.engine.journal import SYSTEM, Journal
from plansmith.engine.outcome import Done
from plansmith.engine.pacing import Pacing
from plansmith.engine.progress import (
    Batch,
    ProgressBuffer,
    Ready,
    RunningCalls,
    StepTimers,
    Wakeups,
)
from plansmith.engine.provenance import Consent, as_allowed, seen_files
from plansmith.engine.recover import left_open
from plansmith.engine.skipping import (
    SHORT_PAUSE_S,
    Outcomes,
    settle_by_rules,
    starts_after,
    told_without,
)
from plansmith.engine.state import State, is_instruction
from plansmith.engine.units import Unit, resolved
from plansmith.errors import ReferenceFailed, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.data import Json, call_mark, content_of
from plansmith.plan.fold import fold
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import AwaitAnswer, Execute, next_move
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.ports import Call, Reply
from plansmith.review.settings import MOST_ITEMS


class Executor:
    """Executes a plan until it is over or waits for a person; a waiting run needs no memory."""

    is_executing = False
    leaves = False  # another process is to go on
    _busy = 0
    _cancelled: tuple[e.Actor, str] | None = None
    _paused: tuple[e.Actor, str] | None = None
    _armed: datetime | None = None  # the time for which it is to be woken, if one is set
    _request = ""

    def __init__(  # noqa: PLR0913 - all but the first by name
        self,
        journal: Journal,
        *,
        callees: Callees,
        results: Mapping[str, Json],
        replies: Mapping[str, Reply] | None = None,
        templates: Mapping[str, Plan] | None = None,
        limits: Limits | None = None,
        most_items: int = MOST_ITEMS,
        durations: Mapping[str, float] | None = None,
        budget: Budget | None = None,
        pacing: Pacing | None = None,
        opening: Sequence[e.AnyBody] = (),
        end: Callable[[], e.RunFinished | None] = lambda: None,
    ) -> None:
        self._journal, self._callees, self._pacing = journal, callees, pacing
        # Written with the first starts, and with the last end: a commit less for each.
        self._opening, self._end = [*opening], end
        self._templates, self._limits = templates or {}, limits or Limits()
        told_by = journal.program_of
        self._consent = Consent(callees, self._limits, self._templates, most_items, told_by)
        self._budget = CallReservations(budget, journal.run, callees.clock)
        self._state = State(
            run_budget=self._budget,
            results=results,
            replies=replies or {},
            templates=self._templates,
            durations=durations or {},
            timers=StepTimers(callees.clock),
        )
        self.wakeups = Wakeups(journal.wait)
        self._outcomes = Outcomes(self._state, self._limits, self.wakeups, callees.clock)
        self._calls = RunningCalls(
            callees, self._state.results, call_of=self._call_of, ended=self.wakeups.put
        )
        self._busy_by_callee: dict[str, int] = {}
        self._received = Batch()
        self._progress = ProgressBuffer(callees.clock, self.wakeups.wake)

    def cancel(self, by: e.Actor, reason: str = "") -> None:
        """Starts no more steps and stops the running ones."""
        self._cancelled = by, reason
        self.wakeups.wake_now()

    def pause(self, by: e.Actor, reason: str) -> None:
        """Starts no more steps; running ones finish."""
        self._paused = by, reason
        self.wakeups.wake_now()

    def leave(self) -> None:
        """Starts no more steps, and stops when the running ones have ended."""
        self.leaves = True
        self.wakeups.wake_now()

    @property
    def results(self) -> Mapping[str, Json]:
        """Returns the results so far, by the names of steps and parts."""
        return self._state.results

    async def execute(self) -> Run:
        """Executes until nothing more can be done now; returns the run."""
        self.wakeups.open()
        self.is_executing = True
        try:
            run = self._journal.run
            self._request = run.request
            if run.cancel_asked:
                self._cancelled = SYSTEM, ""  # asked for before, in a process that died
            else:
                run = await self._opened(run)
            if run.plan is not None:
                self._state.enter(run, run.plan)
            if self._pacing is not None:
                self._pacing.enter(self._state)
            for digest in self._state.made_results():
                self._state.made_values[digest] = await self._journal.value(digest)
            self._progress.advice = run.advice.advice if run.advice else None
            await self._loop()
            await self._write_pause_or_stop()
        finally:
            self.is_executing = False
            await self._stop_all()
        return self._journal.run

    async def _loop(self) -> None:
        while not self._cancelled:
            batch, self._received = self._received, Batch()
            self._drain(batch)
            started = self._start(batch)
            if batch.bodies:
                end = () if started else self._last_event(len(batch.bodies))
                try:
                    await self._journal.append(*batch.bodies, *end, values=batch.values)
                except StaleWriter:
                    started = await self._write_after_others(batch, started)
                    self.wakeups.wake_now()
                self._opening = []
                self._calls.launch(started)
                if not self._calls.running:
                    continue
            elif not (self._calls.running or (self._holds_on() and self._may_start)):
                return
            if not self.wakeups.is_awake:
                await self._next_wakeup()
            if self.wakeups.follower:
                self._received.more(await self._catch_up())

    def _last_event(self, after: int) -> tuple[()] | tuple[e.RunFinished]:
        """Returns the end of the run, after some events, if nothing is left to do or to decide."""
        goes_on = self._calls.running or self.wakeups.waits or self._paused or self._pacing
        if goes_on or self._progress.advice or not self._state.is_all_done:
            return ()
        end = self._end() if self._callees.joins(after) else None
        return () if end is None else (end,)

    @property
    def wakes_at(self) -> datetime | None:
        """The earliest time for which a step waits, if any does."""
        return self._state.timers.next

    @property
    def _may_start(self) -> bool:
        return not (self._paused or self.leaves)

    def _holds_on(self) -> bool:
        """Tells whether a step is to be tried again soon; for a longer pause nothing is held."""
        timers = self._state.timers
        timers.forget(self._state.ended)
        return bool(self.wakeups.waits or (timers.times and timers.seconds_left <= SHORT_PAUSE_S))

    def _next_wakeup(self) -> asyncio.Future[None]:
        """Returns what wakes the executor, also for the next step that waits for a time."""
        if self._state.timers.times and (at := self._state.timers.next) != self._armed:
            self._armed = at
            sleep = partial(self._callees.clock.sleep, self._state.timers.seconds_left)
            self.wakeups.later(sleep, partial(setattr, self, "_armed", None), holds=False)
        return self.wakeups.next()

    async def _write_after_others(self, batch: Batch, started: list[Ready]) -> list[Ready]:
        """Obeys what others decided, then appends a batch; returns the calls that may be made."""
        while True:
            heard, move = await self._catch_up(), next_move(self._journal.run)
            if self._opening and not isinstance(move, Execute | AwaitAnswer):
                raise StaleWriter(f"run {self._journal.id} was stopped before it began")
            gone = self._state.skipped & batch.steps
            self._undo_starts([ready for ready in started if ready.unit.name in gone])
            batch.forget(gone)
            batch.more(heard)
            started = [ready for ready in started if ready.unit.name not in gone]
            if self._cancelled or self._paused:
                batch.drop_starts({ready.unit.name for ready in started})
                self._undo_starts(started)
                started = []
            with suppress(StaleWriter):
                await self._journal.append(*batch.bodies, values=batch.values)
                return started

    def _undo_starts(self, started: list[Ready]) -> None:
        """Undoes starts that were not written."""
        for unit in (ready.unit for ready in started):
            self._budget.settle(unit.name)
            self._busy -= 1
            self._busy_by_callee[unit.callee] -= 1
            self._state.attempts[unit.name] -= 1
            self._state.schedule.put_back(unit.name)

    async def _catch_up(self) -> Batch:
        """Obeys what others wrote; stops if another executor took over or there is a new plan."""
        batch = Batch()
        events = await self._journal.catch_up()
        if not all(map(is_instruction, events)):
            raise StaleWriter(f"run {self._journal.id} is executed by another process")
        for event in events:
            match event.body:
                case e.CancelAsked(reason=reason):
                    self._cancelled = event.by, reason
                case e.RunPaused(reason=reason):
                    self._paused = event.by, reason
                case e.RunResumed():
                    self._paused = None
                case body:
                    self._state.apply(body, await self._journal.value_of(body), batch)
        return batch

    async def _opened(self, run: Run) -> Run:
        """Returns the run as it is after what is written first: its start, what a crash left."""
        left, self._state.opened = left_open(run, self._templates, self._callees)
        self._opening += left
        if self._opening and not self._callees.joins(len(self._opening)):
            await self._journal.append(*self._opening)
            self._opening = []
            return self._journal.run
        self._received.bodies += self._opening
        return fold(self._journal.following(*left), run) if left else run

    def _start(self, batch: Batch) -> list[Ready]:
        """Starts the steps that may start, and opens map and plan steps."""
        started: list[Ready] = []
        state, schedule, width = self._state, self._state.schedule, self._limits.width
        may_block = self._limits.per_tool or self._progress.advice or self._pacing is not None
        if (timers := state.timers).times:
            timers.forget_past()
        while schedule.ready and self._busy < width and self._may_start:
            # A step that opens in this loop may bring a round that has to wait.
            name = schedule.take(self._is_blocked if may_block or timers.times else None)
            if name is None:
                break
            unit = state.units[name]
            if name in state.ended or (state.made and self._reuse_result(unit, batch)):
                continue
            if (state.passed or unit.step.when is not None) and settle_by_rules(unit, state, batch):
                continue
            if not self._budget.is_limited or self._affords(unit, batch):
                self._begin(unit, batch, started)
        return started

    def _affords(self, unit: Unit, batch: Batch) -> bool:
        """Reserves a unit's budget; if a limit is reached, pauses the run and asks."""
        refusal = self._budget.reserve(unit.name, "map" if unit.is_group else unit.step.kind)
        if refusal is None:
            return True
        self._state.schedule.put_back(unit.name)
        reason = Sentence("the budget of {amount} is used up", amount=refusal.amount)
        self._paused = SYSTEM, reason
        asked = self._budget.question(refusal)
        # In one append: a crash between the two would ask the same question twice.
        is_open = asked.question in self._journal.run.questions  # resumed without an answer
        batch.bodies += [*(() if is_open else (asked,)), e.RunPaused(reason=reason)]
        return False

    def _is_blocked(self, name: str) -> bool:
        unit = self._state.units[name]
        advice = self._progress.advice
        if self._state.timers.holds(name) or (advice and not starts_after(advice, unit)):
            return True
        if self._pacing is not None and self._pacing.holds(unit, self._state):
            return True
        limit = self._limits.per_tool.get(unit.callee)
        return limit is not None and self._busy_by_callee.get(unit.callee, 0) >= limit

    def _reuse_result(self, unit: Unit, batch: Batch) -> bool:
        """Reuses the result of the same call, made before the plan changed; most reads repeat."""
        if not self._state.was_made(unit) or (self._callees.is_read(unit) and not unit.is_item):
            return False
        try:
            call = call_mark(resolved(unit, self._state.results))
        except ReferenceFailed:
            return False  # the step fails when it starts
        return self._state.reuse(unit, call, batch, run=self._journal.id)

    def _begin(self, unit: Unit, batch: Batch, started: list[Ready]) -> None:
        try:
            self._begin_step(unit, batch, started)
        except ReferenceFailed as error:
            self._state.fail(unit, str(error), batch)
        except Exception as error:  # noqa: BLE001 - one step that cannot begin must not end the run
            why = f"{type(error).__name__}: {error}"
            self._state.fail(unit, Sentence("it cannot start: {error}", error=why), batch)

    def _begin_step(self, unit: Unit, batch: Batch, started: list[Ready]) -> None:
        if self._state.passed:
            unit = told_without(unit, self._state.passed, self._journal.run.locale)
        inputs, kind = resolved(unit, self._state.results), unit.step.kind
        if self._state.allowed:
            unit, inputs = as_allowed(unit, inputs, self._state)
        if kind == "ask":
            batch.ask(unit, str(inputs["question"]), self._callees.clock.now())
            self._state.ask_first(unit, batch)
        elif (kind, unit.callee) not in self._consent.free and self._consent.asks_first(
            unit, inputs, self._state, batch
        ):
            pass
        elif kind in ("map", "plan") or unit.step.repeat is not None:
            self._state.open(unit, inputs, batch, key=f"{self._journal.id}/{unit.name}")
        else:
            started.append(self._prepare_call(unit, inputs, batch))

    def _prepare_call(self, unit: Unit, inputs: dict[str, Json], batch: Batch) -> Ready:
        attempts, busy = self._state.attempts, self._busy_by_callee
        attempt = attempts[unit.name] + 1 if unit.name in attempts else 1
        # The same key for the same call and inputs, so that a service can recognise a repeat.
        key = f"{self._journal.id}/{unit.name}/{call_mark(inputs)}"
        content = content_of(dict(sorted(inputs.items())))
        early = self._callees.prefetched(unit, inputs)
        # The callee gets the recorded inputs for itself alone, and may change them.
        ready = Ready(unit, cast("dict[str, Json]", content.value()), key, attempt, early)
        batch.start(ready, content)
        attempts[unit.name] = attempt
        self._busy += 1
        busy[unit.callee] = busy[unit.callee] + 1 if unit.callee in busy else 1
        return ready

    def _call_of(self, ready: Ready) -> Call:
        name = ready.unit.name
        return Call(
            key=ready.key,
            attempt=ready.attempt,
            progress=partial(self._progress.progress, name),
            spend=partial(self._budget.spend, name),
            advise=partial(self._progress.advise, name),
            reply=self._state.replies.get(name),
            seen=seen_files(ready.unit, self._state),
            request=self._request,
            is_stopped=lambda: self._cancelled is not None,
        )

    def _drain(self, batch: Batch) -> None:
        """Adds progress and the ends of all finished calls to the batch."""
        if not self._progress.is_empty:
            batch.bodies += self._progress.take(self._calls.running)
        for name, outcome in self.wakeups.ends():
            del self._calls.running[name]
            unit = self._state.units[name]
            self._busy -= 1
            self._busy_by_callee[unit.callee] -= 1
            if type(outcome) is Done:
                self._state.finish(unit, outcome.value, batch)
            else:
                self._outcomes.record(unit, outcome, batch)

    async def _write_pause_or_stop(self) -> None:
        if self._journal.run.phase.over:  # ended at the moment at which it was to be stopped
            return
        if self._cancelled:
            await self._stop(*self._cancelled)
        elif self._paused and not self._journal.run.paused:
            await self._journal.append(e.RunPaused(reason=self._paused[1]), by=self._paused[0])

    async def _stop(self, by: e.Actor, reason: str) -> None:
        """Cancels running calls, waits a little, and writes how they ended; others are unknown."""
        for task in self.wakeups.waits:
            task.cancel()
        await self._calls.cancel(self._limits.grace_s)
        batch, self._received = self._received, Batch()
        if self._opening and batch.bodies:
            await self._journal.append(*self._opening)
            batch.bodies = batch.bodies[len(self._opening) :]
        if not self._journal.run.cancel_asked:
            await self._journal.append(e.CancelAsked(reason=reason), by=by)
        self._drain(batch)
        if batch.bodies:
            await self._journal.append(*batch.bodies, values=batch.values)

    async def _stop_all(self) -> None:
        """Stops all calls and tasks, however the execution ended."""
        for task in (tasks := self.wakeups.close()):
            task.cancel()
        if self._calls.running:
            await self._calls.cancel(self._limits.grace_s)
        if tasks:
            await asyncio.wait(tasks, timeout=self._limits.grace_s)
        self._budget.close()
