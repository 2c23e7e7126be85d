"""Spring AI Alibaba's interface: the planner's nodes, NL2SQL, deepresearch and JManus."""

from plansmith_compat.spring import deepresearch as deepresearch
from plansmith_compat.spring import keys as keys
from plansmith_compat.spring.beans import ExecutionStep as ExecutionStep
from plansmith_compat.spring.beans import NL2SQLPlan as NL2SQLPlan
from plansmith_compat.spring.beans import ResearchPlan as ResearchPlan
from plansmith_compat.spring.beans import ToolParameters as ToolParameters
from plansmith_compat.spring.jmanus import FunctionToolCallback as FunctionToolCallback
from plansmith_compat.spring.jmanus import JManus as JManus
from plansmith_compat.spring.jmanus import PlanningTool as PlanningTool
from plansmith_compat.spring.jmanus import PlanningToolInterface as PlanningToolInterface
from plansmith_compat.spring.jmanus import PlanTemplates as PlanTemplates
from plansmith_compat.spring.jmanus import PublishedTemplates as PublishedTemplates
from plansmith_compat.spring.jmanus import ToolExecuteResult as ToolExecuteResult
from plansmith_compat.spring.jmanus import plan_from as plan_from
from plansmith_compat.spring.nodes import MAX_REJECTIONS as MAX_REJECTIONS
from plansmith_compat.spring.nodes import MAX_REPAIRS as MAX_REPAIRS
from plansmith_compat.spring.nodes import DataAgent as DataAgent
from plansmith_compat.spring.nodes import HumanFeedbackDispatcher as HumanFeedbackDispatcher
from plansmith_compat.spring.nodes import HumanFeedbackNode as HumanFeedbackNode
from plansmith_compat.spring.nodes import PlanExecutorDispatcher as PlanExecutorDispatcher
from plansmith_compat.spring.nodes import PlanExecutorNode as PlanExecutorNode
from plansmith_compat.spring.nodes import PlannerNode as PlannerNode
from plansmith_compat.spring.nodes import only_nl2sql as only_nl2sql
