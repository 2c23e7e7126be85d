"""Plansmith: plans and runs, for a program that uses it as a library."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

from plansmith.adapters.clock import SystemClock
from plansmith.adapters.stores.urls import open_store
from plansmith.adapters.tools.functions import FunctionTool, FunctionTools
from plansmith.config import Settings
from plansmith.old_names import by_old_name, read_options
from plansmith.plan.data import Json
from plansmith.plan.events import Event, Who
from plansmith.plan.limits import Limits
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem
from plansmith.plan.run import Run
from plansmith.planner.request import PlanRequest
from plansmith.ports import Agent, ChatModel, Clock, PlanStore, ToolSource
from plansmith.runs.intake import PlanIntake
from plansmith.runs.journals import Journals
from plansmith.runs.options import Options
from plansmith.runs.planning import RunPlanner, tell_nobody
from plansmith.runs.service import RunService
from plansmith.runs.stopping import LeftOut
from plansmith.schedules.approval import StandingApproval
from plansmith.schedules.service import Schedules
from plansmith.templates.book import TemplateBook

ToolLike = FunctionTool | Callable[..., Any] | ToolSource


class Plansmith:
    """Makes plans, has them approved, runs them, and forgets nothing.

    `tools` are functions (see `tool`) and tool sources, `store` a URL or a store of your own.
    More by name: see `Options`. Its parts: `runs` is the service for runs, `schedules` what runs
    again and again, `templates` plans that are used again.
    """

    def __init__(
        self,
        *,
        model: ChatModel | None = None,
        tools: Sequence[ToolLike] = (),
        agents: Sequence[Agent] = (),
        store: str | PlanStore = "memory",
        settings: Settings | None = None,
        clock: Clock | None = None,
        **more: Unpack[Options],
    ) -> None:
        more = read_options(more)
        kept = open_store(store) if isinstance(store, str) else store
        clock = clock or SystemClock()
        journals = Journals(
            store=kept,
            clock=clock,
            ids=more.get("ids"),
            folder=more.get("folder", ""),
            team=more.get("team"),
            shared_store=more.get("shared_store", False),
        )
        intake = _intake(kept, clock, _sources(tools), agents, more)
        approval = StandingApproval(intake=intake)
        planner = _planner(model, journals, intake, settings, approval, more)
        self.runs = RunService(
            journals=journals,
            intake=intake,
            planner=planner,
            limits=more.get("limits"),
            rounds=more.get("rounds"),
            budget=more.get("budget"),
            shared_budget=more.get("shared_budget"),
        )
        self.templates = TemplateBook(self)
        self.schedules = Schedules(runs=self.runs, templates=self.templates, approval=approval)

    @classmethod
    def from_settings(cls, settings: Settings | None = None) -> Plansmith:
        """A Plansmith as the settings say: files of the person and the project, environment."""
        # By name: wiring stands a floor higher, since it knows every part by its dotted path.
        made: Plansmith = import_module("plansmith.wiring").make_smith(settings)
        return made

    if not TYPE_CHECKING:  # names of the first release: for programs, not for type checkers

        def __getattr__(self, name: str) -> Any:
            return by_old_name(self, name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def store(self) -> PlanStore:
        """Where runs, schedules and templates are kept."""
        return self.runs.store

    async def close(self) -> None:
        """Stop executing, leaving every run to be resumed, and let go of all that is held."""
        await self.schedules.close()
        await self.runs.close()

    async def plan(self, request: str, *, by: Who = "", **options: Any) -> Run:
        """A run with a checked plan for a request, waiting for review if it has to.

        Options are those of a `PlanRequest`: locale, target, profile, history, top_k.
        """
        return await self.runs.plan(PlanRequest(request, **options), by=by)

    async def submit(self, plan: Plan, *, request: str = "", by: Who = "") -> Run:
        """A run of a ready plan: checked and reviewed like any other; no model is needed."""
        return await self.runs.submit(plan, request=request, by=by)

    async def check(self, plan: Plan) -> list[Problem]:
        """Every problem of a plan, given today's tools, agents and templates."""
        return await self.runs.intake.check(plan)

    async def run(self, run_id: str) -> Run:
        """Take a run as far as it goes: until it is over, or waits for a person."""
        return await self.runs.run(run_id)

    async def get(self, run_id: str) -> Run:
        """A run as it stands, with its results."""
        return await self.runs.journals.get(run_id)

    def events(self, run_id: str, *, after: int = 0, follow: bool = False) -> AsyncIterator[Event]:
        """The events of a run behind a number; with `follow`, also those still to come."""
        return self.runs.journals.events(run_id, after=after, follow=follow)

    async def decide(
        self, run_id: str, *, approve: str | None = None, reject: bool = False, by: Who = ""
    ) -> Run:
        """A person's decision on exactly the plan of the hash; of two, one wins."""
        return await self.runs.decide(run_id, approve=approve, reject=reject, by=by)

    async def answer(self, run_id: str, question: str, value: Json, *, by: Who = "") -> Run:
        """An answer to a question; one to a question about the request itself leads to a plan."""
        run = await self.runs.answer(run_id, question, value, by=by)
        return await self.runs.planned(run)

    async def edit(self, run_id: str, plan: Plan, *, by: Who = "") -> Run:
        """A person's own version of the plan: checked at once, approved like any other."""
        return await self.runs.editing.edit(run_id, plan, by=by)

    async def undo(self, run_id: str, *, by: Who = "") -> Run:
        """Go back to the plan before the current one; again, to the one before that."""
        return await self.runs.editing.undo(run_id, by=by)

    async def request_changes(self, run_id: str, text: str, *, by: Who = "") -> Run:
        """Ask for another plan and say how it should differ; the planner sees plan and text.

        A run under way is paused for it: finished work is kept.
        """
        return await self.runs.editing.request_changes(run_id, text, by=by)

    async def pause(self, run_id: str, *, by: Who = "", reason: str = "") -> Run:
        """Start nothing more until `resume`; what runs now may end."""
        return await self.runs.stopping.pause(run_id, by=by, reason=reason)

    async def resume(self, run_id: str, *, by: Who = "") -> Run:
        """Let a paused run go on; `run` runs it."""
        return await self.runs.stopping.resume(run_id, by=by)

    async def cancel(self, run_id: str, *, by: Who = "", reason: str = "") -> Run:
        """Stop a run for good, and say why: nothing new starts, what runs is cancelled.

        A call that was cut off in the middle may have taken effect: its step is `unknown`.
        """
        return await self.runs.stopping.cancel(run_id, by=by, reason=reason)

    async def skip(self, run_id: str, step: str, *, by: Who = "") -> LeftOut:
        """Leave a step out that has not begun, or that asks; tells what cannot run without it.

        Nothing else of the run stops or waits for that.
        """
        return await self.runs.stopping.skip(run_id, step, by=by)

    async def rerun(self, run_id: str, *, by: Who = "") -> Run:
        """Run the same plan again from the start, as a new run: no result is taken over."""
        return await self.runs.repeating.rerun(run_id, by=by)

    async def retry(
        self, run_id: str, *, from_step: str | None = None, plan: Plan | None = None, by: Who = ""
    ) -> Run:
        """Continue from what is done, as a new run: only what is not done or has changed runs.

        `from_step` also repeats this step and all behind it; `plan` is your changed version. A run
        that never had a plan is planned anew.
        """
        return await self.runs.repeating.retry(run_id, from_step=from_step, plan=plan, by=by)

    def plan_sync(self, request: str, **options: Any) -> Run:
        """`plan`, for scripts and notebooks that do not wait."""
        return asyncio.run(self.plan(request, **options))

    def run_sync(self, run_id: str) -> Run:
        """`run`, for scripts and notebooks that do not wait."""
        return asyncio.run(self.run(run_id))


