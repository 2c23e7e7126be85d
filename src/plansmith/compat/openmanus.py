"""OpenManus' names: the planning tool and the planning flow."""

from __future__ import annotations

from plansmith.compat.openmanus_flow import PlanningFlow
from plansmith.compat.openmanus_tokens import CountingModel, TokenLimitExceeded
from plansmith.compat.openmanus_tool import PlanningTool, ToolResult

__all__ = ["CountingModel", "PlanningFlow", "PlanningTool", "TokenLimitExceeded", "ToolResult"]
