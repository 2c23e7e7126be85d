from __future__ import annotations

from typing import Any

import pytest

from plansmith import AgentSpec, Plan, Problem
from plansmith.check.check_plan import check_plan
from plansmith.check.constraints import Constraint
from plansmith.check.names import seems_to_read
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.planning import PlanningFigures, is_fallback
from plansmith_planner.language.constraints import read_constraint

TOOLS = [ToolSpec(name=name) for name in ("get_weather", "send.mail", "搜索")]
OFF = {"tool": "get_weather", "disabled": True}


def check(*steps: dict[str, Any], **options: Any) -> list[Problem]:
    return check_plan(Plan.model_validate({"steps": list(steps)}), TOOLS, **options)


def tool(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "tool": "get_weather"} | fields


@pytest.mark.parametrize(
    ("steps", "code", "step", "path"),
    [
        ([], "PS307", None, ("steps",)),
        ([tool("a", disabled=True)], "PS307", None, ("steps",)),
        ([tool("a", tool="get_wether")], "PS101", "a", ("tool",)),
        ([{"id": "m", "over": [1], "each": {"tool": "nope"}}], "PS101", "m_each", ("tool",)),
        ([tool("a"), tool("a")], "PS304", "a", ("id",)),
        ([tool("item")], "PS306", "item", ("id",)),
        ([tool("a", after=["a"])], "PS305", "a", ()),
        ([tool("a", inputs={"x": "{{a}}"})], "PS305", "a", ()),
        ([tool("a", after=["b"]), tool("b", inputs={"x": {"$from": "a"}})], "PS301", "a", ()),
        ([tool("a", after=["ghost"])], "PS302", "a", ("after", 0)),
        ([tool("a", inputs={"x": ["{{ghost.y}}"]})], "PS302", "a", ("inputs", "x", 0)),
        ([tool("a", inputs={"x": "{{item}}"})], "PS302", "a", ("inputs", "x")),
        ([{"id": "m", "over": "{{item}}", "each": tool("e")}], "PS302", "m", ("over",)),
        ([tool("a", inputs={"x": "{{params.city}}"})], "PS302", "a", ("inputs", "x")),
        ([{"id": "r", "instruction": "say {{ghost}}"}], "PS302", "r", ("instruction",)),
        ([tool("a", inputs={"x": {"$from": 1}})], "PS303", "a", ("inputs", "x")),
        (
            [tool("a", disabled=True), tool("b", inputs={"x": "{{a}}"})],
            "PS308",
            "b",
            ("inputs", "x"),
        ),
        ([{"id": "m", "over": "some text", "each": tool("e")}], "PS309", "m", ("over",)),
        ([{"id": "m", "over": {"a": 1}, "each": tool("e")}], "PS309", "m", ("over",)),
        (
            [tool("a"), {"id": "m", "over": [1], "each": tool("e", after=["a"])}],
            "PS310",
            "m",
            ("each", "after"),
        ),
        ([{"id": "m", "over": [1], "each": OFF}], "PS310", "m", ("each", "disabled")),
        ([tool("a", inputs={"x": "{{ 1 + 1 }}"})], "PS311", "a", ("inputs", "x")),
    ],
)
def test_each_flaw_is_one_problem_at_its_place(
    steps: list[dict[str, Any]], code: str, step: str | None, path: tuple[str | int, ...]
) -> None:
    [problem] = check(*steps)
    assert (problem.code, problem.step, problem.path) == (code, step, path)
    assert problem.hint


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("GetWeather", "get_weather"), ("send_mail", "send.mail"), ("get_wether", "get_weather")],
)
def test_an_unknown_tool_gets_the_nearest_name(wrong: str, right: str) -> None:
    [problem] = check(tool("a", tool=wrong))
    assert repr(right) in problem.hint


def test_agents_and_templates_are_looked_up_when_they_are_given() -> None:
    steps = [{"id": "a", "agent": "x", "task": "do"}, {"id": "p", "template": "y"}]
    assert check(*steps) == []
    found = check(*steps, agents=["researcher"], templates=[])
    assert [problem.code for problem in found] == ["PS102", "PS103"]
    assert check(*steps, agents=["x"], templates=["y"]) == []


def test_a_templates_parameters_may_be_used() -> None:
    step = tool("a", inputs={"x": "{{params.city}}"})
    assert check(step, parameters=["city"]) == []
    [problem] = check(step, parameters=["town", "cities"])
    assert "'cities'" in problem.hint


def test_of_two_rings_the_first_is_told_with_its_members() -> None:
    steps = [
        tool("a", after=["b"]),
        tool("b", after=["a"]),
        tool("c", after=["d", "a"]),
        tool("d", after=["c"]),
    ]
    [found] = check(*steps)
    assert "a -> b -> a" in found.message


def test_many_unknown_tools_among_many_are_told() -> None:
    tools: dict[str, dict[str, object]] = {f"tool_{number}": {} for number in range(2_000)}
    steps = [tool(f"s{number}", tool=f"toool_{number}") for number in range(500)]
    found = check_plan(Plan.model_validate({"steps": steps}), tools)
    assert {problem.code for problem in found} == {"PS101"}
    assert len(found) == 500


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        (AgentSpec(name="x", hidden=True), "hidden"),
        (AgentSpec(name="x", enabled=False), "switched off"),
        (AgentSpec(name="x", passthrough=True), "whole requests"),
    ],
)
def test_an_agent_that_may_not_be_planned_with_is_named_with_the_reason(
    agent: AgentSpec, reason: str
) -> None:
    step = {"id": "a", "agent": "x", "task": "do"}
    [problem] = check(step, agents=[agent, AgentSpec(name="y")])
    assert (problem.code, problem.path) == ("PS102", ("agent",))
    assert "'x'" in problem.message
    assert reason in problem.message
    assert "y" in problem.hint
    assert check(step, agents=[AgentSpec(name="x")]) == []


