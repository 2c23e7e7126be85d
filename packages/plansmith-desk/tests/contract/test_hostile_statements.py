"""Hostile statements: they end themselves in child processes, and read nothing of PostgreSQL."""

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from tests.postgres import Server

from plansmith.errors import Misconfigured, OutcomeUnknown, ToolFailed
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
EXPLODING = ["SELECT repeat('x', 3000000000)", "SELECT list(range) FROM range(2000000000)"]
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


def duckdb_shop(folder: Path) -> str:
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
    given = [sys.executable, "-c", PROGRAM, duckdb_shop(tmp_path), json.dumps(EXPLODING)]
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
        await ask(duckdb_shop(tmp_path), DEAF, seconds=0.5, memory_bytes=4 << 30)
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


@contextmanager
def told_of(child: int) -> Iterator[select.poll]:
    """What is told of the end of a process; without it, asking waits until the time is up."""
    handle, ended = os.pidfd_open(child), select.poll()
    ended.register(handle)
    try:
        yield ended
    finally:
        os.close(handle)


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
    with told_of(child) as ended:
        os.kill(child, signal.SIGKILL)
        assert ended.poll(15_000)
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
    call = tools.call("sql.execute", {"statement": f"INSERT INTO t {ENDLESS}"}, Call(key="k"))
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
        with told_of(child) as ended:
            owner.kill()
            assert ended.poll(15_000)


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


# It stands for whatever the reading of the text misses: any text, as SQL, inside of the statement.
ANY_TEXT = """
CREATE FUNCTION any_text(given text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE found text;
BEGIN EXECUTE given INTO found; RETURN found; END $$
"""
SHOP = "CREATE TABLE orders (id int); INSERT INTO orders VALUES (1), (2); CREATE SEQUENCE numbers;"


def hidden(statement: str) -> str:
    """A query that runs a statement which is nowhere to be read in it."""
    return f"SELECT any_text(convert_from(decode('{statement.encode().hex()}', 'hex'), 'utf8'))"


@pytest.fixture(scope="module")
def shop(postgres_server: Server) -> Iterator[Shop]:
    made = Shop(postgres_server, "reading")
    yield made
    made.leave()


