"""A server that is flooded: it goes on answering, and its runs go on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, cast

import httpx
import pytest
from tests.unit.server.house import House, serving, tool_step

from plansmith_server.ops import logs
from plansmith_server.routes import events

FILES = 1024
FLOOD = 1100
# The answer comes once the run needs a person or is over.
PLANNED = {"wait": 60}
TOOLS = """
import pathlib
import time

from plansmith.tools.functions import tool

HERE = pathlib.Path(__file__).parent


@tool(effect="read")
def spaces(count: int) -> str:
    "Answer with spaces between two letters."
    return "a" + " " * count + "b"


@tool(effect="read")
def look(number: int) -> str:
    "Read a file, which takes a moment."
    if number == 5:
        while not (HERE / "go").exists():
            time.sleep(0.01)
    return (HERE / "notes.txt").read_text()
"""


class Flooded(NamedTuple):
    """A server of its own process."""

    client: httpx.Client
    process: int
    folder: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flooded]:
    """`plansmith serve` as a process that may open no more files than most systems let it."""
    folder = tmp_path_factory.mktemp("flooded")
    (folder / "tools.py").write_text(TOOLS)
    (folder / "notes.txt").write_text("a note")
    words = ["serve", "--port", "0", "--no-browser", "--model", "rules", "--tools", "tools.py"]
    words += ["--store", "sqlite:///runs.db", "--token-file", "token"]
    with subprocess.Popen(
        [sys.executable, "-m", "plansmith_cli", *words],
        cwd=folder,
        env={**os.environ, "XDG_DATA_HOME": str(folder / "data")},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),  # noqa: PLW1509
    ) as process:
        assert process.stderr is not None
        found = None
        while found is None:
            found = re.search(r"http://[\d.:]+", process.stderr.readline())
        headers = {"Authorization": f"Bearer {(folder / 'token').read_text().strip()}"}
        try:
            with httpx.Client(base_url=found[0], headers=headers, timeout=120) as client:
                yield Flooded(client, process.pid, folder)
        finally:
            process.terminate()
            process.communicate(timeout=120)


@contextlib.contextmanager
def half_open(url: httpx.URL, count: int) -> Iterator[list[socket.socket]]:
    """That many connections, each with a head that never ends."""
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(count):
            sock = stack.enter_context(socket.socket())
            sock.settimeout(10)
            sock.connect((str(url.host), int(url.port or 0)))
            with contextlib.suppress(OSError):
                sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
            made.append(sock)
        yield made


def test_half_open_requests_stop_neither_others_nor_a_run(server: Flooded) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < FLOOD * 2:
        pytest.skip("this process may not open enough files for the flood")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, FLOOD * 2), hard))
    steps = [
        {"id": f"s{n}", "tool": "look", "inputs": {"number": n}, "after": [f"s{n - 1}"] * (n > 0)}
        for n in range(40)
    ]
    client = server.client
    body = {"plan": {"goal": "read", "steps": steps}, "mode": "read_only"}
    run = client.post("/v1/runs", json=body).json()["id"]
    with half_open(client.base_url, FLOOD):
        # New connections, each answered within the time that a head may take.
        for path in ("/healthz", "/readyz", f"/v1/runs/{run}"):
            with httpx.Client(headers=client.headers, timeout=10) as other:
                assert other.get(f"{client.base_url}{path}").status_code == 200
        (server.folder / "go").touch()
        while (view := client.get(f"/v1/runs/{run}").json())["status"] == "running":
            time.sleep(0.02)
        assert view["status"] == "done", json.dumps(view["steps"])[:2000]


def processor_ticks(process: int) -> int:
    """The processor time of the thread that the event loop of a server runs in."""
    fields = Path(f"/proc/{process}/task/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


PROSE = "Please compare the prices of the three offers and tell me which one is the best. "
HOSTILE = (" ", "deadbeef", "a.", "“", "1,", "every day at noon and ", "每", "if ", "_a", ", ")


def test_no_text_of_a_request_or_a_tool_holds_the_server(server: Flooded) -> None:
    client, process, _ = server

    def ticks(text: str) -> int:
        before = processor_ticks(process)
        with ThreadPoolExecutor() as pool:
            body = {"request": text, "mode": "review"}
            run = pool.submit(client.post, "/v1/runs", json=body, params=PLANNED)
            while not run.done():
                assert client.get("/healthz").status_code == 200
                time.sleep(0.01)
        assert run.result().json()["status"] != "planning"
        return processor_ticks(process) - before

    ticks(PROSE)
    usual = max(ticks((PROSE * 250)[:20_000]), 10)
    taken = {unit: ticks(f"a{unit * (19_998 // len(unit))}b") for unit in HOSTILE}
    assert {unit: each for unit, each in taken.items() if each > 10 * usual} == {}

    step = {"id": "s", "tool": "spaces", "inputs": {"count": 150_000}}
    steps = [step, {"id": "answer", "say": "{{s}}"}]
    body = {"plan": {"goal": "read", "steps": steps}, "mode": "read_only"}
    run = client.post("/v1/runs", json=body, params=PLANNED).json()["id"]
    before = processor_ticks(process)
    assert client.get(f"/v1/runs/{run}/report").status_code == 200
    assert processor_ticks(process) - before <= 10 * usual


def _hold(seconds: float) -> None:
    """Holds the event loop, as a long computation does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


