"""Plansmith turns a request into a checked, approved plan and runs it.

Importing this package loads nothing; a name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # for checkers it is true, as that of `typing`, which takes long to load
if TYPE_CHECKING:
    from plansmith.app import Plansmith
    from plansmith.arguments import check_plan
    from plansmith.errors import (
        Misconfigured,
        NotApproved,
        NotFound,
        PlanInvalid,
        PlansmithError,
        Refused,
        ToolBusy,
        ToolFailed,
    )
    from plansmith.formats.native import read_plan, try_read_plan
    from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
    from plansmith.plan.diff import apply_diff, diff_plans
    from plansmith.plan.events import QuestionAsked
    from plansmith.plan.limits import BudgetLimits, Limits
    from plansmith.plan.plan import Plan, plan_hash
    from plansmith.plan.problem import Problem
    from plansmith.plan.run import Run, RunStatus, StepStatus
    from plansmith.ports import Call
    from plansmith.tools.functions import tool

__all__ = [
    "AgentSpec",
    "BudgetLimits",
    "Call",
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
    "QuestionAsked",
    "Refused",
    "Run",
    "RunStatus",
    "StepStatus",
    "ToolBusy",
    "ToolFailed",
    "ToolSpec",
    "apply_diff",
    "check_plan",
    "diff_plans",
    "plan_hash",
    "read_plan",
    "tool",
    "try_read_plan",
]

_HOMES = {
    "AgentSpec": "plan.capability",
    "BudgetLimits": "plan.limits",
    "Call": "ports",
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
    "QuestionAsked": "plan.events",
    "Refused": "errors",
    "Run": "plan.run",
    "RunStatus": "plan.run",
    "StepStatus": "plan.run",
    "ToolBusy": "errors",
    "ToolFailed": "errors",
    "ToolSpec": "plan.capability",
    "apply_diff": "plan.diff",
    "check_plan": "arguments",
    "diff_plans": "plan.diff",
    "plan_hash": "plan.plan",
    "read_plan": "formats.native",
    "tool": "tools.functions",
    "try_read_plan": "formats.native",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'plansmith' has no attribute {name!r}")
    value: object = getattr(import_module(f"plansmith.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
