"""OpenManus' interface: the planning tool, the planning flow, and what programs use with them."""

from plansmith.compat.openmanus.agent import BaseAgent
from plansmith.compat.openmanus.agents import BaseFlow, Worker
from plansmith.compat.openmanus.flow import PlanningFlow
from plansmith.compat.openmanus.flow_factory import FlowFactory, FlowType
from plansmith.compat.openmanus.flow_options import FlowOptions
from plansmith.compat.openmanus.llm import LLM
from plansmith.compat.openmanus.rendering import PlanStepStatus
from plansmith.compat.openmanus.schema import (
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
from plansmith.compat.openmanus.tokens import CountingModel, TokenLimitExceeded
from plansmith.compat.openmanus.tool import PlanningTool
from plansmith.compat.openmanus.tools import (
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
