"""Rules of steps as models write them."""

from __future__ import annotations

import pytest
from tests.flow.smiths import plan_of

from plansmith.formats.dialect import Reading
from plansmith.plan.data import Json
from plansmith_planner.parse.reply import parse_value

_STOCK: dict[str, Json] = {"id": "stock", "kind": "tool", "tool": "shop.stock"}
_COUNT = "{{stock.count}}"


def _parsed(**rules: Json) -> Reading:
    step: dict[str, Json] = {"id": "order", "kind": "tool", "tool": "shop.order", **rules}
    return parse_value({"goal": "Order", "steps": [_STOCK, step]})


def _rules(parsed: Reading) -> dict[str, Json]:
    stored = plan_of(parsed).by_id["order"].to_json()
    return {name: each for name, each in stored.items() if name not in ("id", "kind", "tool")}


def test_rules_in_the_form_of_the_plan_language_are_read() -> None:
    rules: dict[str, Json] = {
        "when": {"below": [_COUNT, 10]},
        "repeat": {"until": {"empty": "{{order.left}}"}, "at_most": 5},
        "on_error": "skip",
    }
    parsed = _parsed(**rules)
    assert parsed.problems == ()
    assert _rules(parsed) == rules


@pytest.mark.parametrize("name", ["condition", "if", "only_if", "run_if"])
def test_a_rule_under_another_name_is_read_and_told(name: str) -> None:
    written: dict[str, Json] = {name: {"below": [_COUNT, 10]}, "retries": {"at_most": 2}}
    parsed = _parsed(**written)
    assert _rules(parsed) == {"when": {"below": [_COUNT, 10]}, "retry": {"at_most": 2}}
    assert {each.code for each in parsed.problems} == {"PS013"}


@pytest.mark.parametrize(
    "written",
    [
        {"when": "stock is low"},
        {"if": "stock.count < 10"},
        {"loop": 3},
        {"loop": {"until": "order.state == 'sent'"}},
        {"on_failure": "continue"},
        {"retry": {"max_attempts": 3}},
        {"otherwise": {"tool": "shop.tell"}},
    ],
)
def test_a_rule_in_other_words_is_an_error_and_no_guess(
    written: dict[str, Json],
) -> None:
    parsed = _parsed(**written)
    assert parsed.plan is None or "order" not in parsed.plan.by_id
    assert {"PS003", "PS004", "PS005"} & {each.code for each in parsed.problems}


@pytest.mark.parametrize("name", ["condition", "unless", "then", "else", "until", "while"])
def test_a_condition_that_finds_no_place_is_never_left_out_silently(name: str) -> None:
    written: dict[str, Json] = {"when": {"empty": _COUNT}, name: "stock is low"}
    parsed = _parsed(**written)
    assert "PS003" in {each.code for each in parsed.problems}


def test_the_rules_of_the_inner_step_of_a_map_are_read_too() -> None:
    open_: Json = {"equals": ["{{item.open}}", True]}
    inner: Json = {"kind": "tool", "tool": "mail.send", "if": open_}
    step: Json = {"id": "send", "kind": "map", "over": "{{stock.found}}", "each": inner}
    plan = parse_value({"goal": "Send", "steps": [_STOCK, step]}).plan
    assert plan is not None
    (each,) = [step.each for step in plan.steps if step.kind == "map"]
    assert each.when == open_
