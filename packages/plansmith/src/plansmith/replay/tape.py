"""A recorded run to play back (the tape), with a store, a clock and calls that use it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import zip_longest
from typing import cast

from plansmith.engine.call import Callees
from plansmith.engine.outcome import Asks, Done, Failed, Outcome, Unsure
from plansmith.engine.units import Unit
from plansmith.errors import InputNeeded, JournalDamaged, JournalError, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.data import Content, Json, canonical_json, content_of
from plansmith.plan.earlier import USE, EarlierResult
from plansmith.plan.events import PlanningFailed
from plansmith.plan.sentence import Sentence
from plansmith.plan.summary import RunSummary
from plansmith.ports import Call, PlanStore, Usage


class Ended(JournalError):
    """The tape is at its end, or an event differs from it: nothing more is written."""


@dataclass(slots=True)
class Pending:
    """A call of the replay that waits for its recorded end."""

    call: Call
    future: asyncio.Future[Outcome]


def earlier_results(events: Sequence[e.Event]) -> Iterator[EarlierResult]:
    """Yields the results of earlier runs that recorded plans use, as their notes tell of them."""
    for event in events:
        body = event.body
        if not isinstance(body, e.PlanProposed) or not body.earlier:
            continue
        requests = dict(_noted(body))
        for ref, digest in body.earlier.items():
            yield EarlierResult(ref, digest, request=requests.get(ref, ""))


def _noted(body: e.PlanProposed) -> Iterator[tuple[str, str]]:
    """Yields each result that a note of a plan tells of, with the request of its run."""
    for each in body.problems:
        step = body.plan.by_id.get(each.step or "")
        if step is None or not isinstance(each.message, Sentence) or each.message.key != USE:
            continue
        for found in step.references:
            if found.ref is not None and found.where == each.path:
                yield found.ref.step, str(each.message.fields["request"])


@dataclass(slots=True)
class Tape:
    """The recorded events and values of a run, and the position of the replay."""

    events: Sequence[e.Event]
    values: Mapping[str, Json]
    position: int = 0
    different: e.Event | None = None
    calls: dict[str, Pending] = field(default_factory=dict[str, Pending])
    sleepers: dict[str, asyncio.Future[None]] = field(
        default_factory=dict[str, asyncio.Future[None]]
    )
    failing: list[str] = field(default_factory=list[str])
    activity: int = 0

    @classmethod
    async def load(cls, store: PlanStore, run: str) -> Tape:
        events = await store.events(run)
        digests = {digest for event in events for digest in _values_of(event.body)}
        return cls(events, {digest: await store.get(digest) for digest in sorted(digests)})

    @property
    def next(self) -> e.Event | None:
        return self.events[self.position] if self.position < len(self.events) else None

    def write(self, events: Sequence[e.Event]) -> None:
        """Compares the events of the replay with the recorded ones, byte by byte."""
        for event in events:
            recorded = self.next
            if recorded is None or self.different is not None:
                raise Ended("the record ends here")
            if canonical_json(event.to_json()) != canonical_json(recorded.to_json()):
                self.different = event
                raise Ended(f"event {event.number} differs from the recorded one")
            self.position += 1
            self.activity += 1

    def forget_calls(self) -> None:
        """Forgets all calls and waits, as in a crash."""
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
        case e.PlanProposed(record=record, earlier=earlier):
            return [*([record] if record else []), *earlier.values()]
        case e.QuestionAsked(state=state, values=values) if values or state:
            return [values or state]
        case e.Triaged(record=digest) if digest:
            return [digest]
        case _:
            return []


class TapeStore:
    """The store of a replay: contains the events replayed so far; has what a replay needs."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._values: dict[str, bytes] = {}

    async def append(
        self,
        events: Sequence[e.Event],
        values: Sequence[Json | Content] = (),
        *,
        status: str = "",
        summary: RunSummary | None = None,
    ) -> None:
        """Accepts the events that come next on the tape."""
        del status, summary
        done = self._tape.position
        if events and events[0].number <= done:
            number = events[0].number
            raise StaleWriter(
                Sentence(
                    "event {number} does not follow event {before}", number=number, before=done
                )
            )
        self._values |= dict(map(content_of, values))
        self._tape.write(events)

    async def events(self, run: str, *, after: int = 0) -> Sequence[e.Event]:
        del run
        return self._tape.events[max(after, 0) : self._tape.position]

    async def put(self, value: Json) -> str:
        digest, self._values[digest] = content_of(value)
        return digest

    async def get(self, digest: str) -> Json:
        if digest in self._values:
            return cast("Json", json.loads(self._values[digest]))
        if digest in self._tape.values:
            return self._tape.values[digest]
        raise JournalDamaged(Sentence("no value is stored under {digest}", digest=digest))

    async def close(self) -> None:
        """Does nothing: a tape needs no closing."""


