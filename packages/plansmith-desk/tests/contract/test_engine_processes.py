"""Engines at work in child processes: a query that explodes ends itself, and nothing else."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

from plansmith.errors import OutcomeUnknown, ToolFailed
from plansmith.ports import Call
from plansmith_desk.sandbox import subprocesses
from plansmith_desk.sql import SqlTools
from plansmith_desk.sql.rows import RowLimits
from plansmith_desk.tables import TableTools

# What Python, the driver and its threads take beside a query.
SLACK = 400 << 20
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="limits are tested on Linux")

ENDLESS = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r"
WIDE = ", ".join(["zeroblob(249000)"] * 1500)
MANY = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r LIMIT 1000)"
EXPLODING = [
    "SELECT repeat('x', 3000000000)",
    "SELECT list(range) FROM range(2000000000)",
]
# It looks neither at the time nor at an interruption while it makes one long text after another.
DEAF = "SELECT max(length(lpad(range::VARCHAR, 200000000, 'x'))) FROM range(5000)"
PROGRAM = """
import asyncio, json, resource, sys
from plansmith_desk.sql import SqlTools
from plansmith_desk.sql.rows import RowLimits
from plansmith.errors import ToolFailed
from plansmith.ports import Call

async def main():
    tools = SqlTools({"shop": sys.argv[1]}, limits=RowLimits(seconds=60, memory_bytes=256 << 20))
    told = []
    for query in json.loads(sys.argv[2]):
        try:
            await tools.call("sql.query", {"query": query}, Call(key="k"))
            told.append("done")
        except ToolFailed as error:
            told.append(str(error))
    after = await tools.call("sql.query", {"query": "SELECT 1 AS one"}, Call(key="k"))
    return told, after["rows"]

told, after = asyncio.run(main())
from plansmith_desk.sandbox.subprocesses import SUBPROCESSES
SUBPROCESSES.close()
children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
# Not the usage of this process, which begins with the peak of whoever started it.
[own] = [line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")]
print(json.dumps({"told": told, "after": after, "children": children, "own": int(own) * 1024}))
"""


def shop(folder: Path) -> str:
    database = duckdb.connect(str(folder / "shop.duckdb"))
    database.execute("CREATE TABLE orders AS SELECT range AS id FROM range(1000)")
    database.close()
    return f"duckdb:///{folder / 'shop.duckdb'}"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A SQLite file without tables."""
    sqlite3.connect(tmp_path / "shop.db").close()
    return f"sqlite:///{tmp_path / 'shop.db'}"


async def ask(url: str, query: str, **limits: Any) -> Any:
    tools = SqlTools({"shop": url}, limits=RowLimits(**limits))
    return await tools.call("sql.query", {"query": query}, Call(key="k"))


@LINUX
def test_duckdb_queries_that_explode_stay_below_their_memory_limit(tmp_path: Path) -> None:
    url = shop(tmp_path)
    given = [sys.executable, "-c", PROGRAM, url, json.dumps(EXPLODING)]
    done = subprocess.run(given, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    for query, message in zip(EXPLODING, found["told"], strict=True):
        assert "more than 256 MB of memory" in message, query
    assert found["after"] == [{"one": 1}]
    assert found["children"] < (256 << 20) + SLACK
    assert found["own"] < 300 << 20


@LINUX
async def test_a_query_that_cannot_be_interrupted_is_ended_with_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocesses, "_GRACE_S", 0.5)
    before = set(_children())
    with pytest.raises(ToolFailed, match=r"longer than 0.5 s"):
        await ask(shop(tmp_path), DEAF, seconds=0.5, memory_bytes=4 << 30)
    assert set(_children()) <= before


@LINUX
async def test_the_child_of_a_query_has_no_secret_in_its_environment(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "canary-77aa")
    monkeypatch.setenv("PGPASSWORD", "canary-88bb")
    task = asyncio.create_task(ask(url, ENDLESS))
    environment = _read(await _busy_child(), "environ")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert "PATH" in environment
    assert "canary" not in environment


def _read(pid: int, name: str) -> str:
    return Path(f"/proc/{pid}/{name}").read_text()


def _children() -> list[int]:
    found: list[int] = []
    for each in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # of a thread or a child that has ended meanwhile
            pids = (each / "children").read_text().split()
            names = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids]
            pairs = zip(pids, names, strict=True)
            found += [int(pid) for pid, name in pairs if b"subprocess_main" in name]
    return found


