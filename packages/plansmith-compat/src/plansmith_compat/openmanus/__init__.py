"""OpenManus' interface: the planning tool, the planning flow, and what programs use with them."""

from plansmith_compat.openmanus.agents import BaseAgent, BaseFlow, Worker
from plansmith_compat.openmanus.book import PlanStepStatus
from plansmith_compat.openmanus.flow import FlowFactory, FlowOptions, FlowType, PlanningFlow
from plansmith_compat.openmanus.llm import LLM, CountingModel, TokenLimitExceeded
from plansmith_compat.openmanus.schema import (
    ROLE_TYPE,
    ROLE_VALUES,
    TOOL_CHOICE_TYPE,
    TOOL_CHOICE_VALUES,
    AgentState,
    Function,
    Memory,
    Message,
    Role,
    ToolCall,
    ToolChoice,
)
from plansmith_compat.openmanus.tool import PlanningTool
from plansmith_compat.openmanus.tools import (
    BaseTool,
    CLIResult,
    OpenManusError,
    ToolCollection,
    ToolError,
    ToolFailure,
    ToolResult,
)

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
    "CountingModel",
    "FlowFactory",
    "FlowOptions",
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
    "Worker",
]
