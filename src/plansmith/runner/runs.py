"""Runs: everything that can be done with a run except planning it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

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
from plansmith.plan.next_move import (
    UNDER_WAY,
    AwaitAnswer,
    Conclude,
    Execute,
    next_move,
    sees_first,
)
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus
from plansmith.ports import Closing
from plansmith.review.definitions import redefined
from plansmith.runner.answerable import ONLY_PERSONS, why_not
from plansmith.runner.answers import expired, settle
from plansmith.runner.budget import Budget, BudgetLimits
from plansmith.runner.call import Callees
from plansmith.runner.conclude import conclude
from plansmith.runner.desk import Desk
from plansmith.runner.execute import Conductor
from plansmith.runner.journal import Journal, load_replies, load_results, results_left
from plansmith.runner.limits import RunLimits, limit_of
from plansmith.runner.patience import PatientStore
from plansmith.runner.requested import asking_about_missing
from plansmith.runner.spending import Spending
from plansmith.runner.templates import runs_templates
from plansmith.runner.units import named_unit

_AT_ONCE: Final = 100
SEEN_FIRST: Final = "you wanted to see the plan first"


class Runs(Desk):
    """Submits, reviews, runs and stops plans, and forgets nothing."""

    def __init__(
        self,
        *,
        limits: RunLimits | None = None,
        budget: BudgetLimits | None = None,
        shared_budget: BudgetLimits | None = None,
        **desk: Any,
    ) -> None:
        super().__init__(**desk)
        self.limits = limits or RunLimits()
        self.budget = budget or BudgetLimits()
        self._shared = Budget(shared_budget or BudgetLimits())
        self._spending = Spending(self.store, self.clock, self._shared)
        self._active: dict[str, tuple[Conductor, asyncio.Future[Run]]] = {}
        self._interrupted: set[str] = set()

    async def close(self) -> None:
        """Stop conducting, leaving every run to be resumed, and let go of the store."""
        futures = [future for _, future in self._active.values()]
        for future in futures:
            future.cancel()
        await asyncio.gather(*futures, return_exceptions=True)
        for part in [*self._sources, *self._agents.values()]:
            if isinstance(part, Closing):
                await part.close()
        await self.store.close()

    async def submit(self, plan: Plan, *, request: str = "", by: e.Who = "") -> Run:
        """A run of a ready plan: checked and reviewed like any other; no model is needed."""
        created = e.RunCreated(request=request or plan.goal, locale=plan.locale)
        return await self.begin(created, plan, by=by)

    async def decide(
        self, run_id: str, *, approve: str | None = None, reject: bool = False, by: e.Who = ""
    ) -> Run:
        """A person's decision on exactly the plan of the hash; of two, one wins."""
        if (approve is None) == (not reject):
            raise Misconfigured("decide takes either approve=HASH or reject=True")
        if e.actor(by).kind != "person":
            raise Refused(f"a {e.actor(by).kind} cannot decide on a plan", hint=ONLY_PERSONS)
        journal = await (self.journal(run_id) if reject else self.own_journal(run_id))
        run = journal.run
        # By its phase: an open question keeps nobody from deciding about the plan.
        if run.phase is not RunStatus.REVIEWING or run.plan is None or run.is_approved:
            raise StaleDecision(f"run {run_id} does not wait for a decision: it is {run.status}")
        if approve is not None and approve != run.plan.hash:
            hint = f"the plan now has the hash {run.plan.hash}: look at it again"
            raise StaleDecision("this is not the hash of the current plan", hint=hint)
        bodies: list[e.AnyBody] = []
        if approve is not None:
            tools = await self.definitions(run.plan, run.templates)
            bodies = [e.PlanApproved(hash=run.plan.hash, tools=tools)]
        if reject:
            ending = e.RunFinished(status="cancelled", reason="the plan was rejected")
            open_ = [e.QuestionWithdrawn(question=name) for name in run.questions]
            bodies = [e.PlanRejected(), *open_, ending]
        await self._decided(journal, *bodies, by=by)
        return await self.whole(journal)

    async def answer(self, run_id: str, question: str, value: Json, *, by: e.Who = "") -> Run:
        """An answer to an open question; the second is refused, and a program's where it decides.

        A program answers what a plan or the planner asks, unless something that acts waits for it.
        """
        journal = await self.own_journal(run_id)
        await self._expire(journal)
        asked = journal.run.questions.get(question)
        if asked is None:
            raise Refused(f"run {run_id} has no open question {question!r}")
        known = await self.known(journal.run.plan, journal.run.templates)
        why = why_not(journal.run, asked, known) if e.actor(by).kind != "person" else ""
        if why:
            raise Refused(f"{question!r} is not for programs to answer: {why}", hint=ONLY_PERSONS)
        answered = e.QuestionAnswered(question=question, answer=value)
        settled = settle(asked, value, run=journal.run, known=known)
        await self._decided(journal, answered, *settled, by=by, values=[value])
        if limit_of(question) == "shared_budget" and value == GO_ON:
            await self._spending.count()
        if journal.run.cancel_asked and run_id not in self._active:
            await self.end(journal)
        return await self.whole(journal)

    async def _decided(
        self, journal: Journal, *bodies: e.AnyBody, by: e.Who, values: Sequence[Json] = ()
    ) -> None:
        try:
            await journal.append(*bodies, by=e.actor(by), values=values)
        except StaleWriter:
            raise StaleDecision(f"someone else decided about run {journal.id} first") from None

    async def run(self, run_id: str) -> Run:
        """Run an approved plan until it is over or waits for a person."""
        if run_id not in self._active:
            journal = await self.resumed_journal(run_id)
            journal.need_sound()
            self.require_here(f"run {run_id}", journal.run.folder)
            await self.complete(journal)
            await self._expire(journal)
            await self._ask_late(journal)
            if not _may_run(journal.run) or not await self._own(journal):
                (journal := await self.journal(run_id)).need_sound()
                return await self.whole(journal)
        _, future = self._active[run_id]
        return await asyncio.shield(future)

    async def _own(self, journal: Journal) -> asyncio.Future[Run] | None:
        """Conduct a run as its one owner; nothing when it cannot go on any more by then."""
        async with self.owners.owning(journal.id):
            stands = not await journal.catch_up() or _may_run(journal.run)
            return await self._conduct(journal) if stands else None

    async def complete(self, journal: Journal) -> None:
        """Finish what has to be there before a run can go on."""
        del journal

    async def _ask_late(self, journal: Journal) -> None:
        """Ask about a plan that could have run at once when it was made, and cannot any more."""
        run = journal.run
        if run.phase is not RunStatus.PLANNING or run.plan is None or run.changing or run.paused:
            return
        review = await self.review(run.plan, run, templates=run.templates)
        if sees_first(run):
            review = review or [shown_first(run.plan)]
        asked = asking_about_missing(review, run.plan, run.problems)
        if asked:
            await journal.append(*asked)

    async def _expire(self, journal: Journal) -> None:
        """Close questions whose time is up."""
        for bodies in expired(journal.run, self.clock.now()):
            await journal.append(*bodies)

    async def _conduct(self, journal: Journal) -> asyncio.Future[Run] | None:
        """Start conducting a run that is owned here; nothing when someone else comes first."""
        if journal.id in self._active:
            return self._active[journal.id][1]
        try:
            if await self._asks_again(journal):
                return None
            conductor = await self._conductor(journal)
        except StaleWriter:
            return None
        if journal.id in self._active:
            return self._active[journal.id][1]  # begun by another call meanwhile
        journal.wait_for(PatientStore(self.patience))
        self.owners.hold(journal.id)
        future = asyncio.ensure_future(self._to_the_end(journal, conductor))
        self._active[journal.id] = conductor, future
        future.add_done_callback(lambda _: self._active.pop(journal.id, None))
        return future

    async def _asks_again(self, journal: Journal) -> bool:
        """Ask for review again when something the plan calls is not what was approved."""
        run = journal.run
        if run.plan is None:
            return False
        if not run.approved and not run.approved_tools:  # it needed no approval when it started
            asked = await self.review(run.plan, run, templates=run.templates)
        else:
            now = await self.definitions(run.plan, run.templates)
            why = redefined(run.approved_tools, now)
            again = e.ReviewAsked(hash=run.plan.hash, reasons=why, drops=run.dropped)
            asked = [again] if why else []
        if asked:
            await journal.append(*asked)
        return bool(asked)

    async def _conductor(self, journal: Journal) -> Conductor:
        run = journal.run
        if run.plan is not None and run.phase not in UNDER_WAY:
            await journal.append(e.RunStarted(hash=journal.plan_hash))
        await self._spending.count()
        measured = run.estimate.measured if run.estimate else {}
        if runs_templates(run.plan):
            await self.load_templates()
        return Conductor(
            journal,
            callees=self.equip(await self.callees(), run),
            results=await load_results(self.store, run),
            replies=await load_replies(self.store, run),
            templates={**self.templates, **run.templates},
            limits=self.limits,
            most_items=self.policy.most_items,
            durations={name: each.seconds for name, each in measured.items()},
            budget=self.budget_of(run),
        )

    def budget_of(self, run: Run) -> Budget:
        """What a run may still take."""
        return Budget.of_run(
            self.budget, run, parent=self._shared, price_per_million=self.price_per_million
        )

    def equip(self, callees: Callees, run: Run) -> Callees:
        """What a run can call; without a model, replies are worded plainly."""
        del run
        return callees

    async def _to_the_end(self, journal: Journal, conductor: Conductor) -> Run:
        try:
            idle = False
            while True:
                match next_move(journal.run, idle=idle):
                    case Execute() | AwaitAnswer() if _is_running(journal.run, idle=idle):
                        await conductor.conduct()
                        idle = True
                    case Conclude() if await self._end(journal, conductor):
                        again = partial(self._conductor, journal)
                        conductor, idle = await self.patience.until_done(again), False
                        self._active[journal.id] = conductor, self._active[journal.id][1]
                    case _:
                        break
        except StaleWriter:
            await journal.catch_up()
            return await self.whole(journal)
        except asyncio.CancelledError:
            if journal.id not in self._interrupted:
                raise
            await journal.catch_up()
            return await self.whole(journal)
        finally:
            await self.owners.let_go(journal.id)
        return await self.patience.until_done(partial(self.whole, journal, conductor.results))

    async def _end(self, journal: Journal, conductor: Conductor) -> bool:
        """End a run, however long its store is away meanwhile; true when it goes on after all."""

        async def end() -> bool:
            over = journal.run.status.over
            return not over and await self.end(journal, results=conductor.results)

        return await self.patience.until_done(end)

    async def end(
        self, journal: Journal, *, reason: str = "", results: Mapping[str, Json] | None = None
    ) -> bool:
        """End a run that has nothing left to do; true when it goes on after all."""
        if results is None:
            load = results_left if journal.run.cancel_asked else load_results
            results = await load(self.store, journal.run)
        await self._conclude(journal, results, reason=reason)
        (await self.past()).learn(journal.run)
        return False

    async def _conclude(
        self, journal: Journal, results: Mapping[str, Json], *, reason: str
    ) -> None:
        run = journal.run
        # Only of a goal that is met early it matters what the rest would have done.
        acting = await self.acting(run.plan, run.templates) if run.plan and run.advice else ()
        callees, templates = await self.callees(), {**self.templates, **run.templates}

        def is_read(name: str) -> bool:
            unit = named_unit(run.plan, name, templates) if run.plan else None
            return unit is not None and callees.is_read(unit)

        await conclude(journal, results, is_read=is_read, acting=acting, reason=reason)

    async def cancel(self, run_id: str, *, by: e.Who = "", reason: str = "") -> Run:
        """Stop a run for good, and say why: nothing new starts, what runs is cancelled.

        A call that was cut off in the middle may have taken effect: its step is `unknown`.
        """
        await self._interrupt(run_id, lambda conductor: conductor.cancel(e.actor(by), reason))
        journal = await self.journal(run_id)
        if not journal.run.status.over and not journal.run.cancel_asked:
            await self._decided(journal, e.CancelAsked(reason=reason), by=by)
            await self._let_others_end(journal)
        while not journal.run.status.over:
            try:
                await self.end(journal)
            except StaleWriter:
                await journal.catch_up()
        return await self.whole(journal)

    async def _let_others_end(self, journal: Journal) -> None:
        """Give a process that may be making calls for this run the time to stop them."""
        running = bool(journal.run.calls_open)
        try:
            async with asyncio.timeout(self.limits.grace_s if running else 0):
                while not journal.run.status.over:
                    await journal.wait()
                    await journal.catch_up()
        except TimeoutError:
            return

    async def pause(self, run_id: str, *, by: e.Who = "", reason: str = "") -> Run:
        """Start nothing more until `resume`; what runs now may end."""
        await self._interrupt(run_id, lambda conductor: conductor.pause(e.actor(by), reason))
        journal = await self.journal(run_id)
        if not journal.run.status.over and not journal.run.paused:
            await journal.append(e.RunPaused(reason=reason), by=e.actor(by))
        return await self.whole(journal)

    async def resume(self, run_id: str, *, by: e.Who = "") -> Run:
        """Let a paused run go on; `run` runs it."""
        journal = await self.own_journal(run_id)
        if not journal.run.paused:
            raise Refused(f"run {run_id} is not paused: it is {journal.run.status}")
        await journal.append(e.RunResumed(), by=e.actor(by))
        return await self.whole(journal)

    async def _interrupt(self, run_id: str, tell: Callable[[Conductor], None]) -> None:
        active = self._active.get(run_id)
        if active is not None:
            conductor, future = active
            if conductor.is_conducting:
                tell(conductor)
            else:  # it is being planned anew: that is not worth waiting for
                self._interrupted.add(run_id)
                future.cancel()
            await asyncio.gather(asyncio.shield(future), return_exceptions=True)
            self._interrupted.discard(run_id)

    async def resume_all(self, *, busy: Callable[[RunBusy], None] = lambda _: None) -> list[Run]:
        """After a restart: go on with every run that was under way.

        A damaged run keeps no other from going on; it is told at the end. Runs that other
        processes of this machine are running are left to them, and told to `busy`.
        """
        waiting: list[asyncio.Future[Run]] = []
        damages: list[JournalDamaged] = []
        names = await self.store.open_runs()
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            for each in await asyncio.gather(*map(self._resumed, some), return_exceptions=True):
                if isinstance(each, JournalDamaged):
                    damages.append(each)
                elif isinstance(each, RunBusy):
                    busy(each)
                elif isinstance(each, BaseException):
                    raise each
                elif each is not None:
                    waiting.append(each)
        runs = list(await asyncio.gather(*waiting))
        if damages:
            raise damages[0]
        return runs

    async def _resumed(self, run_id: str) -> asyncio.Future[Run] | None:
        journal = await self.journal(run_id)
        journal.need_sound()
        if run_id in self._active or not self.is_here(journal.run.folder):
            return None
        await self._expire(journal)
        match next_move(journal.run):
            case Execute(begun=True) | Conclude():
                return await self._own(journal)
            case _:
                return None


def _is_running(run: Run, *, idle: bool) -> bool:
    return not idle and run.phase is RunStatus.RUNNING


def _may_run(run: Run) -> bool:
    """Whether `run` takes a run further; of its questions only the executor knows who waits."""
    match next_move(run):
        case Execute() | Conclude() | AwaitAnswer(begun=True):
            return True
        case _:
            return False


def shown_first(plan: Plan) -> e.ReviewAsked:
    """The review of a plan that would need none, for whoever wants to see it first."""
    return e.ReviewAsked(hash=plan.hash, reasons=(SEEN_FIRST,))