async def _busy_child() -> int:
    """A child that works: it has taken more of the processor than its start takes."""
    async with asyncio.timeout(120):
        before: dict[int, int] = {}
        while True:
            for pid in _children():
                ticks = int(_read(pid, "stat").rsplit(")", 1)[1].split()[11])
                first = before.setdefault(pid, ticks)
                if ticks - first > 30:
                    return pid
            await asyncio.sleep(0.02)


@LINUX
async def test_the_death_of_a_child_is_told_and_the_next_query_works(url: str) -> None:
    task = asyncio.create_task(ask(url, ENDLESS))
    os.kill(await _busy_child(), signal.SIGABRT)
    with pytest.raises(ToolFailed, match=r"crashed its process \(code -6\)"):
        await task
    assert (await ask(url, "SELECT 1 AS one"))["rows"] == [{"one": 1}]


@LINUX
async def test_a_child_that_ended_while_it_waited_is_replaced(url: str) -> None:
    await ask(url, "SELECT 1 AS one")
    (child,) = _children()
    handle = os.pidfd_open(child)
    os.kill(child, signal.SIGKILL)
    poll = select.poll()
    poll.register(handle)
    assert poll.poll(15_000)
    os.close(handle)
    assert (await ask(url, "SELECT 1 AS one"))["rows"] == [{"one": 1}]
    gc.collect()  # what was not closed would be told now
    assert _children() != [child]


@LINUX
async def test_a_write_whose_child_dies_is_unknown_and_not_failed(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE t (n)")
    database.close()
    tools = SqlTools({"shop": f"sqlite:///{path}"}, writable=["shop"])
    statement = f"INSERT INTO t {ENDLESS}"
    call = tools.call("sql.execute", {"statement": statement}, Call(key="k"))
    task = asyncio.ensure_future(call)
    os.kill(await _busy_child(), signal.SIGKILL)
    with pytest.raises(OutcomeUnknown):
        await task


@LINUX
def test_a_child_ends_with_the_program_that_started_it(url: str) -> None:
    program = textwrap.dedent(f"""
        import asyncio
        from plansmith_desk.sql import SqlTools
        from plansmith.ports import Call
        tools = SqlTools({{"shop": {url!r}}})
        asyncio.run(tools.call("sql.query", {{"query": "SELECT 1"}}, Call(key="k")))
        print("asked", flush=True)
        asyncio.run(tools.call("sql.query", {{"query": {ENDLESS!r}}}, Call(key="k")))
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        owner.stdout.readline()
        texts = [
            (each / "children").read_text() for each in Path(f"/proc/{owner.pid}/task").iterdir()
        ]
        (child,) = [int(pid) for text in texts for pid in text.split()]
        handle = os.pidfd_open(child)
        owner.kill()
    # The child's own end makes the handle readable; without it this waits until the time is up.
    try:
        poll = select.poll()
        poll.register(handle)
        assert poll.poll(15_000)
    finally:
        os.close(handle)


async def test_many_queries_at_once_share_a_few_children(url: str) -> None:
    found = await asyncio.gather(*(ask(url, f"SELECT {n} AS n") for n in range(5)))
    assert [each["rows"][0]["n"] for each in found] == list(range(5))
    assert len(_children()) <= 1


@LINUX
async def test_tables_that_explode_end_the_query_and_not_the_program(tmp_path: Path) -> None:
    tools = TableTools(tmp_path, rows=RowLimits(memory_bytes=32 << 20))
    (tmp_path / "t.csv").write_text("a\n1\n2\n")
    given = {"query": f"{MANY} SELECT {WIDE} FROM r, t"}
    with pytest.raises(ToolFailed, match="more than 32 MB of memory"):
        await tools.call("tables.sql", given, Call(key="k"))
    found = await tools.call("tables.sql", {"query": "SELECT sum(a) AS s FROM t"}, Call(key="k"))
    assert found["rows"] == [{"s": 3}]  # type: ignore[call-overload,index]