class Shop:
    """A database with one role that may write its tables, and nothing else."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.role = f"{name}_clerk"
        server.new_database(name)
        self.sql(SHOP)
        self.sql(ANY_TEXT)
        self.sql(f"CREATE ROLE {self.role} LOGIN")
        self.sql(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {self.role}")
        self.sql(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {self.role}")
        self.sql(f"GRANT CREATE, USAGE ON SCHEMA public TO {self.role}")

    def sql(self, statement: str) -> str:
        return self.server.sql(statement, database=self.name)

    def state(self) -> list[str]:
        return [
            self.sql(f"SELECT {each}")
            for each in (
                "array_agg(id ORDER BY id) FROM orders",
                "(last_value, is_called) FROM numbers",
                "count(*) FROM pg_largeobject_metadata",
                "count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace",
                "count(*) FROM pg_roles",
                "count(*) FROM pg_locks WHERE locktype = 'advisory'",
            )
        ]

    async def ask(self, query: str, *, user: str = "", **limits: Any) -> Any:
        url = self.server.dsn_of(self.name, user=user or self.role)
        tools = SqlTools({"shop": url}, limits=RowLimits(**limits))
        return await tools.call("sql.query", {"query": query}, Call(key="k"))

    def leave(self) -> None:
        self.server.sql(f"DROP DATABASE {self.name} WITH (FORCE)")
        for role in self.server.sql(
            f"SELECT rolname FROM pg_roles WHERE rolname ~ '^{self.name}'"
        ).splitlines():
            self.server.sql(f"DROP ROLE {role}")


CHANGES = [
    *("DELETE FROM orders RETURNING id", "INSERT INTO orders VALUES (3) RETURNING id"),
    *("TRUNCATE orders", "CREATE TABLE evil (a int)", "SELECT nextval('numbers')"),
    *("SELECT setval('numbers', 99)", "SELECT id FROM orders FOR UPDATE"),
    *("CREATE ROLE evil SUPERUSER", "SELECT pg_read_file('/etc/passwd')", "SELECT pg_ls_dir('/')"),
    *("SELECT lo_import('/etc/passwd')", "SELECT lo_export(1, '{outside}')"),
    *("COPY orders TO '{outside}'", "COPY (SELECT 1) TO PROGRAM 'touch {outside}'"),
    *("SELECT pg_reload_conf()", "SELECT pg_rotate_logfile()", "SELECT pg_switch_wal()"),
    *("SELECT pg_create_restore_point('evil')", "SELECT pg_promote()", "SELECT pg_stat_reset()"),
    *("SET TRANSACTION READ WRITE", "SET transaction_read_only = off"),
    *("SELECT set_config('transaction_read_only', 'off', false)", "SET ROLE plansmith"),
    *("SET SESSION AUTHORIZATION plansmith", "COMMIT", "ROLLBACK"),
    "ALTER SYSTEM SET work_mem = '1GB'",
]


async def test_postgres_itself_refuses_what_no_check_of_the_text_saw(
    shop: Shop, tmp_path: Path
) -> None:
    outside = tmp_path / "evil"
    before = shop.state()
    for statement in CHANGES:
        with pytest.raises(ToolFailed, match=r"database says|not allowed"):
            await shop.ask(hidden(statement.format(outside=outside)))
    assert shop.state() == before
    assert not outside.exists()


async def test_the_session_of_somebody_else_is_not_ended(shop: Shop) -> None:
    with psycopg.connect(shop.server.dsn_of(shop.name)) as other:
        for act in ("pg_terminate_backend", "pg_cancel_backend"):
            with pytest.raises(ToolFailed, match=r"superuser|privileges|permission"):
                await shop.ask(hidden(f"SELECT {act}({other.info.backend_pid})"))
        assert other.execute("SELECT 1").fetchone() == (1,)


UNDONE = [
    "SELECT lo_create(4711)",
    "SELECT lo_from_bytea(4712, 'x')",
    "SELECT pg_advisory_lock(1)",
    "NOTIFY shop",
    "SELECT set_config('default_transaction_read_only', 'off', false)",
    "SELECT set_config('statement_timeout', '0', false)",
]


async def test_what_postgres_lets_a_reader_do_is_undone_when_the_statement_ends(shop: Shop) -> None:
    before = shop.state()
    for statement in UNDONE:
        try:
            await shop.ask(hidden(statement))
        except ToolFailed:
            continue  # newer servers refuse some of these
    assert shop.state() == before


async def test_a_sleeping_statement_ends_in_time_even_when_it_takes_the_time_limit_away(
    shop: Shop,
) -> None:
    for statement in (
        "SELECT pg_sleep(600)",
        "SELECT set_config('statement_timeout', '0', false), pg_sleep(600)",
    ):
        with pytest.raises(ToolFailed, match="longer than"):
            await shop.ask(hidden(statement), seconds=0.4)
    left = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(600)%'"
    assert shop.sql(f"{left} AND pid <> pg_backend_pid()") == "0"


async def test_several_statements_in_one_text_cannot_leave_the_reading_transaction(
    shop: Shop,
) -> None:
    before = shop.state()
    for text in (
        "SELECT 1; COMMIT; BEGIN; DELETE FROM orders; COMMIT",
        "SELECT 1; ROLLBACK; DELETE FROM orders",
        "SELECT 1); COMMIT; DELETE FROM orders; SELECT (1",
    ):
        with pytest.raises(ToolFailed):
            await shop.ask(text)
    assert shop.state() == before


async def test_another_database_is_not_reached_through_dblink(shop: Shop) -> None:
    if shop.sql("SELECT count(*) FROM pg_available_extensions WHERE name = 'dblink'") == "0":
        pytest.skip("this server has no dblink")
    shop.sql("CREATE EXTENSION dblink")
    address = f"host=127.0.0.1 port={shop.server.port} user=plansmith dbname={shop.name}"
    inner = f"SELECT dblink_exec('{address}', 'DELETE FROM orders')"
    with pytest.raises(ToolFailed, match="password"):
        await shop.ask(hidden(inner))
    assert shop.sql("SELECT count(*) FROM orders") == "2"


@pytest.mark.parametrize(
    ("rights", "reason"),
    [
        ("SUPERUSER", "superuser"),
        ("REPLICATION", "replicate"),
        ("CREATEROLE", "make roles"),
        ("CREATEDB", "make databases"),
        ("IN ROLE pg_read_server_files", "pg_read_server_files"),
        ("IN ROLE pg_write_server_files", "pg_write_server_files"),
        ("IN ROLE pg_execute_server_program", "pg_execute_server_program"),
        ("IN ROLE pg_signal_backend", "pg_signal_backend"),
    ],
)
async def test_a_role_that_may_do_more_than_tables_is_refused_with_the_way_to_make_one(
    shop: Shop, rights: str, reason: str
) -> None:
    role = f"{shop.name}_{reason.replace(' ', '_')}"
    shop.sql(f"CREATE ROLE {role} LOGIN {rights}")
    with pytest.raises(Misconfigured, match=f"(?s){reason}.*CREATE ROLE plansmith_reader"):
        await shop.ask("SELECT 1", user=role)
    tools = SqlTools({"shop": shop.server.dsn_of(shop.name, user=role)}, writable=["shop"])
    for tool, given in (("sql.tables", {}), ("sql.execute", {"statement": "DELETE FROM orders"})):
        with pytest.raises(Misconfigured, match=reason):
            await tools.call(tool, given, Call(key="k"))
    assert shop.sql("SELECT count(*) FROM orders") == "2"


async def test_a_role_that_could_become_a_superuser_is_refused(shop: Shop) -> None:
    boss, role = f"{shop.name}_boss", f"{shop.name}_deputy"
    shop.sql(f"CREATE ROLE {boss} SUPERUSER; CREATE ROLE {role} LOGIN NOINHERIT IN ROLE {boss}")
    with pytest.raises(Misconfigured, match="superuser"):
        await shop.ask("SELECT 1", user=role)


async def test_the_role_of_the_hint_reads_every_table(shop: Shop) -> None:
    role = f"{shop.name}_reader"
    shop.sql(f"CREATE ROLE {role} LOGIN; GRANT pg_read_all_data TO {role}")
    found = await shop.ask("SELECT id FROM orders ORDER BY id", user=role)
    assert found["rows"] == [{"id": 1}, {"id": 2}]


async def test_huge_rows_of_a_server_end_the_query_and_not_the_program(shop: Shop) -> None:
    many = await shop.ask("SELECT repeat('x', 1000000) AS x FROM generate_series(1, 10)")
    assert {len(row["x"]) for row in many["rows"]} == {4000}
    with pytest.raises(ToolFailed, match="more than 16 MB of memory"):
        await shop.ask("SELECT repeat('x', 90000000)", memory_bytes=16 << 20)
    assert (await shop.ask("SELECT count(*) AS n FROM orders"))["rows"] == [{"n": 2}]