async def test_a_held_event_loop_is_logged_with_what_held_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        while "event loop held" not in house.log.getvalue():
            _hold(2 * logs.LIMIT_S)
            await asyncio.sleep(0)
        line = next(each for each in house.log.getvalue().splitlines() if "loop held" in each)
    fields = json.loads(line)
    assert fields["held_ms"] >= logs.LIMIT_S * 1000
    assert "_hold(2 * logs.LIMIT_S)" in fields["stack"]


async def test_a_head_that_does_not_come_in_time_ends_the_connection(tmp_path: Path) -> None:
    async with serving(tmp_path, head_s=0.05) as house:
        for data in (b"", b"GET /healthz HTTP/1.1\r\n"):
            async with connected(house) as (reader, writer):
                writer.write(data)
                assert await reader.read() == b""
        # Also the second request of a connection that was answered once.
        async with connected(house) as (reader, writer):
            head = f"GET /healthz HTTP/1.1\r\nHost: {house.url.removeprefix('http://')}\r\n"
            writer.write(f"{head}Authorization: Bearer {house.token}\r\n\r\n".encode())
            assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
            writer.write(b"GET /he")
            assert await reader.read() == b""


async def test_a_body_that_does_not_come_in_time_is_told_so(tmp_path: Path) -> None:
    async with serving(tmp_path, body_s=0.05) as house, connected(house) as (reader, writer):
        head = f"POST /v1/runs HTTP/1.1\r\nHost: {house.url.removeprefix('http://')}\r\n"
        head += f"Authorization: Bearer {house.token}\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: 100\r\n\r\n{{".encode())
        assert (await reader.readline()).startswith(b"HTTP/1.1 408")


async def test_a_full_server_closes_who_asks_nothing(tmp_path: Path) -> None:
    # Of eight connections, six may come from one address.
    async with serving(tmp_path, connections=8) as house, contextlib.AsyncExitStack() as stack:
        streams = [cast("AsyncGenerator[Any]", house.stream()) for _ in range(4)]
        for each in streams:
            assert (await anext(each))["event"] == "snapshot"
        silent, _ = await stack.enter_async_context(connected(house))
        later, _ = await stack.enter_async_context(connected(house))
        assert (await asyncio.gather(house.get("/healthz"), silent.read()))[1] == b""
        # The stream that is answered lives on, and so does whoever asked after the silent one.
        run = await house.begin(tool_step("a", "mail"))
        event = await anext(streams[0])
        assert event["data"]["run"] == run["id"]
        assert not later.at_eof()
        for each in streams:
            await each.aclose()


async def test_of_many_streams_at_once_none_is_one_too_many_and_long_paths_are_not_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MAX_STREAMS", 5)
    async with serving(tmp_path) as house:
        begun = asyncio.Event()

        async def one() -> int:
            async with house.client.stream("GET", "/v1/events") as response:
                if response.status_code == 200:
                    await begun.wait()
                return response.status_code

        tasks = [asyncio.create_task(one()) for _ in range(20)]
        ended = asyncio.as_completed(tasks)
        assert [await next(ended) for _ in range(15)] == [503] * 15
        assert house.server_state.metrics.streams == 5
        begun.set()
        codes = await asyncio.gather(*tasks)
        assert (codes.count(200), codes.count(503)) == (5, 15)
        for path in ("x" * 5000, "é" * 200, "a/" * 2500, "%00" * 300, "x" * 300):
            assert (await house.client.get(f"/{path}")).status_code == 404


@contextlib.asynccontextmanager
async def connected(
    house: House,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(house.url.rpartition(":")[2]))
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def test_a_server_with_every_connection_in_use_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path, connections=4) as house:
        streams = [cast("AsyncGenerator[Any]", house.stream()) for _ in range(3)]
        for each in streams:
            assert (await anext(each))["event"] == "snapshot"
        full = await house.client.get("/healthz")
        assert (full.status_code, full.headers["retry-after"]) == (503, "1")
        for each in streams:
            await each.aclose()
