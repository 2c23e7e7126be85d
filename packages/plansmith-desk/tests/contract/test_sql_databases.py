"""What the SQL tools promise, on every kind of database."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import duckdb
import jsonschema_rs
import pytest
from tests.postgres import Server
from tests.waiting import until

from plansmith import CallPreview
from plansmith.errors import OutcomeUnknown, ToolBusy, ToolFailed
from plansmith.ports import Call
from plansmith_desk.sql import SqlTools
from plansmith_desk.sql.rows import RowLimits

MAKE = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customers (id),
                     amount NUMERIC(10, 2));
CREATE VIEW big AS SELECT * FROM orders WHERE amount > 100;
INSERT INTO customers VALUES (1, 'Ada', 'Oslo'), (2, 'Bob', NULL), (3, '李雷', '北京');
"""
ROWS = ",".join(f"({number}, {number % 3 + 1}, {number}.25)" for number in range(1, 301))


@dataclass
class Place:
    """A database, how it writes a placeholder, and an endless statement in its dialect."""

    kind: str
    url: str
    mark: str
    endless: str
    server: Server | None = None


def sqlite_place(folder: Path) -> Place:
    with sqlite3.connect(folder / "shop.db") as database:
        database.executescript(f"{MAKE} INSERT INTO orders VALUES {ROWS};")
    database.close()
    endless = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r"
    return Place("sqlite", f"sqlite:///{folder / 'shop.db'}", "?", endless)


def duckdb_place(folder: Path) -> Place:
    database = duckdb.connect(str(folder / "shop.duckdb"))
    database.execute(f"{MAKE} INSERT INTO orders VALUES {ROWS}; CREATE SEQUENCE numbers;")
    database.close()
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) a, range(10000000) b"
    return Place("duckdb", f"duckdb:///{folder / 'shop.duckdb'}", "?", endless)


def postgres_place(server: Server, name: str) -> Place:
    server.new_database(name)
    server.sql(f"{MAKE} INSERT INTO orders VALUES {ROWS}; CREATE SEQUENCE numbers;", database=name)
    evil = """CREATE FUNCTION evil() RETURNS int LANGUAGE plpgsql AS $$
              BEGIN DELETE FROM orders; RETURN 1; END $$"""
    server.sql(evil, database=name)
    # A role that may write: that nothing is written is not for want of rights to tables.
    role = f"{name}_clerk"
    server.sql(
        f"CREATE ROLE {role} LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO {role};"
        f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}",
        database=name,
    )
    url = server.dsn_of(name, user=role)
    endless = "SELECT max(a * b) FROM generate_series(1, 1000000000) a, generate_series(1, 9) b"
    return Place("postgresql", url, "$1", endless, server)


@pytest.fixture(scope="session")
def names() -> Iterator[str]:
    # Of the session: tests that another process hands over may open this module again.
    return (f"sql_tools_{number}" for number in range(1000))


KINDS = ["sqlite", "duckdb", "postgresql"]


def place_of(request: pytest.FixtureRequest, folder: Path) -> Place:
    if request.param == "postgresql":
        names = request.getfixturevalue("names")
        return postgres_place(request.getfixturevalue("postgres_server"), next(names))
    return sqlite_place(folder) if request.param == "sqlite" else duckdb_place(folder)


