"""The optional arguments of `Plansmith(...)`, with their types."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from decimal import Decimal
    from pathlib import Path

    from plansmith.engine.processes import Machine
    from plansmith.engine.timings import CallTimings
    from plansmith.plan.limits import BudgetLimits, Limits
    from plansmith.plan.plan import Plan
    from plansmith.plan.run_options import Team
    from plansmith.planner.request import Tell
    from plansmith.planner.shortlist.pick import SemanticRanker
    from plansmith.ports import ChatModel, ContextSource, Secrets
    from plansmith.review.settings import ReviewPolicy
    from plansmith.runs.replan import Rounds


class Options(TypedDict, total=False):
    """The optional arguments of `Plansmith(...)`."""

    triage_model: ChatModel | str | None
    report_model: ChatModel | str | None
    context: Sequence[ContextSource]
    ranker: SemanticRanker | None
    templates: Mapping[str, Plan]
    policy: ReviewPolicy
    ask_also: Callable[[Plan], Sequence[str]]
    limits: Limits
    rounds: Rounds
    budget: BudgetLimits
    shared_budget: BudgetLimits
    price_per_million: Decimal | None
    tell: Tell
    past: CallTimings
    secrets: Secrets
    ids: Callable[[], str]
    folder: Path | str
    team: Team | None
    shared_store: bool
    machine: Machine
