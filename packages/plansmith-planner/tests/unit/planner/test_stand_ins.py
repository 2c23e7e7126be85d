"""Which plans only stand in for one that a model could not make."""

from __future__ import annotations

from typing import Any

import pytest

from plansmith.plan.plan import Plan
from plansmith.plan.planning import PlanningFigures, stands_in

CALL = {"id": "a", "kind": "tool", "tool": "x", "inputs": {}}
SAYS = {"id": "a", "kind": "reply", "instruction": "…"}


def plan(step: dict[str, Any], degraded: str | None = "why") -> Plan:
    return Plan.model_validate({"goal": "g", "degraded": degraded, "steps": [step]})


@pytest.mark.parametrize(
    ("made", "failed", "expected"),
    [
        (plan(CALL, None), True, False),  # a plan that nobody marked
        (plan(CALL), False, False),  # made by rules, which did not fail
        (plan(CALL), None, False),  # the same, run again: nobody planned
        (plan(CALL), True, True),
        (plan(SAYS), None, True),  # a text in place of a plan, whoever brings it
    ],
)
def test_a_plan_stands_in_where_planning_failed(
    made: Plan, failed: bool | None, expected: bool
) -> None:
    figures = None if failed is None else PlanningFigures(degraded=failed)
    assert stands_in(made, figures) is expected
