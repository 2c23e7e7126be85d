from __future__ import annotations

from typing import Any

import pytest

from plansmith.errors import PromptTooLong
from plansmith.plan.capability import ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import Message, Prompt
from plansmith.testing import ScriptedModel
from plansmith_planner.models.wrappers import LimitedModel

LONG = [Message("user", "word " * 1000)]


async def test_a_prompt_that_does_not_fit_is_not_sent_and_the_numbers_are_named() -> None:
    inner = ScriptedModel("never")
    model = LimitedModel(inner, context_tokens=1000, reserve_tokens=200)
    with pytest.raises(PromptTooLong) as caught:
        _ = [delta async for delta in model.stream(Prompt(LONG))]
    assert inner.prompts == []
    said = str(caught.value)
    assert "scripted has room for 800 (1,000 less 200 for the answer)" in said
    assert "larger context" in said


BIG: dict[str, Json] = {"type": "object", "description": "word " * 1000}


@pytest.mark.parametrize(
    "part", [{"schema": BIG}, {"tools": [ToolSpec(name="t", input_schema=BIG)]}]
)
async def test_schema_and_tools_count_too(part: dict[str, Any]) -> None:
    model = LimitedModel(ScriptedModel("never"), context_tokens=1000, reserve_tokens=200)
    with pytest.raises(PromptTooLong):
        _ = [delta async for delta in model.stream(Prompt([Message("user", "hi")], **part))]


async def test_the_count_can_be_a_real_one() -> None:
    model = LimitedModel(
        ScriptedModel("yes"), context_tokens=10, reserve_tokens=5, count=lambda *_, **__: 5
    )
    assert [delta async for delta in model.stream(Prompt(LONG))]
