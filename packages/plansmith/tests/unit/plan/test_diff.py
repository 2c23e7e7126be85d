from __future__ import annotations

from typing import Any

import pytest

from plansmith import Plan
from plansmith.errors import PlansmithError
from plansmith.plan.data import Json
from plansmith.plan.diff import apply_changes, apply_diff, diff_plans, merge_plans
from plansmith.review.render import diff_lines


def plan(*steps: dict[str, Any], **fields: Any) -> Plan:
    return Plan.model_validate({"steps": list(steps)} | fields)


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


A, B, C = ({"id": name, "tool": "t", "inputs": {"x": 1, "l": [1, 2]}} for name in "abc")


def test_plans_with_the_same_id_twice_cannot_be_compared() -> None:
    with pytest.raises(PlansmithError, match="same id"):
        diff_plans(plan(A, A), plan(A))


def test_a_diff_that_does_not_fit_is_refused() -> None:
    diff = diff_plans(plan(A), plan(A | {"inputs": {"x": 1, "l": [1, 9]}}))
    with pytest.raises(PlansmithError, match="no step 'a'"):
        apply_diff(plan(B), diff)
    with pytest.raises(PlansmithError, match=r"inputs\.l\.1 does not fit"):
        apply_changes({"id": "a", "inputs": {"l": "text"}}, diff.changed[0].fields)


ONE, TWO = ({"id": name, "tool": "t", "inputs": {"x": 1, "y": 1}} for name in "ab")


NEW = ONE | {"id": "new"}


@pytest.mark.parametrize(
    ("base", "person", "replan", "note"),
    [
        ([ONE], [ONE | {"inputs": {"x": 5}}], [ONE | {"inputs": {"x": 7}}], "changed by both"),
        ([ONE, TWO], [ONE], [ONE, TWO | {"title": "better"}], "removed by the person"),
        ([ONE, TWO], [ONE, TWO | {"title": "mine"}], [ONE], "since the person edited it"),
        ([ONE], [ONE, NEW | {"tool": "mine"}], [ONE, NEW | {"tool": "other"}], "by both"),
    ],
)
def test_where_a_person_and_a_replan_disagree_the_person_wins_and_a_note_says_so(
    base: list[Any], person: list[Any], replan: list[Any], note: str
) -> None:
    merged = merge_plans(plan(*base), plan(*person), plan(*replan))
    assert merged.plan == plan(*person)
    assert [each.code for each in merged.notes] == ["PS312"]
    assert note in merged.notes[0].message


_FEW: Json = {"below": ["{{stock.count}}", 10]}
_FEWER: Json = {"below": ["{{stock.count}}", 5]}
_MANY: Json = {"above": ["{{stock.count}}", 5]}


def _plan(**rules: Json) -> Plan:
    order: dict[str, Json] = {"id": "order", "tool": "shop.order", **rules}
    return Plan.model_validate(
        {"goal": "Order", "steps": [{"id": "stock", "tool": "shop.stock"}, order]}
    )


def test_a_rule_that_came_went_or_changed_is_told_as_a_sentence() -> None:
    before, after = _plan(when=_FEW, on_error="skip"), _plan(when=_FEWER, retry={"at_most": 2})
    diff = diff_plans(before, after)
    assert list(diff_lines(diff)) == [
        "~ order when: only if stock.count is below 10 -> only if stock.count is below 5",
        "~ order on_error: - if it fails, it is skipped",
        "~ order retry: + if the call fails, it is made again up to 2 times",
    ]
    assert apply_diff(before, diff) == after


def test_two_edits_of_one_condition_are_never_mixed_and_the_person_wins() -> None:
    merged = merge_plans(_plan(when=_FEW), _plan(when=_FEWER), _plan(when=_MANY))
    assert merged.plan.by_id["order"].when == _FEWER
    assert [each.code for each in merged.notes] == ["PS312"]