class TapeClock:
    """A clock that shows the time of the next recorded event."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._ticks = 0.0

    def now(self) -> datetime:
        last = self._tape.events[-1]
        return (self._tape.next or last).at

    def monotonic(self) -> float:
        """Returns a larger number each time, so that no progress is held back."""
        self._ticks += 1.0
        return self._ticks

    async def sleep(self, seconds: float) -> None:
        """Waits until the tape starts the waiting step again."""
        del seconds
        tape = self._tape
        name = tape.failing.pop(0) if tape.failing else ""
        sleeper: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tape.sleepers[name] = sleeper
        tape.activity += 1
        await sleeper


@dataclass(frozen=True, slots=True)
class TapeCallees(Callees):
    """Calls with recorded outcomes; no tool or agent is called."""

    tape: Tape = field(kw_only=True)

    def joins(self, count: int) -> bool:
        """Whether the next events and the one after them have one time, as those of one append."""
        following = self.tape.events[self.tape.position :][: count + 1]
        return len(following) == count + 1 and following[-1].at == following[0].at

    def prefetched(self, unit: Unit, inputs: Mapping[str, Json]) -> str:
        """Returns the key of the early read that the unit used on the tape."""
        del inputs
        following = (event.body for event in self.tape.events[self.tape.position :])
        starts = (body for body in following if isinstance(body, e.StepStarted))
        return next((body.prefetched for body in starts if body.step == unit.name), "")

    def function(self, unit: Unit) -> None:
        del unit

    async def call(
        self,
        unit: Unit,
        inputs: dict[str, Json],
        call: Call,
        results: Mapping[str, Json] | None = None,
    ) -> Outcome:
        """Returns the recorded outcome once it comes next on the tape."""
        del inputs, results
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.tape.calls[unit.name] = Pending(call, future)
        self.tape.activity += 1
        try:
            return await future
        except asyncio.CancelledError:
            # On the tape the call had ended before the cancellation.
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
            if not isinstance(each.body, e.StepUnknown) or _is_question(after)
        )
        pending = self.tape.calls.get(name)
        found = next((each for each in ends if each is not None), None)
        if found is not None and pending is not None:
            spend(pending.call, following, name)
        return found


def _is_question(event: e.Event | None) -> bool:
    """Tells whether an event is a question; a `StepUnknown` without one is not a call's end."""
    return event is not None and isinstance(event.body, e.QuestionAsked)


def outcome_of(body: e.AnyBody, tape: Tape, name: str) -> Outcome | None:
    """Returns how the call of a step ended, if this event records its end."""
    match body:
        case e.StepDone(step=step, result=digest) if step == name:
            return Done(tape.values[digest])
        case e.StepFailed(step=step, error=error, again=again, kind=kind) if step == name:
            if kind == "person" or kind == "refused":  # noqa: PLR1714 - it narrows the type
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
    """Adds the recorded tokens and cost to a call."""
    for event in events:
        body = event.body
        if isinstance(body, e.StepDone | e.StepFailed) and body.step == name:
            if body.tokens or body.cost:
                call.spend(Usage(body.tokens, cost=Decimal(body.cost) if body.cost else None))
            return
