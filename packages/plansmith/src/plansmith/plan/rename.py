"""Renames steps of a plan with everything that refers to them, or only what refers to them."""

from __future__ import annotations

from collections.abc import Mapping

from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.refs import rename_refs

_TEMPLATES = (
    *("inputs", "task", "question", "instruction", "over"),
    *("when", "repeat", "undo_with"),
)


def rename_steps(plan: Plan, names: Mapping[str, str]) -> Plan:
    """Returns the plan with some steps renamed; references and `after` are updated."""
    value = plan.to_json()
    steps = value["steps"]
    assert isinstance(steps, list)  # noqa: S101
    value["steps"] = [_renamed(each, names) for each in steps]
    return Plan.model_validate(value)


def point_elsewhere(plan: Plan, sources: Mapping[str, str]) -> Plan:
    """Returns the plan with references to other sources; nothing waits for these any more."""
    value = plan.to_json()
    steps = value["steps"]
    assert isinstance(steps, list)  # noqa: S101
    value["steps"] = [_pointed(each, sources) for each in steps]
    return Plan.model_validate(value)


def _pointed(step: Json, sources: Mapping[str, str]) -> Json:
    if not isinstance(step, dict):
        return step
    made = step | {name: rename_refs(step[name], sources) for name in _TEMPLATES if name in step}
    after = step.get("after")
    if isinstance(after, list):
        made["after"] = [each for each in after if each not in sources]
    if "each" in step:
        made["each"] = _pointed(step["each"], sources)
    return made


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
