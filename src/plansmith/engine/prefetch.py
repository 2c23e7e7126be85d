"""Starts reads while their plan is still being written, journaled like any call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from plansmith.engine.call import Asks, Callees, Done, Failed, Outcome, Unsure
from plansmith.engine.journal import Journal
from plansmith.engine.progress import spending
from plansmith.engine.units import Unit
from plansmith.errors import JournalError
from plansmith.plan.capability import Effect
from plansmith.plan.data import Content, Json, content_hash, content_of
from plansmith.plan.plan import Plan
from plansmith.plan.planning_events import PrefetchEnded, PrefetchStarted
from plansmith.plan.refs import secret_names
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep, ToolStep
from plansmith.ports import Call, Usage
from plansmith.review.render import value_line

FRESH_S: Final = 300.0  # older results are read again: the world may have moved on
DIED: Final = Sentence("step.end_unknown")
NOT_NEEDED: Final = Sentence("step.not_needed")
Tell = Callable[[str], None]


class _HeldProgress:
    """What an early call says: kept until its step starts, then passed on."""

    def __init__(self) -> None:
        self._kept: list[Callable[[Call], None]] = []
        self._call: Call | None = None
        self._spent: list[Usage] = []

    def pass_on(self, call: Call) -> None:
        """Hand over what was said, and from now on all that follows."""
        self._call = call
        for word in self._kept:
            word(call)
        for usage in self._spent:
            call.spend(usage)
        self._spent = []

    def as_call(self, key: str) -> Call:
        """The circumstances of the early call."""
        return Call(
            key=key,
            progress=lambda text: self._say(lambda call: call.progress(text)),
            spend=self._spend,
            advise=lambda advice, reason: self._say(lambda call: call.advise(advice, reason)),
        )

    def spent(self) -> Usage:
        """What it took so far; told once."""
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

    def _say(self, word: Callable[[Call], None]) -> None:
        if self._call is not None:
            word(self._call)
        else:
            self._kept.append(word)


@dataclass(slots=True)
class _Begun:
    """An early call, from its intent on."""

    call: str
    words: _HeldProgress = field(default_factory=_HeldProgress)
    key: str = ""
    started: float = 0.0
    ended: float | None = None
    told: bool = False
    task: asyncio.Task[Outcome] | None = None

    @property
    def runs(self) -> bool:
        return self.task is not None and not self.task.done()

    @property
    def outcome(self) -> Outcome:
        """How a call ended that runs no more."""
        task = self.task
        if task is None or task.cancelled() or task.exception() is not None:
            return Failed(NOT_NEEDED)
        return task.result()


class Prefetch:
    """Calls that change nothing, made before their plan stands: reads with inputs of their own.

    A step whose inputs come from other steps waits, since what it would send is not known yet.
    Each call is in the journal before it is made, and its end as soon as there is one.
    """

    def __init__(self, journal: Journal, callees: Callees, *, tell: Tell, most: int = 4) -> None:
        self._journal = journal
        self._callees = callees
        self._tell = tell
        self._most = most
        self._lock = asyncio.Lock()
        self._closed = False
        self._begun: dict[str, _Begun] = {}
        self._promised: dict[str, _Begun] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, step: AnyStep) -> None:
        """Start a step, if it may be started before its plan stands."""
        if not isinstance(step, ToolStep) or step.disabled or step.needs():
            return
        spec = self._callees.specs.get(step.tool)
        if spec is None or spec.effect is not Effect.READ or len(self._begun) >= self._most:
            return
        name = _name(step.tool, step.inputs)
        given = not list(step.found()) and not secret_names(step.inputs)
        if name not in self._begun and given and not self._closed:
            begun = self._begun[name] = _Begun(name)
            task = asyncio.create_task(self._make(step, begun))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _make(self, step: ToolStep, begun: _Begun) -> None:
        """Write that a call is made, make it, and write how it ended."""
        inputs = content_of(step.inputs)
        async with self._lock:
            if self._closed:
                return
            begun.key = f"{self._journal.id}/early/{len(self._journal.run.prefetches) + 1}"
            intent = PrefetchStarted(key=begun.key, tool=step.tool, inputs=inputs.digest)
            try:
                await self._journal.append(intent, values=[inputs])
            except JournalError:
                begun.key = ""  # someone else writes to this run now: nothing is read early
                self._closed = True
                return
        self._tell(f"early read: {step.tool} {value_line(step.inputs, 200)}")
        clock = self._callees.clock
        begun.started = clock.monotonic()
        call = self._callees.call(Unit(step.id, step), step.inputs, begun.words.as_call(begun.key))
        begun.task = asyncio.ensure_future(call)
        await asyncio.wait([begun.task])
        begun.ended = clock.monotonic()
        await self._end(begun)

    async def _end(self, begun: _Begun) -> None:
        """Write the end of a call at once, as long as nobody else writes to the run."""
        async with self._lock:
            if not (self._closed or begun.told):
                with suppress(JournalError):  # whoever writes to this run now ends it too
                    await self._write([begun])

    async def _write(self, ended: Collection[_Begun]) -> None:
        """Write how calls ended, all in one append."""
        bodies: list[PrefetchEnded] = []
        values: list[Json | Content] = []
        for begun in ended:
            seconds = (begun.ended or begun.started) - begun.started
            told: dict[str, Json] = {"key": begun.key, "seconds": round(max(0.0, seconds), 6)}
            match begun.outcome:
                case Done(value):
                    content = content_of(value)
                    values.append(content)
                    told["result"] = content.digest
                case Failed(error) | Unsure(error):
                    told["error"] = error
                case Asks(need):
                    told["error"] = Sentence("step.asks_early", question=need.message)
            told |= spending(begun.words.spent())
            bodies.append(PrefetchEnded.model_validate(told))
        if bodies:
            await self._journal.append(*bodies, values=values)
        for begun in ended:
            begun.told = True

    async def settle(self, journal: Journal, keep: Collection[str] | None = None) -> None:
        """Write how calls ended, and stop those that run on and are not in `keep`, if given."""
        async with self._lock:
            self._closed = True
        self._journal = journal
        known = [each for each in self._begun.values() if each.task is not None]
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
            [each for each in known if not (each.runs or each.told or id(each) in taken)]
        )

    @property
    def keys(self) -> set[str]:
        """The keys of the calls that this process has made and still holds."""
        held = [*self._begun.values(), *self._promised.values()]
        return {each.key for each in held if each.key}

    def promise(self, unit: Unit, inputs: Mapping[str, Json]) -> str:
        """The key of the call that a unit will take instead of making its own, or nothing."""
        if unit.name not in self._promised and isinstance(unit.step, ToolStep):
            name = _name(unit.step.tool, inputs)
            begun = self._begun.get(name)
            if begun is not None and self._is_good(begun):
                self._promised[unit.name] = self._begun.pop(name)
        begun = self._promised.get(unit.name)
        return begun.key if begun is not None else ""

    def _is_good(self, begun: _Begun) -> bool:
        """Whether a call still runs, or has brought something not long ago."""
        if begun.task is None or not begun.key:
            return False
        old = begun.ended is not None and self._age(begun.ended) > FRESH_S
        return begun.runs or (isinstance(begun.outcome, Done) and not old)

    def _age(self, ended: float) -> float:
        return self._callees.clock.monotonic() - ended

    def take(self, unit: Unit, call: Call) -> asyncio.Task[Outcome] | None:
        """The call that was promised to a unit, once."""
        begun = self._promised.pop(unit.name, None)
        if begun is None:
            return None
        begun.words.pass_on(call)
        return begun.task

    async def drop(self) -> None:
        """Let go of everything."""
        self._closed = True
        calls = [each.task for each in [*self._begun.values(), *self._promised.values()]]
        tasks: list[asyncio.Task[Any]] = [*self._tasks]
        tasks += [task for task in calls if task is not None]
        self._begun, self._promised = {}, {}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def wanted_by(plan: Plan) -> set[str]:
    """The calls that the steps of a plan would make with inputs of their own."""
    return {
        _name(step.tool, step.inputs)
        for step in plan.steps
        if isinstance(step, ToolStep) and not step.disabled
    }


def left_open(run: Run, mine: Collection[str]) -> list[PrefetchEnded]:
    """The ends of early reads whose process is gone: harmless, since a read changes nothing."""
    return [
        PrefetchEnded(key=key, error=DIED)
        for key, each in run.prefetches.items()
        if not each.over and key not in mine
    ]


def _name(tool: str, inputs: Mapping[str, Json]) -> str:
    return content_hash([tool, dict(inputs)])
