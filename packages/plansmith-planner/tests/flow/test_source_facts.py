"""What the five source systems do when they plan, and the defects that are not inherited.

Each test says which system its fact is from. Faces that speak their very interfaces are elsewhere.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.flow.smiths import Script, plan_of

from plansmith import Plan, ToolSpec, check_plan
from plansmith.errors import ModelRefused
from plansmith.plan.planning import Planned, PlanRequest
from plansmith.testing import Answer, FakeClock, ScriptedModel
from plansmith_planner.pipeline import make_plan
from plansmith_planner.ranking.pick import shortlist
from plansmith_planner.settings import PlannerSettings
from plansmith_planner.stages import PlannerDeps

REQUIRED = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
TOOLS = [
    ToolSpec(name="search", description="Search the web", input_schema=REQUIRED, search=True),
    ToolSpec(name="calc", description="Do sums"),
]
STEP = {"id": "a", "kind": "tool", "tool": "search", "inputs": {"q": "x"}}
REPLY = {"id": "r", "kind": "reply", "instruction": "say {{a}}"}
GOOD = {"goal": "g", "steps": [STEP, REPLY]}


async def plan(model: ScriptedModel, text: str = "find x", **fields: Any) -> Planned:
    deps = PlannerDeps(
        plan_model=model,
        clock=FakeClock(),
        tools=fields.pop("tools", TOOLS),
        agents=fields.pop("agents", ()),
        search=fields.pop("search", None),
        settings=PlannerSettings(**fields.pop("settings", {})),
    )
    return await make_plan(PlanRequest(text, **fields), deps=deps)


async def test_sage_the_defaults_are_six_tools_and_the_caller_may_override_them(
    scripted: Script,
) -> None:
    many = [ToolSpec(name=f"search_{n}", description="Search the web") for n in range(20)]
    for top_k, count in ((None, 6), (9, 9)):
        model = scripted(GOOD)
        planned = await plan(
            model, tools=many, top_k=top_k, settings={"repairs": 0, "fallback": "none"}
        )
        assert len(planned.picks) == count
    with pytest.raises(ValueError, match="k"):
        shortlist("x", many, k=0)


async def test_openmanus_the_default_plan_also_follows_a_model_error_and_is_degraded(
    scripted: Script,
) -> None:
    model, settings = scripted(ModelRefused("down")), {"fallback": "three_steps"}
    planned = await plan(model, "short", settings=settings)
    assert plan_of(planned).goal == "Plan for: short"
    assert plan_of(planned).degraded


# DeerFlow


async def test_deerflow_the_editing_model_sees_the_plan_it_edits(scripted: Script) -> None:
    previous = Plan.model_validate(GOOD)
    model = scripted(Answer(GOOD, expects='"tool": "search"'))
    await plan(model, previous=previous, feedback="be brief")
    assert "be brief" in model.prompts[0][1].text


async def test_spring_at_most_two_repairs_each_with_the_error_of_the_last(scripted: Script) -> None:
    first = {"steps": [STEP | {"tool": "first_wrong_one"}, REPLY]}
    second = {"steps": [STEP | {"tool": "second_wrong_one"}, REPLY]}
    model = scripted(first, second, second)
    planned = await plan(model)
    assert planned.metrics.repairs == 2
    assert "first_wrong_one" in model.prompts[1][-1].text
    assert "second_wrong_one" in model.prompts[2][-1].text
    assert plan_of(planned).degraded


def test_spring_a_problem_names_the_field_that_is_wrong() -> None:
    wrong = Plan.model_validate({"steps": [STEP | {"inputs": {"q": {"deep": 1}}}]})
    [found] = [each for each in check_plan(wrong, TOOLS) if each.severity == "error"]
    assert (found.step, found.path) == ("a", ("inputs", "q"))


async def test_valuecell_a_model_that_cannot_be_set_up_is_guidance_not_an_exception(
    scripted: Script,
) -> None:
    planned = await plan(scripted(ModelRefused("no API key", hint="set OPENAI_API_KEY")))
    [failure] = [each for each in planned.problems if each.code == "PS015"]
    assert "no API key" in failure.message
    assert failure.hint == "set OPENAI_API_KEY"
