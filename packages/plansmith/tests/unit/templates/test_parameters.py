from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from tests.property.strategies import JSON

from plansmith import Plan, ToolSpec
from plansmith.errors import Refused
from plansmith.plan.data import Json, same
from plansmith.plan.refs import PARAMS, fill
from plansmith.plan.steps import ToolStep
from plansmith.templates.parameters import bind, parameter_names, parametrise, places

WEATHER = ToolSpec(
    name="weather",
    input_schema={
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "a city", "default": "x"},
            "unit": {"enum": ["C", "F"]},
            "odd": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
    },
)
TOOLS = {"weather": WEATHER}


def plan(*steps: dict[str, Any], **fields: Any) -> Plan:
    return Plan.model_validate({"goal": "Weather in Oslo", "steps": list(steps)} | fields)


OSLO = plan(
    {
        "id": "w",
        "tool": "weather",
        "title": "Ask for Oslo",
        "inputs": {"city": "Oslo", "unit": "C"},
    },
    {"id": "n", "tool": "other", "inputs": {"deep": [{"n": 3}, "{{w.temp}}"], "of": "{{w}}"}},
    {"id": "m", "over": [1, 2], "each": {"tool": "weather", "inputs": {"city": "Oslo"}}},
    {"id": "r", "instruction": "Tell of Oslo: {{w}}, not of Oslofjord"},
)


def test_only_values_that_stand_in_the_plan_can_become_parameters() -> None:
    assert [(each.where, each.value) for each in places(OSLO)] == [
        ("w.inputs.city", "Oslo"),
        ("w.inputs.unit", "C"),
        ("n.inputs.deep[0].n", 3),
        ("m.each.inputs.city", "Oslo"),
    ]


def test_a_value_is_taken_out_wherever_it_is_named_and_the_tool_says_its_type() -> None:
    chosen = {
        "city": ["w.inputs.city", "m.each.inputs.city", "r.instruction", "goal", "w.title"],
        "unit": ["w.inputs.unit"],
        "n": ["n.inputs.deep[0].n"],
    }
    made = parametrise(OSLO, chosen, tools=TOOLS, required=["unit"])
    assert made.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "a city", "default": "Oslo"},
            "unit": {"enum": ["C", "F"], "examples": ["C"]},
            "n": {"type": "integer", "default": 3},
        },
        "required": ["unit"],
        "additionalProperties": False,
    }
    text = str(made.plan.to_json())
    assert text.count("{{params.city}}") == 5
    assert "not of Oslofjord" in text
    assert parameter_names(made.plan) == {"city", "unit", "n"}
    bound = bind(made.plan, {"city": "Rome", "unit": "F", "n": 4})
    assert bound.goal == "Weather in Rome"
    assert bound.by_id["w"].title == "Ask for Rome"
    assert bound.by_id["w"].to_json()["inputs"] == {"city": "Rome", "unit": "F"}
    assert bound.by_id["n"].to_json()["inputs"]["deep"][0] == {"n": 4}  # type: ignore[index, call-overload]
    assert "Tell of Rome: {{w}}, not of Oslofjord" in str(bound.to_json())
    assert bind(made.plan, {"city": "Oslo", "unit": "C", "n": 3}) == OSLO


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"x": ["no.inputs.city"]}, "no step 'no'"),
        ({"x": ["w.inputs.nothing"]}, "nothing at w.inputs.nothing"),
        ({"x": ["n.inputs.deep[9]"]}, "nothing at"),
        ({"x": ["n.inputs.of"]}, "comes from another step"),
        ({"x": ["n.inputs"]}, "comes from another step"),
        ({"x": ["w.tool"]}, "not the place of a value"),
        ({"x": ["w"]}, "not the place of a value"),
        ({"x": []}, "has no place"),
        ({"not a name": ["w.inputs.city"]}, "not a valid parameter name"),
        ({"x": ["w.inputs.city", "w.inputs.unit"]}, "is 'C' and not 'Oslo'"),
        ({"x": ["w.inputs.city", "n.inputs.deep[0].n"]}, "is '3' and not 'Oslo'"),
        ({"x": ["w.inputs.city"]}, "no parameter 'y'"),
    ],
)
def test_what_cannot_be_a_parameter_is_refused_with_the_reason(
    chosen: dict[str, list[str]], message: str
) -> None:
    with pytest.raises(Refused, match=message.replace("[", r"\[")):
        parametrise(OSLO, chosen, tools=TOOLS, required=["y"])


@given(JSON)
def test_a_bound_value_is_what_a_run_reads_and_never_a_reference(value: Json) -> None:
    ref: Json = {"$from": "params", "$path": ["v"]}
    inputs = {"a": "{{params.v}}", "b": ref, "c": 'x {{params.v}} {{"{{"}} y'}
    bound = bind(plan({"id": "w", "tool": "t", "inputs": inputs}), {"v": value}).by_id["w"]
    assert isinstance(bound, ToolStep)
    assert list(bound.input_refs()) == []
    filled = fill(bound.inputs, {})
    assert same(filled, fill(inputs, {PARAMS: {"v": value}}))
    assert isinstance(filled, dict)
    assert same(filled["a"], value)
