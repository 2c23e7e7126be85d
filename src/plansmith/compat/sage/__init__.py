"""SAGE's face: its planner, profile, tool registry and runtime over Plansmith."""

from plansmith.compat.sage.model import Generator
from plansmith.compat.sage.planner import LLMPlanner, PlanStep
from plansmith.compat.sage.profile import BaseProfile, Profile
from plansmith.compat.sage.runtime import AgentRuntime
from plansmith.compat.sage.tools import MCPRegistry, ToolRegistry

__all__ = [
    "AgentRuntime",
    "BaseProfile",
    "Generator",
    "LLMPlanner",
    "MCPRegistry",
    "PlanStep",
    "Profile",
    "ToolRegistry",
]
