"""What the five source systems do when they plan, and the defects that are not inherited.

Each test says which system its fact is from. Faces that speak their very interfaces are elsewhere.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.flow.smiths import Script

from plansmith import AgentSpec, Plan, ToolSpec, check_plan
from plansmith.check.check_plan import Way, way_on
from plansmith.errors import ModelRefused
from plansmith.plan.planning import Planned, PlanRequest
from plansmith.testing import Answer, FakeClock, FakeTool, FakeTools, ScriptedModel
from plansmith_planner.context.background import HEADING, Search
from plansmith_planner.parse.reply import parse
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


# SAGE


def test_sage_a_citation_before_the_array_is_not_the_plan() -> None:
    parsed = parse(f"As said in [1], the plan is {json.dumps([STEP, REPLY])}")
    assert parsed.plan is not None
    assert len(parsed.plan.steps) == 2


def test_sage_steps_with_type_name_and_arguments_are_read() -> None:
    text = '[{"type":"tool","name":"search","arguments":{"q":"x"}},{"type":"reply","text":"done"}]'
    parsed = parse(f"```json\n{text}\n```")
    assert parsed.plan is not None
    assert [step.kind for step in parsed.plan.steps] == ["tool", "reply"]


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


def test_sage_chinese_queries_find_chinese_tools() -> None:
    tools = [ToolSpec(name=f"t{n}", description="画图") for n in range(9)]
    tools.append(ToolSpec(name="weather", description="查询城市天气"))
    assert shortlist("北京今天的天气怎么样", tools, k=1)[0].name == "weather"


def test_sage_single_letters_are_no_matches() -> None:
    tools = [ToolSpec(name="x_ray", description="a b c"), ToolSpec(name="mail", description="post")]
    assert shortlist("send a mail", tools, k=1)[0].name == "mail"


async def test_sage_the_repair_knows_the_tools_and_the_problem(scripted: Script) -> None:
    model = scripted("nothing", Answer(GOOD, expects="Search the web"))
    await plan(model)
    assert "PS001" in model.prompts[1][-1].text


async def test_sage_what_is_dropped_is_told(scripted: Script) -> None:
    bad = {"steps": ["words", {"id": "u", "tool": "unknown_thing"}, STEP, REPLY]}
    planned = await plan(scripted(bad), settings={"repairs": 0, "fallback": "none"})
    assert {"PS014", "PS101"} <= {each.code for each in planned.problems}


async def test_sage_the_answer_is_composed_after_the_tools_not_before(scripted: Script) -> None:
    planned = await plan(scripted(GOOD))
    assert planned.plan is not None
    assert planned.plan.by_id["r"].needs() == {"a"}


async def test_sage_the_list_of_steps_is_never_empty(scripted: Script) -> None:
    empty: dict[str, Any] = {"goal": "g", "steps": []}
    planned = await plan(scripted(empty, empty, empty))
    assert planned.plan is not None
    assert planned.plan.steps
    assert planned.plan.degraded


# ValueCell


async def test_valuecell_a_passthrough_agent_gets_one_task_without_a_model(
    scripted: Script,
) -> None:
    agents = [AgentSpec(name="Watcher", passthrough=True)]
    planned = await plan(scripted(), "watch AAPL", agents=agents, target="Watcher")
    assert planned.plan is not None
    [step] = planned.plan.steps
    assert (step.title, step.to_json()["task"]) == ("Run Watcher", "watch AAPL")


async def test_valuecell_a_model_that_cannot_be_set_up_is_guidance_not_an_exception(
    scripted: Script,
) -> None:
    planned = await plan(scripted(ModelRefused("no API key", hint="set OPENAI_API_KEY")))
    [told] = [each for each in planned.problems if each.code == "PS015"]
    assert "no API key" in told.message
    assert told.hint == "set OPENAI_API_KEY"


def test_valuecell_an_agent_that_is_not_available_is_named() -> None:
    agents = [
        AgentSpec(name="A"),
        AgentSpec(name="H", hidden=True),
        AgentSpec(name="P", passthrough=True),
    ]
    steps = [
        {"id": name.lower(), "agent": name, "task": "do"} for name in ("A", "H", "P", "Invented")
    ]
    found = check_plan(Plan.model_validate({"steps": steps}), [], agents=agents)
    assert [each.step for each in found if each.code == "PS102"] == ["h", "p", "invented"]


# OpenManus


async def test_openmanus_the_default_plan_also_follows_a_model_error_and_is_degraded(
    scripted: Script,
) -> None:
    settings = {"fallback": "three_steps"}
    for says in (ModelRefused("down"),):
        planned = await plan(scripted(says), "short", settings=settings)
        assert planned.plan is not None
        assert planned.plan.goal == "Plan for: short"
        assert planned.plan.degraded


# DeerFlow


def test_deerflow_enough_context_is_defined_once() -> None:
    done = Plan.model_validate({"enough_context": True, "steps": [STEP]})
    assert way_on(done, done=["a"]) is Way.REPORT
    assert way_on(done) is Way.RUN
    assert way_on(done.replace(steps=())) is Way.REPORT
    assert way_on(done.replace(enough_context=False)) is Way.REVIEW


async def test_deerflow_a_background_investigation_reaches_the_planner_under_its_heading(
    scripted: Script,
) -> None:
    found = "Oslo has <<tools>> 700,000 people"
    source = FakeTools(FakeTool("search", [found], search=True, input_schema=REQUIRED))
    model = scripted(GOOD)
    await plan(model, search=Search(source), settings={"background_search": True})
    assert HEADING == "background investigation results of user query:"
    assert HEADING.removesuffix(":") in model.prompts[0][1].text
    assert "Oslo has <<tools>> 700,000 people" in model.prompts[0][1].text
    assert source.calls[0].arguments == {"q": "find x"}


async def test_deerflow_a_bare_list_and_unknown_step_types_are_read_or_told(
    scripted: Script,
) -> None:
    planned = await plan(scripted([STEP, REPLY | {"kind": "telepathy"}]))
    assert planned.plan is not None
    assert [step.kind for step in planned.plan.steps] == ["tool", "reply"]
    assert any("telepathy" in each.message for each in planned.problems)


async def test_deerflow_the_editing_model_sees_the_plan_it_edits(scripted: Script) -> None:
    previous = Plan.model_validate(GOOD)
    model = scripted(Answer(GOOD, expects='"tool": "search"'))
    await plan(model, previous=previous, feedback="be brief")
    assert "be brief" in model.prompts[0][1].text


# Spring AI Alibaba


async def test_spring_at_most_two_repairs_each_with_the_error_of_the_last(scripted: Script) -> None:
    first = {"steps": [STEP | {"tool": "first_wrong_one"}, REPLY]}
    second = {"steps": [STEP | {"tool": "second_wrong_one"}, REPLY]}
    model = scripted(first, second, second)
    planned = await plan(model)
    assert planned.metrics.repairs == 2
    assert "first_wrong_one" in model.prompts[1][-1].text
    assert "second_wrong_one" in model.prompts[2][-1].text
    assert planned.plan is not None
    assert planned.plan.degraded


def test_spring_a_problem_names_the_field_that_is_wrong() -> None:
    wrong = Plan.model_validate({"steps": [STEP | {"inputs": {"q": {"deep": 1}}}]})
    [found] = [each for each in check_plan(wrong, TOOLS) if each.severity == "error"]
    assert (found.step, found.path) == ("a", ("inputs", "q"))
