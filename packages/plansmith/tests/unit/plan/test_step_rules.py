from __future__ import annotations

from typing import Any, cast

from plansmith.plan.conditions import rule_sentences
from plansmith.plan.diff import rename_steps
from plansmith.plan.plan import Plan
from plansmith.plan.sentence import in_language
from plansmith.plan.steps import MapStep

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
        "can be undone with cancel(id=id of its own result, shop=the result of shop)",
    ]
    when = rule_sentences(plan_of(RULED).by_id["order"])[0]
    assert in_language(when, "zh") == "仅当 stock.count 小于 10"
    undo = rule_sentences(plan_of(RULED).by_id["order"])[-1]
    said = "可以用 cancel(id=它自己的结果中的 id, shop=shop 的结果) 撤销"
    assert in_language(undo, "zh") == said


def test_the_call_that_undoes_an_item_tells_what_it_is_given_in_words() -> None:
    inputs = {
        "a": "{{item}}",
        "b": "{{item.k[0]}}",
        "c": "see {{item}}",
        "d": 1,
        "e": "{{params.x}}",
    }
    undo = {"tool": "cancel", "inputs": inputs}
    listed = {"id": "all", "over": [1], "each": {"tool": "t", "undo_with": undo}}
    [said] = rule_sentences(cast("MapStep", plan_of(listed).by_id["all"]).each)
    assert said == (
        "can be undone with cancel(a=the item, b=k[0] of the item, "
        'c="see {{item}}", d=1, e=x of the parameters)'
    )
