"""OpenManus' interface: the planning tool, the planning flow, and what programs use with them."""

from plansmith_compat.openmanus.agents import LLM, BaseAgent, BaseFlow, TokenLimitExceeded
from plansmith_compat.openmanus.book import PlanStepStatus
from plansmith_compat.openmanus.flow import FlowFactory, FlowType, PlanningFlow
from plansmith_compat.openmanus.schema import (
    ROLE_TYPE,
    ROLE_VALUES,
    TOOL_CHOICE_TYPE,
    TOOL_CHOICE_VALUES,
    AgentState,
    BaseTool,
    CLIResult,
    Function,
    Memory,
    Message,
    OpenManusError,
    Role,
    ToolCall,
    ToolChoice,
    ToolCollection,
    ToolError,
    ToolFailure,
    ToolResult,
)
from plansmith_compat.openmanus.tool import PlanningTool

__all__ = [
    "LLM",
    "ROLE_TYPE",
    "ROLE_VALUES",
    "TOOL_CHOICE_TYPE",
    "TOOL_CHOICE_VALUES",
    "AgentState",
    "BaseAgent",
    "BaseFlow",
    "BaseTool",
    "CLIResult",
    "FlowFactory",
    "FlowType",
    "Function",
    "Memory",
    "Message",
    "OpenManusError",
    "PlanStepStatus",
    "PlanningFlow",
    "PlanningTool",
    "Role",
    "TokenLimitExceeded",
    "ToolCall",
    "ToolChoice",
    "ToolCollection",
    "ToolError",
    "ToolFailure",
    "ToolResult",
]
