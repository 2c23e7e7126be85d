"""Starts reads early, while their plan is still being written; recorded like any call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from plansmith.engine.call import Callees
from plansmith.engine.journal import Journal
from plansmith.engine.outcome import Asks, Done, Failed, Outcome, Unsure
from plansmith.engine.progress import spending
from plansmith.engine.units import Unit
from plansmith.errors import JournalError
from plansmith.plan.briefs import total
from plansmith.plan.capability import Effect
from plansmith.plan.data import Content, Json, content_hash, content_of
from plansmith.plan.events import PrefetchEnded, PrefetchStarted
from plansmith.plan.plan import Plan
from plansmith.plan.refs import secret_names
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep, ToolStep, has_rules
from plansmith.ports import Call, Usage
from plansmith.review.render import value_line

FRESH_S: Final = 300.0  # older results are read again, since the data may have changed
DIED: Final = Sentence("it is not known how it ended")
NOT_NEEDED: Final = Sentence("stopped: the plan does not need it, or waits for a person")
Tell = Callable[[str], None]


class _EarlyCall:
    """A read that is made early; keeps what it reports until its step starts."""

    def __init__(self, digest: str) -> None:
        self.digest, self.key = digest, ""
        self.started = 0.0
        self.ended: float | None = None
        self.recorded = False
        self.task: asyncio.Task[Outcome] | None = None
        self._step: Call | None = None
        self._reports: list[Callable[[Call], None]] = []
        self._spent: list[Usage] = []

    @property
    def runs(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def outcome(self) -> Outcome:
        """Returns how an ended call ended."""
        task = self.task
        if task is None or task.cancelled() or task.exception() is not None:
            return Failed(NOT_NEEDED)
        return task.result()

    def as_call(self) -> Call:
        """Returns the `Call` for the early call."""
        return Call(
            key=self.key,
            progress=lambda text: self._report(lambda call: call.progress(text)),
            advise=lambda advice, reason: self._report(lambda call: call.advise(advice, reason)),
            spend=self._spend,
        )

    def _report(self, report: Callable[[Call], None]) -> None:
        if self._step is not None:
            report(self._step)
        else:
            self._reports.append(report)

    def _spend(self, usage: Usage) -> None:
        if self._step is not None:
            self._step.spend(usage)
        else:
            self._spent.append(usage)

    def pass_on(self, call: Call) -> None:
        """Passes on to its step what it has reported, and from now on all that follows."""
        self._step = call
        for report in self._reports:
            report(call)
        for usage in self._spent:
            call.spend(usage)
        self._spent = []

    def end(self) -> tuple[PrefetchEnded, list[Json | Content]]:
        """Returns the event of its end, with what it used, and its result."""
        result, error, values = "", "", list[Json | Content]()
        match self.outcome:
            case Done(value):
                content = content_of(value)
                values.append(content)
                result = content.digest
            case Failed(why) | Unsure(why):
                error = why
            case Asks(need):
                error = Sentence("it asks: {question}", question=need.message)
        costs = [each.cost for each in self._spent if each.cost is not None]
        known = sum(costs, Decimal(0)) if costs else None  # what is known counts in the budget
        spent, self._spent = replace(total(*self._spent), cost=known), []
        seconds = round(max(0.0, (self.ended or self.started) - self.started), 6)
        ended = PrefetchEnded(
            key=self.key, seconds=seconds, result=result, error=error, **spending(spent)
        )
        return ended, values


class Prefetcher:
    """Makes early reads: calls that change nothing, before their plan is complete.

    A step that uses results of other steps waits, since its inputs are not known yet. Each call
    is recorded before it is made, and its end as soon as it ends.
    """

    def __init__(
        self, journal: Journal, callees: Callees, *, tell: Tell, max_calls: int = 4
    ) -> None:
        self._journal, self._callees, self._tell = journal, callees, tell
        self._now, self._max_calls = callees.clock.monotonic, max_calls
        self._lock = asyncio.Lock()
        self._closed = False
        # Calls that no step uses yet, by what they call; and those promised to a unit, by its name.
        self._calls: dict[str, _EarlyCall] = {}
        self._promised: dict[str, _EarlyCall] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def _held(self) -> list[_EarlyCall]:
        return [*self._calls.values(), *self._promised.values()]

    @property
    def keys(self) -> set[str]:
        """Returns the keys of the calls that this process has made and still holds."""
        return {each.key for each in self._held if each.key}

    def start(self, step: AnyStep) -> None:
        """Starts a step's call, if it is a read whose inputs are known."""
        if not isinstance(step, ToolStep) or step.disabled or step.needed or has_rules(step):
            return
        spec = self._callees.specs.get(step.tool)
        if spec is None or spec.effect is not Effect.READ or len(self._calls) >= self._max_calls:
            return
        name = _call_hash(step.tool, step.inputs)
        given = not step.references and not secret_names(step.inputs)
        if name not in self._calls and given and not self._closed:
            early = self._calls[name] = _EarlyCall(name)
            task = asyncio.create_task(self._make(step, early))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _make(self, step: ToolStep, early: _EarlyCall) -> None:
        """Records that a call starts, makes it, and records how it ended."""
        inputs = content_of(step.inputs)
        async with self._lock:
            if self._closed:
                return
            key = f"{self._journal.id}/early/{len(self._journal.run.prefetches) + 1}"
            intent = PrefetchStarted(key=key, tool=step.tool, inputs=inputs.digest)
            try:
                await self._journal.append(intent, values=[inputs])
            except JournalError:
                self._closed = True  # another process writes to this run now: no early reads
                return
            early.key = key
        shown = value_line(step.inputs, 200)
        self._tell(Sentence("planning.early_read", tool=step.tool, inputs=shown))
        early.started = self._now()
        call = self._callees.call(Unit(step.id, step), step.inputs, early.as_call())
        early.task = asyncio.ensure_future(call)
        await asyncio.wait([early.task])
        early.ended = self._now()
        await self._end(early)

    async def _end(self, early: _EarlyCall) -> None:
        """Records the end of a call at once, unless another process writes to the run now."""
        async with self._lock:
            if not (self._closed or early.recorded):
                with suppress(JournalError):  # the process that writes to this run ends it too
                    await self._record([early])

    async def _record(self, ended: Collection[_EarlyCall]) -> None:
        """Records how calls ended, in one append."""
        ends = [each.end() for each in ended]
        if ends:
            values = [value for _, some in ends for value in some]
            await self._journal.append(*(body for body, _ in ends), values=values)
        for each in ended:
            each.recorded = True

    async def record_ends(self, journal: Journal, keep: Collection[str] | None = None) -> None:
        """Records how calls ended; stops running ones that are not in `keep`, if given."""
        async with self._lock:
            self._closed = True
        self._journal = journal
        known = [each for each in self._calls.values() if each.task is not None]
        stopped = [
            each.task
            for each in known
            if each.task and each.runs and keep is not None and each.digest not in keep
        ]
        for task in stopped:
            task.cancel()
        await asyncio.gather(*stopped, return_exceptions=True)
        over = [each for each in known if not each.runs]
        for each in over:
            each.ended = self._now() if each.ended is None else each.ended
        await self._record([each for each in over if not each.recorded])

    def promise(self, unit: Unit, inputs: Mapping[str, Json]) -> str:
        """Returns the key of the early call that a unit will use; empty if there is none."""
        if unit.name not in self._promised and isinstance(unit.step, ToolStep):
            name = _call_hash(unit.step.tool, inputs)
            early = self._calls.get(name)
            if early is not None and self._is_good(early):
                self._promised[unit.name] = self._calls.pop(name)
        return self._promised[unit.name].key if unit.name in self._promised else ""

    def _is_good(self, early: _EarlyCall) -> bool:
        """Tells whether a call still runs or has a recent result."""
        if early.task is None or not early.key or early.runs:
            return early.runs
        is_old = early.ended is not None and self._now() - early.ended > FRESH_S
        return isinstance(early.outcome, Done) and not is_old

    def take(self, unit: Unit, call: Call) -> asyncio.Task[Outcome] | None:
        """Returns the call that was promised to a unit, once."""
        early = self._promised.pop(unit.name, None)
        if early is None:
            return None
        early.pass_on(call)
        return early.task

    async def drop(self) -> None:
        """Stops all early calls."""
        self._closed = True
        tasks: list[asyncio.Task[Any]] = [*self._tasks]
        tasks += [each.task for each in self._held if each.task is not None]
        self._calls, self._promised = {}, {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def wanted_by(plan: Plan) -> set[str]:
    """Returns the tool calls of a plan, by content hash."""
    return {
        _call_hash(step.tool, step.inputs)
        for step in plan.steps
        if isinstance(step, ToolStep) and not step.disabled
    }


def ends_after_crash(run: Run, mine: Collection[str]) -> list[PrefetchEnded]:
    """Returns the end of each early read whose process died; `mine` are those of this process."""
    return [
        PrefetchEnded(key=key, error=DIED)
        for key, each in run.prefetches.items()
        if not each.over and key not in mine
    ]


def _call_hash(tool: str, inputs: Mapping[str, Json]) -> str:
    return content_hash([tool, dict(inputs)])
