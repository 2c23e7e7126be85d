"""Runs whose calls, clock, store and planner come from a recording."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal
from itertools import dropwhile, takewhile
from typing import Any, Final, cast

from plansmith.engine.call import Callees
from plansmith.engine.journal import Entry, Journal
from plansmith.engine.timings import CallTimings
from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.plan.capability import AgentSpec
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.planning_events import PlanningFailed, PrefetchEnded, PrefetchStarted
from plansmith.plan.problem import Problem
from plansmith.planner.draft import OnStep
from plansmith.planner.request import PlanMetrics, Planned, PlanRequest
from plansmith.planner.shortlist.pick import Pick
from plansmith.planner.triage import Decision
from plansmith.ports import ChatModel, Usage
from plansmith.replay.tape import Tape, TapeCallees, TapeClock, TapeStore
from plansmith.runs.intake import PlanIntake
from plansmith.runs.journals import Journals
from plansmith.runs.planning import RunPlanner
from plansmith.runs.service import RunService


def taped_runs(tape: Tape, runs: RunService, callees: Callees) -> RunService:
    """The service for runs with everything on tape, and the settings of another one."""
    bodies = [event.body for event in tape.events]
    planned = any(isinstance(each, e.Triaged | e.ReplanStarted) for each in bodies)
    store, clock = TapeStore(tape), TapeClock(tape)
    journals = Journals(store=store, clock=clock, ids=lambda: tape.events[0].run)
    intake = TapedIntake(tape, runs.intake, callees, store=store, clock=clock)
    model = _Silent() if planned else None
    return RunService(
        journals=journals,
        intake=intake,
        planner=TapedPlanner(tape, journals=journals, intake=intake, model=model),
        limits=runs.execution.limits,
        budget=runs.budgets.limits,
        rounds=runs.reviser.rounds,
    )


class TapedIntake(PlanIntake):
    """A plan intake whose callees, costs and standing approvals are on tape."""

    def __init__(
        self,
        tape: Tape,
        intake: PlanIntake,
        callees: Callees,
        *,
        store: TapeStore,
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
        self._cards = intake.agents()
        self._taped = TapeCallees(clock, callees.tools, callees.specs, callees.agents, tape=tape)

    async def callees(self) -> Callees:
        """What can be called, on tape."""
        return self._taped

    def agents(self) -> list[AgentSpec]:
        """The cards of the agents there are."""
        return self._cards

    async def past(self) -> CallTimings:
        """What was known of earlier calls when the next plan on the tape was put forward."""
        found = next_plan(self._tape)
        return CallTimings(found.estimate.measured if found and found.estimate else {})

    async def propose(
        self, journal: Journal, plan: Plan, problems: Sequence[Problem] = (), **entries: Any
    ) -> None:
        """Put a plan forward; what a schedule's approval came to at a fire is on the tape."""
        if journal.run.plan is None and _is_fire(self._tape):
            entries["reviewed"] = standing_on(self._tape)
        found = next_plan(self._tape)
        if found is not None:  # what tools do may be another thing today
            entries["about"] = {**(entries.get("about") or {}), "acts": found.acts}
        await super().propose(journal, plan, problems, **entries)


class TapedPlanner(RunPlanner):
    """A planner whose plans, and reads before them, are on tape."""

    def __init__(
        self, tape: Tape, *, journals: Journals, intake: PlanIntake, model: ChatModel | None
    ) -> None:
        super().__init__(journals=journals, intake=intake, model=model, early_start=False)
        self._tape = tape

    async def settle_early(self, journal: Journal, keep: Collection[str] | None = None) -> None:
        """Write what the tape has next of reads that were made early."""
        del keep
        while self._tape.next and isinstance(self._tape.next.body, _EARLY):
            await journal.append(self._tape.next.body, by=self._tape.next.by)

    def maker_of(self, planned: Planned) -> str:
        """Who made the plan, as the tape says."""
        found = next_plan(self._tape)
        return found.origin if found else super().maker_of(planned)

    async def make(
        self, request: PlanRequest, *, on_step: OnStep | None = None, triage: bool = True
    ) -> Planned:
        """What the planner came to, as it stands on the tape."""
        del request, on_step, triage
        return planned_on(self._tape)


