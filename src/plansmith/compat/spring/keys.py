"""The state keys and node names of Spring AI Alibaba's graphs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

State = Mapping[str, Any]
Updates = dict[str, Any]

INPUT_KEY: Final = "input"
BUSINESS_KNOWLEDGE: Final = "business_knowledge"
SEMANTIC_MODEL: Final = "semantic_model"
TABLE_RELATION_OUTPUT: Final = "TABLE_RELATION_OUTPUT"
BACKGROUND_RESULTS: Final = "background_investigation_results"
DOCUMENTS: Final = "rag_content"
PLANNER_NODE_OUTPUT: Final = "PLANNER_NODE_OUTPUT"
PLAN_CURRENT_STEP: Final = "PLAN_CURRENT_STEP"
PLAN_NEXT_NODE: Final = "PLAN_NEXT_NODE"
PLAN_VALIDATION_STATUS: Final = "PLAN_VALIDATION_STATUS"
PLAN_VALIDATION_ERROR: Final = "PLAN_VALIDATION_ERROR"
PLAN_REPAIR_COUNT: Final = "PLAN_REPAIR_COUNT"
HUMAN_REVIEW_ENABLED: Final = "HUMAN_REVIEW_ENABLED"
HUMAN_FEEDBACK_DATA: Final = "HUMAN_FEEDBACK_DATA"
HUMAN_NEXT_NODE: Final = "human_next_node"
IS_ONLY_NL2SQL: Final = "IS_ONLY_NL2SQL"
SQL_EXECUTE_NODE_OUTPUT: Final = "SQL_EXECUTE_NODE_OUTPUT"
RESULT: Final = "RESULT"
THREAD_ID: Final = "threadId"
# Counts a person's rejections; repairs of invalid plans are counted separately.
HUMAN_REJECTION_COUNT: Final = "HUMAN_REJECTION_COUNT"
HUMAN_FEEDBACK_QUESTION: Final = "HUMAN_FEEDBACK_QUESTION"

PLANNER_NODE: Final = "PLANNER_NODE"
PLAN_EXECUTOR_NODE: Final = "PLAN_EXECUTOR_NODE"
HUMAN_FEEDBACK_NODE: Final = "HUMAN_FEEDBACK_NODE"
WAIT_FOR_FEEDBACK: Final = "WAIT_FOR_FEEDBACK"
END: Final = "END"
