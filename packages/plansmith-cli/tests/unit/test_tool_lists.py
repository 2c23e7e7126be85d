"""What is read as a list of tools."""

from __future__ import annotations

import json

import pytest

from plansmith.errors import Misconfigured
from plansmith.plan.capability import Effect
from plansmith_cli.tool_lists import read_tools

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"name": "weather", "description": "d", "parameters": SCHEMA}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"weather": {"description": "d", "input_schema": SCHEMA}}),
        json.dumps([{"name": "weather", "description": "d", "input_schema": SCHEMA}]),
        json.dumps({"tools": [{"name": "weather", "description": "d", "inputSchema": SCHEMA}]}),
        json.dumps([{"type": "function", "function": FUNCTION}]),
        json.dumps({"name": "weather", "description": "d", "input_schema": SCHEMA}) + "\n",
    ],
)
def test_tools_are_read_in_every_usual_shape(text: str) -> None:
    [tool] = read_tools(text)
    assert (tool.name, tool.description, tool.input_schema) == ("weather", "d", SCHEMA)


def test_json_lines_are_many_tools_and_one_without_an_effect_writes_in_the_open_world() -> None:
    tool, *others = read_tools('{"name": "t0", "description": null}\n{"name": "t1"}\n')
    assert [tool.name, *(each.name for each in others)] == ["t0", "t1"]
    assert (tool.effect, tool.open_world, tool.idempotent) == (Effect.WRITE, True, False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "not JSON"),
        ("5", "neither an object nor a list"),
        ("[5]", "is not a tool"),
        ('[{"name": "a"}, {"name": "a"}]', "two tools are called 'a'"),
        ('[{"name": ""}]', "not usable: name"),
        ('[{"description": "x"}]', "not usable: name"),
        ('{"t": {"effect": "explode"}}', "not usable: effect"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_bad_tools_are_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(Misconfigured, match=why):
        read_tools(text)
