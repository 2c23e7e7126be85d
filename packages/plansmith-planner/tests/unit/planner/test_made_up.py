"""What a plan makes up, and what only looks like it."""

from __future__ import annotations

from typing import Any

import pytest

from plansmith import Effect, Plan, ToolSpec
from plansmith_planner.language.made_up import made_up_values

REFUND = ToolSpec(
    name="refund",
    description="Pay an order back",
    effect=Effect.FINAL,
    input_schema={
        "type": "object",
        "properties": {
            "order_id": {"type": "string"},
            "amount": {"type": "number"},
            "reason": {"enum": ["late", "broken1"]},
            "copies": {"type": "integer", "default": 2},
            "to_account": True,
        },
    },
)
LOOK = ToolSpec(name="look", effect=Effect.READ)


def made_up(request: str, tool: str = "refund", **inputs: Any) -> list[str]:
    plan = Plan.model_validate(
        {"goal": "g", "steps": [{"id": "r", "tool": tool, "inputs": inputs}]}
    )
    return [each.message for each in made_up_values(plan, [REFUND, LOOK], request)]


@pytest.mark.parametrize(
    "inputs",
    [
        {"order_id": "2026-11-15"},
        {"order_id": "2026-11-15T09:29:20+00:00"},
        {"order_id": "A-77"},
        {"amount": 99.5},
        {"to": ["mallory@example.com"]},
        {"note": "DE89370400440532013000"},
        {"to_account": "DE89370400440532013000"},
    ],
)
def test_a_value_in_no_source_is_told_as_made_up(inputs: dict[str, Any]) -> None:
    (message,) = made_up("Refund my last order", **inputs)
    assert message.endswith("is in nothing you wrote or that was looked up")


@pytest.mark.parametrize(
    "inputs",
    [
        {"order_id": "A-77", "amount": 1250},
        {"order_id": {"$from": "list", "$path": [0, "id"]}},
        {"reason": "broken1", "copies": 2, "text": "Dear Ann, here are your 3 things back."},
        {"path": "out/report2.csv", "quick": True, "date": "2026-11-16"},
    ],
)
def test_a_value_that_was_given_or_that_names_nothing_is_not_made_up(
    inputs: dict[str, Any],
) -> None:
    assert made_up("Refund order a77, all 1,250 of it", **inputs) == []


def test_a_made_up_value_is_found_inside_a_map() -> None:
    each = {"id": "e", "tool": "refund", "inputs": {"order_id": "A-77"}}
    plan = Plan.model_validate({"goal": "g", "steps": [{"id": "m", "over": [1], "each": each}]})
    assert [each.step for each in made_up_values(plan, [REFUND], "Refund all")] == ["m"]
