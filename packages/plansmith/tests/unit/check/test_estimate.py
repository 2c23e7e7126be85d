from __future__ import annotations

from decimal import Decimal
from typing import Any

from plansmith import Effect, Plan, ToolSpec
from plansmith.check.estimate import Workload
from plansmith.plan.planning import Estimate, Measured, PlanningFigures
from plansmith.ports import Usage
from plansmith.runs.lists import planning_metrics

EFFECTS = {"look": Effect.READ, "save": Effect.WRITE, "send": Effect.FINAL}
TOOLS = {name: ToolSpec(name=name, effect=effect) for name, effect in EFFECTS.items()}


def estimate(*steps: dict[str, Any], price: Decimal | None = None, **past: float) -> Estimate:
    workload = Workload(Plan.model_validate({"steps": list(steps)}), TOOLS, {})
    return workload.estimate({each: Measured(seconds=past[each]) for each in past}, price)


def test_time_is_added_along_the_critical_path_only() -> None:
    last = {"id": "c", "tool": "send", "after": ["a", "b"]}
    first = {"id": "a", "tool": "look"}, {"id": "b", "tool": "save"}
    found = estimate(*first, last, look=10, save=1, send=5)
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
    assert planning_metrics([]) == {"requests": 0}
    made = PlanningFigures(parsed=True, parsed_at_once=True, enough_context=True, steps=4).spent(
        Usage(10, 5, cost=Decimal("0.01")), {"draft": 2.0, "check": 1.0}
    )
    failed = PlanningFigures(parsed=False, degraded=True, repairs=2, iterations=2)
    assert planning_metrics([made, failed.spent(Usage(1, 1))]) == {
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
