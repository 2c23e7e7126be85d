"""DeerFlow's interface: its plan, its routers, and research as durable runs."""

from plansmith_compat.deerflow.configuration import Configuration as Configuration
from plansmith_compat.deerflow.flow import TARGETS as TARGETS
from plansmith_compat.deerflow.flow import DeerFlow as DeerFlow
from plansmith_compat.deerflow.flow import ResearchState as ResearchState
from plansmith_compat.deerflow.flow import research_team as research_team
from plansmith_compat.deerflow.llms import AIMessage as AIMessage
from plansmith_compat.deerflow.llms import Command as Command
from plansmith_compat.deerflow.llms import GraphInterrupt as GraphInterrupt
from plansmith_compat.deerflow.llms import HumanMessage as HumanMessage
from plansmith_compat.deerflow.llms import apply_prompt_template as apply_prompt_template
from plansmith_compat.deerflow.llms import get_llm_by_type as get_llm_by_type
from plansmith_compat.deerflow.llms import interrupt as interrupt
from plansmith_compat.deerflow.models import Feedback as Feedback
from plansmith_compat.deerflow.models import Goto as Goto
from plansmith_compat.deerflow.models import Plan as Plan
from plansmith_compat.deerflow.models import Quality as Quality
from plansmith_compat.deerflow.models import Route as Route
from plansmith_compat.deerflow.models import Step as Step
from plansmith_compat.deerflow.models import StepType as StepType
from plansmith_compat.deerflow.models import TeamRoute as TeamRoute
from plansmith_compat.deerflow.models import Word as Word
from plansmith_compat.deerflow.models import (
    continue_to_running_research_team as continue_to_running_research_team,
)
from plansmith_compat.deerflow.models import parse_plan as parse_plan
from plansmith_compat.deerflow.models import quality as quality
from plansmith_compat.deerflow.models import read_feedback as read_feedback
from plansmith_compat.deerflow.models import route_feedback as route_feedback
from plansmith_compat.deerflow.models import route_plan as route_plan
from plansmith_compat.deerflow.models import route_team as route_team
from plansmith_compat.deerflow.nodes import State as State
from plansmith_compat.deerflow.nodes import (
    background_investigation_node as background_investigation_node,
)
from plansmith_compat.deerflow.nodes import coordinator_node as coordinator_node
from plansmith_compat.deerflow.nodes import human_feedback_node as human_feedback_node
from plansmith_compat.deerflow.nodes import needs_clarification as needs_clarification
from plansmith_compat.deerflow.nodes import planner_node as planner_node
from plansmith_compat.deerflow.nodes import reporter_node as reporter_node
from plansmith_compat.deerflow.nodes import research_team_node as research_team_node
from plansmith_compat.deerflow.plan_fixes import extract_plan_content as extract_plan_content
from plansmith_compat.deerflow.plan_fixes import repair_json_output as repair_json_output
from plansmith_compat.deerflow.plan_fixes import sanitize_tool_response as sanitize_tool_response
from plansmith_compat.deerflow.plan_fixes import validate_and_fix_plan as validate_and_fix_plan
from plansmith_compat.deerflow.workflow import run_agent_workflow_async as run_agent_workflow_async
