from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from plansmith.plan.plan import Plan
from plansmith.plan.steps import ToolStep


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
