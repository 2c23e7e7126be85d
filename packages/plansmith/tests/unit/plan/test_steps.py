from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from plansmith.plan.conditions import rule_sentences
from plansmith.plan.diff import rename_steps
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import in_language
from plansmith.plan.steps import ToolStep

RULED: dict[str, Any] = {
    "id": "order",
    "tool": "order",
    "inputs": {"count": 10},
    "when": {"below": ["{{stock.count}}", 10]},
    "otherwise": {"value": None},
    "repeat": {"until": {"equals": ["{{order.state}}", "open"]}, "at_most": 5, "every": 60},
    "on_error": {"value": 0},
    "retry": {"at_most": 2},
    "undo_with": {"tool": "cancel", "inputs": {"id": "{{order.id}}", "shop": "{{shop}}"}},
}
RULES = ("when", "otherwise", "repeat", "on_error", "retry", "undo_with")


def plan_of(*steps: dict[str, Any]) -> Plan:
    return Plan.model_validate(
        {"steps": [{"id": "stock", "tool": "stock"}, {"id": "shop", "tool": "shop"}, *steps]}
    )


def test_each_rule_of_a_step_changes_the_hash_of_its_plan() -> None:
    plans = [plan_of({k: v for k, v in RULED.items() if k != rule}) for rule in RULES]
    assert len({plan_of(RULED).hash, *(each.hash for each in plans)}) == len(RULES) + 1


def test_a_renamed_step_is_renamed_in_its_own_rules_and_in_those_of_others() -> None:
    later = {"id": "b", "tool": "t", "when": {"empty": {"$from": "order", "$path": ["id"]}}}
    plan = rename_steps(plan_of(RULED, later), {"order": "buy", "stock": "store"})
    text = plan.stored_text()
    assert b"{{order" not in text
    assert b'"$from":"order"' not in text
    assert b"{{store.count}}" in text
    assert b"{{buy.state}}" in text


def test_the_rules_of_a_step_read_as_sentences() -> None:
    assert [str(each) for each in rule_sentences(plan_of(RULED).by_id["order"])] == [
        "only if stock.count is below 10",
        "if it is skipped, its result is null",
        'repeated every 60 s until order.state is "open", up to 5 times',
        "if the call fails, it is made again up to 2 times",
        "if it fails, its result is 0",
        "can be undone with cancel(id=order.id, shop=shop)",
    ]
    when = rule_sentences(plan_of(RULED).by_id["order"])[0]
    assert in_language(when, "zh") == "仅当 stock.count 小于 10"


@pytest.mark.parametrize(
    "inputs",
    [{"x": math.nan}, {"x": math.inf}, {"x": "\ud800"}, {"x": (1,)}, {"x": {1: 2}}, {"x": b""}],
)
def test_what_json_cannot_hold_is_refused_from_python_too(inputs: Any) -> None:
    with pytest.raises(ValidationError):
        ToolStep(id="a", tool="t", inputs=inputs)


def test_replace_validates_like_a_new_one() -> None:
    plan = Plan(goal="a")
    assert plan.by_id == {}
    assert plan.replace(goal="b").goal == "b"
    with pytest.raises(ValidationError):
        plan.replace(revision=0)
