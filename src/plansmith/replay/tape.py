"""A recorded run to play back: its calls, its clock and its store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import zip_longest
from typing import cast

from plansmith.engine.call import Asks, Callees, Done, Failed, Outcome, Unsure
from plansmith.engine.units import Unit
from plansmith.errors import InputNeeded, JournalDamaged, JournalError, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.data import Content, Json, canonical_json, content_of
from plansmith.plan.planning_events import PlanningFailed
from plansmith.ports import Call, News, PlanStore, Usage


class Ended(JournalError):
    """The tape is at its end, or the replay has left it: nothing more is written."""


@dataclass(slots=True)
class Pending:
    """A call that was made in the replay and waits for its recorded end."""

    call: Call
    future: asyncio.Future[Outcome]


@dataclass(slots=True)
class Tape:
    """The recorded events and values of a run, and how far the replay has come."""

    events: Sequence[e.Event]
    values: Mapping[str, Json]
    position: int = 0
    other: e.Event | None = None
    calls: dict[str, Pending] = field(default_factory=dict[str, Pending])
    sleepers: dict[str, asyncio.Future[None]] = field(
        default_factory=dict[str, asyncio.Future[None]]
    )
    failing: list[str] = field(default_factory=list[str])
    stirred: int = 0

    @classmethod
    async def load(cls, store: PlanStore, run: str) -> Tape:
        """All that a store has of a run."""
        events = await store.events(run)
        digests = {digest for event in events for digest in _values_of(event.body)}
        return cls(events, {digest: await store.get(digest) for digest in sorted(digests)})

    @property
    def next(self) -> e.Event | None:
        """The recorded event that comes next."""
        return self.events[self.position] if self.position < len(self.events) else None

    def write(self, events: Sequence[e.Event]) -> None:
        """Compare what the replay writes with the record, byte by byte."""
        for event in events:
            recorded = self.next
            if recorded is None or self.other is not None:
                raise Ended("the record ends here")
            if canonical_json(event.to_json()) != canonical_json(recorded.to_json()):
                self.other = event
                raise Ended(f"event {event.number} is another one than the recorded")
            self.position += 1
            self.stirred += 1

    def let_go(self) -> None:
        """Forget all calls and waits, as a process does that dies."""
        for pending in self.calls.values():
            pending.future.cancel()
        for sleeper in self.sleepers.values():
            sleeper.cancel()
        self.calls.clear()
        self.sleepers.clear()
        self.failing.clear()


def _values_of(body: e.AnyBody) -> list[str]:
    match body:
        case e.StepDone(result=digest) | e.StepReused(result=digest) | e.ReportMade(result=digest):
            return [digest]
        case PlanningFailed(record=digest) if digest:
            return [digest]
        case (
            e.QuestionAsked(state=digest) | e.PlanProposed(record=digest) | e.Triaged(record=digest)
        ) if digest:
            return [digest]
        case _:
            return []


class TapeStore:
    """The store of a replay: what it reads is what was replayed so far."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._values: dict[str, bytes] = {}

    async def append(
        self, events: Sequence[e.Event], values: Sequence[Json | Content] = ()
    ) -> None:
        """Accept the events that are on the tape, in their place."""
        done = self._tape.position
        if events and events[0].number <= done:
            raise StaleWriter(f"event {events[0].number} does not follow event {done}")
        self._values |= dict(map(content_of, values))
        self._tape.write(events)

    async def events(self, run: str, *, after: int = 0) -> Sequence[e.Event]:
        """The events that were replayed."""
        del run
        return self._tape.events[max(after, 0) : self._tape.position]

    async def wait(self, run: str, *, after: int = 0) -> None:
        """Nobody follows a replay."""
        raise JournalError(f"run {run} is replayed: it cannot be followed from {after}")

    async def runs(self) -> Sequence[str]:
        """The one run there is."""
        return [self._tape.events[0].run]

    async def open_runs(self) -> Sequence[str]:
        """The run that is being replayed."""
        return await self.runs()

    async def news(self, after: int = 0, *, limit: int = 1000) -> Sequence[News]:
        """Nobody follows a replay."""
        raise JournalError(f"a replay cannot be followed from {after} by {limit}")

    async def wait_news(self, after: int) -> int:
        """Nobody follows a replay."""
        raise JournalError(f"a replay cannot be followed from {after}")

    async def put(self, value: Json) -> str:
        """Keep a value."""
        digest, self._values[digest] = content_of(value)
        return digest

    async def get(self, digest: str) -> Json:
        """A value of the replay, or of the record."""
        if digest in self._values:
            return cast("Json", json.loads(self._values[digest]))
        if digest in self._tape.values:
            return self._tape.values[digest]
        raise JournalDamaged(f"no value is stored under {digest}")

    async def close(self) -> None:
        """Nothing is held open."""


