"""Starts reads early, while their plan is still being written; recorded like any call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from plansmith.engine.call import Callees
from plansmith.engine.journal import Journal
from plansmith.engine.outcome import Asks, Done, Failed, Outcome, Unsure
from plansmith.engine.progress import spending
from plansmith.engine.units import Unit
from plansmith.errors import JournalError
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


class _HeldProgress:
    """Keeps the progress of an early call until its step starts, then passes it on."""

    def __init__(self) -> None:
        self._kept: list[Callable[[Call], None]] = []
        self._call: Call | None = None
        self._spent: list[Usage] = []

    def pass_on(self, call: Call) -> None:
        """Passes on the progress so far, and from now on all that follows."""
        self._call = call
        for report in self._kept:
            report(call)
        for usage in self._spent:
            call.spend(usage)
        self._spent = []

    def as_call(self, key: str) -> Call:
        """Returns the `Call` for the early call."""
        return Call(
            key=key,
            progress=lambda text: self._report(lambda call: call.progress(text)),
            spend=self._spend,
            advise=lambda advice, reason: self._report(lambda call: call.advise(advice, reason)),
        )

    def spent(self) -> Usage:
        """Returns what the call has used since the last time it was asked."""
        spent, self._spent = self._spent, []
        costs = [each.cost for each in spent if each.cost is not None]
        return Usage(
            sum(each.input_tokens for each in spent),
            sum(each.output_tokens for each in spent),
            cost=sum(costs, Decimal(0)) if costs else None,
        )

    def _spend(self, usage: Usage) -> None:
        if self._call is not None:
            self._call.spend(usage)
        else:
            self._spent.append(usage)

    def _report(self, report: Callable[[Call], None]) -> None:
        if self._call is not None:
            report(self._call)
        else:
            self._kept.append(report)


@dataclass(slots=True)
class _PrefetchedCall:
    """An early call."""

    call: str
    progress: _HeldProgress = field(default_factory=_HeldProgress)
    key: str = ""
    started: float = 0.0
    ended: float | None = None
    recorded: bool = False
    task: asyncio.Task[Outcome] | None = None

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


class Prefetch:
    """Makes early reads: calls that change nothing, before their plan is complete.

    A step that uses results of other steps waits, since its inputs are not known yet. Each call
    is recorded before it is made, and its end as soon as it ends.
    """

    def __init__(
        self, journal: Journal, callees: Callees, *, tell: Tell, max_calls: int = 4
    ) -> None:
        self._journal = journal
        self._callees = callees
        self._tell = tell
        self._max_calls = max_calls
        self._lock = asyncio.Lock()
        self._closed = False
        self._calls: dict[str, _PrefetchedCall] = {}
        self._promised: dict[str, _PrefetchedCall] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, step: AnyStep) -> None:
        """Starts a step's call, if it is a read whose inputs are known."""
        if not isinstance(step, ToolStep) or step.disabled or step.needs() or has_rules(step):
            return
        spec = self._callees.specs.get(step.tool)
        if spec is None or spec.effect is not Effect.READ or len(self._calls) >= self._max_calls:
            return
        name = _call_hash(step.tool, step.inputs)
        given = not list(step.found()) and not secret_names(step.inputs)
        if name not in self._calls and given and not self._closed:
            prefetched = self._calls[name] = _PrefetchedCall(name)
            task = asyncio.create_task(self._make(step, prefetched))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _make(self, step: ToolStep, prefetched: _PrefetchedCall) -> None:
        """Records that a call starts, makes it, and records how it ended."""
        inputs = content_of(step.inputs)
        async with self._lock:
            if self._closed:
                return
            prefetched.key = f"{self._journal.id}/early/{len(self._journal.run.prefetches) + 1}"
            intent = PrefetchStarted(key=prefetched.key, tool=step.tool, inputs=inputs.digest)
            try:
                await self._journal.append(intent, values=[inputs])
            except JournalError:
                prefetched.key = ""  # another process writes to this run now: no early reads
                self._closed = True
                return
        inputs_line = value_line(step.inputs, 200)
        self._tell(Sentence("planning.early_read", tool=step.tool, inputs=inputs_line))
        clock = self._callees.clock
        prefetched.started = clock.monotonic()
        call = self._callees.call(
            Unit(step.id, step), step.inputs, prefetched.progress.as_call(prefetched.key)
        )
        prefetched.task = asyncio.ensure_future(call)
        await asyncio.wait([prefetched.task])
        prefetched.ended = clock.monotonic()
        await self._end(prefetched)

    async def _end(self, prefetched: _PrefetchedCall) -> None:
        """Records the end of a call at once, unless another process writes to the run now."""
        async with self._lock:
            if not (self._closed or prefetched.recorded):
                with suppress(JournalError):  # the process that writes to this run ends it too
                    await self._write([prefetched])

    async def _write(self, ended: Collection[_PrefetchedCall]) -> None:
        """Records how calls ended, in one append."""
        bodies: list[PrefetchEnded] = []
        values: list[Json | Content] = []
        for prefetched in ended:
            seconds = (prefetched.ended or prefetched.started) - prefetched.started
            result = error = ""
            match prefetched.outcome:
                case Done(value):
                    content = content_of(value)
                    values.append(content)
                    result = content.digest
                case Failed(why) | Unsure(why):
                    error = why
                case Asks(need):
                    error = Sentence("it asks: {question}", question=need.message)
            bodies.append(
                PrefetchEnded(
                    key=prefetched.key,
                    seconds=round(max(0.0, seconds), 6),
                    result=result,
                    error=error,
                    **spending(prefetched.progress.spent()),
                )
            )
        if bodies:
            await self._journal.append(*bodies, values=values)
        for prefetched in ended:
            prefetched.recorded = True

    async def settle(self, journal: Journal, keep: Collection[str] | None = None) -> None:
        """Records how calls ended; stops running ones that are not in `keep`, if given."""
        async with self._lock:
            self._closed = True
        self._journal = journal
        known = [each for each in self._calls.values() if each.task is not None]
        unneeded = [
            each for each in known if each.runs and keep is not None and each.call not in keep
        ]
        for each in unneeded:
            if each.task is not None:
                each.task.cancel()
        await asyncio.gather(
            *(each.task for each in unneeded if each.task is not None), return_exceptions=True
        )
        now = self._callees.clock.monotonic()
        for each in known:
            each.ended = each.ended if each.runs or each.ended is not None else now
        taken = {id(each) for each in self._promised.values()}
        await self._write(
            [each for each in known if not (each.runs or each.recorded or id(each) in taken)]
        )

    @property
    def keys(self) -> set[str]:
        """Returns the keys of the calls that this process has made and still holds."""
        held = [*self._calls.values(), *self._promised.values()]
        return {each.key for each in held if each.key}

    def promise(self, unit: Unit, inputs: Mapping[str, Json]) -> str:
        """Returns the key of the early call that a unit will use; empty if there is none."""
        if unit.name not in self._promised and isinstance(unit.step, ToolStep):
            name = _call_hash(unit.step.tool, inputs)
            prefetched = self._calls.get(name)
            if prefetched is not None and self._is_good(prefetched):
                self._promised[unit.name] = self._calls.pop(name)
        prefetched = self._promised.get(unit.name)
        return prefetched.key if prefetched is not None else ""

    def _is_good(self, prefetched: _PrefetchedCall) -> bool:
        """Tells whether a call still runs or has a recent result."""
        if prefetched.task is None or not prefetched.key:
            return False
        old = prefetched.ended is not None and self._age(prefetched.ended) > FRESH_S
        return prefetched.runs or (isinstance(prefetched.outcome, Done) and not old)

    def _age(self, ended: float) -> float:
        return self._callees.clock.monotonic() - ended

    def take(self, unit: Unit, call: Call) -> asyncio.Task[Outcome] | None:
        """Returns the call that was promised to a unit, once."""
        prefetched = self._promised.pop(unit.name, None)
        if prefetched is None:
            return None
        prefetched.progress.pass_on(call)
        return prefetched.task

    async def drop(self) -> None:
        """Stops all early calls."""
        self._closed = True
        calls = [each.task for each in [*self._calls.values(), *self._promised.values()]]
        tasks: list[asyncio.Task[Any]] = [*self._tasks]
        tasks += [task for task in calls if task is not None]
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


def left_open(run: Run, mine: Collection[str]) -> list[PrefetchEnded]:
    """Returns the end of each early read whose process died; `mine` are those of this process."""
    return [
        PrefetchEnded(key=key, error=DIED)
        for key, each in run.prefetches.items()
        if not each.over and key not in mine
    ]


def _call_hash(tool: str, inputs: Mapping[str, Json]) -> str:
    return content_hash([tool, dict(inputs)])
