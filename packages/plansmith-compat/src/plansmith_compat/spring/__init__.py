"""Spring AI Alibaba's interface: the planner's nodes, NL2SQL, deepresearch and JManus."""

from plansmith_compat.spring import deepresearch, keys
from plansmith_compat.spring.beans import ExecutionStep, NL2SQLPlan, ResearchPlan, ToolParameters
from plansmith_compat.spring.jmanus import (
    FunctionToolCallback,
    JManus,
    PlanningTool,
    PlanningToolInterface,
    PlanTemplates,
    PublishedTemplates,
    ToolExecuteResult,
    plan_from,
)
from plansmith_compat.spring.nodes import (
    MAX_REJECTIONS,
    MAX_REPAIRS,
    DataAgent,
    HumanFeedbackDispatcher,
    HumanFeedbackNode,
    PlanExecutorDispatcher,
    PlanExecutorNode,
    PlannerNode,
    only_nl2sql,
)

__all__ = [
    "MAX_REJECTIONS",
    "MAX_REPAIRS",
    "DataAgent",
    "ExecutionStep",
    "FunctionToolCallback",
    "HumanFeedbackDispatcher",
    "HumanFeedbackNode",
    "JManus",
    "NL2SQLPlan",
    "PlanExecutorDispatcher",
    "PlanExecutorNode",
    "PlanTemplates",
    "PlannerNode",
    "PlanningTool",
    "PlanningToolInterface",
    "PublishedTemplates",
    "ResearchPlan",
    "ToolExecuteResult",
    "ToolParameters",
    "deepresearch",
    "keys",
    "only_nl2sql",
    "plan_from",
]
