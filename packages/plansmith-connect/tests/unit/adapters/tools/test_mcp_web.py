"""Servers over HTTP: both eras on the library's own server, and hostile ones written by hand."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.mcp_peer import McpPeer, Respond, answer, http, sends
from tests.servers.kit import FOLDER, approved, is_cancelled, limits, reply, use

from plansmith.errors import InputNeeded, OutcomeUnknown, ToolBusy, ToolFailed
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
        await is_cancelled(source, "w.wait", record)


# Written by hand: what a server on the web may reply to a call

JSON = "application/json"


async def failure(respond: Respond) -> ToolFailed:
    """How a call fails that is replied to like this; the next call must work."""
    fine = {"content": [{"type": "text", "text": "fine"}]}

    async def once(number: Any, writer: asyncio.StreamWriter) -> None:
        if peer.made["t"] == 1:
            await respond(number, writer)
        else:
            writer.write(http(200, answer(number, result=fine), JSON))

    peer = McpPeer(once, {"t": {"readOnlyHint": True}})
    bounds = limits(stop_s=0.1)  # it never replies to a farewell
    async with peer.open() as (url, _), web(url, bounds, protocol="legacy") as source:
        await approved(source)
        with pytest.raises(ToolFailed) as caught:
            await use(source, "w.t")
        assert await use(source, "w.t") == "fine"
    return caught.value


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (f"{JSON}\r\ncontent-length: 100000000\r\n\r\n", "is larger than 4,194,304 bytes"),
        ("text/event-stream\r\n\r\ndata: ", "SSE stream failed"),
    ],
)
async def test_a_reply_of_a_hundred_megabytes_is_cut_off(head: str, why: str) -> None:
    async def respond(_: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: {head}".encode())
        for _ in range(1600):
            writer.write(b"x" * 65536)
            await writer.drain()

    assert why in str(await failure(respond))


async def test_a_reply_that_would_unpack_to_more_is_not_unpacked() -> None:
    packed = gzip.compress(b"x" * 10_000_000)
    failed = await failure(sends(http(200, packed, JSON, "content-encoding: gzip\r\n")))
    assert "the reply is compressed, which was not requested" in str(failed)


@pytest.mark.parametrize(
    ("status", "again", "why"),
    [
        (401, False, "HTTP 401 X (check the headers of the server)"),
        (403, False, "HTTP 403"),
        (429, True, "gave no result: HTTP 429"),
        (500, False, "HTTP 500"),
        (404, True, "gave no result: Session terminated"),
    ],
)
async def test_no_status_says_that_a_call_was_not_made(status: int, again: bool, why: str) -> None:
    failed = await failure(sends(http(status, b"<html>", "text/html")))
    assert isinstance(failed, OutcomeUnknown)
    assert failed.again is again
    assert why in str(failed)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"jsonrpc":"2.0","id":ID,"result":{"content":"\xff"}}', "reply cannot be read"),
        (b"not json", "reply cannot be read"),
        (b'{"jsonrpc":"2.0","id":ID,"result":{}}', "does not follow the protocol"),
    ],
)
async def test_a_reply_that_makes_no_sense_fails_its_call(body: bytes, why: str) -> None:
    async def respond(number: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(http(200, body.replace(b"ID", str(number).encode()), JSON))

    assert why in str(await failure(respond))


async def test_a_redirect_to_another_place_is_not_followed() -> None:
    away = "location: http://169.254.169.254/latest\r\n"
    failed = await failure(sends(http(307, b"", JSON, away)))
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
    async def respond(number: Any, writer: asyncio.StreamWriter) -> None:
        error = {"code": -1, "message": "bad token canary-123456"}
        writer.write(http(200, answer(number, error=error), JSON))

    seen: list[str] = []
    held = {"T": "canary-123456"}
    async with McpPeer(respond, {"t": {}}).open() as (url, _):
        named = ServerSettings(url=url, headers={"Authorization": "Bearer ${T}"}, limits=limits())
        source = McpServers({"w": named}, approvals=Approvals(), environment=held, tell=seen.append)
        async with source:
            await approved(source)
            with pytest.raises(ToolFailed, match=r"bad token \$\{secret:T\}"):
                await use(source, "w.t")
    assert "canary" not in "".join(seen)
