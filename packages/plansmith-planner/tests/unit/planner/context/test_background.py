from __future__ import annotations

import asyncio
from typing import Any

import pytest

from plansmith.errors import ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.testing import FakeClock, FakeTool, FakeTools
from plansmith_planner.context.background import Background, is_search, query_argument

QUERY: dict[str, Json] = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["query"],
}


class SearchTool(FakeTool):
    @property
    def spec(self) -> ToolSpec:
        return super().spec.replace(search=True)


def tool(name: str, *outcomes: Any, **options: Any) -> FakeTool:
    return SearchTool(name, outcomes, input_schema=options.pop("schema", QUERY), **options)


async def ask(clock: FakeClock, *tools: FakeTool, tokens: int = 500) -> tuple[Any, FakeTools]:
    source = FakeTools(*tools, clock=clock)
    return await Background([source], clock).investigate("bolts", tokens=tokens), source


async def test_nothing_that_may_write_is_called_before_approval(fake_clock: FakeClock) -> None:
    named = FakeTool("web_search", ["x"], input_schema=QUERY, effect=Effect.WRITE)
    for each in (tool("web", "x", effect=Effect.WRITE), tool("web", effect=Effect.FINAL), named):
        found, source = await ask(fake_clock, each)
        assert source.calls == []
        assert "may write" in found.notes[0]
        assert ("web_search seems to search" in found.notes[0]) is (each is named)


async def test_failures_are_notes(fake_clock: FakeClock) -> None:
    found, _ = await ask(fake_clock, tool("a", ToolFailed("no net")))
    assert found.notes == ("background search with a failed: ToolFailed: no net",)
    found, _ = await ask(fake_clock, FakeTool("other"))
    assert "no tool is marked as search" in found.notes[0]
    found, _ = await ask(fake_clock, tool("odd", "x", schema={"type": "object"}))
    assert "takes no single text" in found.notes[0]
    found, _ = await ask(fake_clock, tool("empty", None))
    assert found.blocks == ()


async def test_a_slow_search_is_left(fake_clock: FakeClock) -> None:
    task = asyncio.create_task(ask(fake_clock, tool("slow", "late", delay=60)))
    await fake_clock.advance(16)
    found, _ = await task
    assert found.blocks == ()
    assert "slow failed: no answer within 15 s" in found.notes[0]


@pytest.mark.parametrize(
    ("schema", "argument"),
    [
        (QUERY, "query"),
        ({"properties": {"x": {"type": "string"}}}, "x"),
        ({"properties": {"a": {"type": "string"}, "q": {"type": ["string", "null"]}}}, "q"),
        ({"properties": {"关键词": {}}, "required": ["关键词"]}, "关键词"),
        ({"properties": {"x": True}}, "x"),
        ({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}}, None),
        ({"properties": {"query": {"type": "string"}, "n": {}}, "required": ["query", "n"]}, None),
        ({"properties": {"query": {"type": "integer"}}, "required": ["query"]}, None),
        ({"properties": {"query": {"enum": ["a"]}}}, None),
        ({"properties": {"query": False}}, None),
        ({"properties": [], "required": "query"}, None),
        ({}, None),
    ],
)
def test_the_argument_for_the_words_is_found(schema: dict[str, Json], argument: str | None) -> None:
    assert query_argument(schema) == argument


@pytest.mark.parametrize(
    "name", ["search", "web_search", "tavily_search", "mcp.web.WebSearch", "搜索"]
)
def test_a_search_tool_is_found_by_its_name(name: str) -> None:
    assert is_search(ToolSpec(name=name, effect=Effect.READ, input_schema=QUERY))


@pytest.mark.parametrize(
    "spec",
    [
        ToolSpec(name="research_notes", effect=Effect.READ, input_schema=QUERY),
        ToolSpec(name="weather", description="The weather now", input_schema=QUERY),
        ToolSpec(name="files.search", effect=Effect.READ, open_world=False, input_schema=QUERY),
        ToolSpec(name="search", effect=Effect.READ, input_schema={"type": "object"}),
    ],
    ids=lambda spec: spec.name,
)
def test_other_tools_are_no_background_search(spec: ToolSpec) -> None:
    assert not is_search(spec)


async def test_a_marked_search_tool_comes_before_one_found_by_name(fake_clock: FakeClock) -> None:
    named = FakeTool("web_search", ["named"], input_schema=QUERY, effect=Effect.READ)
    found, source = await ask(fake_clock, named, tool("library", "marked"))
    assert [call.tool for call in source.calls] == ["library"]
    assert [block.text for block in found.blocks] == ["marked"]
