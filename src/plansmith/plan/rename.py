"""Renames steps of a plan, with everything that refers to them."""

from __future__ import annotations

from collections.abc import Mapping

from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.refs import rename_refs

_TEMPLATES = ("inputs", "task", "question", "instruction", "over")


def rename_steps(plan: Plan, names: Mapping[str, str]) -> Plan:
    """Returns the plan with some steps renamed; references and `after` are updated."""
    value = plan.to_json()
    steps = value["steps"]
    assert isinstance(steps, list)  # noqa: S101
    value["steps"] = [_renamed(each, names) for each in steps]
    return Plan.model_validate(value)


def _renamed(step: Json, names: Mapping[str, str]) -> Json:
    if not isinstance(step, dict):
        return step
    made = dict(step)
    made["id"] = names.get(str(step["id"]), step["id"])
    after = step.get("after")
    if isinstance(after, list):
        made["after"] = [names.get(str(each), each) for each in after]
    for name in _TEMPLATES:
        if name in step:
            made[name] = rename_refs(step[name], names)
    if "each" in step:
        made["each"] = _renamed(step["each"], names)
    return made
