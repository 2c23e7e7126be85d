"""Plans as a person edits them: with a step changed, added or removed."""

from __future__ import annotations

from typing import Any

from plansmith.plan.plan import Plan
from plansmith.plan.steps import AnyStep


def change_step(plan: Plan, name: str, **changes: Any) -> Plan:
    steps = (step.replace(**changes) if step.id == name else step for step in plan.steps)
    return plan.replace(steps=tuple(steps))


def remove_step(plan: Plan, name: str) -> Plan:
    return plan.replace(steps=tuple(step for step in plan.steps if step.id != name))


def add_step(plan: Plan, step: AnyStep) -> Plan:
    return plan.replace(steps=(*plan.steps, step))
