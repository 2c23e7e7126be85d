"""The plans around a step: the run's own, and those of the templates that contain it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypedDict

from plansmith.engine.units import round_step
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.plan import Plan
from plansmith.plan.steps import MapStep, PlanStep


class Known(TypedDict):
    """The tools and agents that steps can call, and the templates that they run."""

    tools: Mapping[str, ToolSpec]
    agents: Mapping[str, AgentSpec]
    templates: Mapping[str, Plan]


class Level(NamedTuple):
    """A plan around a step, and the step of that plan that contains it."""

    plan: Plan
    part: str
    scope: str


def levels(plan: Plan, step: str, known: Known) -> Iterator[Level | None]:
    """Yields every plan around a step, the outermost first; None for a plan that is not known."""
    scope, parts = "", step.split("/")
    while parts:
        part = parts.pop(0)
        if part not in plan.by_id:
            yield None
            return
        yield Level(plan, part, scope)
        scope, inner = f"{scope}{part}/", plan.by_id[part]
        while parts and (inner.repeat is not None or isinstance(inner, MapStep)):
            scope = f"{scope}{parts.pop(0)}/"
            if inner.repeat is not None:
                inner = round_step(inner)
            elif isinstance(inner, MapStep):
                inner = inner.each
        template = inner.template if isinstance(inner, PlanStep) else ""
        plan = known["templates"].get(template, Plan())
