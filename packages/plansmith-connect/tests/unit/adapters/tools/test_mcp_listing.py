from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.servers.kit import approved, raw, servers

from plansmith import Effect, Plan, RunStatus, ToolSpec
from plansmith import tool as make_tool
from plansmith.app import Plansmith
from plansmith_connect.mcp.listing import (
    full_name,
    leads_outside,
    read_listing,
    server_name,
    wire_names,
)
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


def spec(*, trusted: bool, own: dict[str, Any] | None = None, **hints: Any) -> ToolSpec:
    tools = {"t": own} if own else {}
    listing = read(tool(annotations=hints), trusted=trusted, tools=tools)
    made: ToolSpec = listing.tools["s.t"].spec
    return made


OWN = {"effect": "final", "idempotent": False, "open_world": True, "timeout_s": 5.0}


@pytest.mark.parametrize(
    ("hints", "own", "effect", "again", "outside"),
    [
        ({"readOnlyHint": True}, None, Effect.READ, False, True),
        ({"readOnlyHint": True, "destructiveHint": True}, None, Effect.READ, False, True),
        ({"destructiveHint": True}, None, Effect.FINAL, False, True),
        ({"destructiveHint": False}, None, Effect.WRITE, False, True),
        ({"idempotentHint": True, "openWorldHint": False}, None, Effect.WRITE, True, False),
        ({"readOnlyHint": True, "idempotentHint": True}, OWN, Effect.FINAL, False, True),
        ({}, None, Effect.WRITE, False, True),
    ],
)
def test_the_hints_of_a_trusted_server_become_effects_below_the_word_of_the_person(
    hints: dict[str, Any], own: dict[str, Any] | None, effect: Effect, again: bool, outside: bool
) -> None:
    made = spec(trusted=True, own=own, **hints)
    assert (made.effect, made.idempotent, made.open_world) == (effect, again, outside)
    assert own is None or made.timeout_s == 5
    assert spec(trusted=False, own={"effect": "read", "search": True}).search


@given(st.dictionaries(st.text(), JSON) | JSON)
def test_whatever_an_untrusted_server_says_its_tools_write_anywhere_and_once(hints: Any) -> None:
    listing = read(tool(annotations=hints))
    for each in listing.tools.values():
        assert each.spec.effect is Effect.WRITE
        assert each.spec.open_world
        assert not each.spec.idempotent


def test_two_tools_of_one_name_are_both_left_out_and_told() -> None:
    unknown = {**tool("u", description="d"), "x-vendor": {"deep": [1, True]}, "_meta": {"a": 1}}
    listing = read(tool(), tool(description="another"), unknown)
    assert set(listing.tools) == {"s.u"}
    assert listing.tools["s.u"].definition == unknown  # kept as it came
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


# Names

NAMES = st.one_of(st.text(alphabet="_x5fa4 .-/名", max_size=12), st.text(max_size=12))


@given(NAMES, NAMES)
@example("a", "_x4 ")
@example("a", "_x5f_x41_")
def test_a_name_is_legal_and_leads_back_to_server_and_tool(server: str, tool: str) -> None:
    name = full_name(server, tool)
    assert re.fullmatch(r"[A-Za-z0-9_-]*\.[A-Za-z0-9_.-]*", name)
    assert wire_names(name) == (server, tool)


def test_plain_names_stay_as_they_are_and_a_dot_makes_no_server_look_like_another() -> None:
    assert full_name("time", "get_current_time") == "time.get_current_time"
    assert full_name("a.b", "c.d") == "a_x2e_b.c.d"
    assert full_name("every", "get-tiny-image") == "every.get-tiny-image"
    assert "." not in server_name("a.b")


@pytest.mark.parametrize("first", [True, False])
async def test_a_tool_with_the_name_of_another_one_is_left_out_and_shadows_nothing(
    first: bool,
) -> None:
    @make_tool(effect="read", name="raw.echo")
    def own(text: str) -> str:
        return f"mine: {text}"

    messages: list[str] = []
    async with await approved(servers(messages.append, raw=raw(trusted=True))) as source:
        app = Plansmith(tools=[source, own] if first else [own, source])
        for _ in range(2):
            step = {"id": "e", "tool": "raw.echo", "inputs": {"text": "hi"}}
            run = await app.submit(Plan.model_validate({"goal": "echo", "steps": [step]}))
            run = await app.run(run.id)
            assert (run.status, run.steps["e"].result) == (RunStatus.DONE, "mine: hi")
        [note] = [each for each in messages if "'echo' is not used" in each]
        assert "give the server another name" in note
