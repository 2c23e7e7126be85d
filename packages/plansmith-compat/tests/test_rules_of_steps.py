"""What other formats do with the rules of steps."""

from __future__ import annotations

import pytest

from plansmith import Plan
from plansmith.plan.data import Json
from plansmith.plan.steps import RULES
from plansmith_planner.dialect import dialect, dialect_names

_RULES: dict[str, Json] = {
    "when": {"below": ["{{stock.count}}", 10]},
    "otherwise": {"value": 0},
    "repeat": {"until": {"equals": ["{{order.state}}", "sent"]}, "at_most": 5, "every": 60},
    "on_error": "skip",
    "retry": {"at_most": 2},
    "undo_with": {"tool": "shop.cancel", "inputs": {"id": "{{order.id}}"}},
}
_SENTENCES = {
    "when": "only if stock.count is below 10",
    "otherwise": "if it is skipped, its result is 0",
    "repeat": "repeated every 60 s until",
    "on_error": "if it fails, it is skipped",
    "retry": "made again up to 2 times",
    "undo_with": "can be undone with shop.cancel",
}


def _plan(**order: Json) -> Plan:
    stock: dict[str, Json] = {"id": "stock", "agent": "researcher", "task": "Look"}
    return Plan.model_validate({"goal": "Order", "steps": [stock, {"id": "order", **order}]})


@pytest.mark.parametrize("rule", sorted(RULES))
@pytest.mark.parametrize("name", dialect_names())
@pytest.mark.parametrize("call", ["tool", "agent"])
def test_no_rule_is_lost_in_a_foreign_format_without_a_word(
    name: str, rule: str, call: str
) -> None:
    agent: dict[str, Json] = {"agent": "researcher", "task": "Order"}
    step = agent if call == "agent" else {"tool": "shop.order"}
    written = dialect(name).write(_plan(**step, **{rule: _RULES[rule]}), None)
    losses = [str(each.message) for each in written.lost if each.step == "order"]
    gone = any("left out" in each for each in losses)
    by_name = _SENTENCES[rule].replace("stock.", "s1.")
    in_words = by_name in str(written.value) or _SENTENCES[rule] in str(written.value)
    assert gone or in_words or any(_SENTENCES[rule] in each for each in losses)


@pytest.mark.parametrize("name", ["condition", "when", "loop"])
@pytest.mark.parametrize("kind", ["openmanus", "sage", "valuecell"])
def test_a_condition_that_a_foreign_format_does_not_have_is_an_error(kind: str, name: str) -> None:
    rule: dict[str, Json] = {name: "if stock is low"}
    task: Json = {"title": "Order", "query": "Order", "agent_name": "shop", **rule}
    values: dict[str, Json] = {
        "openmanus": {"title": "Order", "steps": [{"step": "Order bolts", **rule}]},
        "sage": [{"type": "tool", "name": "shop.order", "arguments": {}, **rule}],
        "valuecell": {"tasks": [task], "adequate": True},
    }
    reading = dialect(kind).read(values[kind])
    assert "PS003" in {each.code for each in reading.problems}
