"""Rules of steps as models write them."""

from __future__ import annotations

import pytest

from plansmith.plan.data import Json
from plansmith_planner.parse.reply import Parsed, parse_value

_STOCK: dict[str, Json] = {"id": "stock", "kind": "tool", "tool": "shop.stock"}
_COUNT = "{{stock.count}}"


def _parsed(**rules: Json) -> Parsed:
    step: dict[str, Json] = {"id": "order", "kind": "tool", "tool": "shop.order", **rules}
    return parse_value({"goal": "Order", "steps": [_STOCK, step]})


def _rules(parsed: Parsed) -> dict[str, Json]:
    assert parsed.plan is not None
    stored = parsed.plan.by_id["order"].to_json()
    return {name: each for name, each in stored.items() if name not in ("id", "kind", "tool")}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"condition": f"{_COUNT} < 10"}, {"below": [_COUNT, 10]}),
        ({"if": "stock.count >= 10"}, {"at_least": [_COUNT, 10]}),
        ({"only_if": "${stock.count} == 'low'"}, {"equals": [_COUNT, "low"]}),
        ({"depends_on_condition": {"<": [_COUNT, 10]}}, {"below": [_COUNT, 10]}),
        ({"when": {"op": "!=", "left": _COUNT, "right": 3}}, {"not_equals": [_COUNT, 3]}),
        ({"unless": {"is_empty": _COUNT}}, {"not": {"empty": _COUNT}}),
        ({"when": {"not_in": [_COUNT, [1]]}}, {"not": {"in": [_COUNT, [1]]}}),
        (
            {"when": {"and": [{"gt": [_COUNT, 1]}, {"or": [{"lte": [_COUNT, 9]}]}]}},
            {"all": [{"above": [_COUNT, 1]}, {"any": [{"at_most": [_COUNT, 9]}]}]},
        ),
    ],
)
def test_a_condition_in_other_words_is_read_as_meant_and_told(
    written: dict[str, Json], meant: Json
) -> None:
    parsed = _parsed(**written)
    assert _rules(parsed) == {"when": meant}
    assert {each.code for each in parsed.problems} == {"PS013"}


def test_a_loop_in_other_words_is_read_as_a_repeat() -> None:
    written: Json = {"while": "order.state != 'sent'", "max": 5, "interval": "5 minutes"}
    until: Json = {"not": {"not_equals": ["{{order.state}}", "sent"]}}
    parsed = _parsed(loop=written)
    assert _rules(parsed) == {"repeat": {"until": until, "at_most": 5, "every": 300.0}}


def test_failures_in_other_words_are_read_as_rules() -> None:
    parsed = _parsed(on_failure={"default": 0}, retries=2, otherwise=1)
    retry: Json = {"at_most": 2}
    assert _rules(parsed) == {"on_error": {"value": 0}, "retry": retry, "otherwise": {"value": 1}}


@pytest.mark.parametrize(
    "written",
    [
        {"when": "stock is low"},
        {"when": "stock.count < elsewhere.count"},
        {"if": "stock.count < 10 and stock.count > 2"},
        {"condition": "1 < stock.count < 10"},
        {"loop": 3},
        {"loop": {"until": "order.state == 'sent'"}},
        {"on_failure": "continue"},
        {"retry": {"max_attempts": 3}},
        {"otherwise": {"tool": "shop.tell"}},
    ],
)
def test_a_rule_that_could_mean_two_things_is_an_error_and_no_guess(
    written: dict[str, Json],
) -> None:
    parsed = _parsed(**written)
    assert parsed.plan is None or "order" not in parsed.plan.by_id
    assert {"PS003", "PS004", "PS005"} & {each.code for each in parsed.problems}


@pytest.mark.parametrize("name", ["condition", "then", "else", "until", "while"])
def test_a_condition_that_finds_no_place_is_never_left_out_silently(name: str) -> None:
    written: dict[str, Json] = {"when": {"empty": _COUNT}, name: "stock is low"}
    parsed = _parsed(**written)
    assert "PS003" in {each.code for each in parsed.problems}


def test_the_rules_of_the_inner_step_of_a_map_are_read_too() -> None:
    inner: Json = {"kind": "tool", "tool": "mail.send", "if": "item.open == true", "retries": 1}
    step: Json = {"id": "send", "kind": "map", "over": "{{stock.found}}", "each": inner}
    plan = parse_value({"goal": "Send", "steps": [_STOCK, step]}).plan
    assert plan is not None
    (each,) = [step.each for step in plan.steps if step.kind == "map"]
    assert each.when == {"equals": ["{{item.open}}", True]}
    assert each.retry is not None