@pytest.fixture(scope="module", params=KINDS)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A database for all tests that only read it."""
    return place_of(request, tmp_path_factory.mktemp("place"))


@pytest.fixture(params=KINDS)
def own_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place_of(request, tmp_path)


def tools_of(place: Place, **options: Any) -> SqlTools:
    return SqlTools({"shop": place.url}, **options)


async def use(source: SqlTools, tool: str, **words: Any) -> Any:
    found = await source.call(f"sql.{tool}", words, Call(key="k"))
    specs = {spec.name: spec for spec in await source.tools()}
    jsonschema_rs.validate(specs[f"sql.{tool}"].output_schema or {}, found)
    return found


async def count(place: Place) -> int:
    found = await use(tools_of(place), "query", query="SELECT count(*) AS n FROM orders")
    return int(found["rows"][0]["n"])


async def test_tables_are_listed_and_described(place: Place) -> None:
    source = tools_of(place)
    listed = await use(source, "tables")
    assert {(each["name"], each["kind"]) for each in listed["tables"]} == {
        ("customers", "table"),
        ("orders", "table"),
        ("big", "view"),
    }
    found = await use(source, "describe", table="ORDERS")
    assert [each["name"] for each in found["columns"]] == ["id", "customer", "amount"]
    if place.kind != "duckdb":
        key = {"columns": ["customer"], "table": "customers", "targets": ["id"]}
        assert found["keys"] == [key]
    with pytest.raises(ToolFailed, match="did you mean 'orders'"):
        await use(source, "describe", table="order")


async def test_rows_come_with_their_columns_up_to_the_limit(place: Place) -> None:
    source = tools_of(place, limits=RowLimits(rows=5))
    found = await use(source, "query", query="SELECT id, amount FROM orders ORDER BY id")
    assert found["rows"][0] == {"id": 1, "amount": 1.25}
    assert (found["count"], found["more"]) == (5, True)
    all_of_them = await use(source, "query", query="SELECT id FROM orders", limit=1000)
    assert (all_of_them["count"], all_of_them["more"]) == (300, False)
    text = await use(source, "query", query="SELECT name FROM customers WHERE city = '北京'")
    assert text["rows"] == [{"name": "李雷"}]


async def test_values_go_in_beside_the_statement(place: Place) -> None:
    query = f"SELECT id FROM customers WHERE name = {place.mark}"
    found = await use(tools_of(place), "query", query=query, parameters=["x' OR '1'='1"])
    assert found["rows"] == []
    found = await use(tools_of(place), "query", query=query, parameters=["Ada"])
    assert found["rows"] == [{"id": 1}]
    for bad in ([[1]], [10**30]):
        with pytest.raises(ToolFailed, match="parameter"):
            await use(tools_of(place), "query", query=query, parameters=bad)


WRITES = [
    *("INSERT INTO orders (id) VALUES (9999)", "UPDATE orders SET amount = 0"),
    *("DELETE FROM orders", "DELETE FROM orders RETURNING id", "DROP TABLE orders"),
    *("ALTER TABLE orders ADD COLUMN x INTEGER", "CREATE TABLE evil (a INTEGER)"),
    *("CREATE TEMP TABLE evil (a INTEGER)", "CREATE TABLE evil AS SELECT 1"),
    *("WITH gone AS (SELECT 1) DELETE FROM orders", "SELECT 1; DELETE FROM orders"),
    *("SELECT 1; SELECT 2", "/* SELECT */ DELETE FROM orders", "BEGIN", "COMMIT"),
    *("ATTACH '/tmp/evil.db' AS evil", "VACUUM", "EXPLAIN ANALYZE DELETE FROM orders"),
]
OWN = {
    "sqlite": [
        *("PRAGMA query_only = OFF", "PRAGMA writable_schema = ON", "PRAGMA journal_mode = DELETE"),
        *("VACUUM INTO '{outside}'", "SELECT load_extension('evil')"),
        *("SELECT writefile('{outside}', 'x')", "SELECT * FROM pragma_database_list"),
        "REPLACE INTO orders (id) VALUES (1)",
    ],
    "duckdb": [
        *("COPY orders TO '{outside}'", "EXPORT DATABASE '{outside}'"),
        *("SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM read_text('/etc/hostname')"),
        *("SELECT * FROM '/etc/passwd'", "SELECT nextval('numbers')"),
        *("SET enable_external_access = true", "INSTALL httpfs", "LOAD httpfs"),
        "SELECT * FROM names",
    ],
    "postgresql": [
        "COPY orders TO '{outside}'",
        "COPY (SELECT 1) TO PROGRAM 'touch {outside}'",
        "COPY orders TO STDOUT",
        "WITH x AS (DELETE FROM orders RETURNING id) SELECT * FROM x",
        "SELECT evil()",
        "SELECT nextval('numbers')",
        "SELECT id INTO evil FROM orders",
        "SELECT * FROM orders FOR UPDATE",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT \"pg_read_file\"('/etc/passwd')",
        "SELECT U&\"\\0070g_read_file\"('/etc/passwd')",
        "SELECT pg_catalog.set_config('role', 'none', false)",
        "SELECT query_to_xml('DELETE FROM orders', true, true, '')",
        "SELECT lo_import('/etc/passwd')",
        "SELECT pg_terminate_backend(1)",
        "SELECT current_setting('data_directory')",
        "SELECT * FROM ts_stat('SELECT to_tsvector(' || 'evil()::text)')",
        "SET TRANSACTION READ WRITE",
        "RESET ROLE",
        "DO $$ BEGIN DELETE FROM orders; END $$",
        "CALL evil()",
        "LISTEN x",
        "SELECT 1) FOR READ ONLY; DELETE FROM orders; --",
    ],
}


async def test_nothing_is_changed_by_a_tool_that_reads(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "evil.out"
    source = tools_of(place)
    for statement in [*WRITES, *OWN[place.kind]]:
        with pytest.raises(ToolFailed):
            await use(source, "query", query=statement.format(outside=outside))
    assert await count(place) == 300
    assert len((await use(source, "tables"))["tables"]) == 3
    assert not outside.exists()


async def test_a_statement_that_takes_too_long_is_ended(place: Place) -> None:
    source = tools_of(place, limits=RowLimits(seconds=0.3))
    with pytest.raises(ToolFailed, match=r"longer than 0.3 s"):
        await use(source, "query", query=place.endless)


async def test_a_call_that_is_given_up_stops_its_statement(place: Place) -> None:
    task = asyncio.create_task(use(tools_of(place), "query", query=place.endless))
    await until(_is_at_work)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await until(lambda: not _is_at_work())
    if place.server is not None:
        running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%generate_series(1%'"
        waiting = f"{running} AND pid <> pg_backend_pid() AND state = 'active'"
        assert place.server.sql(waiting) == "0"


def _is_at_work() -> bool:
    """Whether any other thread waits for a child that asks a database."""
    for ident, frame in sys._current_frames().items():
        inner: FrameType | None = frame if ident != threading.get_ident() else None
        while inner is not None:
            if Path(inner.f_code.co_filename).name == "subprocesses.py":
                return True
            inner = inner.f_back
    return False


async def test_what_is_wrong_is_named(place: Place) -> None:
    source = tools_of(place)
    for query, why in (
        ("SELECT * FROM nowhere", "nowhere"),
        ("SELECT nothing FROM orders", "nothing"),
        ("SELEC 1", "SELEC"),
        ("-- nothing", ""),
    ):
        with pytest.raises(ToolFailed, match=f"(?i){why}"):
            await use(source, "query", query=query)


async def test_writing_needs_a_tool_that_was_asked_for(own_place: Place) -> None:
    assert "sql.execute" not in [each.name for each in await tools_of(own_place).tools()]
    source = tools_of(own_place, writable=["shop"])
    spec = next(each for each in await source.tools() if each.name == "sql.execute")
    assert (spec.effect, spec.idempotent) == ("write", False)
    statement = f"DELETE FROM orders WHERE id > {own_place.mark}"
    assert await use(source, "execute", statement=statement, parameters=[290]) == {"changed": 10}
    assert await count(own_place) == 290
    with pytest.raises(ToolFailed):
        await use(source, "execute", statement="DELETE FROM orders; DELETE FROM customers")
    with pytest.raises(ToolFailed):
        await use(source, "execute", statement="INSERT INTO orders (id) VALUES (1)")
    for statement in ("ATTACH '/tmp/evil.db' AS evil", "COPY orders TO '/tmp/evil.csv'"):
        with pytest.raises(ToolFailed):
            await use(source, "execute", statement=statement)
    assert await count(own_place) == 290


async def test_a_preview_shows_the_rows_that_a_statement_would_change(own_place: Place) -> None:
    source = tools_of(own_place, writable=["shop"])

    async def look(statement: str, *parameters: Any) -> CallPreview:
        inputs: dict[str, Any] = {"statement": statement, "parameters": [*parameters]}
        found = await source.preview("sql.execute", inputs)
        assert found is not None
        return found

    zero = f"UPDATE Orders SET amount = 0 WHERE id <= {own_place.mark};"
    few, all_of_them = await look(zero, 2), await look(zero, 300)
    assert [{k: each[k] for k in ("id", "amount")} for each in few.rows] == [
        {"id": 1, "amount": 0},
        {"id": 2, "amount": 0},
    ]
    assert (few.count, few.touches, few.fails) == (2, ("shop.orders",), "")
    assert (all_of_them.count, len(all_of_them.rows)) == (300, 50)
    assert (await look("DELETE FROM orders WHERE id = 7 RETURNING id")).rows == ({"id": 7},)
    if own_place.server is None:  # there the role may make no tables
        made = await look("CREATE TABLE IF NOT EXISTS more (a INTEGER)")
        assert (made.rows, made.touches) == ((), ("shop.more",))
    chance = "INSERT INTO orders SELECT 1000, 1, 100 * random() FROM customers WHERE id = 1"
    assert (await look(chance)).hash == (await look(chance)).hash
    assert await source.preview("sql.query", {"query": "SELECT 1"}) is None
    for wrong in ("DELETE FROM nowhere", "DELETE FROM orders; DELETE FROM orders", "COMMIT; x"):
        with pytest.raises(ToolFailed):
            await look(wrong)
    # Nothing of that was kept.
    assert (await count(own_place), len((await use(source, "tables"))["tables"])) == (300, 3)
    assert await look(zero, 2) == few
    await use(source, "execute", statement="UPDATE orders SET customer = 1 WHERE id = 2")
    assert (await look(zero, 2)).hash != few.hash


async def test_a_change_whose_commit_was_not_answered_may_have_been_made(
    postgres_server: Server, names: Iterator[str]
) -> None:
    place = postgres_place(postgres_server, next(names))
    name = place.url.rpartition("/")[2].partition("?")[0]
    postgres_server.sql(
        """CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
           BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
           CREATE CONSTRAINT TRIGGER late AFTER INSERT ON customers DEFERRABLE INITIALLY DEFERRED
           FOR EACH ROW EXECUTE FUNCTION die()""",
        database=name,
    )
    source = tools_of(place, writable=["shop"])
    with pytest.raises(OutcomeUnknown):
        await use(source, "execute", statement="INSERT INTO customers VALUES (9, 'Eve', NULL)")


async def test_long_values_are_cut_and_told(place: Place) -> None:
    limits = RowLimits(letters_each=3, letters_all=60)
    found = await use(tools_of(place, limits=limits), "query", query="SELECT 'abcdef' AS a")
    assert found["rows"] == [{"a": "abc"}]
    assert "cut to 3 letters" in found["notes"][0]
    some = await use(tools_of(place, limits=limits), "query", query="SELECT id FROM orders")
    assert some["more"]
    assert some["count"] < 10


async def test_columns_of_one_name_are_told_apart(place: Place) -> None:
    found = await use(tools_of(place), "query", query="SELECT id, id FROM orders WHERE id = 1")
    assert found["rows"] == [{"id": 1, "id_2": 1}]
    assert found["notes"]


async def test_a_planner_sees_the_tables_that_fit(place: Place) -> None:
    blocks = await tools_of(place).gather("which city do customers live in", token_limit=400)
    assert "customers" in blocks[0].text
    assert place.kind in blocks[0].source


async def test_a_database_that_is_not_there_is_named(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/none.db", "postgresql://nobody@127.0.0.1:1/none"):
        with pytest.raises(ToolFailed):
            await use(SqlTools({"none": url}), "query", query="SELECT 1")
    (tmp_path / "text.db").write_text("no database", encoding="utf-8")
    source = SqlTools({"text": f"sqlite:///{tmp_path}/text.db"})
    with pytest.raises(ToolFailed, match="not a database"):
        await use(source, "query", query="SELECT * FROM t")


async def test_a_locked_database_is_worth_another_try(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    holder = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(ToolBusy, match="in use"):
            await use(tools_of(place), "query", query="SELECT * FROM orders")
    finally:
        holder.close()


async def test_sqlite_cannot_be_made_to_fill_the_memory(tmp_path: Path) -> None:
    source = tools_of(sqlite_place(tmp_path))
    for query in ("SELECT randomblob(1000000000)", "SELECT zeroblob(1000000)"):
        with pytest.raises(ToolFailed, match="larger than"):
            await use(source, "query", query=query)
    wide = await use(source, "query", query="SELECT printf('%.*c', 1000000000, 'x') AS v")
    assert wide["rows"] == [{"v": None}]
    kept = "SELECT printf('%.2f|%05d|%-4s|%,d|%%|%x|%+d', 1.5, 42, 'ab', 1234567, 255, 7) AS v"
    found = await use(source, "query", query=kept)
    assert found["rows"] == [{"v": "1.50|00042|ab  |1,234,567|%|ff|+7"}]


async def test_values_that_json_has_not_are_made_plain(tmp_path: Path) -> None:
    source = tools_of(sqlite_place(tmp_path))
    query = "SELECT 9e999 AS a, x'00ff' AS b, CAST(x'ff' AS TEXT) AS c, NULL AS d"
    found = await use(source, "query", query=query)
    (row,) = found["rows"]
    assert row == {"a": "inf", "b": "(2 bytes that are not text)", "c": "\ufffd", "d": None}


async def test_postgres_values_keep_their_meaning(
    postgres_server: Server, names: Iterator[str]
) -> None:
    source = tools_of(postgres_place(postgres_server, next(names)))
    query = """SELECT 'infinity'::date AS a, 123456789012345678901.5 AS b, 'NaN'::numeric AS c,
                      '{"x": [1]}'::jsonb AS d, ARRAY[1, 2] AS e, 1.10::numeric AS f, true AS g"""
    (row,) = (await use(source, "query", query=query))["rows"]
    assert row == {
        "a": "infinity",
        "b": "123456789012345678901.5",
        "c": "NaN",
        "d": {"x": [1]},
        "e": [1, 2],
        "f": 1.1,
        "g": True,
    }


async def test_sums_of_cents_are_exact_in_an_sqlite_file(tmp_path: Path) -> None:
    place = sqlite_place(tmp_path)
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE paid (amount REAL)")
        cents = [number * 7919 % 99_991 for number in range(1, 3_001)]
        database.executemany("INSERT INTO paid VALUES (?)", [(cent / 100,) for cent in cents])
    database.close()
    query = "SELECT sum(amount) AS s, sum(amount * 3) AS t, avg(amount) AS m FROM paid"
    found = await use(tools_of(place), "query", query=query)
    whole = sum(cents)
    assert found["rows"] == [{"s": whole / 100, "t": whole * 3 / 100, "m": whole / 300_000}]
