"""OpenManus' face: the planning tool and the planning flow over Plansmith."""

from plansmith.compat.openmanus.flow import FlowFactory, FlowType, PlanningFlow
from plansmith.compat.openmanus.tokens import CountingModel, TokenLimitExceeded
from plansmith.compat.openmanus.tool import PlanningTool, PlanStepStatus, ToolResult

__all__ = [
    "CountingModel",
    "FlowFactory",
    "FlowType",
    "PlanStepStatus",
    "PlanningFlow",
    "PlanningTool",
    "TokenLimitExceeded",
    "ToolResult",
]
