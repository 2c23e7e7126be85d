"""Plansmith: plans and runs, for a program that uses it as a library (floor 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, cast

from plansmith.adapters.clock import SystemClock
from plansmith.adapters.stores.urls import open_store
from plansmith.adapters.tools.functions import FunctionTool, FunctionTools
from plansmith.config import Settings
from plansmith.errors import Misconfigured, Refused
from plansmith.plan import events as e
from plansmith.plan.plan import Plan
from plansmith.plan.problem import has_errors
from plansmith.plan.run import Run, RunStatus, StepState
from plansmith.plan.steps import Step
from plansmith.planner.draft import OnStep
from plansmith.planner.kit import Kit, Planned, PlanRequest
from plansmith.planner.pipeline import make_plan
from plansmith.planner.triage import Decision
from plansmith.ports import Agent, ChatModel, Clock, PlanStore, ToolSource
from plansmith.review.policy import ReviewPolicy, widens
from plansmith.runner.budget import BudgetLimits
from plansmith.runner.call import Callees
from plansmith.runner.compose import Composer
from plansmith.runner.early import EarlyReads
from plansmith.runner.execute import RunLimits
from plansmith.runner.journal import Journal
from plansmith.runner.replan import account, failed_steps, keep_finished, resets
from plansmith.runner.runs import Runs, person


def _wait_for_the_plan(_: Step) -> None:
    """Start nothing before the plan is complete."""


ToolLike = FunctionTool | Callable[..., Any] | ToolSource


class Plansmith(Runs):
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
        budget: BudgetLimits | None = None,
        shared_budget: BudgetLimits | None = None,
        max_replans: int = 2,
        early_start: bool = True,
        clock: Clock | None = None,
        ids: Callable[[], str] | None = None,
    ) -> None:
        super().__init__(
            store=open_store(store) if isinstance(store, str) else store,
            clock=clock or SystemClock(),
            sources=_sources(tools),
            agents=agents,
            templates=templates,
            policy=policy,
            limits=limits,
            budget=budget,
            shared_budget=shared_budget,
            ids=ids,
        )
        self.max_replans = max_replans
        self.early_start = early_start
        self._early: dict[str, EarlyReads] = {}
        self._model = model
        self._settings = settings or Settings()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def plan(self, request: str, *, by: str = "", **options: Any) -> Run:
        """A run with a checked plan for a request, waiting for review if it has to."""
        journal = self._new_journal()
        await journal.append(e.RunCreated(request=request), by=person(by))
        callees = await self.callees()
        early = EarlyReads(callees.tools, callees.specs)
        on_step = early.start if self.early_start else _wait_for_the_plan
        planned = await self._make(PlanRequest(request, **options), on_step=on_step)
        if planned.plan is not None:
            self._early[journal.id] = early
        else:
            await early.drop()
        await journal.append(e.Triaged(decision=planned.decision.value, reason=planned.reason))
        await self._take(journal, planned)
        return await self.whole(journal)

    async def request_changes(self, run_id: str, text: str, *, by: str = "") -> Run:
        """Ask for another plan and say how it should differ; the planner sees plan and text."""
        journal = await self.journal(run_id)
        run = journal.run
        if run.plan is None or run.status is not RunStatus.REVIEWING:
            raise Refused(f"run {run_id} is not under review: it is {run.status}")
        await journal.append(e.ChangesAsked(text=text), by=person(by))
        request = PlanRequest(run.request, locale=run.locale, previous=run.plan, feedback=text)
        await self._take(journal, await self._make(request), cause=text)
        return await self.whole(journal)

    async def _make(self, request: PlanRequest, *, on_step: OnStep = _wait_for_the_plan) -> Planned:
        if self._model is None:
            raise Misconfigured("there is no model to plan with", hint="give Plansmith(model=…)")
        callees = await self.callees()
        kit = Kit(
            plan_model=self._model,
            triage_model=self._model if self._settings.planner.triage else None,
            clock=self.clock,
            tools=list(callees.specs.values()),
            agents=self.agents(),
            templates=list(self.templates),
            settings=self._settings.planner,
        )
        return await make_plan(request, kit=kit, on_step=on_step)

    async def _take(self, journal: Journal, planned: Planned, *, cause: str = "") -> None:
        if planned.decision is not Decision.PLAN or planned.plan is None:
            await journal.append(e.RunFinished(status="answered", reason=planned.answer))
            return
        await self.propose(journal, planned.plan, planned.problems, cause=cause)

    def equip(self, callees: Callees, run: Run) -> Callees:
        """What a run can call: replies are worded by the model, in the run's language."""
        early = self._early.get(run.id)
        if self._model is None:
            return replace(callees, early=early)
        prompts = self._settings.planner.prompts
        composer = Composer(self._model, locale=run.locale, prompts=prompts)
        return replace(callees, compose=composer, early=early)

    async def end(self, journal: Journal) -> bool:
        """End a run, unless a new plan can mend what failed: then it goes on."""
        early = self._early.pop(journal.id, None)
        if early is not None:
            await early.drop()
        run = journal.run
        if run.cancel_asked or self._model is None or not failed_steps(run):
            return await super().end(journal)
        if run.replans >= self.max_replans or not await self._replan(journal):
            return await super().end(journal)
        return journal.run.phase is RunStatus.RUNNING

    async def _replan(self, journal: Journal) -> bool:
        """Ask for a plan that goes on from here; false when there is none, or the same one."""
        run = journal.run
        callees = await self.callees()
        cause = f"failed: {', '.join(failed_steps(run))}"
        await journal.append(e.ReplanStarted(cause=cause))
        told = account(run, callees.specs)
        request = PlanRequest(run.request, locale=run.locale, previous=run.plan, feedback=told)
        planned = await self._make(request)
        if planned.plan is None or planned.plan.degraded or run.plan is None:
            return False
        plan = keep_finished(run, planned.plan)
        problems = await self.check(plan)
        if plan.hash == run.plan.hash or has_errors(problems):
            return False
        body = e.PlanProposed(plan=plan, problems=tuple(problems), cause=cause)
        await journal.append(body, *resets(replace(run, plan=plan, steps=_kept(run, plan))))
        agents = {spec.name: spec for spec in self.agents()}
        more = widens(run.plan, plan, tools=callees.specs, agents=agents, templates=self.templates)
        if more:
            await journal.append(e.ReviewAsked(hash=plan.hash, reasons=more))
        else:
            await journal.append(e.RunStarted(hash=plan.hash, reason="nothing new is touched"))
        return True

    def plan_sync(self, request: str, **options: Any) -> Run:
        """`plan`, for scripts and notebooks that do not wait."""
        return asyncio.run(self.plan(request, **options))

    def run_sync(self, run_id: str) -> Run:
        """`run`, for scripts and notebooks that do not wait."""
        return asyncio.run(self.run(run_id))


def _kept(run: Run, plan: Plan) -> dict[str, StepState]:
    """What is known of the steps that are in the new plan, and of their parts."""
    return {name: state for name, state in run.steps.items() if name.split("/")[0] in plan.by_id}


def _sources(tools: Sequence[ToolLike]) -> list[ToolSource]:
    sources = [cast("ToolSource", each) for each in tools if _is_source(each)]
    functions = [cast("Callable[..., Any]", each) for each in tools if not _is_source(each)]
    return [FunctionTools(functions), *sources] if functions else sources


def _is_source(each: object) -> bool:
    return hasattr(each, "tools") and hasattr(each, "call")
