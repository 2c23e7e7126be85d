"""SAGE's interface: its planner, profile, tool registry and runtime."""

from plansmith_compat.sage import drafting
from plansmith_compat.sage.drafting import PlanStep
from plansmith_compat.sage.model import Generator
from plansmith_compat.sage.operator import MapFunction
from plansmith_compat.sage.planner import LLMPlanner
from plansmith_compat.sage.profile import BaseProfile
from plansmith_compat.sage.registry import MCPRegistry, ToolRegistry
from plansmith_compat.sage.runtime import AgentRuntime
from plansmith_compat.sage.step_result import StepResult

Profile = BaseProfile
SimpleLLMPlanner = LLMPlanner
# SAGE's helpers, under the names of its module.
_top_k_tools = drafting.top_k_tools
_build_prompt = drafting.build_prompt
_strip_code_fences = drafting.strip_code_fences
_coerce_json_array = drafting.coerce_json_array
_validate_steps = drafting.validate_steps

__all__ = [
    "AgentRuntime",
    "BaseProfile",
    "Generator",
    "LLMPlanner",
    "MCPRegistry",
    "MapFunction",
    "PlanStep",
    "Profile",
    "SimpleLLMPlanner",
    "StepResult",
    "ToolRegistry",
]
