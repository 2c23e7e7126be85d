"""What is said of a plan beside its problems: what looks like a mistake, and the effort."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from plansmith import Effect, Plan, Problem, ToolSpec
from plansmith.check.estimate import Workload
from plansmith.check.lint import lint_plan
from plansmith.plan.planning import Estimate, Measured, PlanningFigures
from plansmith.ports import Usage
from plansmith.runs.lists import average_figures

LIST: dict[str, Any] = {"type": "array", "maxItems": 5}
SPECS = [
    ToolSpec(name="look", effect=Effect.READ, output_schema={"properties": {"few": LIST}}),
    ToolSpec(name="save", effect=Effect.WRITE),
    ToolSpec(name="mail", effect=Effect.FINAL),
    ToolSpec(name="get_order"),
    ToolSpec(name="order_pizza"),
]


def lint(*steps: dict[str, Any]) -> list[tuple[str, str, str | None]]:
    plan = Plan.model_validate({"steps": list(steps)})
    found: list[Problem] = lint_plan(plan, SPECS) + lint_plan(plan, SPECS, advice=True)
    assert all(each.hint for each in found)
    return [(each.code, str(each.severity), each.step) for each in found]


def look(name: str, what: str = "", **fields: Any) -> dict[str, Any]:
    return {"id": name, "tool": "look", "inputs": {"q": what or name}} | fields


def reply(*names: str) -> dict[str, Any]:
    return {"id": "r", "instruction": "tell " + " ".join(f"{{{{{name}}}}}" for name in names)}


SAVE: dict[str, Any] = {"id": "s", "tool": "save"}
MAIL: dict[str, Any] = {"id": "m", "tool": "mail", "inputs": {"text": "{{a}}"}}


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


KNOWN = {each.name: each for each in SPECS}


def estimate(*steps: dict[str, Any], price: Decimal | None = None, **past: float) -> Estimate:
    workload = Workload(Plan.model_validate({"steps": list(steps)}), KNOWN, {})
    return workload.estimate({each: Measured(seconds=past[each]) for each in past}, price)


def test_time_is_added_along_the_critical_path_only() -> None:
    last = {"id": "c", "tool": "mail", "after": ["a", "b"]}
    first = {"id": "a", "tool": "look"}, {"id": "b", "tool": "save"}
    found = estimate(*first, last, look=10, save=1, mail=5)
    assert found.seconds == 15
    assert found.critical_path == ("a", "c")
    assert dict(found.effects) == {"read": 1, "write": 1, "final": 1, "ask": 0, "reply": 0}
    assert found.basis[0] == "3 of 3 steps from past runs, the others from rules of thumb"


def test_a_tool_that_nobody_knows_counts_as_a_write_and_an_empty_plan_takes_nothing() -> None:
    assert estimate({"id": "a", "tool": "ghost"}).effects["write"] == 1
    assert estimate().seconds == 0


def test_an_unknown_price_is_said_and_a_known_one_is_counted() -> None:
    steps = {"id": "r", "instruction": "say"}, {"id": "q", "question": "?"}
    free = estimate(*steps)
    assert free.cost_usd is None
    assert "price unknown" in free.basis
    assert "waiting for your answers is not counted" in free.basis
    priced = estimate(*steps, price=Decimal(10))
    assert priced.cost_usd is not None
    assert Decimal(priced.cost_usd) == Decimal(priced.tokens) * 10 / 1_000_000
    assert priced.to_json()["cost_usd"] == priced.cost_usd


def test_totals_are_what_the_authors_of_deer_go_want_to_know() -> None:
    assert average_figures([]) == {"requests": 0}
    made = PlanningFigures(parsed=True, parsed_at_once=True, enough_context=True, steps=4).spent(
        Usage(10, 5, cost=Decimal("0.01")), {"draft": 2.0, "check": 1.0}
    )
    failed = PlanningFigures(parsed=False, degraded=True, repairs=2, iterations=2)
    assert average_figures([made, failed.spent(Usage(1, 1))]) == {
        "requests": 2,
        "parse_success": 0.5,
        "parsed_at_once": 0.5,
        "enough_context": 1.0,
        "degraded": 0.5,
        "mean_steps": 4.0,
        "mean_iterations": 1.5,
        "mean_repairs": 1.0,
        "mean_seconds": 1.5,
        "tokens": 17,
        "cost_usd": "0.01",
        "requests_of_unknown_cost": 1,
    }
