"""Execute: one coroutine conducts a run; steps start the moment their inputs exist."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from functools import partial
from typing import Final, Literal, NamedTuple

from plansmith.errors import ReferenceFailed, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_hash
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, StepStatus
from plansmith.plan.steps import AskStep, MapStep, PlanStep, ReplyStep
from plansmith.ports import Call, Reply
from plansmith.runner.batch import Batch, spending
from plansmith.runner.budget import Budget, Purse
from plansmith.runner.call import Asks, Callees, Done, Failed, Outcome, Unsure
from plansmith.runner.groups import Group
from plansmith.runner.journal import SYSTEM, Journal
from plansmith.runner.labels import data_question, data_sources
from plansmith.runner.limits import RunLimits
from plansmith.runner.recover import recover, unknown_question
from plansmith.runner.schedule import Schedule
from plansmith.runner.units import (
    Unit,
    map_units,
    named_unit,
    plan_units,
    resolved,
    template_units,
)
from plansmith.runner.words import Words

MAX_DEPTH: Final = 5
Kind = Literal["tool", "time", "reference", "result"]
_OPEN: Final = frozenset({StepStatus.WAITING, StepStatus.READY, StepStatus.RUNNING})


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
        self._purse = Purse(budget, journal.run, callees.clock)
        self._callees = callees
        self._templates = templates or {}
        self._limits = limits or RunLimits()
        self._durations = durations or {}
        self._results = dict(results)
        self._replies = replies or {}
        self._allowed: dict[str, str] = {}
        self._units: dict[str, Unit] = {}
        self._groups: dict[str, Group] = {}
        self._schedule = Schedule({})
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._waits: set[asyncio.Task[None]] = set()
        self._busy: Counter[str] = Counter()
        self._attempts: Counter[str] = Counter()
        self._ended: dict[str, StepStatus] = {}
        self._opened: set[str] = set()
        self._outcomes: asyncio.Queue[tuple[str, Outcome | None]] = asyncio.Queue()
        self._cancelled: e.Actor | None = None
        self._paused: tuple[e.Actor, str] | None = None
        self._words = Words(callees.clock, self._wake)
        self._loop_of: asyncio.AbstractEventLoop | None = None
        self.is_conducting = False

    def cancel(self, by: e.Actor) -> None:
        """Start nothing more and stop what runs."""
        self._cancelled = by
        self._outcomes.put_nowait(("", None))

    def pause(self, by: e.Actor, reason: str) -> None:
        """Start nothing more; what runs may end."""
        self._paused = by, reason
        self._outcomes.put_nowait(("", None))

    async def conduct(self) -> Run:
        """Run until nothing more can be done now; the journal says how far it came."""
        self._loop_of = asyncio.get_running_loop()
        self.is_conducting = True
        try:
            return await self._conduct()
        finally:
            self.is_conducting = False

    async def _conduct(self) -> Run:
        await self._recover()
        self._enter(self._journal.run)
        try:
            await self._loop()
        except StaleWriter:
            await self._let_go()
            raise
        if self._cancelled:
            await self._stop(self._cancelled)
        elif self._paused:
            by, reason = self._paused
            await self._journal.append(e.RunPaused(reason=reason), by=by)
        return self._journal.run

    async def _loop(self) -> None:
        while not self._cancelled:
            batch = Batch()
            self._drain(batch)
            started = [] if self._paused else self._start(batch)
            if batch.bodies:
                await self._journal.append(*batch.bodies, values=batch.values)
                for ready in started:
                    self._launch(ready)
            elif self._tasks or (self._waits and not self._paused):
                self._outcomes.put_nowait(await self._outcomes.get())
            else:
                return

    async def _recover(self) -> None:
        run = self._journal.run
        if run.plan is None:
            return
        units = {name: named_unit(run.plan, name, self._templates) for name in run.steps}
        self._opened = {
            name
            for name, unit in units.items()
            if unit and isinstance(unit.step, (MapStep, PlanStep))
            if run.steps[name].status is StepStatus.RUNNING
        }

        def is_repeatable(name: str) -> bool:
            unit = units[name]
            return unit is not None and self._callees.is_repeatable(unit)

        bodies = list(recover(run, is_repeatable, apart=self._opened))
        if bodies:
            await self._journal.append(*bodies)

    def _enter(self, run: Run) -> None:
        """Take in the plan and all that is known of its steps."""
        if run.plan is None:
            return
        self._words.advice = run.advice.advice if run.advice else None
        for name, state in run.steps.items():
            if state.reply is not None:
                self._allowed[name] = state.reply.state
            self._attempts[name] = state.attempts
            if state.status not in _OPEN:
                self._ended[name] = state.status
        self._add(plan_units(run.plan))

    def _add(self, units: Mapping[str, Unit]) -> None:
        self._units |= units
        graph = {name: unit.needs() & self._units.keys() for name, unit in units.items()}
        durations = {name: self._durations.get(unit.callee, 1.0) for name, unit in units.items()}
        done = {name for name in units if self._ended.get(name) is StepStatus.DONE}
        self._schedule.add(graph, durations=durations, done=done)

    def _start(self, batch: Batch) -> list[Ready]:
        """Take what may start, write its intent, and open what has parts."""
        started: list[Ready] = []
        while True:
            free = self._limits.width - self._busy.total()
            names = self._schedule.take(free, self._is_blocked)
            if not names:
                return started
            for name in names:
                if name not in self._ended and self._affords(self._units[name], batch):
                    started += self._begin(self._units[name], batch)
            if self._paused:
                return started

    def _affords(self, unit: Unit, batch: Batch) -> bool:
        """Reserve a unit's share of the budget, or pause the run and ask."""
        refusal = self._purse.reserve(unit.name, unit.step.kind)
        if refusal is None:
            return True
        self._schedule.put_back(unit.name)
        self._paused = SYSTEM, f"the budget of {refusal.amount} is used up"
        batch.bodies.append(self._purse.question(refusal))
        return False

    def _is_blocked(self, name: str) -> bool:
        if self._words.advice and not self._is_last_word(self._units[name]):
            return True
        callee = self._units[name].callee
        limit = self._limits.per_tool.get(callee)
        return limit is not None and self._busy[callee] >= limit

    def _is_last_word(self, unit: Unit) -> bool:
        """Whether a unit still starts after an advice: parts of what has begun, and answers."""
        answers = self._words.advice == "finish" and isinstance(unit.step, ReplyStep)
        return unit.parent is not None or answers

    def _begin(self, unit: Unit, batch: Batch) -> list[Ready]:
        try:
            inputs = resolved(unit, self._results)
            match unit.step:
                case AskStep():
                    batch.ask(unit, str(inputs["question"]), self._callees.clock.now())
                    self._ended[unit.name] = StepStatus.ASKING
                case MapStep() | PlanStep():
                    self._open(unit, inputs, batch)
                case _ if self._asks_about_data(unit, inputs, batch):
                    pass
                case _:
                    return [self._intend(unit, inputs, batch)]
        except ReferenceFailed as error:
            self._fail(unit, str(error), batch)
        return []

    def _asks_about_data(self, unit: Unit, inputs: dict[str, Json], batch: Batch) -> bool:
        """Ask before values that came out of tools reach something that acts on them."""
        if self._limits.data == "show" or self._callees.is_read(unit):
            return False
        sources = data_sources(unit, self._units)
        allowed = self._allowed.get(unit.name)
        if not sources or allowed == content_hash(inputs):
            return False
        if self._limits.data == "deny":
            error = f"values from {', '.join(sources)} may not reach {unit.callee}"
            self._fail(unit, error, batch)
        else:
            attempt = self._attempts[unit.name] + 1
            batch.bodies.append(data_question(unit, inputs, sources, attempt))
            self._ended[unit.name] = StepStatus.ASKING
        self._purse.settle(unit.name)
        return True

    def _intend(self, unit: Unit, inputs: dict[str, Json], batch: Batch) -> Ready:
        self._attempts[unit.name] += 1
        attempt, key = self._attempts[unit.name], self._key(unit, inputs)
        batch.start(unit, attempt=attempt, key=key, inputs=inputs)
        self._busy[unit.callee] += 1
        call = Call(
            key=key,
            attempt=attempt,
            progress=partial(self._words.progress, unit.name),
            spend=partial(self._purse.spend, unit.name),
            advise=partial(self._words.advise, unit.name),
            reply=self._replies.get(unit.name),
        )
        return Ready(unit, inputs, call)

    def _wake(self) -> None:
        """Have the loop look again; calls in threads of their own come through here too."""
        if self._loop_of is not None and not self._loop_of.is_closed():
            self._loop_of.call_soon_threadsafe(self._outcomes.put_nowait, ("", None))

    def _key(self, unit: Unit, inputs: dict[str, Json] | None = None) -> str:
        """The same for the same call, another one for other inputs: so a service can tell."""
        digest = f"/{content_hash(inputs)[:16]}" if inputs is not None else ""
        return f"{self._journal.id}/{unit.name}{digest}"

    def _open(self, unit: Unit, inputs: dict[str, Json], batch: Batch) -> None:
        """Put the first parts of a map or plan step into the schedule."""
        if unit.depth >= MAX_DEPTH:
            raise ReferenceFailed(f"{unit.name} is nested more than {MAX_DEPTH} levels deep")
        if isinstance(unit.step, PlanStep):
            plan = self._templates.get(unit.step.template)
            if plan is None:
                raise ReferenceFailed(f"there is no template {unit.step.template!r}")
            parts = template_units(unit, plan, inputs)
        else:
            parts = map_units(unit, inputs["over"])
        if unit.name not in self._opened:
            batch.bodies.append(e.StepStarted(step=unit.name, key=self._key(unit)))
        group = self._groups[unit.name] = Group.of(unit, parts)
        inside = group.take_up(self._ended)
        self._add(group.let_in(inside))
        self._settle(group, batch)

    def _settle(self, group: Group, batch: Batch) -> None:
        """End a map or plan step once none of its parts can change any more."""
        if not group.over or group.unit.name in self._ended:
            return
        error = group.error()
        if error:
            self._fail(group.unit, error, batch)
        else:
            self._finish(group.unit, group.joined(self._results), batch)

    def _launch(self, ready: Ready) -> None:
        async def work() -> None:
            outcome = await self._callees.call(*ready, self._results)
            self._outcomes.put_nowait((ready.unit.name, outcome))

        self._tasks[ready.unit.name] = asyncio.create_task(work(), name=ready.unit.name)

    def _drain(self, batch: Batch) -> None:
        """Write down how calls ended, as many as have."""
        batch.bodies += self._words.take(self._tasks)
        while not self._outcomes.empty():
            name, outcome = self._outcomes.get_nowait()
            if outcome is None:
                continue
            del self._tasks[name]
            self._busy[self._units[name].callee] -= 1
            self._take(self._units[name], outcome, batch)

    def _take(self, unit: Unit, outcome: Outcome, batch: Batch) -> None:
        match outcome:
            case Done(value):
                self._finish(unit, value, batch)
            case Failed(error, True, kind) if self._attempts[unit.name] < self._limits.tries:
                batch.bodies.append(self._failure(unit, error, kind, again=True))
                self._retry_later(unit)
            case Failed(error, _, kind):
                self._fail(unit, error, batch, kind)
            case Asks(need):
                self._purse.settle(unit.name)
                self._ended[unit.name] = StepStatus.ASKING
                batch.ask_for(unit, need, self._attempts[unit.name])
            case Unsure(reason):
                self._purse.settle(unit.name)
                self._ended[unit.name] = StepStatus.UNKNOWN
                told = e.StepUnknown(step=unit.name, reason=reason)
                batch.bodies += [told, unknown_question(unit.name)]

    def _retry_later(self, unit: Unit) -> None:
        async def wait() -> None:
            doubled = 2 ** (self._attempts[unit.name] - 1)
            await self._callees.clock.sleep(self._limits.first_wait_s * doubled)
            self._schedule.put_back(unit.name)
            self._outcomes.put_nowait(("", None))

        task = asyncio.create_task(wait())
        self._waits.add(task)
        task.add_done_callback(self._waits.discard)

    def _finish(self, unit: Unit, value: Json, batch: Batch) -> None:
        batch.done(unit, value, self._purse.settle(unit.name))
        self._results[unit.name] = value
        self._ended[unit.name] = StepStatus.DONE
        self._schedule.finish(unit.name)
        self._leave(unit, batch)

    def _fail(self, unit: Unit, error: str, batch: Batch, kind: Kind = "reference") -> None:
        batch.bodies.append(self._failure(unit, error, kind))
        self._ended[unit.name] = StepStatus.FAILED
        self._leave(unit, batch)

    def _failure(self, unit: Unit, error: str, kind: Kind, *, again: bool = False) -> e.StepFailed:
        spent = spending(self._purse.settle(unit.name))
        told = {"step": unit.name, "error": error, "again": again, "kind": kind}
        return e.StepFailed.model_validate(told | spent)

    def _leave(self, unit: Unit, batch: Batch) -> None:
        """A part has ended: the next one may come in, or the whole step ends."""
        group = self._groups.get(unit.parent or "")
        if group is None:
            return
        done = self._ended[unit.name] is StepStatus.DONE
        group.done.add(unit.name) if done else group.failed.append(unit.name)
        inside = len(group.parts) - len(group.waiting) - len(group.done) - len(group.failed)
        self._add(group.let_in(inside))
        self._settle(group, batch)

    async def _stop(self, by: e.Actor) -> None:
        """Cancel what runs, wait for it a little, and write that it was stopped."""
        running = dict(self._tasks)
        for task in [*running.values(), *self._waits]:
            task.cancel()
        if running:
            await asyncio.wait(running.values(), timeout=self._limits.grace_s)
        await self._journal.append(e.CancelAsked(), by=by)
        batch = Batch()
        self._drain(batch)
        left = [name for name in [*running, *self._groups] if name not in self._ended]
        batch.bodies += [e.StepCancelled(step=name, reason="cancelled") for name in left]
        if batch.bodies:
            await self._journal.append(*batch.bodies, values=batch.values)

    async def _let_go(self) -> None:
        """Another process has taken the run: stop without writing anything."""
        tasks = [*self._tasks.values(), *self._waits]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
