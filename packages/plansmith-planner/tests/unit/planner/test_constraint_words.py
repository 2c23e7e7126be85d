"""Rules of a profile or a request: which sentences are rules, and that plans keep them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.flow.smiths import Script, plan_of

from plansmith.check.constraints import constraint_problems
from plansmith.check.names import Catalogue
from plansmith.plan.capability import AgentSpec, Effect, ToolSpec
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Planned, PlanRequest
from plansmith.plan.run_options import Profile
from plansmith.testing import ScriptedModel
from plansmith.testing.fakes import FakeClock
from plansmith_planner.draft import salvage
from plansmith_planner.language.constraints import asked_constraints, read_constraint
from plansmith_planner.pipeline import make_plan
from plansmith_planner.stages import PlannerDeps

TOOLS = [
    ToolSpec(name="web_search", description="Search", effect=Effect.READ),
    ToolSpec(name="calculator", description="Calculate", effect=Effect.READ),
]
AGENTS = [AgentSpec(name="researcher", description="Finds things out", effect=Effect.READ)]
NAMES = ["web_search", "calculator", "researcher"]


def steps(count: int, tool: str = "web_search") -> dict[str, Any]:
    """Returns a plan with so many steps, each of which uses the one before it."""
    made = [{"id": f"a{n}", "tool": tool} for n in range(count - 1)]
    uses = " ".join(f"{{{{a{n}}}}}" for n in range(count - 1))
    return {"goal": "x", "steps": [*made, {"id": "r", "instruction": f"Say {uses}"}]}


async def planned(
    scripted: Script, text: str, *answers: Any, profile: Profile | None = None
) -> tuple[Planned, ScriptedModel]:
    model = scripted(*answers)
    deps = PlannerDeps(plan_model=model, clock=FakeClock(), tools=TOOLS, agents=AGENTS)
    return await make_plan(PlanRequest(text, profile=profile), deps=deps), model


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("at most 2 steps", 2),
        ("Use at most two steps.", 2),
        ("No more than one step", 1),
        ("a maximum of 3 steps in total", 3),
        ("2 steps or fewer", 2),
        ("最多两步", 2),
        ("不超过 3 个步骤", 3),
        ("最多只能用一步", 1),
        ("三步以内", 3),
        ("不得超过十二个步骤", 12),
    ],
)
def test_a_constraint_on_the_number_of_steps_is_read_in_words_and_digits(
    text: str, most: int
) -> None:
    rule = read_constraint(text)
    assert (rule.max_steps, rule.max_calls, rule.hard) == (most, None, True)
    for rule_text in ("no more than one tool call", "最多一次工具调用"):
        assert read_constraint(rule_text).max_calls == 1


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("only use web_search", ("web_search",)),
        ("Use only the tools `web_search` and calculator", ("web_search", "calculator")),
        ("只能使用 web_search、calculator", ("web_search", "calculator")),
        ("仅用 web_search 工具", ("web_search",)),
        ("只用「web_search」和calculator", ("web_search", "calculator")),
    ],
)
def test_a_constraint_that_allows_only_some_tools_is_read(
    text: str, names: tuple[str, ...]
) -> None:
    assert read_constraint(text).only_tools == names


def test_a_long_list_of_names_that_is_no_constraint_is_read_at_once() -> None:
    # Where a joining word could also be part of a name, this takes 2**500 tries.
    assert asked_constraints("只用" + "a和" * 500 + "a b", NAMES) == []


@pytest.mark.parametrize(
    ("request_", "fields"),
    [
        ("What is the weather in Oslo? Use at most 2 steps.", {"max_steps": 2}),
        ("Compare the two banks in at most three steps", {"max_steps": 3}),
        ("查一下奥斯陆的天气，最多两步", {"max_steps": 2}),
        ("Look it up, no more than one tool call", {"max_calls": 1}),
        ("Find the price, but only use web_search", {"only_tools": ("web_search",)}),
        ("Find the price. Don't use calculator.", {"forbid_tools": ("calculator",)}),
        ("只用 web_search，查价格", {"only_tools": ("web_search",)}),
    ],
)
def test_a_constraint_in_a_request_is_found(request_: str, fields: dict[str, Any]) -> None:
    [rule] = asked_constraints(request_, NAMES)
    assert {name: getattr(rule, name) for name in fields} == fields
    assert rule.hard


@pytest.mark.parametrize(
    "request_",
    [
        "Find a house whose porch has at most two steps and a garden",
        "Only use official figures",
        "Don't use long words",
        'Translate "use at most 2 steps" into Norwegian',
        "The sign says: “最多两步”",
        "He walked up to 3 steps behind her",
    ],
)
def test_ordinary_words_of_a_request_are_no_constraint(request_: str) -> None:
    assert asked_constraints(request_, NAMES) == []


async def test_a_plan_with_more_steps_than_the_constraint_allows_is_repaired(
    scripted: Script,
) -> None:
    profile = Profile(hard_constraints=("at most 2 steps",))
    made, model = await planned(scripted, "Find x", steps(4), steps(2), profile=profile)
    assert not plan_of(made).degraded
    assert len(plan_of(made).steps) == 2
    assert "At most 2 steps" in model.prompts[0][1].text
    assert "more than 2" in model.prompts[1][-1].text


async def test_a_request_that_allows_two_steps_never_gets_more(scripted: Script) -> None:
    made, _ = await planned(scripted, "查一下 x，最多两步", steps(4), steps(4), steps(3))
    assert plan_of(made).degraded
    assert any(each.code == "PS502" for each in made.problems)
    assert made.draft is not None
    left = salvage(made.draft, made.problems, max_steps=6)
    assert left is not None
    assert len(left.steps) == 2


async def test_a_tool_beyond_the_only_ones_allowed_is_a_problem_and_repaired(
    scripted: Script,
) -> None:
    made, _ = await planned(
        scripted, "Find x; only use calculator", steps(2), steps(2, tool="calculator")
    )
    assert [step.to_json().get("tool") for step in plan_of(made).steps] == ["calculator", None]


def test_a_list_counts_as_many_calls_as_it_has_items() -> None:
    each = {"id": "e", "tool": "web_search", "inputs": {"q": "{{item}}"}}
    plan = Plan.model_validate(
        {"goal": "x", "steps": [{"id": "m", "over": ["a", "b", "c"], "each": each}]}
    )
    rules = [read_constraint("no more than 2 tool calls")]
    [found] = constraint_problems(plan, Catalogue.of(TOOLS), rules)
    assert found.code == "PS502"
    assert "3 calls" in found.message


@pytest.mark.parametrize("rule", ["Don't use clerk", "不要使用clerk", "read only"])
def test_a_constraint_against_a_tool_or_its_effect_holds_for_agents_too(rule: str) -> None:
    clerk = AgentSpec(name="Clerk", description="Files papers", effect=Effect.WRITE)
    each = {"id": "e", "agent": "Clerk", "task": "file {{item}}"}
    steps = [{"id": "a", "agent": "Clerk", "task": "x"}, {"id": "m", "over": ["p"], "each": each}]
    plan = Plan.model_validate({"goal": "x", "steps": steps})
    found = list(constraint_problems(plan, Catalogue.of(TOOLS), [read_constraint(rule)], [clerk]))
    assert [(each.code, each.step, each.path) for each in found] == [
        ("PS502", name, ("agent",)) for name in ("a", "e")
    ]


@pytest.mark.parametrize("rule", ["Only use web_search", "read only", "at most 2 calls"])
def test_a_constraint_on_calls_is_left_to_the_person_where_a_template_is_called(rule: str) -> None:
    steps = [{"id": "a", "tool": "web_search"}, {"id": "p", "template": "weekly"}]
    plan = Plan.model_validate({"goal": "x", "steps": steps})
    rules = [read_constraint(rule)]
    [found] = constraint_problems(plan, Catalogue.of(TOOLS), rules, templates=["weekly"])
    assert found.code == "PS503"


def test_only_use_of_something_that_is_no_tool_is_left_to_the_reviewer() -> None:
    plan = Plan.model_validate(steps(2))
    for text in ("Only use official sources", "Only use official"):
        [found] = constraint_problems(plan, Catalogue.of(TOOLS), [read_constraint(text)])
        assert found.code == "PS503"
