"""Rules of steps in differences and merges of plans."""

from __future__ import annotations

from plansmith import Plan
from plansmith.plan.data import Json
from plansmith.plan.diff import apply_diff, diff_plans, merge_plans
from plansmith.review.render import diff_lines

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


def test_an_input_with_the_name_of_a_rule_is_compared_inside() -> None:
    before, after = _plan(inputs={"when": {"a": 1, "b": 2}}), _plan(inputs={"when": {"a": 1}})
    (changed,) = diff_plans(before, after).changed
    assert [each.path for each in changed.fields] == [("inputs", "when", "b")]


def test_two_edits_of_one_condition_are_never_mixed_and_the_person_wins() -> None:
    merged = merge_plans(_plan(when=_FEW), _plan(when=_FEWER), _plan(when=_MANY))
    assert merged.plan.by_id["order"].when == _FEWER
    assert [each.code for each in merged.notes] == ["PS312"]


def test_a_condition_that_a_person_took_out_stays_out() -> None:
    merged = merge_plans(_plan(when=_FEW), _plan(), _plan(when=_MANY))
    assert merged.plan.by_id["order"].when is None
    assert [each.code for each in merged.notes] == ["PS312"]


def test_edits_of_different_rules_are_both_kept() -> None:
    merged = merge_plans(_plan(when=_FEW), _plan(when=_FEWER), _plan(when=_FEW, on_error="skip"))
    order = merged.plan.by_id["order"]
    assert (order.when, order.on_error, merged.notes) == (_FEWER, "skip", [])
