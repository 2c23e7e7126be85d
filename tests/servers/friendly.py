"""A well-behaved server on the library itself, for both eras: over pipes, or on a port given."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ElicitationResult, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("friendly")
AnyContext = Context[Any, Any]


class Day(BaseModel):
    day: str


class People(BaseModel):
    people: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True, idempotent_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def which_day() -> Elicit[Day]:
    return Elicit("Which day?", Day)


async def how_many() -> Elicit[People]:
    return Elicit("How many people?", People)


@server.tool()
async def book(
    what: str,
    day: Annotated[ElicitationResult[Day], Resolve(which_day)],
    people: Annotated[ElicitationResult[People], Resolve(how_many)],
) -> str:
    """Book a table."""
    if day.action != "accept" or people.action != "accept":
        return f"{day.action}, {people.action}"
    return f"{what} on {day.data.day} for {people.data.people}"


def _record(text: str) -> None:
    Path(os.environ["RECORD"]).write_text(text, encoding="utf-8")


@server.tool()
async def wait(ctx: AnyContext) -> str:
    """Report progress, then wait until told to stop; says so in $RECORD."""
    try:
        await ctx.report_progress(1, 2, "half way")
        await asyncio.sleep(600)
    finally:
        _record("cancelled\n")
    return "never"


@server.tool()
async def grow(ctx: AnyContext) -> str:
    """Gain a tool, and tell about it."""
    server.add_tool(lambda: "new", name="grown", description="A new tool.")
    if str(ctx.protocol_version) < "2026":
        await ctx.session.send_tool_list_changed()
    await ctx.notify_tools_changed()
    return "grown"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run()
