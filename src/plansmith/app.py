"""Plansmith: plans and runs, for a program that uses it as a library (floor 6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from plansmith.adapters.clock import SystemClock
from plansmith.adapters.stores.memory import MemoryStore
from plansmith.adapters.tools.functions import FunctionTool, FunctionTools
from plansmith.config import Settings
from plansmith.errors import InvalidPlan, Misconfigured, Refused, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.ids import Ids
from plansmith.plan.plan import Plan
from plansmith.plan.problem import has_errors
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.planner.check import check_plan
from plansmith.planner.kit import Kit, PlanRequest
from plansmith.planner.lint import lint_plan
from plansmith.planner.pipeline import make_plan
from plansmith.planner.triage import Decision
from plansmith.ports import Agent, ChatModel, Clock, PlanStore, ToolSource
from plansmith.review.policy import ReviewPolicy, reasons_to_ask
from plansmith.runner.answers import settle
from plansmith.runner.call import Callees
from plansmith.runner.compose import Composer
from plansmith.runner.conclude import conclude, is_waiting
from plansmith.runner.execute import Conductor, RunLimits
from plansmith.runner.journal import Journal

ToolLike = FunctionTool | Callable[..., Any] | ToolSource


class Plansmith:
    """Makes plans, has them approved, runs them, and forgets nothing.

    `tools` are functions (see `tool`) and tool sources, `store` a URL or a store of your own.
    """

    def __init__(  # noqa: PLR0913 - all by name, all with a default: this is the front door
        self,
        *,
        model: ChatModel | None = None,
        tools: Sequence[ToolLike] = (),
        agents: Sequence[Agent] = (),
        store: str | PlanStore = "memory",
        settings: Settings | None = None,
        templates: Mapping[str, Plan] | None = None,
        policy: ReviewPolicy | None = None,
        limits: RunLimits | None = None,
        clock: Clock | None = None,
        ids: Callable[[], str] | None = None,
    ) -> None:
        self._model = model
        self._settings = settings or Settings()
        self._clock = clock or SystemClock()
        self._store = MemoryStore() if isinstance(store, str) else store
        self._templates = dict(templates or {})
        self._policy = policy or ReviewPolicy()
        self._limits = limits or RunLimits()
        self._ids = ids or Ids()
        self._agents = {agent.spec.name: agent for agent in agents}
        functions = [each for each in tools if not _is_source(each)]
        self._sources: list[ToolSource] = [each for each in tools if _is_source(each)]  # type: ignore[misc]
        if functions:
            self._sources.insert(0, FunctionTools(functions))  # type: ignore[arg-type]
        self._callees: Callees | None = None
        self._active: dict[str, tuple[Conductor, asyncio.Future[Run]]] = {}
        self._news: dict[str, asyncio.Event] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop conducting, leaving every run to be resumed, and let go of the store."""
        for _, future in list(self._active.values()):
            future.cancel()
        futures = [future for _, future in self._active.values()]
        await asyncio.gather(*futures, return_exceptions=True)
        await self._store.close()

    async def plan(self, request: str, *, by: str = "", **options: Any) -> Run:
        """A run with a checked plan for a request, waiting for review if it has to."""
        if self._model is None:
            raise Misconfigured("there is no model to plan with", hint="give Plansmith(model=…)")
        callees = await self._tools()
        journal = self._journal(self._ids())
        await self._write(journal, e.RunCreated(request=request), by=_person(by))
        kit = Kit(
            plan_model=self._model,
            triage_model=self._model if self._settings.planner.triage else None,
            clock=self._clock,
            tools=list(callees.specs.values()),
            agents=[agent.spec for agent in self._agents.values()],
            templates=list(self._templates),
            settings=self._settings.planner,
        )
        planned = await make_plan(PlanRequest(request, **options), kit=kit)
        decision = e.Triaged(decision=planned.decision.value, reason=planned.reason)
        await self._write(journal, decision)
        if planned.decision is not Decision.PLAN or planned.plan is None:
            ending = e.RunFinished(status="answered", reason=planned.answer)
            await self._write(journal, ending)
            return await self._whole(journal)
        proposed = e.PlanProposed(plan=planned.plan, problems=planned.problems)
        await self._write(journal, proposed, *self._review(planned.plan, callees))
        return await self._whole(journal)

    async def submit(self, plan: Plan, *, request: str = "", by: str = "") -> Run:
        """A run of a ready plan: checked and reviewed like any other; no model is needed."""
        callees = await self._tools()
        specs = list(callees.specs.values())
        agents = [agent.spec for agent in self._agents.values()]
        problems = check_plan(plan, specs, agents=agents, templates=self._templates)
        if has_errors(problems):
            raise InvalidPlan([each for each in problems if each.severity == "error"])
        problems += lint_plan(plan, specs)
        journal = self._journal(self._ids())
        await self._write(
            journal, e.RunCreated(request=request or plan.goal, locale=plan.locale), by=_person(by)
        )
        proposed = e.PlanProposed(plan=plan, problems=tuple(problems), origin="submitted")
        await self._write(journal, proposed, *self._review(plan, callees))
        return await self._whole(journal)

    def _review(self, plan: Plan, callees: Callees) -> list[e.AnyBody]:
        agents = {name: agent.spec for name, agent in self._agents.items()}
        reasons = reasons_to_ask(
            plan, self._policy, tools=callees.specs, agents=agents, templates=self._templates
        )
        return [e.ReviewAsked(hash=plan.hash, reasons=reasons)] if reasons else []

    async def decide(
        self, run_id: str, *, approve: str | None = None, reject: bool = False, by: str = ""
    ) -> Run:
        """A person's decision on exactly the plan of the hash; of two, one wins."""
        if (approve is None) == (not reject):
            raise Misconfigured("decide takes either approve=HASH or reject=True")
        journal = await self._load(run_id)
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
        try:
            await self._write(journal, *bodies, by=_person(by))
        except StaleWriter:
            raise StaleDecision(f"someone else decided about run {run_id} first") from None
        return await self._whole(journal)

    async def answer(self, run_id: str, question: str, value: Json, *, by: str = "") -> Run:
        """A person's answer to an open question; the second answer is refused."""
        journal = await self._load(run_id)
        asked = journal.run.questions.get(question)
        if asked is None:
            raise Refused(f"run {run_id} has no open question {question!r}")
        bodies = [e.QuestionAnswered(question=question, answer=value), *settle(asked, value)]
        try:
            await self._write(journal, *bodies, by=_person(by), values=[value])
        except StaleWriter:
            raise StaleDecision(f"someone else answered {question!r} first") from None
        return await self._whole(journal)

    async def run(self, run_id: str) -> Run:
        """Run an approved plan until it is over or waits for a person."""
        if run_id not in self._active:
            journal = await self._load(run_id)
            if not self._may_run(journal.run, await self._tools()):
                return await self._whole(journal)
            await self._conduct(journal)
        _, future = self._active[run_id]
        return await asyncio.shield(future)

    def _may_run(self, run: Run, callees: Callees) -> bool:
        if run.status.over or run.paused or run.plan is None:
            return False
        if run.phase is RunStatus.RUNNING:
            return True
        needs_review = bool(self._review(run.plan, callees))
        return not needs_review or run.approved == run.plan.hash

    async def _conduct(self, journal: Journal) -> None:
        run = journal.run
        plan = run.plan
        if plan is not None and run.phase is not RunStatus.RUNNING:
            await self._write(journal, e.RunStarted(hash=plan.hash))
        callees = replace(
            await self._tools(),
            compose=Composer(
                self._model, locale=run.locale, prompts=self._settings.planner.prompts
            ),
        )
        conductor = Conductor(
            journal,
            callees=callees,
            results=await self._results(journal.run),
            templates=self._templates,
            limits=self._limits,
        )
        future = asyncio.ensure_future(self._finish(journal, conductor))
        self._active[journal.id] = conductor, future
        future.add_done_callback(lambda _: self._active.pop(journal.id, None))

    async def _finish(self, journal: Journal, conductor: Conductor) -> Run:
        try:
            run = await conductor.conduct()
            if run.cancel_asked or not (is_waiting(run) or run.paused):
                await conclude(journal, await self._results(run))
        except StaleWriter:
            await journal.catch_up()
        finally:
            self._tell(journal.id)
        return await self._whole(journal)

    async def cancel(self, run_id: str, *, by: str = "") -> Run:
        """Stop a run: nothing new starts, what runs is cancelled."""
        active = self._active.get(run_id)
        if active is not None:
            conductor, future = active
            conductor.cancel(_person(by))
            await asyncio.gather(future, return_exceptions=True)
        journal = await self._load(run_id)
        if not journal.run.status.over:
            await self._write(journal, e.CancelAsked(), by=_person(by))
            await conclude(journal, await self._results(journal.run))
        return await self._whole(journal)

    async def resume_all(self) -> list[Run]:
        """After a restart: go on with every run that was under way."""
        waiting: list[asyncio.Future[Run]] = []
        for run_id in await self._store.runs():
            journal = await self._load(run_id)
            if journal.run.phase is RunStatus.RUNNING and run_id not in self._active:
                await self._conduct(journal)
                waiting.append(self._active[run_id][1])
        return list(await asyncio.gather(*waiting))

    async def get(self, run_id: str) -> Run:
        """A run as it stands, with its results."""
        return await self._whole(await self._load(run_id))

    async def runs(self) -> list[Run]:
        """All runs, oldest first, without their results."""
        return [(await self._load(run_id)).run for run_id in await self._store.runs()]

    async def events(
        self, run_id: str, *, after: int = 0, follow: bool = False
    ) -> AsyncIterator[e.Event]:
        """The events of a run behind a number; with `follow`, also those still to come."""
        while True:
            news = self._news.setdefault(run_id, asyncio.Event())
            news.clear()
            for event in await self._store.events(run_id, after=after):
                after = event.number
                yield event
                if isinstance(event.body, e.RunFinished):
                    return
            if not follow:
                return
            await news.wait()

    async def _tools(self) -> Callees:
        if self._callees is None:
            tools: dict[str, ToolSource] = {}
            specs: dict[str, ToolSpec] = {}
            for source in self._sources:
                for spec in await source.tools():
                    if spec.name in specs:
                        raise Misconfigured(f"two tools are called {spec.name!r}")
                    tools[spec.name], specs[spec.name] = source, spec
            self._callees = Callees(self._clock, tools, specs, self._agents)
        return self._callees

    def _journal(self, run_id: str) -> Journal:
        return Journal(run_id, store=self._store, clock=self._clock, tell=self._tell)

    async def _load(self, run_id: str) -> Journal:
        return await Journal.load(run_id, store=self._store, clock=self._clock, tell=self._tell)

    def _tell(self, run_id: str) -> None:
        if run_id in self._news:
            self._news[run_id].set()

    async def _write(
        self,
        journal: Journal,
        *bodies: e.AnyBody,
        by: e.Actor | None = None,
        values: Sequence[Json] = (),
    ) -> None:
        await journal.append(*bodies, by=by or e.Actor(kind="system"), values=values)

    async def _results(self, run: Run) -> dict[str, Json]:
        return {
            name: await self._store.get(step.result_hash)
            for name, step in run.steps.items()
            if step.status is StepStatus.DONE and step.result_hash
        }

    async def _whole(self, journal: Journal) -> Run:
        run = journal.run
        results = await self._results(run)
        steps = {
            name: replace(step, result=results[name]) if name in results else step
            for name, step in run.steps.items()
        }
        text = await self._store.get(run.report_hash) if run.report_hash else ""
        return replace(run, steps=steps, report=str(text))


def _is_source(each: object) -> bool:
    return hasattr(each, "tools") and hasattr(each, "call")


def _person(name: str) -> e.Actor:
    return e.Actor(kind="person", name=name)
