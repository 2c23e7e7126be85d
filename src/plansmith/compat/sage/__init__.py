"""SAGE's interface: its planner, profile, tool registry and runtime."""

from plansmith.compat.sage.model import Generator
from plansmith.compat.sage.planner import BaseProfile, LLMPlanner, PlanStep, Profile
from plansmith.compat.sage.runtime import AgentRuntime, MCPRegistry, ToolRegistry

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
