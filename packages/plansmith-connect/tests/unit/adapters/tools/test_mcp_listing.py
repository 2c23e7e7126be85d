from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith import Effect, ToolSpec
from plansmith_connect.mcp.listing import leads_outside, read_listing
from plansmith_connect.mcp.settings import ServerSettings

JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def tool(name: str = "t", **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def read(*raw: Any, **settings: Any) -> Any:
    return read_listing("s", ServerSettings(command="c", **settings), list(raw))


def spec(*, trusted: bool, said: dict[str, Any] | None = None, **hints: Any) -> ToolSpec:
    tools = {"t": said} if said else {}
    listing = read(tool(annotations=hints), trusted=trusted, tools=tools)
    made: ToolSpec = listing.tools["s.t"].spec
    return made


@pytest.mark.parametrize(
    ("hints", "effect"),
    [
        ({"readOnlyHint": True}, Effect.READ),
        ({"readOnlyHint": True, "destructiveHint": True}, Effect.READ),
        ({"destructiveHint": True}, Effect.FINAL),
        ({"destructiveHint": False}, Effect.WRITE),
        ({}, Effect.WRITE),
    ],
)
def test_the_hints_of_a_trusted_server_become_effects(
    hints: dict[str, Any], effect: Effect
) -> None:
    assert spec(trusted=True, **hints).effect is effect


def test_a_trusted_server_may_say_that_a_call_can_be_repeated_and_reaches_nowhere() -> None:
    made = spec(trusted=True, idempotentHint=True, openWorldHint=False)
    assert made.idempotent
    assert not made.open_world


@given(st.dictionaries(st.text(), JSON) | JSON)
def test_whatever_an_untrusted_server_says_its_tools_write_anywhere_and_once(hints: Any) -> None:
    listing = read(tool(annotations=hints))
    for each in listing.tools.values():
        assert each.spec.effect is Effect.WRITE
        assert each.spec.open_world
        assert not each.spec.idempotent


def test_the_word_of_the_person_stands_above_all_hints() -> None:
    said = {"effect": "final", "idempotent": False, "open_world": True, "timeout_s": 5.0}
    made = spec(trusted=True, said=said, readOnlyHint=True, idempotentHint=True)
    assert (made.effect, made.idempotent, made.open_world) == (Effect.FINAL, False, True)
    assert made.timeout_s == 5
    assert spec(trusted=False, said={"effect": "read", "search": True}).search


def test_the_definition_is_kept_as_it_came_with_fields_nobody_knows() -> None:
    raw = {**tool(description="d"), "x-vendor": {"deep": [1, True]}, "_meta": {"a": 1}}
    assert read(raw).tools["s.t"].definition == raw


def test_two_tools_of_one_name_are_both_left_out_and_told() -> None:
    listing = read(tool(), tool(description="another"), tool("u"))
    assert set(listing.tools) == {"s.u"}
    assert listing.notes == ("s has 2 tools called 't': none of them is used",)


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (7, "it has no name"),
        (tool(""), "it has no name"),
        (tool(description="x" * 70_000), "longer than 65,536 bytes"),
        (tool("x" * 300), "its name is too long"),
        ({"name": "t", "inputSchema": []}, "not an object"),
        ({"name": "t", "inputSchema": {"type": "string"}}, "not an object"),
        (tool(outputSchema=7), "not a schema"),
        (tool(x="\ud800"), "cannot be stored as JSON"),
        (tool(x=float("inf")), "cannot be stored as JSON"),
    ],
)
def test_a_tool_that_is_not_usable_is_told_and_hides_no_other(raw: Any, why: str) -> None:
    listing = read(raw, tool("good"))
    assert set(listing.tools) == {"s.good"}
    assert why in listing.notes[0]


@given(st.lists(JSON | st.fixed_dictionaries({"name": st.text(), "inputSchema": JSON})))
def test_nothing_a_server_lists_can_break_the_listing(raw: list[Any]) -> None:
    listing = read(*raw)
    assert all(name == each.spec.name for name, each in listing.tools.items())


def test_a_tool_can_be_disabled_and_one_that_is_not_there_is_told() -> None:
    listing = read(tool("a"), tools={"a": {"enabled": False}, "b": {"effect": "read"}})
    assert not listing.tools
    assert "your settings have it disabled" in listing.notes[0]
    assert "no tool 'b'" in listing.notes[1]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "http://169.254.169.254/x"},
        {"properties": {"a": {"items": [{"$ref": "file:///etc/passwd"}]}}},
        {"$schema": "http://evil.example/meta"},
        {"$dynamicRef": "other.json"},
    ],
)
def test_an_output_schema_that_leads_elsewhere_is_never_followed(schema: dict[str, Any]) -> None:
    assert leads_outside(schema)
    listing = read(tool(outputSchema=schema))
    assert listing.tools["s.t"].spec.output_schema is None
    assert "go unchecked" in listing.notes[0]


def test_a_schema_that_refers_to_itself_is_used() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/b"}},
        "$defs": {"b": {"type": "string"}},
    }
    assert read(tool(outputSchema=schema)).tools["s.t"].spec.output_schema == schema
