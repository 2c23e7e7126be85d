"""SAGE's interface: its planner, profile, tool registry and runtime."""

from plansmith_compat.sage import planner
from plansmith_compat.sage.operators import BaseProfile, MapFunction, MCPRegistry, ToolRegistry
from plansmith_compat.sage.planner import Generator, LLMPlanner, PlanStep
from plansmith_compat.sage.runtime import AgentRuntime, StepResult

Profile = BaseProfile
SimpleLLMPlanner = LLMPlanner
# SAGE's helpers, under the names of its module.
_top_k_tools = planner.top_k_tools
_build_prompt = planner.build_prompt
_strip_code_fences = planner.strip_code_fences
_coerce_json_array = planner.coerce_json_array
_validate_steps = planner.validate_steps

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
