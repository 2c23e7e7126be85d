"""A recorded run to play back (the tape), and a `RunService` that takes everything from it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from itertools import dropwhile, takewhile, zip_longest
from typing import Final, TypeVar, cast

from plansmith.engine.call import Callees
from plansmith.engine.journal import Entry, Journal
from plansmith.engine.outcome import Asks, Done, Failed, Outcome, Unsure
from plansmith.engine.timings import CallTimings
from plansmith.engine.units import Unit
from plansmith.errors import InputNeeded, JournalDamaged, JournalError, Refused, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Content, Json, canonical_json, content_of, parse_json
from plansmith.plan.earlier import USE, EarlierResult, UsableResults, pinned_results
from plansmith.plan.events import PlanningFailed, PrefetchEnded, PrefetchStarted
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Decision, OnStep, Planned, PlanningFigures, PlanRequest
from plansmith.plan.run_options import RunOptions
from plansmith.plan.sentence import Sentence
from plansmith.ports import Call, Planner, PlanStore, Usage
from plansmith.runs.intake import PlanIntake, Proposal
from plansmith.runs.journals import Journals
from plansmith.runs.planning import READ_RESULTS, RunPlanning
from plansmith.runs.service import RunService
from plansmith.templates.book import Template

_Body = TypeVar("_Body")
_EARLY: Final = (PrefetchStarted, PrefetchEnded)


class Ended(JournalError):
    """The tape is at its end, or an event differs from it: nothing more is written."""


@dataclass(slots=True)
class Pending:
    """A call of the replay that waits for its recorded end."""

    call: Call
    future: asyncio.Future[Outcome]


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
        digests = {digest for event in events for digest in _values_of(event.body) if digest}
        return cls(events, {digest: await store.get(digest) for digest in sorted(digests)})

    @property
    def ahead(self) -> Sequence[e.Event]:
        return self.events[self.position :]

    @property
    def next(self) -> e.Event | None:
        return self.events[self.position] if self.position < len(self.events) else None

    def bodies(self, kind: type[_Body]) -> Iterator[_Body]:
        """Yields the bodies of a kind that come on the tape."""
        return (event.body for event in self.ahead if isinstance(event.body, kind))

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

    def outcome(self, body: e.AnyBody, name: str) -> Outcome | None:
        """Returns how the call of a step ended, if this event records its end."""
        match body:
            case e.StepDone(step=step, result=digest) if step == name:
                return Done(self.values[digest])
            case e.StepFailed(step=step, error=error, again=again, kind=kind) if step == name:
                if kind == "person" or kind == "refused":  # noqa: PLR1714 - it narrows the type
                    return None
                return Unsure(error, again, kind) if body.unsure else Failed(error, again, kind)
            case e.StepUnknown(step=step, reason=reason) if step == name:
                return Unsure(reason)
            case e.QuestionAsked(step=step, state=state) if step == name and state:
                needed = InputNeeded(
                    body.text,
                    schema=body.answer_schema,
                    options=body.options,
                    state=self.values[state],
                    link=body.link,
                )
                return Asks(needed)
            case _:
                return None


def _values_of(body: e.AnyBody) -> Iterator[str]:
    match body:
        case e.StepDone(result=digest) | e.StepReused(result=digest) | e.ReportMade(result=digest):
            yield digest
        case PlanningFailed(record=digest) | e.Triaged(record=digest):
            yield digest
        case e.PlanProposed(record=record, earlier=earlier):
            yield from (record, *earlier.values())
        case e.QuestionAsked(state=state, values=values):
            yield values or state
        case _:
            return


def spend(call: Call, events: Sequence[e.Event], name: str) -> None:
    """Adds the tokens and cost of the first recorded end of a step to a call."""
    for event in events:
        body = event.body
        if isinstance(body, e.StepDone | e.StepFailed) and body.step == name:
            if body.tokens or body.cost:
                call.spend(_usage(body.tokens, body.cost))
            return


def _usage(tokens: int, cost: str) -> Usage:
    return Usage(tokens, cost=Decimal(cost) if cost else None)


class _TapeStore:
    """The store of a replay: contains the events replayed so far; has what a replay needs."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._values: dict[str, bytes] = {}

    async def append(
        self, events: Sequence[e.Event], values: Sequence[Json | Content] = (), **_: object
    ) -> None:
        """Accepts the events that come next on the tape."""
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

    async def events(self, _: str, *, after: int = 0) -> Sequence[e.Event]:
        return self._tape.events[max(after, 0) : self._tape.position]

    async def put(self, value: Json) -> str:
        digest, self._values[digest] = content_of(value)
        return digest

    async def get(self, digest: str) -> Json:
        if digest in self._values:
            return parse_json(self._values[digest])
        if digest in self._tape.values:
            return self._tape.values[digest]
        raise JournalDamaged(Sentence("no value is stored under {digest}", digest=digest))

    async def close(self) -> None:
        """Does nothing: a tape needs no closing."""


