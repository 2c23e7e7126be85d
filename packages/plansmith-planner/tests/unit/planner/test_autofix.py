"""What is obviously meant in a plan is corrected, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from plansmith import Plan
from plansmith.check.check_plan import check_plan
from plansmith_planner.autofix import Autofixed, autofix

TAKES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "where"},
        "days": {"type": "integer", "minimum": 1},
        "share": {"type": "number"},
        "now": {"type": "boolean"},
        "unit": {"enum": ["celsius", "degrees fahrenheit", 3]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "array", "items": {"type": "integer"}},
        "box": {"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"]},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "email": {"type": "string", "format": "email"},
    },
    "additionalProperties": False,
}
TOOLS: dict[str, dict[str, object]] = {
    "get_weather": {"input_schema": TAKES},
    "lock_door": {},
    "list_v1": {},
    "ask_city": {"input_schema": TAKES | {"required": ["city", "unit"]}},
}


def mended(tool: str, inputs: dict[str, Any], **options: Any) -> Autofixed:
    step = {"id": "a", "tool": tool, "inputs": inputs}
    return autofix(Plan.model_validate({"steps": [step]}), TOOLS, **options)


def inputs_of(done: Autofixed) -> Any:
    return done.plan.to_json()["steps"][-1].get("inputs", {})  # type: ignore[index, union-attr]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"days": "2"}, {"days": 2}),
        ({"days": " 2.0 "}, {"days": 2}),
        ({"share": "0.5"}, {"share": 0.5}),
        ({"now": "True"}, {"now": True}),
        ({"city": 7}, {"city": "7"}),
        ({"unit": "Celsius "}, {"unit": "celsius"}),
        ({"unit": "degrees_Fahrenheit"}, {"unit": "degrees fahrenheit"}),
        ({"unit": "3"}, {"unit": 3}),
        ({"tags": "a"}, {"tags": ["a"]}),
        ({"counts": "4"}, {"counts": [4]}),
        ({"counts": ["4", 5]}, {"counts": [4, 5]}),
        ({"box": '{"k": "1"}'}, {"box": {"k": 1}}),
        ({"tags": '["a", "b"]'}, {"tags": ["a", "b"]}),
        ({"maybe": "4"}, {"maybe": 4}),
        ({"email": " a@example.org "}, {"email": "a@example.org"}),
        ({"days": {"$literal": "2"}}, {"days": {"$literal": 2}}),
        ({"City": "Oslo"}, {"city": "Oslo"}),
    ],
)
def test_a_harmless_conversion_is_made_and_noted(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    done = mended("get_weather", before)
    assert inputs_of(done) == after
    assert {note.severity.value for note in done.problems} == {"note"}
    assert {note.code for note in done.problems} <= {"PS205", "PS206"}
    assert check_plan(done.plan, TOOLS) == []


@pytest.mark.parametrize(
    "inputs",
    [
        *({"days": "two"}, {"days": "0"}, {"now": "yes"}, {"unit": "kelvin"}),
        *({"box": '{"k": "x"}'}, {"box": '{"$from": "a"}'}, {"city": ["Oslo"]}, {"city": "2"}),
        *({"days": "{{b}}"}, {"counts": "a"}, {"city": None}),
    ],
)
def test_what_is_right_or_not_obvious_stays_as_it_is(inputs: dict[str, Any]) -> None:
    done = mended("get_weather", inputs)
    assert inputs_of(done) == inputs
    assert done.problems == []


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("GetWeather", "get_weather"),
        ("get-wether", None),
        ("unlock_door", None),
        ("list_v2", None),
        ("set_weather", None),
        ("something", None),
    ],
)
def test_a_name_is_mended_only_when_it_can_mean_one_thing(wrong: str, right: str | None) -> None:
    done = mended(wrong, {})
    assert done.plan.to_json()["steps"][0]["tool"] == (right or wrong)  # type: ignore[index, call-overload]
    assert [note.code for note in done.problems] == (["PS206"] if right else [])


@pytest.mark.parametrize(("locale", "word"), [("en", "What should"), ("zh-CN", "请提供")])
def test_missing_arguments_become_questions_in_the_plans_language(locale: str, word: str) -> None:
    steps = [{"id": "ask_a_city", "tool": "lock_door"}, {"id": "a", "tool": "ask_city"}]
    plan = Plan.model_validate({"locale": locale, "steps": steps})
    done = autofix(plan, TOOLS)
    ids = [step.id for step in done.plan.steps]
    assert ids == ["ask_a_city", "ask_a_city_2", "ask_a_unit", "a"]
    city, unit = (step.to_json() for step in done.plan.steps[1:3])
    assert word in str(city["question"])
    assert "where" in str(city["question"])
    assert city["answer_schema"] == {"type": "string", "description": "where"}
    assert unit["answer_schema"] == {"enum": ["celsius", "degrees fahrenheit", 3]}
    assert inputs_of(done) == {"city": {"$from": "ask_a_city_2"}, "unit": {"$from": "ask_a_unit"}}
    assert {note.code for note in done.problems} == {"PS207"}
    assert [note.path for note in done.problems] == [("inputs", "city"), ("inputs", "unit")]
    assert check_plan(done.plan, TOOLS) == []


def test_the_inner_step_of_a_map_is_mended_and_asks_before_the_map() -> None:
    inner = {"tool": "ask_city", "inputs": {"city": "{{item}}", "days": "2"}}
    plan = Plan.model_validate({"steps": [{"id": "m", "over": ["Oslo"], "each": inner}]})
    done = autofix(plan, TOOLS)
    assert [step.id for step in done.plan.steps] == ["ask_m_each_unit", "m"]
    assert check_plan(done.plan, TOOLS) == []


def test_braces_in_a_description_do_not_become_a_reference() -> None:
    takes = {"properties": {"x": {"description": "like {{this}}"}}, "required": ["x"]}
    plan = Plan.model_validate({"steps": [{"id": "a", "tool": "t"}]})
    done = autofix(plan, {"t": {"input_schema": takes}})
    assert check_plan(done.plan, {"t": {"input_schema": takes}}) == []
