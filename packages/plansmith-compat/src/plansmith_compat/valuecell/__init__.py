"""ValueCell's interface: super agent, plan service, execution planner and tasks."""

from plansmith_compat.valuecell.connections import RemoteConnections, agentcard_to_prompt
from plansmith_compat.valuecell.models import (
    ExecutionPlan,
    InMemoryTaskStore,
    PlannerInput,
    PlannerResponse,
    Response,
    ScheduleConfig,
    SuperAgentDecision,
    SuperAgentOutcome,
    Task,
    TaskBrief,
    TaskManager,
    TaskPattern,
    TaskService,
    TaskStatus,
    UserInput,
    UserInputMetadata,
    UserInputRegistry,
    UserInputRequest,
    calculate_next_execution_delay,
)
from plansmith_compat.valuecell.orchestrator import AgentOrchestrator
from plansmith_compat.valuecell.planner import ExecutionPlanner, PlanningAgent, PlanService
from plansmith_compat.valuecell.super_agent import SuperAgent, SuperAgentService

__all__ = [
    "AgentOrchestrator",
    "ExecutionPlan",
    "ExecutionPlanner",
    "InMemoryTaskStore",
    "PlanService",
    "PlannerInput",
    "PlannerResponse",
    "PlanningAgent",
    "RemoteConnections",
    "Response",
    "ScheduleConfig",
    "SuperAgent",
    "SuperAgentDecision",
    "SuperAgentOutcome",
    "SuperAgentService",
    "Task",
    "TaskBrief",
    "TaskManager",
    "TaskPattern",
    "TaskService",
    "TaskStatus",
    "UserInput",
    "UserInputMetadata",
    "UserInputRegistry",
    "UserInputRequest",
    "agentcard_to_prompt",
    "calculate_next_execution_delay",
]
