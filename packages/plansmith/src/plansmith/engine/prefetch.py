"""Makes reads early, while their plan is still being written; recorded like any call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Final, NamedTuple, cast

from plansmith.engine.budget import spending
from plansmith.engine.call import Callees
from plansmith.engine.journal import Journal
from plansmith.engine.outcome import Asks, Done, Failed, Outcome
from plansmith.engine.units import Unit, resolved
from plansmith.errors import JournalError
from plansmith.plan.briefs import total
from plansmith.plan.capability import Effect
from plansmith.plan.data import Content, Json, canonical_hash, content_of
from plansmith.plan.events import PrefetchEnded, PrefetchStarted
from plansmith.plan.plan import Plan
from plansmith.plan.refs import secret_names, value_line
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep, ToolStep, has_rules
from plansmith.ports import Call, Usage

NOT_NEEDED: Final = Sentence("stopped: the plan does not need it, or waits for a person")
# How long the start of a plan waits for its early reads; what takes longer its step reads again.
_PATIENCE_S: Final = 2.0
_MAX_AT_ONCE: Final = 4


class _Read(NamedTuple):
    """A read that is under way: when it began, and what it has used so far."""

    began: float
    spent: list[Usage]


class Prefetcher:
    """Makes calls that change nothing before their plan is complete.

    A step that uses results of other steps waits, since its inputs are not known yet. Each call
    is recorded before it is made, and its end as soon as it ends; steps find the result there.
    """

    def __init__(self, journal: Journal, callees: Callees, tell: Callable[[str], None]) -> None:
        self._journal, self._callees, self._tell = journal, callees, tell
        self._now = callees.clock.monotonic
        self._lock, self._closed = asyncio.Lock(), False
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by what they call
        self._under_way: dict[str, _Read] = {}  # by key

    def start(self, step: AnyStep) -> None:
        """Starts a step's call, if it is a read whose inputs are known."""
        if not isinstance(step, ToolStep) or step.disabled or step.needed or has_rules(step):
            return
        spec = self._callees.specs.get(step.tool)
        if spec is None or spec.effect is not Effect.READ or len(self._tasks) >= _MAX_AT_ONCE:
            return
        name = _call_hash(step.tool, step.inputs)
        if name not in self._tasks and not step.references and not secret_names(step.inputs):
            self._tasks[name] = asyncio.create_task(self._make(step))

    async def _make(self, step: ToolStep) -> None:
        """Records that a call starts, makes it, and records how it ended.

        If another process writes to the run, it stops without a word.
        """
        unit, advice = Unit(step.id, step), list[str]()
        inputs = content_of(dict(sorted(resolved(unit, {}).items())))
        with suppress(JournalError):
            async with self._lock:
                if self._closed:
                    return
                key = f"{self._journal.id}/early/{len(self._journal.run.prefetches) + 1}"
                intent = PrefetchStarted(key=key, tool=step.tool, inputs=inputs.digest)
                await self._journal.append(intent, values=[inputs])
                read = self._under_way[key] = _Read(self._now(), [])
            given = cast("dict[str, Json]", inputs.value())
            text = value_line(given, 200)
            self._tell(Sentence("planning.early_read", tool=step.tool, inputs=text))
            call = Call(key=key, spend=read.spent.append, advise=lambda one, _: advice.append(one))
            outcome = await self._called(unit, given, call)
            if advice:  # which only a step can give
                outcome = Failed(Sentence("it advises about the plan, so its step calls again"))
            async with self._lock:
                await self._record({key: outcome})

    async def _called(self, unit: Unit, inputs: dict[str, Json], call: Call) -> Outcome:
        try:
            async with asyncio.timeout(self._callees.timeout(unit)):
                return await self._callees.call(unit, inputs, call)
        except TimeoutError:
            return self._callees.late(unit)

    async def _record(self, outcomes: Mapping[str, Outcome]) -> None:
        """Records how calls ended, in one append."""
        values: list[Json | Content] = []
        bodies: list[PrefetchEnded] = []
        for key, outcome in outcomes.items():
            result = error = ""
            match outcome:
                case Done(value):
                    content = content_of(value)
                    values.append(content)
                    result = content.digest
                case Failed(why):
                    error = why
                case Asks(need):
                    error = Sentence("it asks: {question}", question=need.message)
            began, spent = self._under_way.pop(key)
            costs = [each.cost for each in spent if each.cost is not None]
            known = sum(costs, Decimal(0)) if costs else None  # what is known counts in the budget
            used = spending(replace(total(*spent), cost=known))
            seconds = round(self._now() - began, 6)
            end = PrefetchEnded(key=key, seconds=seconds, result=result, error=error, **used)
            bodies.append(end)
        await self._journal.append(*bodies, values=values)

    async def finish(self, wanted: Collection[str] = ()) -> None:
        """Ends all calls: those that are wanted have a moment, the others are stopped."""
        self._closed = True
        waits = [task for name, task in self._tasks.items() if name in wanted]
        if waits:
            await asyncio.wait(waits, timeout=_PATIENCE_S)
        async with self._lock:  # so that none is stopped while it writes
            for task in self._tasks.values():
                task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        if self._under_way:
            with suppress(JournalError):
                await self._record(dict.fromkeys(self._under_way, Failed(NOT_NEEDED)))


def wanted_by(plan: Plan) -> set[str]:
    """Returns the tool calls of a plan, by content hash."""
    return {
        _call_hash(step.tool, step.inputs)
        for step in plan.steps
        if isinstance(step, ToolStep) and not step.disabled
    }


def _call_hash(tool: str, inputs: Mapping[str, Json]) -> str:
    return canonical_hash([tool, dict(inputs)])
