"""Options: what may be set when a Plansmith is made, beside the parts everybody gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TypedDict

from plansmith.plan.plan import Plan
from plansmith.planner.kit import Tell
from plansmith.planner.shortlist import SemanticRanker
from plansmith.ports import ChatModel, ContextSource, Secrets
from plansmith.review.policy import ReviewPolicy
from plansmith.runner.budget import BudgetLimits
from plansmith.runner.limits import Caps, RunLimits
from plansmith.runner.past import Past
from plansmith.runner.replan import Rounds


class Options(TypedDict, total=False):
    """All of them may be left out."""

    triage_model: ChatModel | None
    report_model: ChatModel | None
    context: Sequence[ContextSource]
    ranker: SemanticRanker | None
    templates: Mapping[str, Plan]
    policy: ReviewPolicy
    ask_also: Callable[[Plan], Sequence[str]]
    limits: RunLimits
    caps: Caps
    rounds: Rounds
    budget: BudgetLimits
    shared_budget: BudgetLimits
    price_per_million: Decimal | None
    early_start: bool
    tell: Tell
    past: Past
    secrets: Secrets
    ids: Callable[[], str]
    folder: Path | str
