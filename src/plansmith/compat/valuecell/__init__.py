"""ValueCell's interface: super agent, plan service, execution planner and tasks."""

from plansmith.compat.valuecell.models import (
    ExecutionPlan,
    PlannerInput,
    PlannerResponse,
    RemoteConnections,
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
    agentcard_to_prompt,
    calculate_next_execution_delay,
)
from plansmith.compat.valuecell.orchestrator import (
    AgentOrchestrator,
    PlanService,
    SuperAgent,
    UserInputRegistry,
)
from plansmith.compat.valuecell.planner import ExecutionPlanner, UserInputRequest

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
