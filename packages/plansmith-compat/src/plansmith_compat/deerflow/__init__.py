"""DeerFlow's interface: its plan, its routers, and research as durable runs."""

from plansmith_compat.deerflow.configuration import Configuration
from plansmith_compat.deerflow.flow import TARGETS, DeerFlow, ResearchState, research_team
from plansmith_compat.deerflow.llms import (
    Command,
    GraphInterrupt,
    get_llm_by_type,
    interrupt,
)
from plansmith_compat.deerflow.models import (
    Feedback,
    Goto,
    Plan,
    Step,
    StepType,
    Word,
    continue_to_running_research_team,
    parse_plan,
    quality,
    read_feedback,
    route_feedback,
    route_plan,
    route_team,
)
from plansmith_compat.deerflow.nodes import (
    State,
    background_investigation_node,
    coordinator_node,
    human_feedback_node,
    planner_node,
    reporter_node,
    research_team_node,
)
from plansmith_compat.deerflow.plan_fixes import (
    extract_plan_content,
    repair_json_output,
    sanitize_tool_response,
    validate_and_fix_plan,
)
from plansmith_compat.deerflow.workflow import run_agent_workflow_async

__all__ = [
    "TARGETS",
    "Command",
    "Configuration",
    "DeerFlow",
    "Feedback",
    "Goto",
    "GraphInterrupt",
    "Plan",
    "ResearchState",
    "State",
    "Step",
    "StepType",
    "Word",
    "background_investigation_node",
    "continue_to_running_research_team",
    "coordinator_node",
    "extract_plan_content",
    "get_llm_by_type",
    "human_feedback_node",
    "interrupt",
    "parse_plan",
    "planner_node",
    "quality",
    "read_feedback",
    "repair_json_output",
    "reporter_node",
    "research_team",
    "research_team_node",
    "route_feedback",
    "route_plan",
    "route_team",
    "run_agent_workflow_async",
    "sanitize_tool_response",
    "validate_and_fix_plan",
]
