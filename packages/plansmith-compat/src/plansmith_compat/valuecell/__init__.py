"""ValueCell's interface: super agent, plan service, execution planner and tasks."""

from plansmith_compat.valuecell.models import ExecutionPlan as ExecutionPlan
from plansmith_compat.valuecell.models import InMemoryTaskStore as InMemoryTaskStore
from plansmith_compat.valuecell.models import PlannerInput as PlannerInput
from plansmith_compat.valuecell.models import PlannerResponse as PlannerResponse
from plansmith_compat.valuecell.models import Response as Response
from plansmith_compat.valuecell.models import ScheduleConfig as ScheduleConfig
from plansmith_compat.valuecell.models import SuperAgentDecision as SuperAgentDecision
from plansmith_compat.valuecell.models import SuperAgentOutcome as SuperAgentOutcome
from plansmith_compat.valuecell.models import Task as Task
from plansmith_compat.valuecell.models import TaskBrief as TaskBrief
from plansmith_compat.valuecell.models import TaskManager as TaskManager
from plansmith_compat.valuecell.models import TaskPattern as TaskPattern
from plansmith_compat.valuecell.models import TaskService as TaskService
from plansmith_compat.valuecell.models import TaskStatus as TaskStatus
from plansmith_compat.valuecell.models import UserInput as UserInput
from plansmith_compat.valuecell.models import UserInputMetadata as UserInputMetadata
from plansmith_compat.valuecell.models import UserInputRegistry as UserInputRegistry
from plansmith_compat.valuecell.models import UserInputRequest as UserInputRequest
from plansmith_compat.valuecell.models import (
    calculate_next_execution_delay as calculate_next_execution_delay,
)
from plansmith_compat.valuecell.orchestrator import AgentOrchestrator as AgentOrchestrator
from plansmith_compat.valuecell.orchestrator import SuperAgent as SuperAgent
from plansmith_compat.valuecell.orchestrator import SuperAgentService as SuperAgentService
from plansmith_compat.valuecell.planner import ExecutionPlanner as ExecutionPlanner
from plansmith_compat.valuecell.planner import PlanningAgent as PlanningAgent
from plansmith_compat.valuecell.planner import PlanService as PlanService
from plansmith_compat.valuecell.planner import RemoteConnections as RemoteConnections
from plansmith_compat.valuecell.planner import agentcard_to_prompt as agentcard_to_prompt
