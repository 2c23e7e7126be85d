"""Everything that can be done with a run; one create() for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from plansmith.engine.answers import ONLY_PERSONS, expired, settle, why_not
from plansmith.engine.budget import BudgetLimits, RunLimits
from plansmith.engine.journal import Entry, Journal
from plansmith.engine.requested import asking_about_missing
from plansmith.errors import (
    JournalDamaged,
    Misconfigured,
    Refused,
    RunBusy,
    StaleDecision,
    StaleWriter,
)
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.fold import GO_ON
from plansmith.plan.next_move import Conclude, Execute, MakePlan, next_move, sees_first
from plansmith.plan.origin import Origin
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.run_options import RunOptions
from plansmith.plan.sentence import Sentence
from plansmith.planner.request import MetricTotals, PlanMetrics, PlanRequest
from plansmith.ports import Clock, PlanStore
from plansmith.runs.budgets import RunBudgets
from plansmith.runs.editing import PlanEditing
from plansmith.runs.execution import RunExecution, may_execute
from plansmith.runs.intake import PlanIntake
from plansmith.runs.journals import Journals, run_created
from plansmith.runs.planning import RunPlanner, shown_first
from plansmith.runs.repeating import RunRepeating
from plansmith.runs.replan import Rounds
from plansmith.runs.revising import PlanReviser
from plansmith.runs.stopping import RunStopping, decided

SUBMITTED: Final = {"origin": "submitted"}
_AT_ONCE: Final = 100


class RunService:
    """Everything that is done with runs; each part does one kind of it."""

    def __init__(
        self,
        *,
        journals: Journals,
        intake: PlanIntake,
        planner: RunPlanner,
        limits: RunLimits | None = None,
        rounds: Rounds | None = None,
        budget: BudgetLimits | None = None,
        shared_budget: BudgetLimits | None = None,
    ) -> None:
        given = limits or RunLimits()
        # What runs without review may take data out of tools without a question, too.
        free = dict.fromkeys((*given.data_free, *intake.policy.never_for))
        limits = given.replace(data_free=tuple(free))
        self.journals = journals
        self.intake = intake
        self.planner = planner
        self.budgets = RunBudgets(intake, limits=budget, shared=shared_budget)
        self.reviser = PlanReviser(
            journals=journals,
            intake=intake,
            planner=planner,
            budgets=self.budgets,
            limits=limits,
            rounds=rounds,
        )
        self.execution = RunExecution(
            journals=journals,
            intake=intake,
            planner=planner,
            reviser=self.reviser,
            budgets=self.budgets,
            limits=limits,
        )
        self.stopping = RunStopping(journals=journals, execution=self.execution)
        self.editing = PlanEditing(reviser=self.reviser, stopping=self.stopping)
        self.repeating = RunRepeating(reviser=self.reviser, create=self.create)

    async def __call__(self) -> list[Run]:
        """All runs, oldest first, without their results: `smith.runs()`."""
        return await self.journals.all()

    @property
    def store(self) -> PlanStore:
        """Where runs are kept."""
        return self.journals.store

    @property
    def clock(self) -> Clock:
        """What time it is."""
        return self.journals.clock

    async def close(self) -> None:
        """Stop executing, leaving every run to be resumed, and let go of all that is held."""
        await self.planner.close()
        await self.execution.close()
        await self.intake.close()
        await self.journals.close()

    async def create(  # noqa: PLR0913 - all by name
        self,
        request: str = "",
        *,
        by: e.Who,
        plan: Plan | None = None,
        run_id: str = "",
        locale: str = "",
        options: RunOptions | None = None,
        origin: Origin | None = None,
        folder: str = "",
        about: Mapping[str, Any] | None = None,
        kept: Sequence[e.StepReused] = (),
        reviewed: Sequence[Entry] | None = None,
        checked: bool = True,
    ) -> Journal:
        """A new run: its plan is checked and put forward, or made later where there is none.

        `kept` are results that count already; `reviewed` stands in for our own review.
        """
        who, journal = e.actor(by), self.journals.new(run_id)
        where = {"locale": locale, "folder": folder}
        start = [(run_created(request, plan, options=options, origin=origin, **where), who)]
        if plan is None:
            self.planner.need_model()
            await journal.append(*start)
            return journal
        if checked:
            plan = await self.intake.pinned(plan)
        await self.intake.propose(
            journal,
            plan,
            await self.intake.usable(plan) if checked else (),
            start=start,
            then=kept,
            reviewed=reviewed,
            about=about or submitted(who),
            by=who,
        )
        return self.journals.keep(journal)

    async def plan(self, request: PlanRequest, *, by: e.Who = "") -> Run:
        """A new run with a plan for a request, waiting for review if it has to."""
        journal = await self.create(request.text, options=request.options(), by=by)
        await self.planner.plan(journal, request)
        return await self.journals.whole(journal)

    async def submit(
        self,
        plan: Plan,
        *,
        request: str = "",
        origin: Origin | None = None,
        about: Mapping[str, Any] | None = None,
        by: e.Who = "",
    ) -> Run:
        """A new run of a ready plan: checked and reviewed like any other; no model is needed."""
        created = self.create(request, plan=plan, origin=origin, about=about, by=by)
        return await self.journals.whole(await created)

    async def run(self, run_id: str) -> Run:
        """Take a run as far as it goes: until it is over, or waits for a person."""
        while True:
            executing = self.execution.of(run_id)
            if executing is not None:
                return await asyncio.shield(executing)
            journal = await self._looked_at(run_id)
            match next_move(journal.run):
                case MakePlan() if await self._plan(journal):
                    continue
                case _ if may_execute(journal.run) and await self.execution.begin(journal):
                    continue
                case _:
                    (journal := await self.journals.load(run_id)).need_sound()
                    return await self.journals.whole(journal)

    async def _looked_at(self, run_id: str) -> Journal:
        """The journal of a run, once it is written what time and today's policy make of it."""
        journal = await self.journals.resumed(run_id)
        journal.need_sound()
        self.journals.require_ours(journal.run)
        await self._expire(journal)
        await self._ask_late(journal)
        return journal

    async def _plan(self, journal: Journal) -> bool:
        """Make the plan that a run waits for; false when somebody does, or nobody can."""
        if self.planner.model is None or self.planner.is_planning(journal.id):
            return False
        if journal.run.changing:
            async with self.journals.owners.owning(journal.id):
                await self.reviser.change(journal)
        else:
            await self.planner.plan(journal)
        self.journals.keep(journal)
        return True

    async def planned(self, run: Run) -> Run:
        """The run with a plan, where one is to be made now."""
        if next_move(run) != MakePlan():
            return run
        journal = await self.journals.load(run.id)
        await self.planner.plan(journal)
        return await self.journals.whole(journal)

    async def _expire(self, journal: Journal) -> None:
        """Close questions whose time is up."""
        for bodies in expired(journal.run, self.clock.now()):
            await journal.append(*bodies)

    async def _ask_late(self, journal: Journal) -> None:
        """Ask about a plan that could have run at once when it was made, and cannot any more."""
        run = journal.run
        if run.phase is not RunStatus.PLANNING or run.plan is None or run.changing or run.paused:
            return
        review = await self.intake.review(run.plan, run, templates=run.templates)
        if sees_first(run):
            review = review or [shown_first(run.plan)]
        asked = asking_about_missing(review, run.plan, run.problems)
        if asked:
            await journal.append(*asked)

    async def ask_for_review(self, run_id: str, reason: str) -> None:
        """Have a person look at a plan that would otherwise not need it."""
        journal = await self.journals.load(run_id)
        run = journal.run
        if run.plan is None or run.phase is not RunStatus.PLANNING or run.questions or run.paused:
            return
        asked = await self.intake.review(run.plan, run, more=(reason,), templates=run.templates)
        try:
            await journal.append(*asked)
        except StaleWriter:
            return  # someone went on with it meanwhile

    async def decide(
        self, run_id: str, *, approve: str | None = None, reject: bool = False, by: e.Who = ""
    ) -> Run:
        """A person's decision on exactly the plan of the hash; of two, one wins."""
        if (approve is None) == (not reject):
            raise Misconfigured("decide takes either approve=HASH or reject=True")
        if e.actor(by).kind != "person":
            raise Refused(f"a {e.actor(by).kind} cannot decide on a plan", hint=ONLY_PERSONS)
        journal = await (self.journals.load(run_id) if reject else self.journals.own(run_id))
        run = journal.run
        # By its phase: an open question keeps nobody from deciding about the plan.
        if run.phase is not RunStatus.REVIEWING or run.plan is None or run.is_approved:
            raise StaleDecision(f"run {run_id} does not wait for a decision: it is {run.status}")
        if approve is not None and approve != run.plan.hash:
            hint = f"the plan now has the hash {run.plan.hash}: look at it again"
            raise StaleDecision("this is not the hash of the current plan", hint=hint)
        bodies: list[e.AnyBody] = []
        if approve is not None:
            tools = await self.intake.definitions(run.plan, run.templates)
            bodies = [e.PlanApproved(hash=run.plan.hash, tools=tools)]
        if reject:
            ending = e.RunFinished(status="cancelled", reason=Sentence("end.rejected"))
            open_ = [e.QuestionWithdrawn(question=name) for name in run.questions]
            bodies = [e.PlanRejected(), *open_, ending]
        await decided(journal, *bodies, by=by)
        return await self.journals.whole(journal)

    async def answer(self, run_id: str, question: str, value: Json, *, by: e.Who = "") -> Run:
        """An answer to an open question; the second is refused, and a program's where it decides.

        A program answers what a plan or the planner asks, unless something that acts waits for it.
        """
        journal = await self.journals.own(run_id)
        await self._expire(journal)
        asked = journal.run.questions.get(question)
        if asked is None:
            raise Refused(f"run {run_id} has no open question {question!r}")
        known = await self.intake.known(journal.run.plan, journal.run.templates)
        why = why_not(journal.run, asked, known) if e.actor(by).kind != "person" else ""
        if why:
            raise Refused(f"{question!r} is not for programs to answer: {why}", hint=ONLY_PERSONS)
        answered = e.QuestionAnswered(question=question, answer=value)
        settled = settle(asked, value, run=journal.run, known=known)
        await decided(journal, answered, *settled, by=by, values=[value])
        if asked.limit_asked == "shared_budget" and value == GO_ON:
            await self.budgets.count()
        if journal.run.cancel_asked and self.execution.of(run_id) is None:
            await self.execution.end(journal)
        return await self.journals.whole(journal)

    async def metrics(self) -> dict[str, Json]:
        """How planning went over all runs: parse success, steps, repairs, latency, cost."""
        totals = MetricTotals()
        for run in await self.journals.all():
            if run.metrics is not None:
                totals.add(PlanMetrics.of(run.metrics))
        return totals.to_json()

    async def give_up(self, run_id: str, *, reason: str) -> None:
        """End a run that could not even be planned, so that nobody waits for it for ever."""
        journal = await self.journals.load(run_id)
        if journal.run.plan is None and not journal.run.status.over:
            await journal.append(e.RunFinished(status="failed", reason=reason))

    async def set_aside(self, run_id: str, *, reason: str, by: e.Who) -> None:
        """End a run that was only planned: its plan is used elsewhere."""
        journal = await self.journals.load(run_id)
        if journal.run.status in (RunStatus.PLANNING, RunStatus.REVIEWING):
            ending = e.RunFinished(status="cancelled", reason=reason)
            await journal.append(ending, by=e.actor(by))

    async def resume_all(self, *, busy: Callable[[RunBusy], None] = lambda _: None) -> list[Run]:
        """After a restart: plan what was not planned yet, and go on with all that was under way.

        A damaged run keeps no other from going on; it is told at the end. Runs that other
        processes of this machine are running are left to them, and told to `busy`.
        """
        for run_id in await self.store.open_runs() if self.planner.model is not None else ():
            with suppress(JournalDamaged):  # told by what follows
                try:
                    await self._plan_left(run_id)
                except RunBusy as error:
                    busy(error)
        begun: list[asyncio.Future[Run] | BaseException | None] = []
        names = await self.store.open_runs()
        for start in range(0, len(names), _AT_ONCE):
            some = map(self._resumed, names[start : start + _AT_ONCE])
            begun += await asyncio.gather(*some, return_exceptions=True)
        runs = list(await asyncio.gather(*_executing(begun, busy)))
        for each in begun:
            if isinstance(each, JournalDamaged):
                raise each
        return runs

    async def _plan_left(self, run_id: str) -> None:
        """Make a plan whose making was cut off."""
        journal = await self.journals.load(run_id)
        here = self.journals.is_ours(journal.run) and self.execution.of(run_id) is None
        if here and isinstance(next_move(journal.run), MakePlan):
            await self._plan(journal)

    async def _resumed(self, run_id: str) -> asyncio.Future[Run] | None:
        journal = await self.journals.load(run_id)
        journal.need_sound()
        if self.execution.of(run_id) is not None or not self.journals.is_ours(journal.run):
            return None
        await self._expire(journal)
        match next_move(journal.run):
            case Execute(begun=True) | Conclude():
                return await self.execution.begin(journal)
            case _:
                return None


def _executing(
    begun: Sequence[asyncio.Future[Run] | BaseException | None], busy: Callable[[RunBusy], None]
) -> Iterator[asyncio.Future[Run]]:
    """The runs that go on here; damage is told later, and any other trouble at once."""
    for each in begun:
        if isinstance(each, RunBusy):
            busy(each)
        elif isinstance(each, BaseException):
            if not isinstance(each, JournalDamaged):
                raise each
        elif each is not None:
            yield each


def submitted(by: e.Who) -> Mapping[str, str]:
    """The origin of a ready plan: whoever handed it in, a program where it was one."""
    return {"origin": "program"} if e.actor(by).kind == "program" else SUBMITTED
