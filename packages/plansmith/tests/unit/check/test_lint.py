from __future__ import annotations

from typing import Any

import pytest

from plansmith import Effect, Plan, Problem, ToolSpec
from plansmith.check.lint import lint_plan

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
        ([written("a", after=["b"]), written("b")], []),
        ([written("a"), written("b", "b.md")], []),
    ],
)
def test_what_looks_like_a_mistake_is_told_and_nothing_else(
    steps: list[dict[str, Any]], found: list[str]
) -> None:
    assert [" ".join(map(str, each)) for each in lint(*steps)] == found


@pytest.mark.parametrize(
    ("code", "step"),
    [
        # A reading that serves an act, an agent or an order is alive.
        ("PS401", {"id": "u", "tool": "save", "inputs": {"x": "{{b}}"}}),
        ("PS401", {"id": "u", "tool": "order_pizza", "after": ["b"]}),
        ("PS401", {"id": "u", "agent": "x", "task": "use {{b}}"}),
        # An order that data, an act or another way explains is fine.
        ("PS402", look("u", "{{a}}", after=["a"])),
        ("PS402", SAVE | {"id": "u", "after": ["a"]}),
        ("PS402", look("u", "{{b}}", after=["a"])),
    ],
)
def test_what_has_a_reason_is_not_told(code: str, step: dict[str, Any]) -> None:
    found = lint(look("a"), look("b", "{{a}}"), step, reply("a"))
    assert code not in {each for each, _, _ in found}


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
