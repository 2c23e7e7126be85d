"""An MCP server over HTTP, written by hand: it lists its tools, and answers calls as it is told."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

# Answers a call with this id.
Respond = Callable[[Any, asyncio.StreamWriter], Awaitable[None]]


def http(status: int | str, body: bytes, kind: str, more: str = "") -> bytes:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n"
    return f"{head}connection: close\r\n{more}\r\n".encode() + body


def answer(number: Any, **given: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, **given}).encode()


def sends(data: bytes) -> Respond:
    async def respond(number: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(data.replace(b"ID", str(number).encode()))

    return respond


class McpPeer:
    """Does what it is asked, and then answers or fails; never replies to a farewell."""

    def __init__(self, respond: Respond, tools: Mapping[str, Any]) -> None:
        self.respond, self.tools = respond, tools
        self.made: Counter[str] = Counter()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[tuple[str, asyncio.Server]]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp", server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = head.partition("content-length: ")[2].partition("\r")[0]
            body = json.loads(await reader.readexactly(int(length))) if length else {}
            if not head.startswith("delete"):
                await self._reply(body, writer)
            else:
                await reader.read()
            await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _reply(self, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        results: dict[Any, Any] = {
            "initialize": {
                "serverInfo": {"name": "peer", "version": "1"},
                "capabilities": {"tools": {}},
                "protocolVersion": "2025-06-18",
            },
            "tools/list": {
                "tools": [
                    {"name": name, "inputSchema": {"type": "object"}, "annotations": hints}
                    for name, hints in self.tools.items()
                ]
            },
        }
        if body.get("method") == "tools/call":
            self.made[body["params"]["name"]] += 1
            await self.respond(body["id"], writer)
        elif body.get("method") in results:
            reply = answer(body["id"], result=results[body["method"]])
            writer.write(http(200, reply, "application/json", "mcp-session-id: s1\r\n"))
        else:
            writer.write(http(202, b"", "text/plain"))
