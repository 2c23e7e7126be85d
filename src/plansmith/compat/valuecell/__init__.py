"""ValueCell's face: super agent, plan service, execution planner and tasks over Plansmith."""

from plansmith.compat.valuecell.connections import RemoteConnections, agentcard_to_prompt
from plansmith.compat.valuecell.models import (
    ExecutionPlan,
    PlannerInput,
    PlannerResponse,
    Response,
    ScheduleConfig,
    SuperAgentDecision,
    SuperAgentOutcome,
    Task,
    TaskBrief,
    TaskPattern,
    TaskStatus,
    UserInput,
    UserInputMetadata,
    calculate_next_execution_delay,
)
from plansmith.compat.valuecell.orchestrator import AgentOrchestrator
from plansmith.compat.valuecell.planner import ExecutionPlanner, UserInputRequest
from plansmith.compat.valuecell.service import PlanService, UserInputRegistry
from plansmith.compat.valuecell.super_agent import SuperAgent

__all__ = [
    "AgentOrchestrator",
    "ExecutionPlan",
    "ExecutionPlanner",
    "PlanService",
    "PlannerInput",
    "PlannerResponse",
    "RemoteConnections",
    "Response",
    "ScheduleConfig",
    "SuperAgent",
    "SuperAgentDecision",
    "SuperAgentOutcome",
    "Task",
    "TaskBrief",
    "TaskPattern",
    "TaskStatus",
    "UserInput",
    "UserInputMetadata",
    "UserInputRegistry",
    "UserInputRequest",
    "agentcard_to_prompt",
    "calculate_next_execution_delay",
]
