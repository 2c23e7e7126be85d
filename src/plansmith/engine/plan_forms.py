"""What the execution of a plan needs of it, computed once for all runs of the same plan."""

from __future__ import annotations

from typing import Final

from plansmith.engine.forms import StepForm
from plansmith.engine.ready import ReadyGraph
from plansmith.engine.units import plan_units
from plansmith.plan.plan import Plan

_MOST: Final = 256


class PlanForm:
    """The inputs of a plan's active steps in the form to fill, and what each step waits for."""

    __slots__ = ("graph", "steps")

    def __init__(self, plan: Plan) -> None:
        self.steps = {step.id: StepForm(step) for step in plan.steps if not step.disabled}
        units = plan_units(plan, self.steps)
        self.graph = ReadyGraph(
            {name: unit.needs() for name, unit in units.items()},
            {name: unit.callee for name, unit in units.items()},
        )


class PlanForms:
    """Keeps the forms of plans that run more than once, by the hash of the plan.

    A form is a snapshot, and kept only if the plan still has the hash that was approved: what
    somebody changes in a plan in place reaches no other run.
    """

    def __init__(self) -> None:
        self._kept: dict[str, PlanForm | None] = {}

    def of(self, plan: Plan, digest: str) -> PlanForm:
        """Returns the form of the plan with this hash."""
        kept = self._kept.get(digest)
        if kept is not None:
            return kept
        made = PlanForm(plan)
        if digest in self._kept:  # the second run of it: now it pays to check the hash
            self._kept[digest] = made if plan.hash == digest else None
        elif len(self._kept) < _MOST:
            self._kept[digest] = None
        else:
            self._kept = {digest: None}
        return made
