"""What the tests of MCP share: servers of our own by mode, and a person who approves."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until

from plansmith.ports import Call, Reply
from plansmith_connect.approvals import Approvals
from plansmith_connect.mcp.servers import McpServers
from plansmith_connect.mcp.settings import ServerLimits, ServerSettings

FOLDER = Path(__file__).parent
QUICK = {"start_s": 20.0, "list_s": 20.0, "stop_s": 0.5}


def limits(**more: Any) -> ServerLimits:
    return ServerLimits(**{**QUICK, **more})


def raw(mode: str = "", *, bounds: ServerLimits | None = None, **more: Any) -> ServerSettings:
    """The server written by hand, in a mode; it is of the older era, so that is not probed."""
    return ServerSettings(
        command=sys.executable,
        args=("-S", str(FOLDER / "raw.py"), *([mode] if mode else [])),
        limits=bounds or limits(),
        **{"protocol": "legacy", **more},
    )


def friendly(**more: Any) -> ServerSettings:
    """The server on the library itself, over pipes."""
    args = (str(FOLDER / "friendly.py"),)
    return ServerSettings(command=sys.executable, args=args, limits=limits(), **more)


def servers(tell: Callable[[str], None] = lambda _: None, **named: ServerSettings) -> McpServers:
    return McpServers(named, approvals=Approvals(), tell=tell)


async def approved(source: McpServers) -> McpServers:
    """The same, after a person approved the servers and then all of their tools."""
    for _ in range(2):
        for waiting in await source.pending():
            source.approve(waiting.name, waiting.hash, by="ada")
    return source


async def use(source: McpServers, tool: str, **arguments: Any) -> Any:
    return await source.call(tool, arguments, Call(key="k"))


async def reply(source: McpServers, tool: str, state: Any, answer: Any, **arguments: Any) -> Any:
    return await source.call(tool, arguments, Call(key="k", reply=Reply(answer, state)))


async def is_cancelled(source: McpServers, tool: str, record: Path) -> None:
    """A call that has begun is cancelled, and its server says so in a file."""
    heard = asyncio.Event()
    call = Call(key="k", progress=lambda _: heard.set())
    waiting = asyncio.ensure_future(source.call(tool, {}, call))
    async with asyncio.timeout(120):
        await heard.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(record.exists)


def is_alive(pid: int) -> bool:
    file = Path(f"/proc/{pid}/stat")
    return file.exists() and file.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
