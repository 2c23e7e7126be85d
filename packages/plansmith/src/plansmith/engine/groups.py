"""Makes the parts of map, plan and repeated steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from plansmith.engine.units import Group, Unit, Values, map_units, round_unit, template_units
from plansmith.errors import ReferenceFailed
from plansmith.plan.conditions import condition_text, holds
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.run import StepStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import PlanStep, Repeat


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


class RoundGroup(Group):
    """The rounds of a step; the next one is added when the last has ended and more are needed."""

    __slots__ = ("_flaw", "_is_met", "_results", "repeat")

    def __init__(self, unit: Unit, repeat: Repeat, results: Mapping[str, Json]) -> None:
        super().__init__(unit, {})
        self.repeat = repeat
        self._results = results
        self._is_met = False
        self._flaw = ""
        self._add_round()

    def _add_round(self) -> None:
        part = round_unit(self.unit, len(self.parts) + 1)
        self.parts[part.name] = part
        self.waiting.append(part.name)

    @property
    def last(self) -> str:
        """The name of the last round that there is."""
        return f"{self.unit.name}/{len(self.parts)}"

    def started_parts(
        self, ended: Mapping[str, StepStatus], opened: Collection[str]
    ) -> dict[str, Unit]:
        """Takes the rounds that have started before, in order."""
        known: dict[str, Unit] = {}
        while self.waiting and (self.last in ended or self.last in opened):
            name = self.waiting.popleft()
            known[name] = self.parts[name]
            if name in ended:
                self.end(name, ended[name])
        return known

    def end(self, name: str, status: StepStatus) -> None:
        """Records that a round has ended, and decides whether another one follows."""
        super().end(name, status)
        if status is not StepStatus.DONE or name != self.last or self._is_met or self._flaw:
            return
        try:
            self._is_met = holds(self.repeat.until, self._values(name))
        except ReferenceFailed as error:
            self._flaw = str(error)
            return
        if self._is_met:
            return
        if len(self.parts) < self.repeat.at_most:
            self._add_round()
        else:
            until = condition_text(self.repeat.until)
            self._flaw = Sentence(
                "after {count} rounds it is still not so that {condition}",
                count=len(self.parts),
                condition=until,
            )

    def _values(self, name: str) -> Values:
        own = {**self.unit.bound, self.unit.step.id: self._results[name]}
        return Values(self._results, Unit("", self.unit.step, scope=self.unit.scope, bound=own))

    @property
    def over(self) -> bool:
        """Tells whether no round follows."""
        return self._is_met or bool(self._flaw) or bool(self.failed)

    def error(self) -> str:
        """Says why the step is not done; empty if it is."""
        return self._flaw or super().error()

    def joined(self, results: Mapping[str, Json]) -> Json:
        """The result of the last round."""
        return results[self.last]

    def pause_s(self, name: str) -> float:
        """Returns how long a round waits before it starts."""
        return self.repeat.every if name != f"{self.unit.name}/1" else 0.0
