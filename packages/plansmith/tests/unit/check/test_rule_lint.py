"""Rules of steps that are allowed and say nothing."""

from __future__ import annotations

import pytest

from plansmith import Effect, Plan, ToolSpec
from plansmith.check.lint import lint_plan
from plansmith.plan.data import Json
from plansmith.plan.sentence import in_language

TOOLS = [
    ToolSpec(name="stock", effect=Effect.READ),
    ToolSpec(name="order", effect=Effect.WRITE),
    ToolSpec(name="cancel", effect=Effect.WRITE),
]
LOW: Json = {"below": ["{{stock.count}}", 10]}
NEVER: Json = {"equals": [1, 2]}
ALWAYS: Json = {"in": ["a", ["a"]]}
UNTIL: Json = {"equals": ["{{order.state}}", "sent"]}


def needless(*steps: dict[str, Json]) -> list[tuple[str | None, str, str]]:
    plan = Plan.model_validate({"goal": "g", "steps": [{"id": "stock", "tool": "stock"}, *steps]})
    found = [each for each in lint_plan(plan, TOOLS) if each.code == "PS409"]
    for each in found:
        assert in_language(each.message, "zh") != each.message
        assert in_language(each.hint, "zh") != each.hint
    return [(each.step, ".".join(map(str, each.path)), str(each.message)) for each in found]


def order(**rules: Json) -> dict[str, Json]:
    return {"id": "order", "tool": "order", **rules}


@pytest.mark.parametrize(
    ("condition", "word"),
    [
        ({"all": [LOW, NEVER]}, "never runs"),
        ({"any": [LOW, {"not": NEVER}]}, "always runs"),
        ({"not": {"any": [ALWAYS, LOW]}}, "never runs"),
        ({"all": [LOW, {"any": [NEVER, {"empty": ["x"]}]}]}, "never runs"),
    ],
)
def test_a_condition_that_literals_decide_is_told(condition: Json, word: str) -> None:
    ((step, path, message),) = needless(order(when=condition))
    assert (step, path) == ("order", "when")
    assert word in message


@pytest.mark.parametrize(
    "condition", [LOW, {"all": [LOW, {"not": NEVER}]}, {"any": [LOW, NEVER]}, {"no": "such"}]
)
def test_a_condition_that_a_result_decides_is_not_told(condition: Json) -> None:
    assert needless(order(when=condition)) == []


def test_an_otherwise_that_nothing_can_call_for_is_told() -> None:
    ((_, path, _),) = needless(order(otherwise={"value": 1}))
    assert path == "otherwise"
    behind: dict[str, Json] = {"id": "b", "tool": "order", "otherwise": {"value": 1}}
    assert needless(order(when=LOW), {**behind, "after": ["order"]}) == []
    assert [each[0] for each in needless(order(when=LOW), {**behind, "after": ["stock"]})] == ["b"]


def test_a_repeat_of_one_round_is_told() -> None:
    repeat: dict[str, Json] = {"until": UNTIL, "at_most": 1}
    ((_, path, _),) = needless(order(repeat=repeat))
    assert path == "repeat.at_most"
    assert needless(order(repeat=repeat | {"at_most": 2})) == []


def test_collected_errors_are_told_outside_a_map_alone() -> None:
    ((_, path, _),) = needless(order(on_error="collect"))
    assert path == "on_error"
    each: Json = {"tool": "order"}
    assert needless({"id": "all", "over": [1], "each": each, "on_error": "collect"}) == []


def test_an_undo_of_a_read_is_told_also_inside_a_map() -> None:
    undo: Json = {"tool": "cancel"}
    look: dict[str, Json] = {"tool": "stock", "undo_with": undo}
    assert [each[:2] for each in needless({"id": "look", **look})] == [("look", "undo_with")]
    many: dict[str, Json] = {"id": "all", "over": [1], "each": look}
    assert [each[:2] for each in needless(many)] == [("all", "each.undo_with")]
    assert needless(order(undo_with=undo)) == []
