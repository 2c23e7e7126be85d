"""Plansmith turns a request into a checked, approved plan and runs it.

Importing this package loads nothing; a name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # for checkers it is true, as that of `typing`, which takes long to load
if TYPE_CHECKING:
    from plansmith.adapters.tools.functions import tool
    from plansmith.app import Plansmith
    from plansmith.dialects.native import read_plan, try_read_plan
    from plansmith.errors import (
        Misconfigured,
        NotApproved,
        NotFound,
        PlanInvalid,
        PlansmithError,
        Refused,
    )
    from plansmith.models import model
    from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
    from plansmith.plan.diff import apply_diff, diff_plans, merge_plans
    from plansmith.plan.fold import fold
    from plansmith.plan.limits import Limits
    from plansmith.plan.plan import Plan, plan_hash
    from plansmith.plan.problem import Problem
    from plansmith.plan.run import Run, RunStatus, StepStatus
    from plansmith.planner.check.check_plan import check_plan
    from plansmith.planner.parse.read import read_json
    from plansmith.planner.shortlist.pick import shortlist

__all__ = [
    "AgentSpec",
    "Effect",
    "Limits",
    "Misconfigured",
    "NotApproved",
    "NotFound",
    "Plan",
    "PlanInvalid",
    "Plansmith",
    "PlansmithError",
    "Problem",
    "Refused",
    "Run",
    "RunStatus",
    "StepStatus",
    "ToolSpec",
    "apply_diff",
    "check_plan",
    "diff_plans",
    "fold",
    "merge_plans",
    "model",
    "plan_hash",
    "read_json",
    "read_plan",
    "shortlist",
    "tool",
    "try_read_plan",
]

_HOMES = {
    "AgentSpec": "plan.capability",
    "Effect": "plan.capability",
    "Limits": "plan.limits",
    "Misconfigured": "errors",
    "NotApproved": "errors",
    "NotFound": "errors",
    "Plan": "plan.plan",
    "PlanInvalid": "errors",
    "Plansmith": "app",
    "PlansmithError": "errors",
    "Problem": "plan.problem",
    "Refused": "errors",
    "Run": "plan.run",
    "RunStatus": "plan.run",
    "StepStatus": "plan.run",
    "ToolSpec": "plan.capability",
    "apply_diff": "plan.diff",
    "check_plan": "planner.check.check_plan",
    "diff_plans": "plan.diff",
    "fold": "plan.fold",
    "merge_plans": "plan.diff",
    "model": "models",
    "plan_hash": "plan.plan",
    "read_json": "planner.parse.read",
    "read_plan": "dialects.native",
    "shortlist": "planner.shortlist.pick",
    "tool": "adapters.tools.functions",
    "try_read_plan": "dialects.native",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'plansmith' has no attribute {name!r}")
    value: object = getattr(import_module(f"plansmith.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
