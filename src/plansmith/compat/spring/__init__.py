"""Spring AI Alibaba's interface: the planner's nodes, NL2SQL and JManus."""

from plansmith.compat.spring import keys
from plansmith.compat.spring.data_agent import DataAgent
from plansmith.compat.spring.jmanus import JManus, PlanTemplates, PublishedTemplates, plan_from
from plansmith.compat.spring.nodes import (
    MAX_REJECTIONS,
    MAX_REPAIRS,
    HumanFeedbackNode,
    PlanExecutorNode,
    PlannerNode,
    only_nl2sql,
)

__all__ = [
    "MAX_REJECTIONS",
    "MAX_REPAIRS",
    "DataAgent",
    "HumanFeedbackNode",
    "JManus",
    "PlanExecutorNode",
    "PlanTemplates",
    "PlannerNode",
    "PublishedTemplates",
    "keys",
    "only_nl2sql",
    "plan_from",
]
