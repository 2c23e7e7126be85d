"""ValueCell's interface: super agent, plan service, execution planner and tasks."""

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
from plansmith.compat.valuecell.plan_service import PlanService
from plansmith.compat.valuecell.planner import ExecutionPlanner
from plansmith.compat.valuecell.planning_agent import PlanningAgent
from plansmith.compat.valuecell.super_agent import SuperAgent, SuperAgentService
from plansmith.compat.valuecell.tasks import InMemoryTaskStore, TaskManager, TaskService
from plansmith.compat.valuecell.user_input import UserInputRegistry, UserInputRequest

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