def _intake(
    store: PlanStore,
    clock: Clock,
    sources: Sequence[ToolSource],
    agents: Sequence[Agent],
    more: Options,
) -> PlanIntake:
    return PlanIntake(
        store=store,
        clock=clock,
        sources=sources,
        agents=agents,
        templates=more.get("templates"),
        policy=more.get("policy"),
        price_per_million=more.get("price_per_million"),
        past=more.get("past"),
        secrets=more.get("secrets"),
        ask_also=more.get("ask_also", lambda _: ()),
    )


def _planner(
    model: ChatModel | None,
    journals: Journals,
    intake: PlanIntake,
    settings: Settings | None,
    approval: StandingApproval,
    more: Options,
) -> RunPlanner:
    return RunPlanner(
        journals=journals,
        intake=intake,
        model=model,
        triage_model=more.get("triage_model"),
        report_model=more.get("report_model"),
        context=more.get("context", ()),
        ranker=more.get("ranker"),
        settings=(settings or Settings()).planner,
        early_start=more.get("limits", Limits()).early_start,
        tell=more.get("tell", tell_nobody),
        standing=approval.of_run,
    )


def _sources(tools: Sequence[ToolLike]) -> list[ToolSource]:
    sources = [cast("ToolSource", each) for each in tools if _is_source(each)]
    functions = [cast("Callable[..., Any]", each) for each in tools if not _is_source(each)]
    return [FunctionTools(functions), *sources] if functions else sources


def _is_source(each: object) -> bool:
    return hasattr(each, "tools") and hasattr(each, "call")