class TapeClock:
    """The time of the next recorded event; waiting ends when the record goes on."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._ticks = 0.0

    def now(self) -> datetime:
        """When what is written next was written."""
        last = self._tape.events[-1]
        return (self._tape.next or last).at

    def monotonic(self) -> float:
        """Always later than before, so that nothing is held back for coming too early."""
        self._ticks += 1.0
        return self._ticks

    async def sleep(self, seconds: float) -> None:
        """Wait until the record says that the step which waits here was started again."""
        del seconds
        tape = self._tape
        name = tape.failing.pop(0) if tape.failing else ""
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tape.sleepers[name] = sleeper
        tape.stirred += 1
        await sleeper


@dataclass(frozen=True, slots=True)
class TapeCallees(Callees):
    """Calls that end as they ended on the tape; nothing is ever called."""

    tape: Tape = field(kw_only=True)

    def prefetched(self, unit: Unit, inputs: Mapping[str, Json]) -> str:
        """The early read that the unit took, as it stands on the tape."""
        del inputs
        following = (event.body for event in self.tape.events[self.tape.position :])
        starts = (body for body in following if isinstance(body, e.StepStarted))
        return next((body.prefetched for body in starts if body.step == unit.name), "")

    async def call(
        self,
        unit: Unit,
        inputs: dict[str, Json],
        call: Call,
        results: Mapping[str, Json] | None = None,
    ) -> Outcome:
        """The recorded outcome, when its turn has come."""
        del inputs, results
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.tape.calls[unit.name] = Pending(call, future)
        self.tape.stirred += 1
        try:
            return await future
        except asyncio.CancelledError:
            # Cancelled too late: the call had ended when the word came.
            late = self._after_cancel(unit.name)
            if late is None:
                raise
            return late

    def _after_cancel(self, name: str) -> Outcome | None:
        following = self.tape.events[self.tape.position :]
        if not following or not isinstance(following[0].body, e.CancelAsked):
            return None
        ends = (
            outcome_of(each.body, self.tape, name)
            for each, after in zip_longest(following, following[1:])
            if not isinstance(each.body, e.StepUnknown) or _asks(after)
        )
        pending = self.tape.calls.get(name)
        found = next((each for each in ends if each is not None), None)
        if found is not None and pending is not None:
            spend(pending.call, following, name)
        return found


def _asks(event: e.Event | None) -> bool:
    """Whether a doubt was asked about; one that is told where the run ends is no call's end."""
    return event is not None and isinstance(event.body, e.QuestionAsked)


def outcome_of(body: e.AnyBody, tape: Tape, name: str) -> Outcome | None:
    """How the call of a step ended, if this event says so."""
    match body:
        case e.StepDone(step=step, result=digest) if step == name:
            return Done(tape.values[digest])
        case e.StepFailed(step=step, error=error, again=again, kind=kind) if step == name:
            if kind == "person":
                return None
            return Unsure(error, again, kind) if body.unsure else Failed(error, again, kind)
        case e.StepUnknown(step=step, reason=reason) if step == name:
            return Unsure(reason)
        case e.QuestionAsked(step=step, state=state) if step == name and state:
            return Asks(
                InputNeeded(
                    body.text,
                    schema=body.answer_schema,
                    options=body.options,
                    state=tape.values[state],
                    link=body.link,
                )
            )
        case _:
            return None


def spend(call: Call, events: Sequence[e.Event], name: str) -> None:
    """Have a call take what it took."""
    for event in events:
        body = event.body
        if isinstance(body, e.StepDone | e.StepFailed) and body.step == name:
            if body.tokens or body.cost:
                call.spend(Usage(body.tokens, cost=Decimal(body.cost) if body.cost else None))
            return
