"""Makes the parts of a Plansmith, when one of them is first used."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from plansmith.arguments import Arguments, model_of
from plansmith.lazy import lazy_modules
from plansmith.plan.limits import Limits
from plansmith.runs.intake import PlanIntake
from plansmith.runs.journals import Journals
from plansmith.runs.planning import RunPlanner, ignore_progress
from plansmith.runs.service import RunService
from plansmith.schedules.approval import StandingApproval

if TYPE_CHECKING:
    from plansmith.adapters.ranking import minilm
    from plansmith.plan.earlier import EarlierResult
    from plansmith.plan.run_options import RunOptions
    from plansmith.planner.ranking.pick import SemanticRanker
    from plansmith.planner.settings import PlannerSettings
    from plansmith.ports import Agent, ChatModel, Message, ToolSource
    from plansmith.runs.options import Options
    from plansmith.schedules import service
    from plansmith.templates.book import TemplateBook
    from plansmith.threads import memory
else:
    lazy_modules(
        globals(),
        memory="plansmith.threads.memory",
        minilm="plansmith.adapters.ranking.minilm",
        service="plansmith.schedules.service",
    )


def make_runs(given: Arguments) -> RunService:
    """Makes the service for runs."""
    options = given.options
    journals = Journals(
        store=given.store,
        clock=given.clock,
        ids=options.get("ids"),
        folder=options.get("folder", ""),
        team=options.get("team"),
        lease_s=options.get("limits", Limits()).lease_s,
        machine=options.get("machine"),
    )
    intake = _intake(journals, given.sources, given.agents, options)
    return RunService(
        journals=journals,
        intake=intake,
        planner=_planner(given.model, journals, intake, given.settings, options),
        limits=options.get("limits"),
        rounds=options.get("rounds"),
        budget=options.get("budget"),
        shared_budget=options.get("shared_budget"),
        join=partial(_join, journals),
    )


def make_schedules(runs: RunService, templates: TemplateBook) -> service.Schedules:
    """Makes the service for schedules."""
    approval = StandingApproval(intake=runs.intake)
    return service.Schedules(runs=runs, templates=templates, approval=approval)


def _intake(
    journals: Journals, sources: Sequence[ToolSource], agents: Sequence[Agent], options: Options
) -> PlanIntake:
    return PlanIntake(
        store=journals.store,
        clock=journals.clock,
        sources=sources,
        agents=agents,
        templates=options.get("templates"),
        policy=options.get("policy"),
        price_per_million=options.get("price_per_million"),
        past=options.get("past"),
        secrets=options.get("secrets"),
        ask_also=options.get("ask_also", lambda _: ()),
        find_earlier=partial(_results, journals),
    )


def _ranker(settings: PlannerSettings | None, options: Options) -> SemanticRanker | None:
    """Returns the ranker that was given, or MiniLM where the settings rank by meaning."""
    if "ranker" in options or settings is None or not settings.semantic:
        return options.get("ranker")
    return minilm.MiniLmRanker()


async def _said(journals: Journals, thread: str, message: int | None) -> Sequence[Message]:
    """Returns the conversation before a message of a thread."""
    return await memory.ThreadMemory(journals).before(thread, message)


async def _results(journals: Journals, thread: str, message: int | None) -> Sequence[EarlierResult]:
    """Returns the results that a plan for a message of a thread may use."""
    return await memory.ThreadMemory(journals).results(thread, message)


async def _join(journals: Journals, run: str, options: RunOptions) -> None:
    """Adds a run that repeats or continues another one to its thread."""
    await memory.ThreadMemory(journals).join(run, options)


def _planner(
    model: ChatModel | None,
    journals: Journals,
    intake: PlanIntake,
    settings: PlannerSettings | None,
    options: Options,
) -> RunPlanner:
    limits = options.get("limits", Limits())
    return RunPlanner(
        journals=journals,
        intake=intake,
        model=model,
        triage_model=model_of(options.get("triage_model")),
        report_model=model_of(options.get("report_model")),
        context=options.get("context", ()),
        ranker=_ranker(settings, options),
        settings=settings,
        early_start=limits.early_start,
        trusts_texts=limits.tool_texts == "trust",
        tell=options.get("tell", ignore_progress),
        standing=StandingApproval(intake=intake).of_run,
        said=partial(_said, journals),
    )