class _TapeClock:
    """A clock that shows the time of the next recorded event."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._ticks = 0.0

    def now(self) -> datetime:
        return (self._tape.next or self._tape.events[-1]).at

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
class _TapeCallees(Callees):
    """Calls with recorded outcomes; no tool or agent is called."""

    tape: Tape = field(kw_only=True)

    def joins(self, count: int) -> bool:
        """Whether the next events and the one after them have one time, as those of one append."""
        following = self.tape.ahead[: count + 1]
        return len(following) == count + 1 and following[-1].at == following[0].at

    def prefetched(self, unit: Unit, inputs: Mapping[str, Json]) -> str:
        """Returns the key of the early read that the unit used on the tape."""
        del inputs
        starts = self.tape.bodies(e.StepStarted)
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
        tape, name = self.tape, unit.name
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        tape.calls[name] = Pending(call, future)
        tape.activity += 1
        try:
            return await future
        except asyncio.CancelledError:
            # On the tape the call may have ended before the cancellation.
            ahead = tape.ahead
            if not ahead or not isinstance(ahead[0].body, e.CancelAsked):
                raise
            for each, after in zip_longest(ahead, ahead[1:]):
                asks = after is not None and isinstance(after.body, e.QuestionAsked)
                # A `StepUnknown` without a question is not a call's end.
                known = asks or not isinstance(each.body, e.StepUnknown)
                if known and (late := tape.outcome(each.body, name)) is not None:
                    if name in tape.calls:
                        spend(tape.calls[name].call, ahead, name)
                    return late
            raise


class _TapedIntake(PlanIntake):
    """A plan intake whose calls, costs and approvals come from the tape."""

    def __init__(
        self,
        tape: Tape,
        intake: PlanIntake,
        callees: Callees,
        *,
        store: PlanStore,
        clock: _TapeClock,
    ) -> None:
        super().__init__(
            store=store,
            clock=clock,
            templates=intake.templates,
            policy=intake.policy,
            price_per_million=intake.price_per_million,
        )
        self._tape = tape
        self._present = intake
        self._cards = intake.agents()
        self._taped = _TapeCallees(clock, callees.tools, callees.specs, callees.agents, tape=tape)

    async def callees(self) -> Callees:
        return self._taped

    def agents(self) -> list[AgentSpec]:
        return self._cards

    async def load_templates(self) -> Mapping[str, Template]:
        """Returns the templates that are kept now: a tape has none, and their versions stay."""
        found = await self._present.load_templates()
        self.templates |= self._present.templates
        return found

    async def past(self) -> CallTimings:
        """Returns the call times that were known when the next plan on the tape was proposed."""
        found = next(self._tape.bodies(e.PlanProposed), None)
        return CallTimings(found.estimate.measured if found and found.estimate else {})

    async def usable_results(
        self, options: RunOptions, pins: Mapping[str, str] | None = None
    ) -> UsableResults:
        """Returns the results of earlier runs that the recorded plans use."""
        del options
        found: list[EarlierResult] = []
        for event in self._tape.events:
            if isinstance(event.body, e.PlanProposed) and event.body.earlier:
                requests = _noted_requests(event.body)
                found += [
                    EarlierResult(ref, digest, request=requests.get(ref, ""))
                    for ref, digest in event.body.earlier.items()
                ]
        return UsableResults(self.store.get, pinned_results(found, pins or {}))

    async def propose(self, journal: Journal, proposal: Proposal) -> None:
        """Writes a plan into the run; a schedule's approval comes from the tape."""
        created = self._tape.events[0].body
        scheduled = isinstance(created, e.RunCreated) and created.origin.kind == "schedule"
        if journal.run.plan is None and scheduled:
            proposal = replace(proposal, reviewed=_recorded_review(self._tape))
        found = next(self._tape.bodies(e.PlanProposed), None)
        if found is not None:  # the tools' effects may have changed since
            proposal = replace(proposal, about={**proposal.about, "acts": found.acts})
        await super().propose(journal, proposal)


