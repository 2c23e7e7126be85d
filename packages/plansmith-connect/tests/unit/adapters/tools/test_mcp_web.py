"""Servers over HTTP: both eras on the library's own server, and hostile ones written by hand."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.servers.kit import FOLDER, approved, limits, reply, use
from tests.waiting import until

from plansmith.errors import InputNeeded, OutcomeUnknown, ToolBusy, ToolFailed
from plansmith.ports import Call
from plansmith_connect.approvals import Approvals
from plansmith_connect.mcp.servers import McpServers
from plansmith_connect.mcp.settings import ServerLimits, ServerSettings


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("web") / "record"


@pytest.fixture(scope="module")
def url(record: Path) -> Iterator[str]:
    """The library's own server on a port, as a process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(FOLDER / "friendly.py"), str(port)],
        env=os.environ | {"RECORD": str(record)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        asyncio.run(_listens(port, process))
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait()


async def _listens(port: int, process: subprocess.Popen[bytes]) -> None:
    async with asyncio.timeout(120):
        while process.poll() is None:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                await writer.wait_closed()
                return
    pytest.fail("the server did not start")


def web(url: str, bounds: ServerLimits | None = None, **more: Any) -> McpServers:
    settings = ServerSettings(url=url, limits=bounds or limits(), **more)
    return McpServers({"w": settings}, approvals=Approvals())


@pytest.mark.parametrize(("protocol", "era"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_both_eras_work_over_http(url: str, record: Path, protocol: str, era: str) -> None:
    await asyncio.to_thread(record.unlink, missing_ok=True)
    async with web(url, protocol=protocol, trusted=True) as source:
        [start] = await source.pending()
        assert url in start.text
        await approved(source)
        assert source.statuses()[0].protocol == era
        assert await use(source, "w.add", a=1, b=2) == {"result": 3}
        with pytest.raises(InputNeeded) as first:
            await use(source, "w.book", what="table")
        declined = first.value.state
        with pytest.raises(InputNeeded) as second:
            await reply(source, "w.book", declined, "decline", what="table")
        done = await reply(source, "w.book", second.value.state, "decline", what="table")
        assert done == {"result": "decline, decline"}
        await _is_cancelled(source, record)


async def _is_cancelled(source: McpServers, record: Path) -> None:
    heard = asyncio.Event()
    call = Call(key="k", progress=lambda _: heard.set())
    waiting = asyncio.ensure_future(source.call("w.wait", {}, call))
    async with asyncio.timeout(120):
        await heard.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(record.exists)


# Written by hand: what a server on the web may reply to a call


Respond = Callable[[dict[str, Any], asyncio.StreamWriter], Any]
TOOL = {"name": "t", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}


def http(status: str, body: bytes, kind: str = "application/json", more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
    return head.encode() + body


def result(request: dict[str, Any], value: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": value}).encode()


async def _reply(
    respond: Respond, head: str, body: dict[str, Any], writer: asyncio.StreamWriter
) -> bool:
    method, about = body.get("method"), {"serverInfo": {"name": "h", "version": "1"}}
    if method == "initialize":
        able = {**about, "capabilities": {"tools": {}}, "protocolVersion": "2025-06-18"}
        writer.write(http("200 OK", result(body, able), more="mcp-session-id: s1\r\n"))
    elif method == "tools/list":
        writer.write(http("200 OK", result(body, {"tools": [TOOL]})))
    elif method == "tools/call":
        return bool(await respond(body, writer))
    elif not head.startswith("delete"):
        writer.write(http("202 Accepted" if head.startswith("post") else "405 No", b""))
    await writer.drain()
    return True


@asynccontextmanager
async def by_hand(respond: Respond) -> AsyncGenerator[str]:
    """A server of the older era that lists one tool, and replies to its calls as it is told.

    It never replies to a farewell: no client may wait for that.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = head.partition("content-length: ")[2].partition("\r")[0]
                body = json.loads(await reader.readexactly(int(length))) if length else {}
                if not await _reply(respond, head, body, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    finally:
        server.close()


async def failure(
    respond: Respond, bounds: ServerLimits | None = None, *, trusted: bool = False
) -> ToolFailed:
    """How a call fails that is replied to like this; the next call must work."""
    replied = 0

    async def once(request: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        nonlocal replied
        replied += 1
        if replied == 1:
            return bool(await respond(request, writer))
        value = {"content": [{"type": "text", "text": "fine"}]}
        writer.write(http("200 OK", result(request, value)))
        return True

    async with (
        by_hand(once) as url,
        web(url, bounds, protocol="legacy", trusted=trusted) as source,
    ):
        await approved(source)
        with pytest.raises(ToolFailed) as caught:
            await use(source, "w.t")
        assert await use(source, "w.t") == "fine"
    return caught.value


def sends(data: bytes, *, keep: bool = True) -> Respond:
    async def respond(request: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        writer.write(data.replace(b"ID", str(request["id"]).encode()))
        await writer.drain()
        return keep

    return respond


async def test_a_reply_of_a_hundred_megabytes_is_cut_off() -> None:
    async def respond(request: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        head = (
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000000\r\n\r\n"
        )
        writer.write(head.encode())
        for _ in range(1600):
            writer.write(b"x" * 65536)
            await writer.drain()
        return False

    failed = await failure(respond)
    assert "the reply is larger than 4,194,304 bytes" in str(failed)


async def test_an_event_of_a_hundred_megabytes_is_cut_off() -> None:
    async def respond(request: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ")
        for _ in range(1600):
            writer.write(b"x" * 65536)
            await writer.drain()
        return False

    failed = await failure(respond)
    assert "SSE stream failed" in str(failed)


async def test_a_reply_that_would_unpack_to_more_is_not_unpacked() -> None:
    packed = gzip.compress(b"x" * 10_000_000)
    failed = await failure(sends(http("200 OK", packed, more="content-encoding: gzip\r\n")))
    assert "the reply is compressed, which was not requested" in str(failed)


@pytest.mark.parametrize(
    ("status", "again", "said"),
    [
        ("401 Unauthorized", False, "HTTP 401 Unauthorized (check the headers of the server)"),
        ("403 Forbidden", False, "HTTP 403 Forbidden"),
        ("429 Too Many Requests", True, "gave no result: HTTP 429"),
        ("503 Service Unavailable", True, "gave no result: HTTP 503"),
        ("504 Gateway Timeout", True, "gave no result: HTTP 504"),
        ("500 Oops", False, "HTTP 500"),
        ("404 Not Found", True, "gave no result: Session terminated"),
    ],
)
async def test_no_status_says_that_a_call_was_not_made(status: str, again: bool, said: str) -> None:
    failed = await failure(sends(http(status, b"<html>", "text/html")))
    assert isinstance(failed, OutcomeUnknown)
    assert failed.again is again
    assert said in str(failed)


@pytest.mark.parametrize(
    "sent", [b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: hi\n\n", b""]
)
async def test_a_call_that_broke_off_may_have_been_made(sent: bytes) -> None:
    failed = await failure(sends(sent, keep=False))
    assert isinstance(failed, OutcomeUnknown)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"jsonrpc":"2.0","id":ID,"result":{"content":"\xff"}}', "reply cannot be read"),
        (b"not json", "reply cannot be read"),
        (b'{"jsonrpc":"2.0","id":ID,"result":{}}', "does not follow the protocol"),
    ],
)
async def test_a_reply_that_makes_no_sense_fails_its_call(body: bytes, said: str) -> None:
    async def respond(request: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        writer.write(http("200 OK", body.replace(b"ID", str(request["id"]).encode())))
        return True

    assert said in str(await failure(respond))


async def test_silence_ends_at_the_time_limit() -> None:
    assert "no answer from its server" in str(await failure(sends(b""), limits(call_s=0.2)))


async def test_a_redirect_to_another_place_is_not_followed() -> None:
    away = "location: http://169.254.169.254/latest\r\n"
    failed = await failure(sends(http("307 Away", b"", more=away)))
    assert "not followed" in str(failed)


async def test_a_server_that_cannot_be_reached_is_told_and_found_when_it_is_back() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with web(f"http://127.0.0.1:{port}/mcp", limits(retry_s=0.0)) as source:
        await approved(source)
        assert list(await source.tools()) == []
        assert "w did not start: ConnectError" in source.statuses()[0].detail
        with pytest.raises(ToolBusy, match="did not start"):
            await use(source, "w.t")


async def test_headers_are_filled_in_and_never_shown() -> None:
    seen: list[str] = []

    async def respond(request: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        error = {"code": -1, "message": "bad token canary-123456"}
        body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}).encode()
        writer.write(http("200 OK", body))
        return True

    async with by_hand(respond) as url:
        settings = ServerSettings(
            url=url, headers={"Authorization": "Bearer ${T}"}, limits=limits()
        )
        held = {"T": "canary-123456"}
        named = {"w": settings}
        source = McpServers(named, approvals=Approvals(), environment=held, tell=seen.append)
        async with source:
            await approved(source)
            with pytest.raises(ToolFailed, match="bad token •••"):
                await use(source, "w.t")
    assert "canary" not in "".join(seen)
