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
    from plansmith.plan.preview import CallPreview
    from plansmith.plan.problem import Problem
    from plansmith.plan.run import Run, RunStatus, StepStatus
    from plansmith.ports import Call
    from plansmith.tools.functions import tool

__all__ = [
    "AgentSpec",
    "BudgetLimits",
    "Call",
    "CallPreview",
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
    "app": ["Plansmith"],
    "arguments": ["check_plan"],
    "errors": [
        *("Misconfigured", "NotApproved", "NotFound", "PlanInvalid", "PlansmithError", "Refused"),
        *("ToolBusy", "ToolFailed"),
    ],
    "formats.native": ["read_plan", "try_read_plan"],
    "plan.capability": ["AgentSpec", "Effect", "ToolSpec"],
    "plan.diff": ["apply_diff", "diff_plans"],
    "plan.events": ["QuestionAsked"],
    "plan.limits": ["BudgetLimits", "Limits"],
    "plan.plan": ["Plan", "plan_hash"],
    "plan.preview": ["CallPreview"],
    "plan.problem": ["Problem"],
    "plan.run": ["Run", "RunStatus", "StepStatus"],
    "ports": ["Call"],
    "tools.functions": ["tool"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'plansmith' has no attribute {name!r}")
    value: object = getattr(import_module(f"plansmith.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
