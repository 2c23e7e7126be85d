"""Makes the parts of map, plan and repeated steps."""

from __future__ import annotations

from collections.abc import Mapping

from plansmith.engine.rounds import RoundGroup
from plansmith.engine.units import Group, Unit, map_units, template_units
from plansmith.errors import ReferenceFailed
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import PlanStep


class PartsMaker:
    """Makes the parts of units; knows the templates and their hashes."""

    def __init__(self, templates: Mapping[str, Plan]) -> None:
        self._templates = templates
        self._contents: dict[str, str] = {}

    def group(
        self,
        unit: Unit,
        inputs: Mapping[str, Json],
        results: Mapping[str, Json],
        known: Mapping[str, str],
    ) -> Group:
        """Returns the parts of a unit; `known` are those that have started, with their items."""
        if unit.step.repeat is not None:
            return RoundGroup(unit, unit.step.repeat, results)
        if isinstance(unit.step, PlanStep):
            return Group.of(unit, self._of_template(unit, unit.step, inputs))
        items = inputs["over"]
        return Group.of(unit, map_units(unit, items, known))

    def _of_template(
        self, unit: Unit, step: PlanStep, inputs: Mapping[str, Json]
    ) -> dict[str, Unit]:
        plan = self._templates.get(step.template)
        if plan is None:
            raise ReferenceFailed(Sentence("unknown.template", name=step.template))
        if step.content not in (None, self._content(step.template, plan)):
            raise ReferenceFailed(Sentence("'{name}' is not what was approved", name=step.template))
        parts = template_units(unit, plan, inputs)
        for part in parts.values():
            unknown = sorted(part.needs() - parts.keys())
            if unknown:
                missing = Sentence(
                    "{step} waits for {need}, which does not exist", step=part.name, need=unknown[0]
                )
                raise ReferenceFailed(missing)
        return parts

    def _content(self, name: str, plan: Plan) -> str:
        """Returns the hash of a template, computed once and not for every item of a map."""
        if name not in self._contents:
            self._contents[name] = plan.hash
        return self._contents[name]
