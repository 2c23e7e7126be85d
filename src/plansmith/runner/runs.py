"""Runs: everything that can be done with a run except planning it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from plansmith.errors import InvalidPlan, Misconfigured, Refused, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.ids import Ids
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, has_errors
from plansmith.plan.run import Run, RunStatus
from plansmith.planner.check import check_plan
from plansmith.planner.lint import lint_plan
from plansmith.ports import Agent, Clock, PlanStore, ToolSource
from plansmith.review.policy import ReviewPolicy, reasons_to_ask
from plansmith.runner.answers import settle
from plansmith.runner.budget import Budget, BudgetLimits
from plansmith.runner.call import Callees
from plansmith.runner.conclude import conclude, is_waiting
from plansmith.runner.execute import Conductor, RunLimits
from plansmith.runner.journal import Journal, load_results, whole_run
from plansmith.runner.rerun import carried_over


class Runs:
    """Submits, reviews, runs, stops and repeats plans, and forgets nothing."""

    def __init__(  # noqa: PLR0913 - all by name
        self,
        *,
        store: PlanStore,
        clock: Clock,
        sources: Sequence[ToolSource] = (),
        agents: Sequence[Agent] = (),
        templates: Mapping[str, Plan] | None = None,
        policy: ReviewPolicy | None = None,
        limits: RunLimits | None = None,
        budget: BudgetLimits | None = None,
        shared_budget: BudgetLimits | None = None,
        ids: Callable[[], str] | None = None,
    ) -> None:
        self.store = store
        self.clock = clock
        self.templates = dict(templates or {})
        self.policy = policy or ReviewPolicy()
        self.limits = limits or RunLimits()
        self.budget = budget or BudgetLimits()
        self._shared = Budget(shared_budget or BudgetLimits())
        self._ids = ids or Ids()
        self._sources = list(sources)
        self._agents = {agent.spec.name: agent for agent in agents}
        self._callees: Callees | None = None
        self._active: dict[str, tuple[Conductor, asyncio.Future[Run]]] = {}
        self._news: dict[str, asyncio.Event] = {}

    async def close(self) -> None:
        """Stop conducting, leaving every run to be resumed, and let go of the store."""
        futures = [future for _, future in self._active.values()]
        for future in futures:
            future.cancel()
        await asyncio.gather(*futures, return_exceptions=True)
        await self.store.close()

    async def submit(
        self, plan: Plan, *, request: str = "", by: str = "", reuse: Run | None = None
    ) -> Run:
        """A run of a ready plan: checked and reviewed like any other; no model is needed.

        `reuse` is an earlier run whose results count where nothing before them has changed.
        """
        problems = await self.check(plan)
        if has_errors(problems):
            raise InvalidPlan([each for each in problems if each.severity == "error"])
        journal = self._new_journal()
        created = e.RunCreated(request=request or plan.goal, locale=plan.locale)
        await journal.append(created, by=person(by))
        await self.propose(journal, plan, problems, origin="submitted")
        if reuse is not None:
            await journal.append(*carried_over(reuse, plan))
        return await self.whole(journal)

    async def check(self, plan: Plan) -> list[Problem]:
        """Every problem of a plan, given today's tools, agents and templates."""
        callees = await self.callees()
        specs = list(callees.specs.values())
        problems = check_plan(plan, specs, agents=self.agents(), templates=self.templates)
        return [*problems, *lint_plan(plan, specs)]

    async def propose(
        self,
        journal: Journal,
        plan: Plan,
        problems: Sequence[Problem] = (),
        *,
        origin: str = "model",
        cause: str = "",
        by: e.Actor | None = None,
    ) -> None:
        """Put a plan forward, and ask a person about it if its effects demand that."""
        body = e.PlanProposed.model_validate(
            {"plan": plan, "problems": tuple(problems), "origin": origin, "cause": cause}
        )
        review = await self.review(plan)
        await journal.append(body, *review, by=by or e.Actor(kind="system"))

    async def review(self, plan: Plan) -> list[e.AnyBody]:
        """The request for a review, or nothing when the plan may run at once."""
        callees = await self.callees()
        agents = {spec.name: spec for spec in self.agents()}
        reasons = reasons_to_ask(
            plan, self.policy, tools=callees.specs, agents=agents, templates=self.templates
        )
        return [e.ReviewAsked(hash=plan.hash, reasons=reasons)] if reasons else []

    async def decide(
        self, run_id: str, *, approve: str | None = None, reject: bool = False, by: str = ""
    ) -> Run:
        """A person's decision on exactly the plan of the hash; of two, one wins."""
        if (approve is None) == (not reject):
            raise Misconfigured("decide takes either approve=HASH or reject=True")
        journal = await self.journal(run_id)
        run = journal.run
        if run.status is not RunStatus.REVIEWING or run.plan is None or run.approved:
            raise StaleDecision(f"run {run_id} does not wait for a decision: it is {run.status}")
        if approve is not None and approve != run.plan.hash:
            hint = f"the plan now has the hash {run.plan.hash}: look at it again"
            raise StaleDecision("this is not the hash of the current plan", hint=hint)
        bodies: list[e.AnyBody] = [e.PlanApproved(hash=run.plan.hash)]
        if reject:
            ending = e.RunFinished(status="cancelled", reason="the plan was rejected")
            bodies = [e.PlanRejected(), ending]
        await self._decided(journal, *bodies, by=by)
        return await self.whole(journal)

    async def edit(self, run_id: str, plan: Plan, *, by: str = "") -> Run:
        """A person's own version of the plan: checked at once, approved like any other."""
        journal = await self.journal(run_id)
        if run_id in self._active or journal.run.status.over:
            hint = "pause it first, or repeat it with a plan of yours"
            raise Refused(f"run {run_id} is {journal.run.status}", hint=hint)
        problems = await self.check(plan)
        if has_errors(problems):
            raise InvalidPlan([each for each in problems if each.severity == "error"])
        revision = (journal.run.plan.revision if journal.run.plan else 0) + 1
        edited = plan.replace(revision=revision)
        try:
            await self.propose(journal, edited, problems, origin="person", by=person(by))
        except StaleWriter:
            raise StaleDecision(f"someone else changed run {run_id} first") from None
        return await self.whole(journal)

    async def undo(self, run_id: str, *, by: str = "") -> Run:
        """Go back to the plan before the current one."""
        plans = [
            event.body.plan
            for event in await self.store.events(run_id)
            if isinstance(event.body, e.PlanProposed)
        ]
        if len(plans) < 2:
            raise Refused(f"run {run_id} has no earlier plan")
        return await self.edit(run_id, plans[-2], by=by)

    async def answer(self, run_id: str, question: str, value: Json, *, by: str = "") -> Run:
        """A person's answer to an open question; the second answer is refused."""
        journal = await self.journal(run_id)
        asked = journal.run.questions.get(question)
        if asked is None:
            raise Refused(f"run {run_id} has no open question {question!r}")
        bodies = [e.QuestionAnswered(question=question, answer=value), *settle(asked, value)]
        await self._decided(journal, *bodies, by=by, values=[value])
        return await self.whole(journal)

    async def _decided(
        self, journal: Journal, *bodies: e.AnyBody, by: str, values: Sequence[Json] = ()
    ) -> None:
        try:
            await journal.append(*bodies, by=person(by), values=values)
        except StaleWriter:
            raise StaleDecision(f"someone else decided about run {journal.id} first") from None

    async def run(self, run_id: str) -> Run:
        """Run an approved plan until it is over or waits for a person."""
        if run_id not in self._active:
            journal = await self.journal(run_id)
            if not await self._may_run(journal.run) or not await self._conduct(journal):
                return await self.get(run_id)
        _, future = self._active[run_id]
        return await asyncio.shield(future)

    async def _may_run(self, run: Run) -> bool:
        if run.status.over or run.paused or run.plan is None:
            return False
        if run.phase is RunStatus.RUNNING:
            return True
        return run.approved == run.plan.hash or not await self.review(run.plan)

    async def _conduct(self, journal: Journal) -> asyncio.Future[Run] | None:
        """Start conducting a run; nothing when another process was quicker."""
        try:
            conductor = await self._conductor(journal)
        except StaleWriter:
            return None
        future = asyncio.ensure_future(self._to_the_end(journal, conductor))
        self._active[journal.id] = conductor, future
        future.add_done_callback(lambda _: self._active.pop(journal.id, None))
        return future

    async def _conductor(self, journal: Journal) -> Conductor:
        run = journal.run
        if run.plan is not None and run.phase is not RunStatus.RUNNING:
            await journal.append(e.RunStarted(hash=run.plan.hash))
        return Conductor(
            journal,
            callees=self.equip(await self.callees(), run),
            results=await load_results(self.store, run),
            templates=self.templates,
            limits=self.limits,
            budget=Budget.of_run(self.budget, run, parent=self._shared),
        )

    def equip(self, callees: Callees, run: Run) -> Callees:
        """What a run can call; without a model, replies are worded plainly."""
        del run
        return callees

    async def _to_the_end(self, journal: Journal, conductor: Conductor) -> Run:
        try:
            while True:
                run = await conductor.conduct()
                waits = is_waiting(run) or run.paused
                if (waits and not run.cancel_asked) or not await self.end(journal):
                    break
                conductor = await self._conductor(journal)
                self._active[journal.id] = conductor, self._active[journal.id][1]
        except StaleWriter:
            await journal.catch_up()
        return await self.whole(journal)

    async def end(self, journal: Journal) -> bool:
        """End a run that has nothing left to do; true when it goes on after all."""
        await conclude(journal, await load_results(self.store, journal.run))
        return False

    async def cancel(self, run_id: str, *, by: str = "") -> Run:
        """Stop a run: nothing new starts, what runs is cancelled."""
        await self._interrupt(run_id, lambda conductor: conductor.cancel(person(by)))
        journal = await self.journal(run_id)
        if not journal.run.status.over:
            await journal.append(e.CancelAsked(), by=person(by))
            await self.end(journal)
        return await self.whole(journal)

    async def pause(self, run_id: str, *, by: str = "", reason: str = "") -> Run:
        """Start nothing more until `resume`; what runs now may end."""
        await self._interrupt(run_id, lambda conductor: conductor.pause(person(by), reason))
        journal = await self.journal(run_id)
        if not journal.run.status.over and not journal.run.paused:
            await journal.append(e.RunPaused(reason=reason), by=person(by))
        return await self.whole(journal)

    async def resume(self, run_id: str, *, by: str = "") -> Run:
        """Let a paused run go on; `run` runs it."""
        journal = await self.journal(run_id)
        if not journal.run.paused:
            raise Refused(f"run {run_id} is not paused: it is {journal.run.status}")
        await journal.append(e.RunResumed(), by=person(by))
        return await self.whole(journal)

    async def _interrupt(self, run_id: str, tell: Callable[[Conductor], None]) -> None:
        active = self._active.get(run_id)
        if active is not None:
            conductor, future = active
            tell(conductor)
            await asyncio.gather(asyncio.shield(future), return_exceptions=True)

    async def retry(
        self,
        run_id: str,
        *,
        from_step: str | None = None,
        plan: Plan | None = None,
        by: str = "",
    ) -> Run:
        """Repeat a run that is over, as a new run: only what failed or has changed runs again.

        `from_step` also repeats this step and all behind it; `plan` is your changed version.
        """
        old = await self.get(run_id)
        if old.plan is None or not old.status.over:
            raise Refused(
                f"run {run_id} is {old.status}", hint="only a run that is over is repeated"
            )
        if from_step is not None and from_step not in old.steps:
            raise Refused(f"run {run_id} has no step {from_step!r}")
        journal = await self.journal(
            (await self.submit(plan or old.plan, request=old.request, by=by)).id
        )
        again = [from_step] if from_step else []
        kept = carried_over(old, plan or old.plan, again=again)
        if kept:
            await journal.append(*kept)
        return await self.whole(journal)

    async def resume_all(self) -> list[Run]:
        """After a restart: go on with every run that was under way."""
        waiting: list[asyncio.Future[Run]] = []
        for run_id in await self.store.runs():
            journal = await self.journal(run_id)
            run = journal.run
            if run.phase is RunStatus.RUNNING and not run.paused and run_id not in self._active:
                future = await self._conduct(journal)
                waiting += [future] if future else []
        return list(await asyncio.gather(*waiting))

    async def get(self, run_id: str) -> Run:
        """A run as it stands, with its results."""
        return await self.whole(await self.journal(run_id))

    async def runs(self) -> list[Run]:
        """All runs, oldest first, without their results."""
        return [(await self.journal(run_id)).run for run_id in await self.store.runs()]

    async def events(
        self, run_id: str, *, after: int = 0, follow: bool = False
    ) -> AsyncIterator[e.Event]:
        """The events of a run behind a number; with `follow`, also those still to come."""
        while True:
            news = self._news.setdefault(run_id, asyncio.Event())
            news.clear()
            for event in await self.store.events(run_id, after=after):
                after = event.number
                yield event
                if isinstance(event.body, e.RunFinished):
                    return
            if not follow:
                return
            await news.wait()

    def agents(self) -> list[AgentSpec]:
        """The cards of all agents."""
        return [agent.spec for agent in self._agents.values()]

    async def callees(self) -> Callees:
        """What can be called; asked of the sources once."""
        if self._callees is None:
            tools: dict[str, ToolSource] = {}
            specs: dict[str, ToolSpec] = {}
            for source in self._sources:
                for spec in await source.tools():
                    if spec.name in specs:
                        raise Misconfigured(f"two tools are called {spec.name!r}")
                    tools[spec.name], specs[spec.name] = source, spec
            self._callees = Callees(self.clock, tools, specs, self._agents)
        return self._callees

    def _new_journal(self) -> Journal:
        return Journal(self._ids(), store=self.store, clock=self.clock, tell=self._tell)

    async def journal(self, run_id: str) -> Journal:
        """The journal of a run."""
        return await Journal.load(run_id, store=self.store, clock=self.clock, tell=self._tell)

    async def whole(self, journal: Journal) -> Run:
        """A run with its results and its report."""
        return await whole_run(self.store, journal.run)

    def _tell(self, run_id: str) -> None:
        if run_id in self._news:
            self._news[run_id].set()


def person(name: str) -> e.Actor:
    """Someone who decides."""
    return e.Actor(kind="person", name=name)
