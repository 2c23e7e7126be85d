"""OpenManus' interface: the planning tool and the planning flow."""

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
