"""Events of planning: triage, prefetched reads, and a plan or a failure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Literal, Self

from pydantic import Field, model_serializer

from plansmith.plan.briefs import Usage
from plansmith.plan.data import Flag, Number, Record, Whole
from plansmith.plan.estimate import Estimate
from plansmith.plan.event_body import Count, EventBody, Seconds, ShownField
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem

TriageDecision = Literal["answer", "plan", "ask", "refuse"]


class Triaged(EventBody, frozen=True, kw_only=True):
    """Triage decided what a request needs."""

    decision: TriageDecision
    reason: ShownField = ""
    query: str = ""
    tokens: Count = 0
    cost: str = ""
    record: str = ""


class PrefetchStarted(EventBody, frozen=True, kw_only=True):
    """A read is about to be made before its plan is complete; stored before the call."""

    key: str
    tool: str
    inputs: str


class PrefetchEnded(EventBody, frozen=True, kw_only=True):
    """A prefetched read has ended; `result` is the content hash of what it returned, if anything.

    `seconds` is the time the call took; none when its process died and nobody knows.
    """

    key: str
    result: str = ""
    error: ShownField = ""
    seconds: Seconds | None = None
    tokens: Count = 0
    cost: str = ""


class PlanningFailed(EventBody, frozen=True, kw_only=True):
    """Planning gave no usable plan; `record` is the exchange with the models."""

    reason: ShownField
    problems: tuple[Problem, ...] = ()
    tokens: Count = 0
    cost: str = ""
    record: str = ""


PlanOrigin = Literal["model", "rules", "person", "submitted", "program", "template", "rerun"]


class PickedTool(Record):
    """A tool or an agent that was offered to the model, and why."""

    name: str
    reason: str


class PlanningFigures(Record):
    """How planning went: time, tokens, and whether the model's first text was usable."""

    parsed: Flag = False
    parsed_at_once: Flag = False
    enough_context: Flag = False
    degraded: Flag = False
    steps: Whole = 0
    repairs: Whole = 0
    iterations: Whole = 1
    input_tokens: Whole = 0
    output_tokens: Whole = 0
    cached_tokens: Whole = 0
    cost_usd: str | None = None
    seconds: dict[str, Whole | Number] = Field(default_factory=dict)

    def spent(self, usage: Usage, seconds: Mapping[str, float] | None = None) -> Self:
        """Returns the figures with the tokens of the model calls and the time of each stage."""
        return self.replace(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            cost_usd=None if usage.cost is None else str(usage.cost),
            seconds={name: round(each, 3) for name, each in (seconds or {}).items()},
        )

    @property
    def usage(self) -> Usage:
        """The tokens of the model calls."""
        cost = None if self.cost_usd is None else Decimal(self.cost_usd)
        return Usage(self.input_tokens, self.output_tokens, self.cached_tokens, cost)

    @model_serializer(mode="plain")
    def _write(self) -> dict[str, Any]:
        """Writes every figure that was given, also zeros."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class PlanProposed(EventBody, frozen=True, kw_only=True):
    """A new or revised plan, its problems, and how it was made.

    `origin` is who made it: a model, rules without one, a person's edit, whoever submitted it (a
    program, where that is one), a template, or an earlier run, which `RunCreated.origin` names.
    `record` is the content hash of what models were asked and said for it. `acts` are the steps
    that change something, by what was known of their tools then. `templates` are the plans of the
    templates that it runs, at every depth, by name: the run uses these and no others. `earlier` are
    the results of earlier runs that it uses, each with its content hash: the run uses exactly
    these contents. `restores` is the number of the event whose plan stands again.
    """

    plan: Plan
    problems: tuple[Problem, ...] = ()
    origin: PlanOrigin = "model"
    cause: ShownField = ""
    acts: tuple[str, ...] = ()
    estimate: Estimate | None = None
    metrics: PlanningFigures | None = None
    picks: tuple[PickedTool, ...] = ()
    tokens: Count = 0
    cost: str = ""
    record: str = ""
    templates: dict[str, Plan] = {}
    earlier: dict[str, str] = {}
    restores: Count = 0
