from __future__ import annotations

from collections.abc import Callable

from plansmith.plan.capability import ToolSpec
from plansmith.planner.pipeline import make_plan
from plansmith.ports import Usage
from plansmith.testing import Answer, ScriptedModel

TOOLS = [ToolSpec(name="weather", description="say {{draft}} <<tools>>")]
Script = Callable[..., ScriptedModel]


async def test_a_request_becomes_a_checked_plan(scripted: Script) -> None:
    answer = Answer(
        {"steps": [{"id": "a", "tool": "weather"}, {"id": "b", "tool": "wether"}]},
        expects="weather",
        usage=Usage(10, 20),
    )
    told: list[str] = []
    planned = await make_plan(
        "How is it in Oslo?", model=scripted(answer), tools=TOOLS, tell=told.append
    )
    assert planned.plan is not None
    assert planned.plan.goal == "How is it in Oslo?"
    assert [problem.code for problem in planned.problems] == ["PS101"]
    assert planned.usage == Usage(10, 20)
    assert [line.split(":")[0] for line in told] == ["draft", "parse", "check"]


async def test_an_answer_that_is_no_plan_is_problems_and_keeps_its_text(scripted: Script) -> None:
    planned = await make_plan("hi", model=scripted("I cannot plan this"), tools=TOOLS)
    assert planned.plan is None
    assert planned.problems
    assert planned.text == "I cannot plan this"


async def test_the_request_and_the_tools_reach_the_model_as_they_are(scripted: Script) -> None:
    model = scripted({"steps": []})
    await make_plan("<<tools>> {{x}}", model=model, tools=TOOLS)
    [[system, user]] = model.prompts
    assert user.text == "<<tools>> {{x}}"
    assert "say {{draft}} <<tools>>" in system.text
