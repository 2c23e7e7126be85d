"""DeerFlow's interface: its plan, its routers, and research as durable runs."""

from plansmith.compat.deerflow.configuration import TURNS, Configuration, get_recursion_limit
from plansmith.compat.deerflow.flow import TARGETS, DeerFlow, State, research_team
from plansmith.compat.deerflow.models import (
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
from plansmith.compat.deerflow.plan_fixes import (
    extract_plan_content,
    repair_json_output,
    sanitize_args,
    sanitize_tool_response,
    validate_and_fix_plan,
)
from plansmith.compat.deerflow.quality import Quality, quality

__all__ = [
    "TARGETS",
    "TURNS",
    "Configuration",
    "DeerFlow",
    "Feedback",
    "Goto",
    "Plan",
    "Quality",
    "Route",
    "State",
    "Step",
    "StepType",
    "TeamRoute",
    "Word",
    "continue_to_running_research_team",
    "extract_plan_content",
    "get_recursion_limit",
    "parse_plan",
    "quality",
    "read_feedback",
    "repair_json_output",
    "research_team",
    "route_feedback",
    "route_plan",
    "route_team",
    "sanitize_args",
    "sanitize_tool_response",
    "validate_and_fix_plan",
]
