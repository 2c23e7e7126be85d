"""HumanFeedbackNode: a person decides on the plan, and at the cap is asked, never overruled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from plansmith.compat.spring import keys
from plansmith.compat.spring.keys import State, Updates
from plansmith.plan.fold import GO_ON
from plansmith.runner.limits import OPTIONS, STOP

MAX_REJECTIONS: Final = 3
REJECTED: Final = "the plan was rejected without a word on why"


class HumanFeedbackNode:
    """Reads `{"feedback": true | false, "feedback_content": …}`; anything else waits on.

    Beyond the cap a rejection asks whether to go on; `{"decision": "go_on" | "stop"}` answers it.
    """

    async def apply(self, state: State) -> Updates:
        """The updates of the state, the next node among them."""
        given = state.get(keys.HUMAN_FEEDBACK_DATA)
        data = cast("Mapping[str, Any]", given if isinstance(given, Mapping) else {})
        feedback = data.get("feedback")
        if feedback is True:
            return _to(
                keys.PLAN_EXECUTOR_NODE,
                {keys.HUMAN_REVIEW_ENABLED: False, keys.PLAN_VALIDATION_ERROR: ""},
            )
        if state.get(keys.HUMAN_FEEDBACK_QUESTION) and data.get("decision") in OPTIONS:
            return _answered(state, data)
        if feedback is not False:
            return _to(keys.WAIT_FOR_FEEDBACK, {})
        rejections = int(state.get(keys.HUMAN_REJECTION_COUNT) or 0)
        if rejections >= MAX_REJECTIONS:
            question = f"{rejections} plans were sent back. Make another one?"
            asked = {keys.HUMAN_FEEDBACK_QUESTION: f"{question} ({', '.join(OPTIONS)})"}
            return _to(keys.WAIT_FOR_FEEDBACK, asked)
        return _again(rejections, data)


def _answered(state: State, data: Mapping[str, Any]) -> Updates:
    cleared: Updates = {keys.HUMAN_FEEDBACK_QUESTION: ""}
    if data["decision"] == STOP:
        return _to(keys.END, cleared)
    assert data["decision"] == GO_ON  # noqa: S101 - there are two options
    rejections = int(state.get(keys.HUMAN_REJECTION_COUNT) or 0)
    return _again(rejections, data) | cleared


def _again(rejections: int, data: Mapping[str, Any]) -> Updates:
    """Back to the planner with the person's words; the rejected plan stays for it to see."""
    return _to(
        keys.PLANNER_NODE,
        {
            keys.HUMAN_REJECTION_COUNT: rejections + 1,
            keys.PLAN_VALIDATION_ERROR: str(data.get("feedback_content") or REJECTED),
            keys.PLAN_CURRENT_STEP: 1,
            keys.HUMAN_REVIEW_ENABLED: True,
        },
    )


def _to(node: str, more: Updates) -> Updates:
    # The word is used up: the next plan waits for one of its own.
    return {keys.HUMAN_NEXT_NODE: node, keys.HUMAN_FEEDBACK_DATA: None, **more}
