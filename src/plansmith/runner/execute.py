"""Execute: one coroutine conducts a run; steps start the moment their inputs exist."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Final, NamedTuple, cast

from plansmith.errors import PlansmithError, ReferenceFailed, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_hash, content_of
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.steps import AskStep, MapStep, PlanStep, ReplyStep
from plansmith.ports import Call, Reply
from plansmith.runner.batch import Batch
from plansmith.runner.budget import Budget, Purse
from plansmith.runner.call import Asks, Callees, Done, Failed, Outcome, Unsure
from plansmith.runner.journal import SYSTEM, Journal
from plansmith.runner.labels import data_question, data_sources
from plansmith.runner.limits import RunLimits
from plansmith.runner.recover import recover, unknown_question
from plansmith.runner.state import State
from plansmith.runner.units import Unit, named_unit, resolved
from plansmith.runner.words import Words

FOLLOW_AFTER_S: Final = 0.2
_NOTHING: Final = ("", None)


class Ready(NamedTuple):
    """A call that may be made once its intent is durable."""

    unit: Unit
    inputs: dict[str, Json]
    call: Call


class Conductor:
    """Runs a plan until it is over or waits for a person; waiting holds nothing in memory."""

    def __init__(
        self,
        journal: Journal,
        *,
        callees: Callees,
        results: Mapping[str, Json],
        replies: Mapping[str, Reply] | None = None,
        templates: Mapping[str, Plan] | None = None,
        limits: RunLimits | None = None,
        durations: Mapping[str, float] | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._journal = journal
        self._callees = callees
        self._templates = templates or {}
        self._limits = limits or RunLimits()
        self._purse = Purse(budget, journal.run, callees.clock)
        self._state = State(
            purse=self._purse,
            results=results,
            replies=replies or {},
            templates=self._templates,
            durations=durations or {},
        )
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._waits: set[asyncio.Task[None]] = set()
        self._busy: Counter[str] = Counter()
        self._outcomes: asyncio.Queue[tuple[str, Outcome | None]] = asyncio.Queue()
        self._cancelled: e.Actor | None = None
        self._paused: tuple[e.Actor, str] | None = None
        self._words = Words(callees.clock, self._wake)
        self._follower: asyncio.Task[None] | None = None
        self._loop_of: asyncio.AbstractEventLoop | None = None
        self.is_conducting = False

    def cancel(self, by: e.Actor) -> None:
        """Start nothing more and stop what runs."""
        self._cancelled = by
        self._outcomes.put_nowait(_NOTHING)

    def pause(self, by: e.Actor, reason: str) -> None:
        """Start nothing more; what runs may end."""
        self._paused = by, reason
        self._outcomes.put_nowait(_NOTHING)

    @property
    def results(self) -> Mapping[str, Json]:
        """What is known of results, by the names of steps and of their parts."""
        return self._state.results

    async def conduct(self) -> Run:
        """Run until nothing more can be done now; the journal says how far it came."""
        self._loop_of = asyncio.get_running_loop()
        self.is_conducting = True
        try:
            await self._recover()
            self._state.enter(self._journal.run)
            advice = self._journal.run.advice
            self._words.advice = advice.advice if advice else None
            await self._loop()
            await self._come_to_rest()
        finally:
            self.is_conducting = False
            await self._let_go()
        return self._journal.run

    async def _loop(self) -> None:
        while not self._cancelled:
            batch = Batch()
            self._drain(batch)
            started = [] if self._paused else self._start(batch)
            if batch.bodies:
                for ready in await self._write(batch, started):
                    self._launch(ready)
            elif self._tasks or (self._waits and not self._paused):
                await self._wait()
            else:
                return

    async def _wait(self) -> None:
        """Wait for a call to end, or, when that takes long, for a word from another process."""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(FOLLOW_AFTER_S, self._begin_to_follow)
        try:
            self._outcomes.put_nowait(await self._outcomes.get())
        finally:
            timer.cancel()
        if self._follower is not None:
            await self._catch_up()

    def _begin_to_follow(self) -> None:
        self._follower = self._follower or asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        try:
            while True:
                await self._journal.wait()
                self._outcomes.put_nowait(_NOTHING)
                # What the loop wrote itself wakes this too: let it take that in first.
                await asyncio.sleep(FOLLOW_AFTER_S)
        except PlansmithError:
            return  # the store is in trouble: the next append says so

    async def _write(self, batch: Batch, started: list[Ready]) -> list[Ready]:
        """Append, taking in first what persons have said through other processes meanwhile.

        What may be called is returned: nothing when one of them stopped or paused the run.
        """
        while True:
            try:
                await self._journal.append(*batch.bodies, values=batch.values)
            except StaleWriter:
                batch.more(await self._catch_up())
                if self._cancelled or self._paused:
                    started = self._take_back(batch, started)
            else:
                return started

    def _take_back(self, batch: Batch, started: list[Ready]) -> list[Ready]:
        """Undo intents that are not durable yet."""
        batch.drop_starts({ready.unit.name for ready in started})
        for unit, _, _ in started:
            self._purse.settle(unit.name)
            self._busy[unit.callee] -= 1
            self._state.attempts[unit.name] -= 1
            self._state.schedule.put_back(unit.name)
        return []

    async def _catch_up(self) -> Batch:
        """Heed what others wrote; another executor of this run, or a new plan, ends ours."""
        batch = Batch()
        events = await self._journal.catch_up()
        if any(event.by.kind != "person" or _is_plan(event.body) for event in events):
            raise StaleWriter(f"run {self._journal.id} is conducted by someone else")
        for event in events:
            match event.body:
                case e.CancelAsked():
                    self._cancelled = event.by
                case e.RunPaused(reason=reason):
                    self._paused = event.by, reason
                case e.RunResumed():
                    self._paused = None
                case body:
                    self._state.heed(body, await self._journal.value_of(body), batch)
        return batch

    async def _recover(self) -> None:
        run = self._journal.run
        if run.plan is None:
            return
        units = {name: named_unit(run.plan, name, self._templates) for name in run.steps}
        self._state.opened = {
            name
            for name, unit in units.items()
            if unit and isinstance(unit.step, (MapStep, PlanStep))
            if run.steps[name].status is StepStatus.RUNNING
        }

        def is_repeatable(name: str) -> bool:
            unit = units[name]
            return unit is not None and self._callees.is_repeatable(unit)

        bodies = list(recover(run, is_repeatable, apart=self._state.opened))
        if bodies:
            await self._journal.append(*bodies)

    def _start(self, batch: Batch) -> list[Ready]:
        """Take what may start, write its intent, and open what has parts."""
        started: list[Ready] = []
        while True:
            free = self._limits.width - self._busy.total()
            names = self._state.schedule.take(free, self._is_blocked)
            if not names:
                return started
            for name in names:
                unit = self._state.units[name]
                if name not in self._state.ended and self._affords(unit, batch):
                    started += self._begin(unit, batch)
            if self._paused:
                return started

    def _affords(self, unit: Unit, batch: Batch) -> bool:
        """Reserve a unit's share of the budget, or pause the run and ask."""
        refusal = self._purse.reserve(unit.name, unit.step.kind)
        if refusal is None:
            return True
        self._state.schedule.put_back(unit.name)
        reason = f"the budget of {refusal.amount} is used up"
        self._paused = SYSTEM, reason
        # In one append: a crash between the two would ask the same question twice.
        batch.bodies += [self._purse.question(refusal), e.RunPaused(reason=reason)]
        return False

    def _is_blocked(self, name: str) -> bool:
        unit = self._state.units[name]
        if self._words.advice and not self._is_last_word(unit):
            return True
        limit = self._limits.per_tool.get(unit.callee)
        return limit is not None and self._busy[unit.callee] >= limit

    def _is_last_word(self, unit: Unit) -> bool:
        """Whether a unit still starts after an advice: parts of what has begun, and answers."""
        answers = self._words.advice == "finish" and isinstance(unit.step, ReplyStep)
        return unit.parent is not None or answers

    def _begin(self, unit: Unit, batch: Batch) -> list[Ready]:
        try:
            inputs = resolved(unit, self._state.results)
            match unit.step:
                case AskStep():
                    batch.ask(unit, str(inputs["question"]), self._callees.clock.now())
                    self._state.park(unit, StepStatus.ASKING)
                case MapStep() | PlanStep():
                    self._state.open(unit, inputs, batch, key=f"{self._journal.id}/{unit.name}")
                case _ if self._asks_about_data(unit, inputs, batch):
                    pass
                case _:
                    return [self._intend(unit, inputs, batch)]
        except ReferenceFailed as error:
            self._state.fail(unit, str(error), batch)
        return []

    def _asks_about_data(self, unit: Unit, inputs: dict[str, Json], batch: Batch) -> bool:
        """Ask before values that came out of tools reach something that acts on them."""
        free = any(fnmatchcase(unit.callee, each) for each in self._limits.data_free)
        if self._limits.data == "show" or free or self._callees.is_read(unit):
            return False
        sources = data_sources(unit, self._state.units)
        allowed = self._state.allowed.get(unit.name)
        if not sources or allowed == content_hash(inputs):
            return False
        if self._limits.data == "deny":
            error = f"values from {', '.join(sources)} may not reach {unit.callee}"
            self._state.fail(unit, error, batch)
        else:
            attempt = self._state.attempts[unit.name] + 1
            batch.bodies.append(data_question(unit, inputs, sources, attempt))
            batch.values.append(inputs)
            self._state.park(unit, StepStatus.ASKING)
        return True

    def _intend(self, unit: Unit, inputs: dict[str, Json], batch: Batch) -> Ready:
        attempt = self._state.attempts[unit.name] = self._state.attempts[unit.name] + 1
        # The same for the same call, another one for other inputs: so a service can tell.
        content = content_of(inputs)
        key = f"{self._journal.id}/{unit.name}/{content.digest[:16]}"
        early = self._callees.prefetched(unit, inputs)
        batch.start(unit, attempt=attempt, key=key, inputs=content, prefetched=early)
        self._busy[unit.callee] += 1
        call = Call(
            key=key,
            attempt=attempt,
            progress=partial(self._words.progress, unit.name),
            spend=partial(self._purse.spend, unit.name),
            advise=partial(self._words.advise, unit.name),
            reply=self._state.replies.get(unit.name),
        )
        # The callee gets what was recorded, and may do with it what it likes.
        return Ready(unit, cast("dict[str, Json]", content.value()), call)

    def _wake(self, seconds: float) -> None:
        """Have the loop look again; calls in threads of their own come through here too."""
        loop = self._loop_of
        if loop is not None and not loop.is_closed():
            look = partial(self._outcomes.put_nowait, _NOTHING)
            loop.call_soon_threadsafe(loop.call_later, seconds, look)

    def _launch(self, ready: Ready) -> None:
        name = ready.unit.name
        self._tasks[name] = asyncio.create_task(self._work(ready), name=name)

    async def _work(self, ready: Ready) -> None:
        outcome = await self._callees.call(*ready, self._state.results)
        self._outcomes.put_nowait((ready.unit.name, outcome))

    def _drain(self, batch: Batch) -> None:
        """Write down how calls ended, as many as have."""
        batch.bodies += self._words.take(self._tasks)
        while not self._outcomes.empty():
            name, outcome = self._outcomes.get_nowait()
            if outcome is None:
                continue
            del self._tasks[name]
            unit = self._state.units[name]
            self._busy[unit.callee] -= 1
            self._take(unit, outcome, batch)

    def _take(self, unit: Unit, outcome: Outcome, batch: Batch) -> None:
        attempt = self._state.attempts[unit.name]
        match outcome:
            case Done(value):
                self._state.finish(unit, value, batch)
            case Failed(error, True, kind) if attempt < self._limits.tries:
                batch.bodies.append(self._state.failure(unit, error, kind, again=True))
                self._retry_later(unit, self._limits.first_wait_s * 2 ** (attempt - 1))
            case Failed(error, _, kind):
                self._state.fail(unit, error, batch, kind)
            case Asks(need):
                self._state.park(unit, StepStatus.ASKING)
                batch.ask_for(unit, need, attempt)
            case Unsure(reason):
                self._state.park(unit, StepStatus.UNKNOWN)
                told = e.StepUnknown(step=unit.name, reason=reason)
                batch.bodies += [told, unknown_question(unit.name)]

    def _retry_later(self, unit: Unit, seconds: float) -> None:
        async def wait() -> None:
            await self._callees.clock.sleep(seconds)
            self._state.schedule.put_back(unit.name)
            self._outcomes.put_nowait(_NOTHING)

        task = asyncio.create_task(wait())
        self._waits.add(task)
        task.add_done_callback(self._waits.discard)

    async def _come_to_rest(self) -> None:
        if self._cancelled:
            await self._stop(self._cancelled)
        elif self._paused and not self._journal.run.paused:
            by, reason = self._paused
            await self._journal.append(e.RunPaused(reason=reason), by=by)

    async def _stop(self, by: e.Actor) -> None:
        """Cancel what runs, wait for it a little, and write that it was stopped."""
        running = dict(self._tasks)
        for task in [*running.values(), *self._waits]:
            task.cancel()
        if running:
            await asyncio.wait(running.values(), timeout=self._limits.grace_s)
        batch = Batch()
        if not self._journal.run.cancel_asked:
            await self._journal.append(e.CancelAsked(), by=by)
        self._drain(batch)
        stopped = [*running, *self._state.groups]
        left = [self._state.units[name] for name in stopped if name not in self._state.ended]
        batch.bodies += [self._cancellation(unit) for unit in left]
        if batch.bodies:
            await self._journal.append(*batch.bodies, values=batch.values)

    def _cancellation(self, unit: Unit) -> e.StepCancelled:
        harmless = unit.name not in self._tasks or self._callees.is_read(unit)
        reason = "cancelled" if harmless else "cancelled in mid-call: it may have taken effect"
        return e.StepCancelled(step=unit.name, reason=reason)

    async def _let_go(self) -> None:
        """Leave nothing running behind, whatever ended the conducting."""
        follower = [self._follower] if self._follower else []
        tasks: Sequence[asyncio.Task[None]] = [*self._tasks.values(), *self._waits, *follower]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._limits.grace_s)


def _is_plan(body: e.AnyBody) -> bool:
    return isinstance(body, (e.PlanProposed, e.ChangesAsked))
