from __future__ import annotations

from typing import Any

import pytest

from plansmith import Effect, Plan, Problem, ToolSpec
from plansmith.check.lint import lint_plan
from plansmith.plan.data import Json
from plansmith.plan.sentence import in_language

LIST: dict[str, Any] = {"type": "array", "maxItems": 5}
TOOLS = [
    ToolSpec(name="look", effect=Effect.READ, output_schema={"properties": {"few": LIST}}),
    ToolSpec(name="save", effect=Effect.WRITE),
    ToolSpec(name="mail", effect=Effect.FINAL),
    ToolSpec(name="get_order"),
    ToolSpec(name="order_pizza"),
]


def lint(*steps: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    found: list[Problem] = lint_plan(Plan.model_validate({"steps": list(steps)}), TOOLS)
    assert all(each.hint for each in found)
    return [(each.code, str(each.severity), each.step) for each in found]


def look(name: str, what: str = "", **fields: Any) -> dict[str, Any]:
    return {"id": name, "tool": "look", "inputs": {"q": what or name}} | fields


def reply(*names: str) -> dict[str, Any]:
    return {"id": "r", "instruction": "tell " + " ".join(f"{{{{{name}}}}}" for name in names)}


SAVE: dict[str, Any] = {"id": "s", "tool": "save"}
MAIL: dict[str, Any] = {"id": "m", "tool": "mail", "inputs": {"text": "{{a}}"}}
ASK: dict[str, Any] = {"id": "q", "question": "Send {{a}}?"}


def written(name: str, path: str = "a.md", **fields: Any) -> dict[str, Any]:
    return {"id": name, "tool": "save", "inputs": {"path": path, "text": name}} | fields


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        # In order.
        ([look("a"), look("b", "{{a}}"), reply("b")], []),
        ([SAVE], []),
        ([{"id": "a", "agent": "x", "task": "do"}], []),
        # A reading that reaches no reply is dead; one that is switched off is not looked at.
        ([look("a"), look("b"), reply("a")], ["PS401 warning b"]),
        (
            [look("a"), look("b"), look("c", "{{b}}"), reply("a")],
            ["PS401 warning b", "PS401 warning c"],
        ),
        ([look("a"), look("b", disabled=True), reply("a")], []),
        # An order between readings without need, and an output that those who wait do not use.
        ([look("a"), look("b", after=["a"]), reply("a", "b")], ["PS402 note b"]),
        ([look("a"), SAVE | {"after": ["a"]}], ["PS403 note a"]),
        # The same work twice.
        ([look("a", "x"), look("b", "x"), reply("a", "b")], ["PS404 warning b"]),
        ([MAIL | {"inputs": {}}, MAIL | {"inputs": {}, "id": "n"}], ["PS404 warning n"]),
        # Changes with values that nobody has seen, unless somebody is asked.
        ([look("a"), MAIL], ["PS406 warning m"]),
        ([look("a"), MAIL | {"tool": "save"}], ["PS406 note m"]),
        ([look("a"), ASK, MAIL | {"after": ["q"]}], []),
        ([ASK | {"question": "?"}, MAIL | {"inputs": {"text": "{{q}}"}}], []),
        ([MAIL | {"inputs": {"text": "fixed"}}], []),
        # Readings at the end without a reply are reported once, and a ring not at all.
        ([look("a"), look("b")], ["PS407 warning a"]),
        ([look("a", after=["b"]), look("b", after=["a"])], []),
        # Two steps that write one file in no order.
        ([written("a"), written("b")], ["PS410 warning b"]),
        ([written("a"), written("b"), written("c")], ["PS410 warning b", "PS410 warning c"]),
        ([written("a", after=["b"]), written("b")], []),
        ([written("a"), written("c", "c.md", after=["a"]), written("b", after=["c"])], []),
        ([written("a"), written("b", "b.md")], []),
    ],
)
def test_what_looks_like_a_mistake_is_told_and_nothing_else(
    steps: list[dict[str, Any]], found: list[str]
) -> None:
    assert [" ".join(map(str, each)) for each in lint(*steps)] == found


@pytest.mark.parametrize(
    "user",
    [
        {"id": "u", "tool": "save", "inputs": {"x": "{{b}}"}},
        {"id": "u", "tool": "order_pizza", "after": ["b"]},
        {"id": "u", "agent": "x", "task": "use {{b}}"},
    ],
)
def test_a_reading_that_serves_an_act_an_agent_or_an_order_is_alive(user: dict[str, Any]) -> None:
    assert "PS401" not in {code for code, _, _ in lint(look("a"), look("b"), user, reply("a"))}


@pytest.mark.parametrize(
    "second",
    [
        look("b", "{{a}}", after=["a"]),
        SAVE | {"id": "b", "after": ["a"]},
        look("b", "{{c}}", after=["a"]),
    ],
)
def test_an_order_that_data_an_act_or_another_way_explains_is_fine(second: dict[str, Any]) -> None:
    found = lint(look("a"), look("c", "{{a}}"), second, reply("a", "b", "c"))
    assert "PS402" not in {code for code, _, _ in found}


def test_looking_again_later_is_only_noted_and_after_a_change_it_is_fine() -> None:
    first = look("a", "x")
    assert ("PS404", "note", "b") in lint(first, look("b", "x", after=["a"]), reply("a", "b"))
    change = SAVE | {"inputs": {"x": "{{a}}"}}
    found = lint(first, change, look("b", "x", after=["s"]), reply("a", "b"))
    assert "PS404" not in {code for code, _, _ in found}


def test_a_map_that_acts_on_a_list_of_unknown_length_is_told() -> None:
    each = {"tool": "save", "inputs": {"x": "{{item}}"}}

    def codes(over: Any, inner: dict[str, Any] = each, **fields: Any) -> set[str]:
        found = lint(look("a"), {"id": "m", "over": over, "each": inner} | fields, reply("m"))
        return {code for code, _, _ in found}

    assert "PS405" in codes("{{a.many}}")
    assert "PS405" not in codes("{{a.few}}")
    assert "PS405" not in codes([1, 2])
    reading = {"tool": "look", "inputs": {"q": "{{item}}"}}
    assert "PS405" not in codes("{{a.many}}", reading)
    assert "PS405" in codes("{{a.many}}", reading, width=200)


SHOP = [
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
    found = [each for each in lint_plan(plan, SHOP) if each.code == "PS409"]
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