def _noted_requests(body: e.PlanProposed) -> dict[str, str]:
    """Returns each result that a note of a plan tells of, with the request of its run."""
    requests: dict[str, str] = {}
    for each in body.problems:
        step = body.plan.by_id.get(each.step or "")
        if step is None or not isinstance(each.message, Sentence) or each.message.key != USE:
            continue
        for found in step.references:
            if found.ref is not None and found.where == each.path:
                requests[found.ref.step] = str(each.message.fields["request"])
    return requests


def _recorded_review(tape: Tape) -> list[Entry]:
    rest = [*dropwhile(lambda each: not isinstance(each.body, e.PlanProposed), tape.ahead)]
    kinds = (e.PlanApproved, e.RunStarted, e.ReviewAsked)
    found = takewhile(lambda each: isinstance(each.body, kinds), rest[1:])
    return [(each.body, each.by) for each in found if each.at == rest[0].at]


class _TapedPlanning(RunPlanning):
    """Planning whose plans and early reads come from the tape."""

    def __init__(
        self, tape: Tape, *, journals: Journals, intake: PlanIntake, planner: Planner | None
    ) -> None:
        super().__init__(journals=journals, intake=intake, planner=planner, early_start=False)
        self._tape = tape

    async def settle_early(self, journal: Journal, keep: Collection[str] | None = None) -> None:
        """Writes the early reads that come next on the tape."""
        del keep
        while self._tape.next and isinstance(self._tape.next.body, _EARLY):
            await journal.append(self._tape.next.body, by=self._tape.next.by)

    async def make(
        self, request: PlanRequest, *, on_step: OnStep | None = None, results: bool = True
    ) -> Planned:
        """Returns the outcome of planning that the next events record."""
        del request, on_step, results
        tape, soon = self._tape, [event.body for event in self._tape.ahead[:4]]

        def first(kind: type[_Body]) -> _Body | None:
            return next((body for body in soon if isinstance(body, kind)), None)

        def exchanges(record: str) -> tuple[dict[str, Json], ...]:
            return tuple(cast("list[dict[str, Json]]", tape.values[record])) if record else ()

        # The next plan is reviewed if its planner read earlier results.
        entries = (each[0] if isinstance(each, tuple) else each for each in _recorded_review(tape))
        asked = [each for each in entries if isinstance(each, e.ReviewAsked)]
        triaged = first(e.Triaged)
        made = Planned(
            Decision(triaged.decision) if triaged else Decision.PLAN,
            reason=triaged.reason if triaged else "",
            read_results=any(READ_RESULTS in each.reasons for each in asked),
        )
        if (plan := first(e.PlanProposed)) is not None:
            return replace(
                made,
                plan=plan.plan,
                problems=plan.problems,
                picks=plan.picks,
                origin=plan.origin,
                metrics=plan.metrics or PlanningFigures(),
                exchanges=exchanges(plan.record),
            )
        if (failed := first(PlanningFailed)) is not None:
            return replace(
                made,
                decision=Decision.PLAN,
                plan=Plan.model_validate({"degraded": failed.reason, "steps": []}),
                problems=failed.problems,
                metrics=PlanningFigures().spent(_usage(failed.tokens, failed.cost)),
                exchanges=exchanges(failed.record),
            )
        question, report = first(e.QuestionAsked), first(e.ReportMade)
        said = question.text if question else ""
        if triaged is None:
            return replace(made, answer=said)
        usage = _usage(triaged.tokens, triaged.cost) if triaged.tokens else Usage()
        return replace(
            made,
            answer=str(tape.values[report.result]) if report and report.result else said,
            metrics=PlanningFigures().spent(usage),
            exchanges=exchanges(triaged.record),
        )


class _NoPlanner:
    name = "on tape"

    async def make(self, *_: object, **__: object) -> Planned:
        raise Refused(Sentence("a replay calls no model"))


def taped_runs(tape: Tape, runs: RunService, callees: Callees) -> RunService:
    """Returns a `RunService` that replays a tape, with the settings of another one."""
    planned = any(isinstance(each.body, e.Triaged | e.ReplanStarted) for each in tape.events)
    store, clock = cast("PlanStore", _TapeStore(tape)), _TapeClock(tape)
    journals = Journals(store=store, clock=clock, ids=lambda: tape.events[0].run)
    intake = _TapedIntake(tape, runs.intake, callees, store=store, clock=clock)
    planner = _NoPlanner() if planned else None
    return RunService(
        planning=_TapedPlanning(tape, journals=journals, intake=intake, planner=planner),
        limits=runs.execution.limits,
        budget=runs.budgets.limits,
        rounds=runs.reviser.rounds,
    )
