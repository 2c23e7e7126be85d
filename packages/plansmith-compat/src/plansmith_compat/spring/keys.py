"""The state keys and node names of Spring AI Alibaba's graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

State = Mapping[str, Any]
Updates = dict[str, Any]

INPUT_KEY: Final = "input"
AGENT_ID: Final = "agentId"
DATASOURCE_ID: Final = "datasourceId"
QUERY_REWRITE_NODE_OUTPUT: Final = "QUERY_REWRITE_NODE_OUTPUT"
QUERY_ENHANCE_NODE_OUTPUT: Final = "QUERY_ENHANCE_NODE_OUTPUT"
BUSINESS_KNOWLEDGE: Final = "BUSINESS_KNOWLEDGE"
SEMANTIC_MODEL: Final = "SEMANTIC_MODEL"
EVIDENCE: Final = "EVIDENCE"
EVIDENCES: Final = "EVIDENCES"
GENEGRATED_SEMANTIC_MODEL_PROMPT: Final = "GENEGRATED_SEMANTIC_MODEL_PROMPT"  # spelled so there
TABLE_RELATION_OUTPUT: Final = "TABLE_RELATION_OUTPUT"
BACKGROUND_RESULTS: Final = "background_investigation_results"
DOCUMENTS: Final = "rag_content"
PLANNER_NODE_OUTPUT: Final = "PLANNER_NODE_OUTPUT"
PLAN_CURRENT_STEP: Final = "PLAN_CURRENT_STEP"
PLAN_NEXT_NODE: Final = "PLAN_NEXT_NODE"
PLAN_VALIDATION_STATUS: Final = "PLAN_VALIDATION_STATUS"
PLAN_VALIDATION_ERROR: Final = "PLAN_VALIDATION_ERROR"
# Counts repairs of invalid plans and, as in the original, also a person's rejections.
PLAN_REPAIR_COUNT: Final = "PLAN_REPAIR_COUNT"
HUMAN_REVIEW_ENABLED: Final = "HUMAN_REVIEW_ENABLED"
HUMAN_FEEDBACK_DATA: Final = "HUMAN_FEEDBACK_DATA"
HUMAN_NEXT_NODE: Final = "human_next_node"
IS_ONLY_NL2SQL: Final = "IS_ONLY_NL2SQL"
SQL_EXECUTE_NODE_OUTPUT: Final = "SQL_EXECUTE_NODE_OUTPUT"
RESULT: Final = "result"
THREAD_ID: Final = "threadId"
# Ours: the run of a question, which a conversation has several of; the rejections among the
# repairs, the rejected plan, and the person's last words on it.
RUN_ID: Final = "runId"
HUMAN_REJECTION_COUNT: Final = "HUMAN_REJECTION_COUNT"
HUMAN_REJECTED_PLAN: Final = "HUMAN_REJECTED_PLAN"
HUMAN_FEEDBACK_CONTENT: Final = "HUMAN_FEEDBACK_CONTENT"
HUMAN_FEEDBACK_QUESTION: Final = "HUMAN_FEEDBACK_QUESTION"

PLANNER_NODE: Final = "PLANNER_NODE"
PLAN_EXECUTOR_NODE: Final = "PLAN_EXECUTOR_NODE"
SQL_GENERATE_NODE: Final = "SQL_GENERATE_NODE"
PYTHON_GENERATE_NODE: Final = "PYTHON_GENERATE_NODE"
REPORT_GENERATOR_NODE: Final = "REPORT_GENERATOR_NODE"
HUMAN_FEEDBACK_NODE: Final = "HUMAN_FEEDBACK_NODE"
WAIT_FOR_FEEDBACK: Final = "WAIT_FOR_FEEDBACK"
END: Final = "END"

# What the query rewriter writes when there is no question to rewrite.
SMALL_TALK_REJECT: Final = "闲聊拒识"
INTENT_UNCLEAR: Final = "意图模糊需要澄清"

# deepresearch
QUERY: Final = "query"
OPTIMIZE_QUERIES: Final = "optimize_queries"
MAX_STEP_NUM: Final = "max_step_num"
PLANNER_CONTENT: Final = "planner_content"
FEEDBACK: Final = "feedback"
FEEDBACK_CONTENT: Final = "feedback_content"
HUMAN_FEEDBACK: Final = "human_feedback"
CURRENT_PLAN: Final = "current_plan"
PLAN_ITERATIONS: Final = "plan_iterations"
MAX_PLAN_ITERATIONS: Final = "max_plan_iterations"
AUTO_ACCEPTED_PLAN: Final = "auto_accepted_plan"
INFORMATION_NEXT_NODE: Final = "information_next_node"
PLANNER: Final = "planner"
REPORTER: Final = "reporter"
RESEARCH_TEAM: Final = "research_team"
# Ours: why the planner's content is not usable.
PLANNER_ERROR: Final = "planner_error"
