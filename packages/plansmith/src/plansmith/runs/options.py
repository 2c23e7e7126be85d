"""The arguments of `Plansmith(...)` by name, with their types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from decimal import Decimal
    from pathlib import Path

    from plansmith import ports
    from plansmith.engine.processes import Machine
    from plansmith.engine.summary import CallTimings
    from plansmith.plan.limits import BudgetLimits, Limits
    from plansmith.plan.plan import Plan
    from plansmith.plan.planning import Tell
    from plansmith.plan.run_options import Team
    from plansmith.review.settings import ReviewPolicy
    from plansmith.runs.replan import Rounds


class Options(TypedDict, total=False):
    """The optional arguments of `Plansmith(...)`.

    Attributes:
        triage_model: The model that decides whether a request needs a plan; else the model.
        report_model: The model that writes replies and reports; else the model.
        context: Where planners look for background: documents, schemas, searches.
        ranker: Ranks tools by meaning, for requests with many tools.
        templates: Plans that other plans can use, by name.
        policy: What needs a person's review.
        ask_also: More reasons for a review of a plan.
        limits: How wide, how often and how long a run goes.
        rounds: How a run is planned again once all steps of a plan have run.
        budget: What one run may use.
        shared_budget: What all runs together may use.
        price_per_million: The price of a million tokens in US dollars, where none is known.
        tell: Receives what happens, for a person to read.
        past: How long calls took, for estimates.
        secrets: Values that tools get and nobody sees.
        ids: Makes the ids of runs.
        folder: The folder that runs belong to.
        records_folder: Whether journals tell where that folder is.
        team: The team of agents that runs need.
        shared_store: Whether the store is also used elsewhere, so that `close` leaves it open.
        machine: This machine, for stores that several machines use.
    """

    triage_model: ports.ChatModel | str | None
    report_model: ports.ChatModel | str | None
    context: Sequence[ports.ContextSource]
    ranker: ports.Ranker | None
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
    secrets: ports.Secrets
    ids: Callable[[], str]
    folder: Path | str
    records_folder: bool
    team: Team | None
    shared_store: bool
    machine: Machine


class Parts(Options, total=False):
    """Parts of a Plansmith that a caller gives instead of those that settings describe."""

    model: ports.ChatModel | None
    tools: Sequence[Callable[..., Any] | ports.ToolSource]
    agents: Sequence[ports.Agent]
    store: str | ports.PlanStore
    clock: ports.Clock
