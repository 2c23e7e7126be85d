"""A `RunService` whose calls, clock, store and planner come from a recording."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import dropwhile, takewhile
from typing import Final, cast

from plansmith.engine.call import Callees
from plansmith.engine.journal import Entry, Journal
from plansmith.engine.timings import CallTimings
from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json
from plansmith.plan.earlier import UsableResults, pinned_results
from plansmith.plan.events import PlanningFailed, PrefetchEnded, PrefetchStarted
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Decision, OnStep, Planned, PlanningFigures, PlanRequest
from plansmith.plan.run_options import RunOptions
from plansmith.plan.sentence import Sentence
from plansmith.ports import Planner, PlanStore, Usage
from plansmith.replay.tape import Tape, TapeCallees, TapeClock, TapeStore, earlier_results
from plansmith.runs.intake import PlanIntake, Proposal
from plansmith.runs.journals import Journals
from plansmith.runs.planning import READ_RESULTS, RunPlanning
from plansmith.runs.service import RunService
from plansmith.templates.book import Template


def taped_runs(tape: Tape, runs: RunService, callees: Callees) -> RunService:
    """Returns a `RunService` that replays a tape, with the settings of another one."""
    bodies = [event.body for event in tape.events]
    planned = any(isinstance(each, e.Triaged | e.ReplanStarted) for each in bodies)
    store, clock = cast("PlanStore", TapeStore(tape)), TapeClock(tape)
    journals = Journals(store=store, clock=clock, ids=lambda: tape.events[0].run)
    intake = TapedIntake(tape, runs.intake, callees, store=store, clock=clock)
    planner = _NoPlanner() if planned else None
    return RunService(
        journals=journals,
        intake=intake,
        planning=TapedPlanning(tape, journals=journals, intake=intake, planner=planner),
        limits=runs.execution.limits,
        budget=runs.budgets.limits,
        rounds=runs.reviser.rounds,
    )


class TapedIntake(PlanIntake):
    """A plan intake whose calls, costs and approvals come from the tape."""

    def __init__(
        self,
        tape: Tape,
        intake: PlanIntake,
        callees: Callees,
        *,
        store: PlanStore,
        clock: TapeClock,
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
        self._taped = TapeCallees(clock, callees.tools, callees.specs, callees.agents, tape=tape)

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
        found = next_plan(self._tape)
        return CallTimings(found.estimate.measured if found and found.estimate else {})

    async def usable_results(
        self, options: RunOptions, pins: Mapping[str, str] | None = None
    ) -> UsableResults:
        """Returns the results of earlier runs that the recorded plans use."""
        del options
        found = earlier_results(self._tape.events)
        return UsableResults(self.store.get, pinned_results(found, pins or {}))

    async def propose(self, journal: Journal, proposal: Proposal) -> None:
        """Writes a plan into the run; a schedule's approval comes from the tape."""
        created = self._tape.events[0].body
        scheduled = isinstance(created, e.RunCreated) and created.origin.kind == "schedule"
        if journal.run.plan is None and scheduled:
            proposal = replace(proposal, reviewed=recorded_review(self._tape))
        found = next_plan(self._tape)
        if found is not None:  # the tools' effects may have changed since
            proposal = replace(proposal, about={**proposal.about, "acts": found.acts})
        await super().propose(journal, proposal)


class TapedPlanning(RunPlanning):
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
        del request, on_step, results
        made = recorded_planning(self._tape)
        return replace(made, read_results=_has_read(self._tape))


def next_plan(tape: Tape) -> e.PlanProposed | None:
    """Returns the next proposed plan on the tape, if any."""
    following = (event.body for event in tape.events[tape.position :])
    return next((body for body in following if isinstance(body, e.PlanProposed)), None)


def _has_read(tape: Tape) -> bool:
    """Tells whether the next plan is reviewed because its planner read earlier results."""
    entries = (each[0] if isinstance(each, tuple) else each for each in recorded_review(tape))
    asked = [each for each in entries if isinstance(each, e.ReviewAsked)]
    return any(READ_RESULTS in each.reasons for each in asked)


_EARLY: Final = (PrefetchStarted, PrefetchEnded)


class _NoPlanner:
    """A placeholder for the planner, which a replay never calls."""

    name = "on tape"

    async def make(self, *_: object, **__: object) -> Planned:
        raise Refused(Sentence("a replay calls no model"))


def recorded_review(tape: Tape) -> list[Entry]:
    """Returns the recorded approval or review request of the next plan."""
    following = tape.events[tape.position :]
    rest = [*dropwhile(lambda each: not isinstance(each.body, e.PlanProposed), following)]
    kinds = (e.PlanApproved, e.RunStarted, e.ReviewAsked)
    found = takewhile(lambda each: isinstance(each.body, kinds), rest[1:])
    return [(each.body, each.by) for each in found if each.at == rest[0].at]


def recorded_planning(tape: Tape) -> Planned:
    """Returns the outcome of planning that the next events record."""
    bodies = [event.body for event in tape.events[tape.position : tape.position + 4]]
    triaged = next((body for body in bodies if isinstance(body, e.Triaged)), None)
    made = Planned(
        Decision(triaged.decision) if triaged else Decision.PLAN,
        reason=triaged.reason if triaged else "",
    )
    for body in bodies:
        if isinstance(body, e.PlanProposed):
            return replace(
                made,
                plan=body.plan,
                problems=body.problems,
                picks=body.picks,
                origin=body.origin,
                metrics=body.metrics or PlanningFigures(),
                exchanges=_exchanges(tape, body.record),
            )
    for body in bodies:
        if isinstance(body, PlanningFailed):
            return replace(
                made,
                decision=Decision.PLAN,
                plan=Plan.model_validate({"degraded": body.reason, "steps": []}),
                problems=body.problems,
                metrics=PlanningFigures().spent(_usage(body.tokens, body.cost)),
                exchanges=_exchanges(tape, body.record),
            )
    asked = next((body.text for body in bodies if isinstance(body, e.QuestionAsked)), "")
    if triaged is None:
        return replace(made, answer=asked)
    result = next((body.result for body in bodies if isinstance(body, e.ReportMade)), "")
    usage = _usage(triaged.tokens, triaged.cost) if triaged.tokens else Usage()
    return replace(
        made,
        answer=str(tape.values[result]) if result else asked,
        metrics=PlanningFigures().spent(usage),
        exchanges=_exchanges(tape, triaged.record),
    )


def _usage(tokens: int, cost: str) -> Usage:
    return Usage(tokens, cost=Decimal(cost) if cost else None)


def _exchanges(tape: Tape, record: str) -> tuple[dict[str, Json], ...]:
    return tuple(cast("list[dict[str, Json]]", tape.values[record])) if record else ()