def test_too_many_steps_are_told_and_answers_do_not_count() -> None:
    steps = [tool("a"), tool("b"), tool("c", disabled=True)]
    more = [{"id": "q", "question": "?"}, {"id": "r", "instruction": "say"}]
    assert check(*steps, *more, max_steps=2) == []
    [problem] = check(*steps, *more, max_steps=1)
    assert (problem.code, problem.path) == ("PS313", ("steps",))


@pytest.mark.parametrize(
    ("schedule", "wanted"),
    [
        ({"cron": "0 25 * * *"}, "0 25 * * *"),
        ({"cron": "0 0 30 2 *"}, "day-of-month"),
        ({"daily_at": "09:00", "timezone": "Mars/Base"}, "Mars/Base"),
        ({"once_at": "some time soon"}, "some time soon"),
        ({"every_minutes": 10_000_000}, "too rare"),
    ],
)
def test_a_schedule_that_cannot_be_computed_is_told(schedule: dict[str, Any], wanted: str) -> None:
    plan = Plan.model_validate({"schedule": schedule, "steps": [tool("a")]})
    [problem] = check_plan(plan, TOOLS)
    assert (problem.code, problem.path) == ("PS314", ("schedule",))
    assert wanted in problem.message
    assert problem.hint


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (Constraint(forbid_tools=("GET_*",)), [("PS502", "error", "a", ("tool",))]),
        (Constraint(forbid_tools=("GET_*",), hard=False), [("PS503", "warning", "a", ("tool",))]),
        (Constraint(forbid_tools=("g*",), source="policy"), [("PS501", "error", "a", ("tool",))]),
        (
            Constraint(forbid_tools=("g*",), source="policy", hard=False),
            [("PS501", "warning", "a", ("tool",))],
        ),
        (Constraint(forbid_effects=(Effect.WRITE,)), [("PS502", "error", "a", ("tool",))]),
        (Constraint(require_tools=("send*",)), [("PS502", "error", None, ("steps",))]),
        (Constraint(require_tools=("get_weather",)), []),
        (Constraint(max_steps=0), [("PS502", "error", None, ("steps",))]),
        (Constraint(text="be kind"), [("PS503", "warning", None, ())]),
        ("be kind", [("PS503", "warning", None, ())]),
        ("Never use get_weather.", [("PS502", "error", "a", ("tool",))]),
        ("禁止使用get_weather", [("PS502", "error", "a", ("tool",))]),
        ("必须调用 搜索", [("PS502", "error", None, ("steps",))]),
        ("at most 1 step", []),
        ("最多0步", [("PS502", "error", None, ("steps",))]),
        ("read only", [("PS502", "error", "a", ("tool",))]),
    ],
)
def test_constraints_reject_or_warn(
    rule: Constraint | str, wanted: list[tuple[str, str, str | None, tuple[str | int, ...]]]
) -> None:
    found = check(
        tool("a", inputs={"list": ["x", "in Oslo"]}),
        constraints=[read_constraint(rule) if isinstance(rule, str) else rule],
    )
    assert [(each.code, str(each.severity), each.step, each.path) for each in found] == wanted


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("get_order", True),
        ("FlightSearch", True),
        ("查询天气", True),
        ("search_and_book", False),
        ("order_pizza", False),
        ("thing", False),
    ],
)
def test_a_tool_that_says_nothing_of_its_effect_is_judged_by_its_name(
    name: str, expected: bool
) -> None:
    assert seems_to_read(ToolSpec(name=name)) is expected
    assert not seems_to_read(ToolSpec(name=name, effect=Effect.WRITE))
    assert seems_to_read(ToolSpec(name=name, effect=Effect.READ))


def test_a_step_with_the_id_of_another_one_cannot_hide_what_it_does() -> None:
    steps = [tool("a"), {"id": "a", "agent": "x", "task": "look"}]
    agents = [AgentSpec(name="x", effect=Effect.READ)]
    found = check(*steps, agents=agents, constraints=[Constraint(forbid_effects=(Effect.WRITE,))])
    assert [each.code for each in found] == ["PS304", "PS502"]


CALL = {"id": "a", "kind": "tool", "tool": "x", "inputs": {}}
SAYS = {"id": "a", "kind": "reply", "instruction": "…"}


def plan(step: dict[str, Any], degraded: str | None = "why") -> Plan:
    return Plan.model_validate({"goal": "g", "degraded": degraded, "steps": [step]})


@pytest.mark.parametrize(
    ("made", "failed", "expected"),
    [
        (plan(CALL, None), True, False),  # a plan that nobody marked
        (plan(CALL), False, False),  # made by rules, which did not fail
        (plan(CALL), None, False),  # the same, run again: nobody planned
        (plan(CALL), True, True),
        (plan(SAYS), None, True),  # a text in place of a plan, whoever brings it
    ],
)
def test_a_plan_stands_in_where_planning_failed(
    made: Plan, failed: bool | None, expected: bool
) -> None:
    figures = None if failed is None else PlanningFigures(degraded=failed)
    assert is_fallback(made, figures) is expected
