from __future__ import annotations

from typing import Any

import pytest

from plansmith import Plan, diff_plans
from plansmith.errors import PlansmithError
from plansmith.plan.diff import apply_changes, apply_diff


def plan(*steps: dict[str, Any], **fields: Any) -> Plan:
    return Plan.model_validate({"steps": list(steps)} | fields)


A, B, C = ({"id": name, "tool": "t", "inputs": {"x": 1, "l": [1, 2]}} for name in "abc")


def test_each_changed_field_is_named() -> None:
    after = plan(A | {"inputs": {"x": True, "l": [1, 3], "new": None}, "title": "T"})
    [change] = diff_plans(plan(A), after).changed
    found = {(".".join(map(str, each.path)), each.change.value) for each in change.fields}
    assert found == {
        ("title", "added"),
        ("inputs.x", "changed"),
        ("inputs.l.1", "changed"),
        ("inputs.new", "added"),
    }


def test_added_removed_and_moved_steps_are_told_apart() -> None:
    gone, new = A | {"id": "gone"}, A | {"id": "new"}
    diff = diff_plans(plan(A, gone, B, C), plan(C, A, new, B))
    assert [each.step.id for each in diff.added] == ["new"]
    assert [each.step.id for each in diff.removed] == ["gone"]
    assert [(each.id, each.before, each.after) for each in diff.moved] == [("c", 3, 0)]
    assert diff.changed == ()


def test_inserting_a_step_moves_nothing() -> None:
    diff = diff_plans(plan(A, B), plan(A, C, B))
    assert not diff.moved
    assert len(diff) == 1


def test_a_step_that_changes_its_kind_is_a_changed_step() -> None:
    before, after = plan(A), plan({"id": "a", "question": "which?"})
    diff = diff_plans(before, after)
    assert not diff.added
    assert not diff.removed
    assert apply_diff(before, diff) == after


def test_plans_with_the_same_id_twice_cannot_be_compared() -> None:
    with pytest.raises(PlansmithError, match="same id"):
        diff_plans(plan(A, A), plan(A))


def test_a_diff_that_does_not_fit_is_refused() -> None:
    diff = diff_plans(plan(A), plan(A | {"inputs": {"x": 1, "l": [1, 9]}}))
    with pytest.raises(PlansmithError, match="no step 'a'"):
        apply_diff(plan(B), diff)
    with pytest.raises(PlansmithError, match=r"inputs\.l\.1 does not fit"):
        apply_changes({"id": "a", "inputs": {"l": "text"}}, diff.changed[0].fields)
