"""DeerFlow's interface: its plan, its routers, and research as durable runs."""

from plansmith.compat.deerflow.flow import (
    TARGETS,
    TURNS,
    Configuration,
    DeerFlow,
    State,
    research_team,
)
from plansmith.compat.deerflow.models import (
    Feedback,
    Goto,
    Plan,
    Route,
    Step,
    StepType,
    TeamRoute,
    Word,
    parse_plan,
    read_feedback,
    route_feedback,
    route_plan,
    route_team,
)

__all__ = [
    "TARGETS",
    "TURNS",
    "Configuration",
    "DeerFlow",
    "Feedback",
    "Goto",
    "Plan",
    "Route",
    "State",
    "Step",
    "StepType",
    "TeamRoute",
    "Word",
    "parse_plan",
    "read_feedback",
    "research_team",
    "route_feedback",
    "route_plan",
    "route_team",
]
