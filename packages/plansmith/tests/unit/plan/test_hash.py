from __future__ import annotations

import copy
import math
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from plansmith import Plan, plan_hash
from plansmith.plan.data import FrozenDict, content_hash
from plansmith.plan.plan import owned

BASE: dict[str, Any] = {
    "steps": [{"id": "a", "tool": "t", "inputs": {"x": 1}}, {"id": "b", "tool": "u"}]
}


def test_the_hash_of_a_plan_never_changes_between_releases() -> None:
    # Approvals are stored with this hash: if this fails, every stored approval is void.
    plan = Plan.model_validate(BASE | {"schedule": {"daily_at": "09:30"}})
    assert plan_hash(plan) == "80a40c4722dcdd0e4cf48e23718cbb05e4421b5c9a65d5fd43e48d115a3142dd"
    assert plan.hash == plan_hash(plan)


def test_the_hash_of_a_plan_is_the_one_of_its_content_as_an_object() -> None:
    timing = {"every_minutes": 5}
    for more in ({}, {"schedule": timing}, {"schedules": {"a": timing}, "schedule": timing}):
        plan = Plan.model_validate(BASE | more)
        steps = [
            {"id": "a", "kind": "tool", "tool": "t", "inputs": {"x": 1}, "needs": []},
            {"id": "b", "kind": "tool", "tool": "u", "needs": []},
        ]
        hashed: dict[str, Any] = {"plansmith": 1, "steps": steps, "schedule": None} | more
        assert plan.hash == content_hash(hashed)


def test_order_switches_time_limits_and_schedules_count() -> None:
    plan = Plan.model_validate(BASE)
    variants = [
        BASE["steps"][1] | {"after": ["a"]},
        BASE["steps"][1] | {"disabled": True},
        BASE["steps"][1] | {"timeout_s": 5.0},
        BASE["steps"][1] | {"tool": "v"},
    ]
    hashes = {Plan.model_validate({"steps": [BASE["steps"][0], each]}).hash for each in variants}
    hashes.add(Plan.model_validate(BASE | {"schedule": {"every_minutes": 5}}).hash)
    assert len(hashes) == 5
    assert plan.hash not in hashes


CHANGES: list[Callable[[Any], object]] = [
    lambda plan: plan.steps[0].inputs.update(x=2),
    lambda plan: plan.steps[0].inputs.setdefault("y", 2),
    lambda plan: plan.steps[0].inputs.pop("x"),
    lambda plan: plan.steps[0].inputs.clear(),
    lambda plan: plan.steps[2].over.append(2),
    lambda plan: plan.steps[2].over.sort(),
    lambda plan: plan.steps[2].each.inputs["x"]["y"].insert(0, 2),
    lambda plan: operator.setitem(plan.steps[0].inputs, "x", 2),
    lambda plan: plan.steps[0].inputs.__ior__({"x": 2}),
    lambda plan: operator.delitem(plan.steps[0].inputs, "x"),
    lambda plan: plan.steps[2].over.__iadd__([2]),
    lambda plan: operator.setitem(plan.steps[1].inputs, "new", 1),
    lambda plan: operator.setitem(plan.schedules, "a", plan.schedules["b"]),
]


@pytest.mark.parametrize("change", CHANGES, ids=range(len(CHANGES)))
def test_a_plan_refuses_to_be_changed_in_place(change: Callable[[Any], object]) -> None:
    inner = {"id": "m", "over": [1], "each": {"tool": "t", "inputs": {"x": {"y": [1]}}}}
    schedules = {"b": {"every_minutes": 5}}
    plan = Plan.model_validate({"steps": [*BASE["steps"], inner], "schedules": schedules})
    text = plan.stored_text()
    for held in (plan, Plan.model_validate(plan.to_json()), copy.deepcopy(plan), plan.replace()):
        with pytest.raises(TypeError, match="a plan cannot be changed in place"):
            change(held)
        assert Plan.model_validate(held.to_json()).stored_text() == text


def test_a_plan_made_without_validation_is_owned_before_anybody_sees_it() -> None:
    mine: dict[str, Any] = {"to": "ada", "items": ["x"]}
    step = Plan.model_validate(BASE).steps[0]
    copied = Plan(steps=(step.model_copy(update={"inputs": mine}),))
    built = Plan(steps=(type(step).model_construct(**{**vars(step), "inputs": mine}),))
    given = Plan.model_validate({"steps": [{"id": "a", "tool": "t", "inputs": FrozenDict(mine)}]})
    plans = [owned(plan) for plan in (copied, built, given)]
    mine["items"].append("y")
    mine["to"] = "mallory"
    for plan in plans:
        plan.steps[0].inputs.__init__({"to": "mallory"})  # type: ignore[misc, union-attr]
        assert plan.to_json()["steps"][0]["inputs"] == {"to": "ada", "items": ["x"]}  # type: ignore[index, call-overload]
        assert plan.hash == plan_hash(Plan.model_validate(plan.to_json()))
    with pytest.raises(ValueError, match="nan is not a JSON number"):
        Plan.model_validate(
            {"steps": [{"id": "a", "tool": "t", "inputs": FrozenDict({"x": math.nan})}]}
        )


def test_a_copy_of_a_plan_has_the_hash_of_its_own_content() -> None:
    plan = Plan.model_validate(BASE)
    digest, known = plan.hash, plan.by_id
    changed = plan.model_copy(update={"steps": plan.steps[:1]})
    assert changed.hash == plan_hash(Plan.model_validate(changed.to_json())) != digest
    assert list(changed.by_id) == ["a"]
    step = plan.steps[1].model_copy(update={"inputs": {"y": "{{a}}"}})
    assert step.needed == {"a"}
    for same in (pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)):
        assert same == plan
        assert same.hash == digest
        assert same.by_id == known
