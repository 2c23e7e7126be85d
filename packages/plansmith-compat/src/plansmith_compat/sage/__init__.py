"""SAGE's interface: its planner, profile, tool registry and runtime."""

from plansmith_compat.sage import planner
from plansmith_compat.sage.operators import BaseProfile as BaseProfile
from plansmith_compat.sage.operators import MapFunction as MapFunction
from plansmith_compat.sage.operators import MCPRegistry as MCPRegistry
from plansmith_compat.sage.operators import ToolRegistry as ToolRegistry
from plansmith_compat.sage.planner import Generator as Generator
from plansmith_compat.sage.planner import LLMPlanner as LLMPlanner
from plansmith_compat.sage.planner import PlanStep as PlanStep
from plansmith_compat.sage.runtime import AgentRuntime as AgentRuntime
from plansmith_compat.sage.runtime import StepResult as StepResult

Profile = BaseProfile
SimpleLLMPlanner = LLMPlanner
# SAGE's helpers, under the names of its module.
_top_k_tools = planner.top_k_tools
_build_prompt = planner.build_prompt
_strip_code_fences = planner.strip_code_fences
_coerce_json_array = planner.coerce_json_array
_validate_steps = planner.validate_steps
