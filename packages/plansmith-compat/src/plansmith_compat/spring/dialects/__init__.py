"""The three plan formats of Spring AI Alibaba as one dialect: NL2SQL, JManus, deepresearch."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AgentStep
from plansmith_compat.deerflow.dialect import CODER, RESEARCHER
from plansmith_compat.deerflow.dialect import recognises as is_research
from plansmith_compat.spring.dialects import jmanus, nl2sql, research
from plansmith_planner.dialect import Reading, Writing
from plansmith_planner.parse.habits import not_a_plan

TITLE: Final = "Spring AI Alibaba"
SHAPES: Final = {each.name: each for each in (nl2sql.DIALECT, jmanus.DIALECT, research.DIALECT)}
_HINT: Final = Sentence(
    "give a plan of NL2SQL (execution_plan), JManus (stepRequirement) or deepresearch"
)


def shape_of(value: Json) -> str | None:
    """Returns which of the three formats a value has."""
    return next((name for name, shape in SHAPES.items() if shape.recognises(value)), None)


def shape_for(plan: Plan) -> str:
    """Returns the format that suits a plan, by who does its steps."""
    agents = {step.agent for step in plan.steps if isinstance(step, AgentStep)}
    if nl2sql.AGENTS[nl2sql.SQL] in agents:
        return "nl2sql"
    return "deepresearch" if agents and agents <= {RESEARCHER, CODER} else "jmanus"


def recognises(value: Json) -> bool:
    """Whether a value is a plan in one of the three formats."""
    return shape_of(value) is not None


def read(value: Json) -> Reading:
    """Reads a plan in any of the three formats."""
    # DeerFlow recognises research without marks too; a caller of this module means this one.
    name = shape_of(value) or ("deepresearch" if is_research(value) else None)
    return SHAPES[name].read(value) if name else Reading(None, not_a_plan(TITLE, _HINT))


def write_as(shape: str, plan: Plan, run: Run | None = None) -> Writing:
    """Writes the plan in the format with this name."""
    return SHAPES[shape].write(plan, run)


def write(plan: Plan, run: Run | None) -> Writing:
    """Writes the plan in the format that suits it."""
    return write_as(shape_for(plan), plan, run)


# A model that is asked for a plan writes it in the format of NL2SQL.
DIALECT: Final = replace(
    nl2sql.DIALECT,
    name="spring",
    title=TITLE,
    recognises=recognises,
    read=read,
    write=write,
    turn=1,
)
