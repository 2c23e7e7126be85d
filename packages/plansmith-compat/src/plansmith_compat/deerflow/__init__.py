"""DeerFlow's interface: its plan, its routers, and research as durable runs."""

from plansmith_compat.deerflow.clarification import needs_clarification
from plansmith_compat.deerflow.configuration import TURNS, Configuration, get_recursion_limit
from plansmith_compat.deerflow.flow import TARGETS, DeerFlow, ResearchState, research_team
from plansmith_compat.deerflow.llms import apply_prompt_template, get_llm_by_type
from plansmith_compat.deerflow.messages import (
    AIMessage,
    Command,
    GraphInterrupt,
    HumanMessage,
    interrupt,
)
from plansmith_compat.deerflow.models import (
    Feedback,
    Goto,
    Plan,
    Route,
    Step,
    StepType,
    TeamRoute,
    Word,
    continue_to_running_research_team,
    parse_plan,
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
    sanitize_args,
    sanitize_tool_response,
    validate_and_fix_plan,
)
from plansmith_compat.deerflow.quality import Quality, quality
from plansmith_compat.deerflow.workflow import run_agent_workflow_async

__all__ = [
    "TARGETS",
    "TURNS",
    "AIMessage",
    "Command",
    "Configuration",
    "DeerFlow",
    "Feedback",
    "Goto",
    "GraphInterrupt",
    "HumanMessage",
    "Plan",
    "Quality",
    "ResearchState",
    "Route",
    "State",
    "Step",
    "StepType",
    "TeamRoute",
    "Word",
    "apply_prompt_template",
    "background_investigation_node",
    "continue_to_running_research_team",
    "coordinator_node",
    "extract_plan_content",
    "get_llm_by_type",
    "get_recursion_limit",
    "human_feedback_node",
    "interrupt",
    "needs_clarification",
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
    "sanitize_args",
    "sanitize_tool_response",
    "validate_and_fix_plan",
]
