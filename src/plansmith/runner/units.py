"""Units: what is called and journaled one by one: steps, and parts of map and plan steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from plansmith.errors import ReferenceFailed
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.refs import ITEM, PARAMS, RESERVED, fill, fill_text, lookup
from plansmith.plan.steps import AgentStep, AnyStep, MapStep, PlanStep, ReplyStep, ToolStep


@dataclass(frozen=True, slots=True)
class Unit:
    """A step with its place: its name in the journal, its scope, and what is bound in it."""

    name: str
    step: AnyStep
    scope: str = ""
    bound: Mapping[str, Json] = field(default_factory=dict[str, Json])
    parent: str | None = None
    depth: int = 0

    @property
    def callee(self) -> str:
        """The tool or agent it calls, for limits per tool; else its kind."""
        match self.step:
            case ToolStep():
                return self.step.tool
            case AgentStep():
                return self.step.agent
            case _:
                return self.step.kind

    def needs(self) -> frozenset[str]:
        """The names of the units it waits for."""
        return frozenset(f"{self.scope}{need}" for need in self.step.needs() - RESERVED)


class Values(Mapping[str, Json]):
    """Results as a unit's references see them: by step id within its scope."""

    def __init__(self, results: Mapping[str, Json], unit: Unit) -> None:
        self._results = results
        self._unit = unit

    def __getitem__(self, name: str) -> Json:
        if name in self._unit.bound:
            return self._unit.bound[name]
        return self._results[f"{self._unit.scope}{name}"]

    def __iter__(self) -> Iterator[str]:
        yield from self._unit.bound

    def __len__(self) -> int:
        return len(self._unit.bound)

    def __contains__(self, name: object) -> bool:
        return name in self._unit.bound or f"{self._unit.scope}{name}" in self._results


def resolved(unit: Unit, results: Mapping[str, Json]) -> dict[str, Json]:
    """The unit's inputs with every reference filled; fails with `ReferenceFailed`."""
    values = Values(results, unit)
    match unit.step:
        case ToolStep() | PlanStep():
            return cast("dict[str, Json]", fill(unit.step.inputs, values))
        case AgentStep():
            inputs = fill(unit.step.inputs, values)
            return {"task": fill_text(unit.step.task, values), "inputs": inputs}
        case ReplyStep():
            return {"instruction": fill_text(unit.step.instruction, values)}
        case MapStep():
            return {"over": fill(unit.step.over, values)}
        case _:
            return {"question": fill_text(unit.step.question, values)}


def cited(unit: Unit, results: Mapping[str, Json]) -> dict[str, Json]:
    """The values that a reply refers to, by how it writes them."""
    values = Values(results, unit)
    return {str(ref): lookup(ref, values) for ref in unit.step.refs()}


def plan_units(plan: Plan) -> dict[str, Unit]:
    """The units of a plan: its steps that are not switched off."""
    return {step.id: Unit(step.id, step) for step in plan.steps if not step.disabled}


def map_units(unit: Unit, items: Json) -> dict[str, Unit]:
    """One unit for every item of a map step's list."""
    step = unit.step
    if not isinstance(step, MapStep) or not isinstance(items, list):
        kind = type(items).__name__
        raise ReferenceFailed(f"{unit.name} goes over a list, and this is a {kind}")
    return {
        f"{unit.name}/{place}": Unit(
            f"{unit.name}/{place}",
            step.each,
            scope=unit.scope,
            bound={**unit.bound, ITEM: item},
            parent=unit.name,
            depth=unit.depth + 1,
        )
        for place, item in enumerate(items)
    }


def template_units(unit: Unit, plan: Plan, parameters: Mapping[str, Json]) -> dict[str, Unit]:
    """The units of a template's plan, inside the plan step that runs it."""
    scope = f"{unit.name}/"
    return {
        f"{scope}{step.id}": Unit(
            f"{scope}{step.id}",
            step,
            scope=scope,
            bound={PARAMS: dict(parameters)},
            parent=unit.name,
            depth=unit.depth + 1,
        )
        for step in plan.steps
        if not step.disabled
    }


def named_unit(plan: Plan, name: str, templates: Mapping[str, Plan]) -> Unit | None:
    """The unit of a name such as `step`, `map/3` or `plan/step`, unbound: for what it is."""
    first, *rest = name.split("/")
    step: AnyStep | None = plan.by_id.get(first)
    for part in rest:
        match step:
            case MapStep(each=each):
                step = each
            case PlanStep(template=template) if template in templates:
                step = templates[template].by_id.get(part)
            case _:
                return None
    return Unit(name, step) if step is not None else None
