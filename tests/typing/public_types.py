"""Read by type checkers only: what the public names promise."""

from __future__ import annotations

from typing import assert_type

from plansmith import Plan, Problem, check_plan, diff_plans, plan_hash, read_plan
from plansmith.plan.diff import PlanDiff


def reading(text: str) -> None:
    found = read_plan(text)
    assert_type(found, Plan | list[Problem])
    if isinstance(found, Plan):
        assert_type(check_plan(found, {}), list[Problem])
        assert_type(
            check_plan(found, {"t": {"description": "d", "input_schema": {}}}), list[Problem]
        )
        assert_type(plan_hash(found), str)
        assert_type(found.hash, str)
        assert_type(diff_plans(found, found), PlanDiff)
