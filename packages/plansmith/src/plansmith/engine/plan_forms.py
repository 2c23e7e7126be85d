"""What the execution of a plan needs of it, computed once for all runs of the same plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from plansmith.engine.forms import StepForm
from plansmith.engine.ready import ReadyGraph
from plansmith.engine.units import Unit, plan_units
from plansmith.plan.plan import Plan

_MOST: Final = 256


class PlanForm:
    """The inputs of a plan's active steps in the form to fill, and what each step waits for."""

    __slots__ = ("_plan", "_units", "graph", "steps")

    def __init__(self, plan: Plan) -> None:
        self.steps = {step.id: StepForm(step) for step in plan.steps if not step.disabled}
        self._plan, self._units = plan, plan_units(plan, self.steps)
        units = self._units
        self.graph = ReadyGraph(
            {name: unit.needs() for name, unit in units.items()},
            {name: unit.callee for name, unit in units.items()},
        )

    def units_of(self, plan: Plan) -> Mapping[str, Unit]:
        """Returns the units of a plan with this form: those that were made with it, or new ones."""
        return self._units if plan is self._plan else plan_units(plan, self.steps)


class PlanForms:
    """Keeps the forms of plans that run more than once, by the hash of the plan.

    A form is a snapshot, and kept only if the plan still has the hash that was approved: what
    somebody changes in a plan in place reaches no other run. The hash does not tell the order in
    which a plan lists its steps, but steps start in that order.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], PlanForm | None] = {}

    def of(self, plan: Plan, digest: str) -> PlanForm:
        """Returns the form of the plan with this hash."""
        name = (digest, *[step.id for step in plan.steps])
        kept = self._kept.get(name)
        if kept is not None:
            return kept
        made = PlanForm(plan)
        if name in self._kept:  # the second run of it: now it pays to check the hash
            self._kept[name] = made if plan.hash == digest else None
        elif len(self._kept) < _MOST:
            self._kept[name] = None
        else:
            self._kept = {name: None}
        return made
