from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from plansmith.plan.plan import Plan
from plansmith.plan.steps import (
    MAX_OPTIONS,
    AgentStep,
    AskStep,
    MapStep,
    PlanStep,
    ReplyStep,
    ToolStep,
    kind_of,
)

ONE_OF_EACH: dict[str, Any] = {
    "tool": {"id": "s", "tool": "t"},
    "agent": {"id": "s", "agent": "a", "task": "do"},
    "ask": {"id": "s", "question": "which?"},
    "map": {"id": "s", "over": [1], "each": {"tool": "t"}},
    "plan": {"id": "s", "template": "weekly"},
    "reply": {"id": "s", "instruction": "say"},
}


@pytest.mark.parametrize("kind", ONE_OF_EACH)
def test_the_fields_tell_the_kind(kind: str) -> None:
    [step] = Plan.model_validate({"steps": [ONE_OF_EACH[kind]]}).steps
    assert step.kind == kind == kind_of(step)
    assert list(step.to_json())[:2] == ["id", "kind"]
    [same] = Plan.model_validate({"steps": [ONE_OF_EACH[kind] | {"kind": kind}]}).steps
    assert same == step


def test_a_step_from_python_is_the_step_from_json() -> None:
    from_python = (
        ToolStep(id="a", tool="t", inputs={"x": {"$from": "b"}}),
        AgentStep(id="b", agent="g", task="do {{a}}"),
        AskStep(id="c", question="?", options=("x", "y")),
        MapStep(id="d", over="{{a}}", each=ToolStep(id="d_each", tool="t")),
        PlanStep(id="e", template="w", version=2),
        ReplyStep(id="f", instruction="say"),
    )
    plan = Plan(steps=from_python)
    assert Plan.model_validate(plan.to_json()) == plan
    assert plan.steps == from_python


@pytest.mark.parametrize(
    "inputs",
    [{"x": math.nan}, {"x": math.inf}, {"x": "\ud800"}, {"x": (1,)}, {"x": {1: 2}}, {"x": b""}],
)
def test_what_json_cannot_hold_is_refused_from_python_too(inputs: Any) -> None:
    with pytest.raises(ValidationError):
        ToolStep(id="a", tool="t", inputs=inputs)


def test_replace_validates_like_a_new_one() -> None:
    plan = Plan(goal="a")
    assert plan.by_id == {}
    assert plan.replace(goal="b").goal == "b"
    with pytest.raises(ValidationError):
        plan.replace(revision=0)


def test_a_question_has_a_limited_number_of_options() -> None:
    options = tuple(f"way {number}" for number in range(MAX_OPTIONS + 1))
    assert AskStep(id="a", question="Which?", options=options[1:]).options == options[1:]
    with pytest.raises(ValidationError, match="at most 100 items"):
        AskStep(id="a", question="Which?", options=options)
