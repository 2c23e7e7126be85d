"""Executes the steps of a plan in parallel; writes ends and the next starts in one append."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, NamedTuple, TypedDict, Unpack

from plansmith.engine.budget import Budget, CallReservations
from plansmith.engine.call import Callees, PreparedCall, RunningCalls, settle_after_crash
from plansmith.engine.consent import ConsentRules, as_allowed, data_sources
from plansmith.engine.journal import Journal
from plansmith.engine.outcome import Differs, Done, Failed, Wanted
from plansmith.engine.state import SHORT_PAUSE_S, Batch, UnitStates
from plansmith.engine.units import Unit, resolved
from plansmith.engine.wakeups import ProgressBuffer, Wakeups
from plansmith.errors import ReferenceFailed, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.data import Json, call_mark, canonical_hash, canonical_json, content_of
from plansmith.plan.ids import call_key
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import AwaitAnswer, Execute, next_move
from plansmith.plan.plan import Plan
from plansmith.plan.preview import CallPreview, PreviewedCall
from plansmith.plan.refs import with_words
from plansmith.plan.run import NOT_STARTED, Run
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import ReplyStep
from plansmith.ports import Call, Reply


class Pacing(NamedTuple):
    """What holds back steps that could start.

    With `after_step`, once a step has ended (`due`: one has already), no other starts before the
    plan was thought over. `held_back` are replies that wait for the last of several plans.
    """

    after_step: bool
    due: bool
    held_back: frozenset[str]


class ExecutorOptions(TypedDict):
    """What an executor needs besides the journal of its run.

    If there are `last_replies` nothing else is run, even if steps they need did not finish.
    `opening` and `end` are events written with the first starts and the last end: that spares two
    commits. `seen` is what a person saw in the preview that was approved.
    """

    callees: Callees
    results: Mapping[str, Json]
    call_answers: Mapping[str, Reply]
    templates: Mapping[str, Plan]
    limits: Limits
    most_items: int
    durations: Mapping[str, float]
    budget: Budget | None
    pacing: Pacing | None
    last_replies: Mapping[str, Unit]
    seen: Mapping[str, PreviewedCall]
    opening: Sequence[e.AnyBody]
    end: Callable[[], e.RunFinished | None]


class Executor:
    """Executes a plan until it is over or waits for a person; a waiting run needs no memory.

    Only the task of `execute` changes the state of units. Each round of `_loop` takes what ended,
    decides what starts, writes both in one append, and only then makes the calls. If others wrote
    first, `_write_after_others` obeys what they decided before any call is made.
    """

    is_preview: ClassVar[bool] = False

    def __init__(self, journal: Journal, **options: Unpack[ExecutorOptions]) -> None:
        callees, limits, templates = options["callees"], options["limits"], options["templates"]
        self.is_executing = False
        self.hands_over = False  # another process is to go on
        self._journal, self._callees, self._clock = journal, callees, callees.clock
        self._limits, self._templates = limits, templates
        self._pacing, self._last_replies = options["pacing"], options["last_replies"]
        self._is_paced = bool(self._pacing or self._last_replies)
        self._opening, self._end = [*options["opening"]], options["end"]
        self._consent = ConsentRules(
            callees, limits, templates, options["most_items"], options["seen"]
        )
        self._budget = CallReservations(options["budget"], journal, self._clock)
        self._state = UnitStates(
            journal,
            budget=self._budget,
            results=options["results"],
            call_answers=options["call_answers"],
            templates=templates,
            durations=options["durations"],
            limits=limits,
            clock=self._clock,
        )
        wakeups = self.wakeups = Wakeups(journal.wait, self._clock)
        self._progress = ProgressBuffer(self._clock, wakeups.wake_in)
        self._calls = RunningCalls(callees, self._state.results, journal, wakeups.call_ended)

    def hand_over(self) -> None:
        """Starts no more steps, and stops when the running ones have ended."""
        self.hands_over = True
        self.wakeups.wake()

    @property
    def results(self) -> Mapping[str, Json]:
        """Returns the results so far, by the names of steps and parts."""
        return self._state.results

    @property
    def wakes_at(self) -> datetime | None:
        """The earliest time for which a step waits, if any does."""
        return self._state.wakes_at

    async def execute(self) -> Run:
        """Executes until nothing more can be done now; returns the run."""
        self.wakeups.bind()
        self.is_executing = True
        try:
            if not self._is_cancelled:  # else its end settles what a crash left open
                await self._settle_interrupted()
            await self._enter(self._journal.run)
            await self._loop()
            if self._is_cancelled:
                await self._stop()
        finally:
            self.is_executing = False
            waiting = self.wakeups.close()
            await self._calls.cancel(self._limits.grace_s)
            if waiting:
                await asyncio.wait(waiting, timeout=self._limits.grace_s)
            self._budget.close()
        return self._journal.run

    async def _settle_interrupted(self) -> None:
        """Records what became of calls interrupted by a crash; `run_started` comes with a step."""
        left = settle_after_crash(self._journal.run, self._templates, self._callees)
        if left:
            await self._journal.append(*self._opening, *left)
            self._opening = []
        self._state.batch.bodies += self._opening

    async def _enter(self, run: Run) -> None:
        if run.plan is not None:
            await self._state.enter(run.plan)
        if self._pacing is not None:
            self._state.has_new_end = self._pacing.due
        self._state.release(self._last_replies)
        self._progress.advice = run.advice.advice if run.advice else None

    async def _loop(self) -> None:
        """Writes what ended and what starts, makes the calls that start, and waits for more."""
        state, wakeups, calls = self._state, self.wakeups, self._calls
        while not self._is_cancelled:
            self._take_ended()
            started = self._start()
            batch = state.take_batch()
            if batch.bodies:
                started = await self._write(batch, started)
                calls.launch(started)
                if not calls.running:
                    continue
                await asyncio.sleep(0)  # lets calls end that wait for nothing
            elif not calls.running and not (self._retries_soon() and self._may_start):
                return
            if not wakeups.is_awake:
                if (at := state.wakes_at) is not None:
                    wakeups.set_alarm(at)
                await wakeups.next_wakeup()
            if wakeups.follower:
                await self._catch_up()

    def _take_ended(self) -> None:
        """Adds progress and the ends of all finished calls to the batch."""
        state, running = self._state, self._calls.running
        if not self._progress.is_empty:
            state.batch.bodies += self._progress.take(running)
        for name, outcome in self.wakeups.take_ended():
            del running[name]
            if state.may_collide and not isinstance(outcome, Differs | Wanted):
                state.note_touched(name)
            match outcome:
                case Done(value):
                    state.finish(state.units[name], value)
                case Differs(shown):
                    self._ask_about_change(state.units[name], shown)
                case Wanted(question, inputs, shown):
                    if name not in state.stopped:  # a person may have skipped it meanwhile
                        question = self._showing(question, inputs, shown)
                        state.ask_before_start(state.units[name], question)
                case _:
                    state.record(state.units[name], outcome)

    def _ask_about_change(self, unit: Unit, shown: CallPreview) -> None:
        """Asks about a call that would do something else than a person saw."""
        permit = self._state.permit(unit)
        inputs = resolved(unit, self._state.results)
        if permit is not None:
            unit, inputs, _ = as_allowed(unit, inputs, permit, self._state.results)
        question = self._consent.about_change(unit, inputs, shown, self._state)
        self._state.ask_during_call(unit, self._showing(question, inputs, shown))

    def _showing(
        self, question: e.QuestionAsked, inputs: dict[str, Json], shown: CallPreview | None
    ) -> e.QuestionAsked:
        """Adds what a question shows to the batch; returns the question with its hashes."""
        self._state.batch.values.append(inputs)
        if shown is None:
            return question
        content = content_of(shown.to_json())
        self._state.batch.values.append(content)
        return question.replace(shown=content.digest, seen=shown.hash, touches=shown.touched)

    async def _write(self, batch: Batch, started: list[PreparedCall]) -> list[PreparedCall]:
        """Appends a batch, with the end of the run if it is one; returns the calls to make."""
        end = None if started else self._end_if_done()
        try:
            await self._journal.append(*batch.bodies, *([end] if end else ()), values=batch.values)
        except StaleWriter:
            started = await self._write_after_others(batch, started)
            self.wakeups.wake()
        self._opening = []
        return started

    def _end_if_done(self) -> e.RunFinished | None:
        """Returns the end of the run, if nothing is left to do or to decide."""
        goes_on = self._calls.running or self._state.wakes or self._is_paced
        if goes_on or self._progress.advice:
            return None
        return self._end() if self._state.is_all_done else None

    async def _write_after_others(
        self, batch: Batch, started: list[PreparedCall]
    ) -> list[PreparedCall]:
        """Obeys what others decided, then appends a batch; returns the calls that may be made."""
        state = self._state
        while True:
            await self._catch_up()
            move = next_move(self._journal.run)
            if self._opening and not isinstance(move, Execute | AwaitAnswer):
                raise StaleWriter(f"run {self._journal.id} was stopped before it began")
            # Steps that others skipped do not start; if the run stops, none does.
            stops = self._is_cancelled or self._is_stopped
            names, skipped = [each.unit.name for each in started], state.skipped_by_others
            unmade = [each for each in names if stops or each in skipped]
            batch.bodies = [
                body
                for body in batch.bodies
                if (name := getattr(body, "step", "") or "") not in skipped
                and not (stops and self.is_preview and state.state_of(name).status in NOT_STARTED)
                and not (isinstance(body, e.StepStarted) and body.step in unmade)
            ]
            for name in unmade:
                self._budget.settle(name)
                state.queue.put_back(name)
            started = [each for each in started if each.unit.name not in unmade]
            more = state.take_batch()
            batch.bodies += more.bodies
            batch.values += more.values
            with suppress(StaleWriter):
                await self._journal.append(*batch.bodies, values=batch.values)
                return started

    async def _catch_up(self) -> None:
        """Obeys what others wrote; stops if another executor took over or there is a new plan."""
        events = await self._journal.catch_up()
        if not all(map(_is_instruction, events)):
            raise StaleWriter(f"run {self._journal.id} is executed by another process")
        for event in events:
            self._state.apply(event.body, await self._journal.value_of(event.body))

    @property
    def _is_cancelled(self) -> bool:
        return self._journal.run.cancel_asked

    # What may start.

    @property
    def _is_stopped(self) -> bool:
        """Whether a person has decided something for which no step starts any more."""
        return self._journal.run.paused

    @property
    def _may_start(self) -> bool:
        return not (self._is_stopped or self.hands_over)

    def _start(self) -> list[PreparedCall]:
        """Starts the steps that may start, and opens map and plan steps."""
        started: list[PreparedCall] = []
        state, queue, running = self._state, self._state.queue, self._calls.running
        state.drop_past_wakes()
        blocks = self._limits.per_tool or self._progress.advice or self._is_paced
        blocks = blocks or state.may_collide
        while self._may_start and queue.ready and len(running) + len(started) < self._limits.width:
            # A step that opens in this loop may bring a round that has to wait.
            is_blocked = partial(self._is_blocked, started) if blocks or state.wakes else None
            name = queue.take(is_blocked)
            if name is None:
                break
            unit = state.units[name]
            if name in state.stopped or (
                state.state_of(name).past_calls and self._reuse_result(unit)
            ):
                continue
            leaves_out = state.skipped_by_plan or self._journal.run.left_out
            may_be_skipped = leaves_out or unit.step.when is not None
            if self._is_set_aside(unit) or (may_be_skipped and state.skip_by_plan(unit)):
                continue
            if self._budget.is_limited and not self._reserve_budget(unit):
                break
            started += self._begin(unit)
        return started

    def _is_set_aside(self, unit: Unit) -> bool:
        """Tells whether a unit is not executed now; a preview leaves out what is no read."""
        del unit
        return False

    def _is_blocked(self, started: list[PreparedCall], name: str) -> bool:
        state, unit, advice = self._state, self._state.units[name], self._progress.advice
        if name in state.wakes:
            return True
        if unit.parent is None:  # parts of open steps always go on
            if advice and not (advice == "finish" and unit.step.kind == "reply"):
                return True
            if self._last_replies and name not in self._last_replies:
                return True
            if (pacing := self._pacing) is not None:
                # While somebody is asked, other steps go on; the plan is thought over afterwards.
                is_due = pacing.after_step and state.has_new_end and not state.waits_for_person
                if is_due or name in pacing.held_back:
                    return True
        return self._waits_for_running(started, unit)

    def _waits_for_running(self, started: list[PreparedCall], unit: Unit) -> bool:
        """Tells whether too many calls of a tool run, or one that changes the same.

        Of those that change the same, each but the first finds what an approved call has left.
        """
        state = self._state
        limit = self._limits.per_tool.get(unit.callee)
        touches = state.touches(unit.name) if state.may_collide else ()
        if limit is None and not touches:
            return False
        busy = [*self._calls.running, *(each.unit.name for each in started)]
        callees = [state.units[each].callee for each in busy]
        if limit is not None and callees.count(unit.callee) >= limit:
            return True
        return any(not state.touches(each).isdisjoint(touches) for each in busy)

    def _reuse_result(self, unit: Unit) -> bool:
        """Reuses the result of the same call from before the plan changed; tells whether it did."""
        if self._callees.is_read(unit) and not unit.is_item:
            return False
        try:
            mark = call_mark(resolved(unit, self._state.results))
        except ReferenceFailed:
            return False  # the step fails when it starts
        return self._state.reuse(unit, mark)

    def _reserve_budget(self, unit: Unit) -> bool:
        """Reserves a unit's budget; if a limit is reached, pauses the run, asks, returns false."""
        if unit.is_group or unit.step.kind == "ask":
            return True  # it makes no call itself
        refusal = self._budget.reserve(unit.name, unit.step.kind)
        if refusal is None:
            return True
        self._state.queue.put_back(unit.name)
        reason = Sentence("the budget of {amount} is used up", amount=refusal.amount)
        asked = self._budget.question(refusal)
        # In one append: a crash between the two would ask the same question twice.
        is_open = asked.question in self._journal.run.questions  # resumed without an answer
        self._state.batch.bodies += [*(() if is_open else (asked,)), e.RunPaused(reason=reason)]
        return False

    def _begin(self, unit: Unit) -> list[PreparedCall]:
        """Asks, opens a step with parts, or returns the call to make."""
        state = self._state
        try:
            if state.skipped_by_plan:
                unit = self._naming_skipped(unit)
            inputs = resolved(unit, state.results)
            kind = unit.step.kind
            permit = state.permit(unit)
            seen = ""
            if permit is not None:
                unit, inputs, seen = as_allowed(unit, inputs, permit, state.results)
            if kind == "ask":
                state.ask(unit, str(inputs["question"]))
            elif self._ask_for_consent(unit, inputs, permit):
                return []
            elif kind in ("map", "plan") or unit.step.repeat is not None:
                state.open(unit, inputs, is_preview=self.is_preview)
            else:
                seen = "" if state.was_touched(unit.name) else seen
                return [self._prepare_call(unit, inputs, seen, self._basis(unit, inputs, permit))]
        except ReferenceFailed as error:
            state.fail(unit, str(error))
        except Exception as error:  # noqa: BLE001 - one step that cannot begin must not end the run
            why = f"{type(error).__name__}: {error}"
            state.fail(unit, Sentence("it cannot start: {error}", error=why))
        return []

    def _ask_for_consent(
        self, unit: Unit, inputs: dict[str, Json], permit: e.StepReplied | None
    ) -> bool:
        """Asks a person before values from tools reach a change, or fails; else returns false."""
        first = self._consent.needed(unit, inputs, permit, self._state)
        if isinstance(first, Failed):
            self._state.fail(unit, first.error)
        elif first is not None:
            if self._callees.previews(unit) is not None:
                self._calls.look(unit, inputs, first)
            else:
                self._state.ask_before_start(unit, self._showing(first, inputs, None))
        return first is not None

    def _naming_skipped(self, unit: Unit) -> Unit:
        """Returns a reply that names its skipped steps where their results would stand."""
        step = unit.step
        if not isinstance(step, ReplyStep):
            return unit
        skipped = self._state.skipped_without_result(unit.scope)
        missing = [name for name in step.needed if name in skipped]
        if not missing:
            return unit
        locale = self._journal.run.locale
        words = {
            name: in_language(Sentence("reply.skipped", step=name), locale) for name in missing
        }
        instruction = with_words(step.instruction, words)
        return unit.with_step(step.model_copy(update={"instruction": instruction}))

    def _basis(
        self, unit: Unit, inputs: dict[str, Json], permit: e.StepReplied | None
    ) -> e.CallBasis:
        """Says why a call may begin."""
        if self.is_preview:
            return "read"
        if self._callees.is_read(unit):
            return ""
        if permit is not None and permit.state == canonical_hash(inputs):
            return "consent"
        return "settings" if data_sources(unit, self._state) else ""

    def _prepare_call(
        self,
        unit: Unit,
        inputs: dict[str, Json],
        seen: str,
        basis: e.CallBasis,
    ) -> PreparedCall:
        """Adds the start of a call to the batch; the call is made once that is written."""
        name = unit.name
        content = content_of(dict(sorted(inputs.items())))
        start = e.StepStarted(
            step=name,
            attempt=self._state.state_of(name).attempts + 1,
            inputs=content.digest,
            mark="" if content.text == canonical_json(inputs) else call_mark(inputs),
            callee=unit.callee,
            item=unit.item if unit.parent is not None else "",
            basis=basis,
        )
        self._state.batch.add(start, content)
        call = Call(
            key=call_key(self._journal.id, name, start.call_mark),
            attempt=start.attempt,
            progress=partial(self._progress.progress, name),
            spend=partial(self._budget.spend, name),
            advise=partial(self._progress.advise, name),
            reply=self._state.call_answers.get(name),
            seen=seen,
            request=self._journal.run.request,
            is_stopped=lambda: self._is_cancelled,
        )
        # The callee gets the recorded inputs for itself alone, and may change them.
        recorded: Any = content.value()
        return PreparedCall(unit, recorded, call)

    # Waiting and stopping.

    def _retries_soon(self) -> bool:
        """Forgets the waits of stopped steps; tells whether a retry or a next round comes soon."""
        self._state.drop_wakes_of_stopped()
        at = self._state.wakes_at
        return at is not None and (at - self._clock.now()).total_seconds() <= SHORT_PAUSE_S

    async def _stop(self) -> None:
        """Cancels running calls, waits a little, and writes how they ended; others are unknown."""
        await self._calls.cancel(self._limits.grace_s)
        self._take_ended()
        if self._state.batch.bodies:
            await self._write(self._state.take_batch(), [])


def _is_instruction(event: e.Event) -> bool:
    """Tells whether an event is a decision about this run, not written by another executor."""
    match event.body:
        case e.PlanProposed() | e.ChangesAsked() | e.PreviewStarted():
            return False
        case e.RunResumed(reason=reason) if reason:
            return False  # taken over by another process
        case e.QuestionAnswered() | e.StepFailed(kind="person" | "refused"):
            return True  # also written when a question expires
        case e.RunPaused():
            return True  # also written when a server cannot go on with the run
        case _:
            return event.by.speaks