def next_plan(tape: Tape) -> e.PlanProposed | None:
    """The plan that is put forward next."""
    following = (event.body for event in tape.events[tape.position :])
    return next((body for body in following if isinstance(body, e.PlanProposed)), None)


_EARLY: Final = (PrefetchStarted, PrefetchEnded)


class _Silent:
    """Stands where a model was; a replay has no use for one."""

    name = "on tape"

    def stream(self, *_: object, **__: object) -> Any:
        """Never called."""
        raise Refused("a replay asks no model")


def _is_fire(tape: Tape) -> bool:
    body = tape.events[0].body
    return isinstance(body, e.RunCreated) and body.origin.kind == "schedule"


def standing_on(tape: Tape) -> list[Entry]:
    """What stands behind the next plan in the same moment: an approval, or a question for one."""
    rest = list(dropwhile(lambda each: not _proposes(each), tape.events[tape.position :]))
    kinds = (e.PlanApproved, e.RunStarted, e.ReviewAsked)
    found = takewhile(lambda each: isinstance(each.body, kinds), rest[1:])
    return [(each.body, each.by) for each in found if each.at == rest[0].at]


def _proposes(event: e.Event) -> bool:
    return isinstance(event.body, e.PlanProposed)


def planned_on(tape: Tape) -> Planned:
    """The outcome of planning that the next events tell of."""
    bodies = [event.body for event in tape.events[tape.position : tape.position + 4]]
    proposed = next((body for body in bodies if isinstance(body, e.PlanProposed)), None)
    triaged = next((body for body in bodies if isinstance(body, e.Triaged)), None)
    decision = Decision(triaged.decision) if triaged else Decision.PLAN
    reason = triaged.reason if triaged else ""
    if proposed is not None:
        return Planned(
            decision,
            reason=reason,
            plan=proposed.plan,
            problems=proposed.problems,
            picks=tuple(Pick(each.name, 0.0, each.reason, "tool") for each in proposed.picks),
            metrics=PlanMetrics.of(proposed.metrics) if proposed.metrics else PlanMetrics(),
            exchanges=_exchanges(tape, proposed.record),
        )
    failed = next((body for body in bodies if isinstance(body, PlanningFailed)), None)
    if failed is not None:
        return _failed(failed, reason, tape)
    asked = next((body.text for body in bodies if isinstance(body, e.QuestionAsked)), "")
    made = next((body.result for body in bodies if isinstance(body, e.ReportMade)), "")
    answer = str(tape.values[made]) if triaged and made else asked
    usage = _usage(triaged.tokens, triaged.cost) if triaged and triaged.tokens else Usage()
    return Planned(
        decision,
        reason=reason,
        answer=answer,
        metrics=PlanMetrics(usage=usage),
        exchanges=_exchanges(tape, triaged.record if triaged else ""),
    )


def _failed(body: PlanningFailed, reason: str, tape: Tape) -> Planned:
    """Planning that gave nothing to run: a stand-in says why."""
    stand_in = Plan.model_validate({"degraded": body.reason, "steps": []})
    return Planned(
        Decision.PLAN,
        reason=reason,
        plan=stand_in,
        problems=body.problems,
        metrics=PlanMetrics(usage=_usage(body.tokens, body.cost)),
        exchanges=_exchanges(tape, body.record),
    )


def _usage(tokens: int, cost: str) -> Usage:
    return Usage(tokens, cost=Decimal(cost) if cost else None)


def _exchanges(tape: Tape, record: str) -> tuple[dict[str, Json], ...]:
    """What models were asked and said, as it was kept."""
    return tuple(cast("list[dict[str, Json]]", tape.values[record])) if record else ()
