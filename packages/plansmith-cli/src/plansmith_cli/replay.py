"""Runs a recorded plan again with the recorded results, and compares what its steps do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, cast

from plansmith.check.estimate import CallTimings
from plansmith.engine.call import Callees
from plansmith.engine.outcome import Asks, Done, Failed, Outcome
from plansmith.engine.units import Unit
from plansmith.errors import InputNeeded, JournalDamaged, PlansmithError
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.ids import call_key
from plansmith.plan.next_move import (
    AwaitAnswer,
    AwaitReview,
    EndOrReplan,
    Execute,
    MakePlan,
    Paused,
    next_move,
)
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Decision, Planned
from plansmith.plan.run import NOT_STARTED, Run, RunStatus, StepState, StepStatus
from plansmith.plan.sentence import Sentence, with_hint
from plansmith.ports import Call, Document, Store, Usage
from plansmith.review.coverage import redefined
from plansmith.runs.intake import NewRun, PlanIntake
from plansmith.runs.journals import Journals
from plansmith.runs.registry import Registry
from plansmith.runs.revision import is_skipped_by_person
from plansmith.runs.service import RunService
from plansmith.store.memory import MemoryStore

if TYPE_CHECKING:
    from plansmith.app import Plansmith

_STOPPED: Final = (RunStatus.CANCELLED, RunStatus.ANSWERED)
_QuestionKey = tuple[str, str, str, str]
_SKIPPABLE: Final = (*NOT_STARTED, StepStatus.ASKING)
_OutcomeEvent = e.StepDone | e.StepFailed | e.StepUnknown | e.QuestionAsked
_ENDED: Final = (StepStatus.DONE, StepStatus.FAILED, StepStatus.SKIPPED)


@dataclass(frozen=True, slots=True)
class Replayed:
    """How many recorded calls were made again with the same inputs, and what differs today."""

    run: str
    calls: int
    differences: tuple[str, ...] = ()

    @property
    def identical(self) -> bool:
        """Tells whether the plan makes the same calls and ends in the same way."""
        return not self.differences

    def to_json(self) -> dict[str, Json]:
        return {
            "run": self.run,
            "identical": self.identical,
            "calls": self.calls,
            "differences": [str(each) for each in self.differences],
        }


async def replay(run_id: str, smith: Plansmith) -> Replayed:
    """Runs the last plan of a run again, with the settings and tools of this Plansmith.

    Nothing is called, asked or stored: the results of tools, agents and models, and what people
    decided, are recorded. Of steps that the record does not end nothing is compared.
    """
    runs = smith.runs
    journal = await runs.journals.load_verified(run_id)
    journal.require_sound()
    record = _Record(journal.run, journal.events)
    run, plan = record.run, record.run.plan
    if plan is None:
        return Replayed(run_id, 0)
    again = _replay_service(record, runs, await runs.registry.callees())
    try:
        played = await record.play(again, plan)
        differences = [*await _definitions(runs.registry, run, plan)]
        differences += record.unrecorded or _step_differences(run, played)
    except PlansmithError as error:
        why = with_hint(error.message, error.hint)
        differences = [Sentence("today it is refused: {reason}", reason=why)]
    finally:
        await again.close()
    return Replayed(run_id, record.made, tuple(differences))


async def _definitions(registry: Registry, run: Run, plan: Plan) -> Sequence[str]:
    """Says what the tools of a plan do now that they did not do then, and what was redefined."""
    acts = await registry.acting(plan, run.templates)
    now, then = await registry.definitions(plan, run.templates), {*run.acts}
    found = [
        Sentence("{step} changed something then, and only reads now", step=each)
        if each in then
        else Sentence("{step} only read then, and changes something now", step=each)
        for each in sorted(then ^ {*acts})
    ]
    return (*found, *redefined(run.approved_tools, now))


def _step_differences(then: Run, now: Run) -> list[str]:
    """Compares how each step and the run ended; in a stopped run, only what ended in both."""
    stopped = not then.status.over or then.status in _STOPPED
    found: list[str] = []
    for name, was in then.steps.items():
        state = now.steps.get(name, StepState())
        if was.status not in _ENDED or (stopped and state.status not in _ENDED):
            continue
        about = {"step": name, "then": was.status.value, "now": state.status.value}
        if state.status is not was.status:
            found.append(Sentence("{step} ended as {then}, and now as {now}", **about))
        elif state.result_hash != was.result_hash:
            found.append(Sentence("{step} has another result", step=name))
        elif was.inputs and state.call_mark != was.call_mark:
            found.append(Sentence("{step} is called with other inputs", step=name))
    if not stopped and now.status is not then.status and not found:
        about = {"then": then.status.value, "now": now.status.value}
        found.append(Sentence("the run ended as {then}, and now as {now}", **about))
    return found


class _Record:
    """What a journal says of calls, by their keys, and of decisions."""

    def __init__(self, run: Run, events: Sequence[e.Event]) -> None:
        self.run, self._events = run, events
        self.made = 0
        self.unrecorded: list[str] = []
        self.clock = _Clock(events[0].at)
        self.had_planner = any(isinstance(each.body, e.ReplanStarted) for each in events)
        self._outcomes = _call_outcomes(events)
        self._answers: defaultdict[_QuestionKey, list[e.QuestionAnswered]] = defaultdict(list)
        self._approved: dict[str, e.Actor] = {}
        self._seen: dict[str, e.PlanApproved] = {}  # approvals of previews
        # Steps and parts that a person left out, and that nobody took in again.
        self._left_out = [name for name, each in run.steps.items() if is_skipped_by_person(each)]
        open_questions: dict[str, e.QuestionAsked] = {}
        for event, after in zip(events, (*events[1:], None), strict=True):
            match event.body:
                case e.QuestionAsked(question=name) as asked:
                    open_questions[name] = asked
                case e.QuestionAnswered(question=name) as given:
                    # Consent may also name the files that were seen.
                    if after is not None and isinstance(after.body, e.StepReplied):
                        given = given.replace(answer=after.body.answer)
                    self._answers[_question_key(open_questions[name])].append(given)
                case e.PlanApproved(hash=digest) as approved:
                    self._approved[digest] = event.by
                    self._seen |= {digest: approved} if approved.preview else {}
                case _:
                    pass

    async def _create(self, runs: RunService, plan: Plan) -> Run:
        """Creates the run anew, with the results that it took over from another one."""
        first, run = self._events[0], self.run
        reused = (each.body for each in self._events if isinstance(each.body, e.StepReused))
        new = NewRun(
            run.request,
            plan,
            by=first.by,
            locale=run.locale,
            options=run.options,
            origin=run.origin,
            folder=run.folder,
            reused=[each for each in reused if each.step in plan.by_id and each.run != run.id],
            pins=run.pins,
        )
        return await runs.journals.whole(await runs.create(new))

    async def play(self, runs: RunService, plan: Plan) -> Run:
        """Runs a plan until it is over, or until the record has no decision for it."""
        played = await self._create(runs, plan)
        by = self._approved.get(plan.hash, e.Actor(kind="person", name="replay"))
        while True:
            number = played.last.number if played.last else 0
            played = await self._leave_out(runs, played, by)
            match next_move(played):
                case AwaitReview(hash=digest) if digest in self._approved:
                    played = await self._approve(runs, played, digest, by)
                case AwaitReview() if self.run.running_hash == plan.hash:
                    self.unrecorded.append(Sentence("today a person has to approve the plan"))
                    return played
                case AwaitAnswer(questions=names) | Paused(questions=names) if names:
                    played = await self._answer(runs, played, by)
                case Execute() | EndOrReplan() | MakePlan():
                    played = await runs.run(played.id)
                case _:
                    return played
            if played.last is None or played.last.number == number:
                return played

    async def _leave_out(self, runs: RunService, played: Run, by: e.Actor) -> Run:
        """Skips what a person left out, once the plan is approved and the part is there."""
        waits = isinstance(next_move(played), AwaitReview)
        for name in () if waits else self._left_out:
            state = played.steps.get(name)
            if state is not None and state.status in _SKIPPABLE:
                await runs.skip(played.id, name, by=by)
                played = await runs.journals.get(played.id)
        return played

    async def _answer(self, runs: RunService, played: Run, by: e.Actor) -> Run:
        """Gives the next recorded answer, if there is one; if nobody answered then, time passes."""
        for name, asked in played.questions.items():
            known = self._answers.get(_question_key(asked), [])
            if not known:
                continue
            # A question of the plan has one result: the last answer to it.
            given = known[-1] if asked.kind == "step" or len(known) == 1 else known.pop(0)
            if given.no_answer and asked.expires_at is not None:
                self.clock.passed = asked.expires_at - self.clock.start + timedelta(seconds=1)
                return await runs.run(played.id)
            if not given.no_answer:
                return await runs.answer(played.id, name, given.answer, by=by)
        return played

    async def _approve(self, runs: RunService, played: Run, digest: str, by: e.Actor) -> Run:
        """Approves a plan, with what its preview shows if a person saw one."""
        if (seen := self._seen.get(digest)) is not None:
            played = await runs.preview(played.id, by=by)
        if seen is None or played.previewed is None:
            return await runs.decide(played.id, approve=digest, by=by)
        known = played.previewed.covers.keys()
        changed = {name: each for name, each in seen.changed.items() if name in known}
        return await runs.decide(
            played.id,
            approve=played.previewed.approval,
            by=by,
            leave_out=[each for each in seen.left_out if each in known],
            change=cast("dict[str, dict[str, Json]]", changed),
            fresh=seen.fresh,
        )

    async def outcome(self, store: Store, unit: Unit, call: Call) -> Outcome:
        """Returns how the call with this key ended."""
        outcomes = self._outcomes.get(call.key)
        if not outcomes:
            if self.run.status.over and self.run.status not in _STOPPED:
                other = Sentence("{step} is called with other inputs", step=unit.name)
                self.unrecorded.append(other)
            return Failed("the record has no result of this call", unsure=True)
        self.made += 1
        body = outcomes.pop(0) if len(outcomes) > 1 else outcomes[0]
        if isinstance(body, e.StepDone | e.StepFailed) and (body.tokens or body.cost):
            call.spend(Usage(body.tokens, cost=Decimal(body.cost) if body.cost else None))
        match body:
            case e.StepDone(result=digest):
                return Done(await store.get(digest))
            case e.StepFailed(error=error, kind=kind, unsure=unsure):
                return Failed(error, kind=kind, unsure=unsure)
            case e.StepUnknown(reason=reason):
                return Failed(reason, unsure=True)
            case e.QuestionAsked(text=text, answer_schema=schema, options=options, link=link):
                state = await store.get(body.state)
                return Asks(
                    InputNeeded(text, schema=schema, options=options, state=state, link=link)
                )


def _question_key(asked: e.QuestionAsked) -> _QuestionKey:
    """Returns by what a question is recognised: its name may count how often it was asked."""
    values = asked.state if asked.kind == "consent" else ""
    return asked.kind, asked.step or asked.question, str(asked.text), values


def _call_outcomes(events: Sequence[e.Event]) -> dict[str, list[_OutcomeEvent]]:
    """Returns how calls ended, by key: without tries that were repeated at once."""
    keys, outcomes = dict[str, str](), defaultdict[str, list[_OutcomeEvent]](list)
    for event in events:
        match event.body:
            case e.StepStarted(step=step, call_mark=mark):
                keys[step] = call_key(event.run, step, mark)
            case e.StepFailed(again=True) | e.StepFailed(kind="person" | "refused"):
                pass
            case e.StepDone() | e.StepFailed() | e.StepUnknown() as body:
                outcomes[keys.get(body.step, "")].append(body)
            case e.QuestionAsked(step=str(step), state=state) as body if state:
                outcomes[keys.get(step, "")].append(body)
            case _:
                pass
    return outcomes


class _Clock:
    """A clock that begins with the record, and does not wait."""

    def __init__(self, start: datetime) -> None:
        self.start, self.passed = start, timedelta()

    def now(self) -> datetime:
        return self.start + self.passed

    def monotonic(self) -> float:
        return self.passed.total_seconds()

    async def sleep(self, seconds: float) -> None:
        self.passed += timedelta(seconds=seconds)


class _Store(MemoryStore):
    """A store that forgets everything, and has the recorded values and the present templates."""

    def __init__(self, recorded: Store) -> None:
        super().__init__()
        self._recorded = recorded

    async def get(self, digest: str) -> Json:
        try:
            return await super().get(digest)
        except JournalDamaged:
            return await self._recorded.get(digest)

    async def documents(self, kind: str, **which: Any) -> Sequence[Document]:
        return await self._recorded.documents(kind, **which)


@dataclass(frozen=True, slots=True)
class _RecordedCallees(Callees):
    """Calls with recorded outcomes; no tool, agent or model is called."""

    record: _Record = field(kw_only=True)
    store: Store = field(kw_only=True)

    def previews(self, unit: Unit) -> None:
        """Nothing is known of how things were when the run was recorded."""

    async def call(
        self,
        unit: Unit,
        inputs: dict[str, Json],
        call: Call,
        results: Mapping[str, Json] | None = None,
    ) -> Outcome:
        del inputs, results
        outcome = await self.record.outcome(self.store, unit, call)
        flaw = self.flaw(unit, outcome.value) if isinstance(outcome, Done) else ""
        return self.failure_after_call(unit, flaw, kind="result") if flaw else outcome


class _Registry(Registry):
    """Gives recorded callees."""

    recorded: Callees

    async def callees(self) -> Callees:
        return self.recorded


class _NoPlanner:
    """A planner that makes no other plan after a failure: the last one was the last."""

    name = "recorded"

    async def make(self, *_: object, **__: object) -> Planned:
        return Planned(Decision.PLAN)


def _replay_service(record: _Record, runs: RunService, callees: Callees) -> RunService:
    """Returns a `RunService` with the settings of another one, whose calls are recorded."""
    store, clock, known = _Store(runs.store), record.clock, runs.registry
    journals = Journals(store=store, clock=clock, ids=lambda: record.run.id)
    registry = _Registry(
        store=store,
        clock=clock,
        agents=[*callees.agents.values()],
        templates=known.templates,
        secrets=known.secrets,
    )
    named = callees.tools, callees.specs, callees.agents
    registry.recorded = _RecordedCallees(clock, *named, record=record, store=runs.store)
    intake = PlanIntake(
        registry,
        policy=runs.intake.policy,
        price_per_million=runs.intake.price_per_million,
        timings=CallTimings(),
    )
    planner = _NoPlanner() if record.had_planner else None
    return RunService(
        journals=journals,
        intake=intake,
        planner=planner,
        limits=runs.execution.limits,
        budget=runs.budgets.limits,
        iterations=runs.planning.iterations if planner else None,
    )
