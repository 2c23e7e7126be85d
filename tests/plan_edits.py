"""Edits plans: adds, removes, changes, moves and disables steps."""

from __future__ import annotations

from typing import Any

from plansmith.errors import Refused
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep


def add_step(plan: Plan, step: AnyStep, *, position: int | None = None) -> Plan:
    """Returns the plan with one more step, at a position or at the end."""
    if step.id in plan.by_id:
        raise Refused(
            Sentence("the plan already has a step '{step}'", step=step.id),
            hint=Sentence("give it another id"),
        )
    place = len(plan.steps) if position is None else position
    return _with(plan, [*plan.steps[:place], step, *plan.steps[place:]])


def remove_step(plan: Plan, step_id: str) -> Plan:
    """Returns the plan without a step; the next check reports steps that used it."""
    _known(plan, step_id)
    return _with(plan, [step for step in plan.steps if step.id != step_id])


def change_step(plan: Plan, step_id: str, **changes: Any) -> Plan:
    """Returns the plan with some fields of a step changed."""
    changed = _known(plan, step_id).replace(**changes)
    return _with(plan, [changed if step.id == step_id else step for step in plan.steps])


def move_step(plan: Plan, step_id: str, position: int) -> Plan:
    """Returns the plan with a step at another position."""
    step = _known(plan, step_id)
    rest = [each for each in plan.steps if each.id != step_id]
    return _with(plan, [*rest[:position], step, *rest[position:]])


def disable_step(plan: Plan, step_id: str, *, off: bool = True) -> Plan:
    """Returns the plan with a step disabled, or enabled again."""
    return change_step(plan, step_id, disabled=off)


def _known(plan: Plan, step_id: str) -> AnyStep:
    if step_id not in plan.by_id:
        names = ", ".join(list(plan.by_id)[:8])
        raise Refused(
            Sentence("the plan has no step '{step}'", step=step_id),
            hint=Sentence("its steps: {names}", names=names),
        )
    return plan.by_id[step_id]


def _with(plan: Plan, steps: list[AnyStep]) -> Plan:
    return plan.replace(steps=tuple(steps))
