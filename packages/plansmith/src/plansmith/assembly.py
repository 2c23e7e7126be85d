"""Makes the parts of a Plansmith, when one of them is first used."""

from __future__ import annotations

from functools import partial

from plansmith import plugins
from plansmith.arguments import Arguments
from plansmith.lazy import lazy_object
from plansmith.plan.limits import Limits
from plansmith.plan.planning import ignore_progress
from plansmith.runs.intake import PlanIntake
from plansmith.runs.journals import Journals
from plansmith.runs.registry import Registry
from plansmith.runs.service import RunService
from plansmith.schedules.approval import approval_of_run


def make_runs(given: Arguments) -> RunService:
    """Makes the service for runs."""
    options = given.options
    limits = options.get("limits", Limits())
    journals = Journals(
        store=given.store,
        clock=given.clock,
        ids=options.get("ids"),
        folder=options.get("folder", ""),
        team=options.get("team"),
        lease_s=limits.lease_s,
        machine=options.get("machine"),
        tell=options.get("tell", ignore_progress),
        records_folder=options.get("records_folder", True),
    )

    registry = Registry(
        store=given.store,
        clock=given.clock,
        sources=given.sources,
        agents=given.agents,
        templates=options.get("templates"),
        secrets=options.get("secrets"),
        conversations=lazy_object(lambda: plugins.load("threads", "memory")(journals)),
    )
    intake = PlanIntake(
        registry,
        policy=options.get("policy"),
        price_per_million=options.get("price_per_million"),
        ask_also=options.get("ask_also", lambda _: ()),
    )
    # Tools that need no review may also get data from other tools without a question.
    free = dict.fromkeys((*limits.data_free, *intake.policy.never_for))
    return RunService(
        journals=journals,
        intake=intake,
        planner=given.planner,
        writer=given.writer,
        limits=limits.replace(data_free=tuple(free)),
        iterations=options.get("iterations"),
        budget=options.get("budget"),
        shared_budget=options.get("shared_budget"),
        standing=partial(approval_of_run, intake),
    )
