"""Tables of SQLite files in a folder, also of files that somebody hostile made."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.unit.adapters.tools.test_tables import sql, use

from plansmith.errors import ToolBusy, ToolFailed
from plansmith.ports import Call
from plansmith_desk.sql.rows import RowLimits
from plansmith_desk.tables import TableTools

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, photo BLOB);
INSERT INTO customers VALUES (1, 'Ann', zeroblob(300000)), (2, '李雷', NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INT, total REAL, status TEXT, day TEXT);
INSERT INTO orders VALUES (1, 1, 10.1, 'open', '2026-01-02'), (2, 1, 0.2, 'paid', '2026-02-03'),
  (3, 2, 5, 'Paid late', '2026-02-04');
CREATE VIEW paid AS SELECT * FROM orders WHERE status LIKE 'paid%';
"""


def database(path: Path, script: str) -> Path:
    with closing(sqlite3.connect(path)) as made:
        made.executescript(script)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    database(tmp_path / "shop.db", SHOP)
    (tmp_path / "sales.csv").write_text("customer_id,amount\n1,3\n", encoding="utf-8")
    return tmp_path


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in folder.iterdir()}


@pytest.mark.parametrize(
    "name", ["orders", "ORDERS", '"shop.db/orders"', "shop.db/orders", "shop.orders", "shop/orders"]
)
async def test_a_table_of_a_database_is_asked_by_its_name(folder: Path, name: str) -> None:
    before = state(folder)
    assert await sql(folder, f"SELECT sum(total) AS t FROM {name}") == [{"t": 15.3}]
    assert state(folder) == before


async def test_tables_of_a_database_are_joined_with_each_other_and_with_files(
    folder: Path,
) -> None:
    query = (
        "SELECT name, sum(total) AS t FROM orders o JOIN customers c ON c.id = o.customer_id "
        "GROUP BY name ORDER BY t DESC"
    )
    assert await sql(folder, query) == [{"name": "Ann", "t": 10.3}, {"name": "李雷", "t": 5.0}]
    query = "SELECT name, amount FROM sales s, customers c WHERE c.id = s.customer_id"
    assert await sql(folder, query) == [{"name": "Ann", "amount": 3}]


async def test_a_table_of_a_database_is_described_grouped_ordered_and_exported(
    folder: Path,
) -> None:
    described = await use(folder, "describe", table="shop.db/orders")
    kinds = {each["name"]: each["type"] for each in described["columns"]}
    assert kinds["day"] == "date"
    top = await use(folder, "top", table="orders", column="total", count=1)
    assert top["rows"][0]["id"] == 1
    groups = await use(folder, "group", table="orders", by="month", value="total")
    assert groups["rows"] == [
        {"month": "2026-01", "sum_total": 10.1},
        {"month": "2026-02", "sum_total": 5.2},
    ]
    assert (await use(folder, "group", table="paid", by="status"))["count"] == 2
    await use(folder, "export", table="customers", path="c.csv")
    text = (folder / "c.csv").read_text(encoding="utf-8")
    assert text == "id,name,photo\n1,Ann,(300000 bytes)\n2,李雷,\n"


async def test_a_database_alone_is_its_only_table_or_lists_them(folder: Path) -> None:
    database(folder / "one.sqlite", "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    assert (await use(folder, "describe", table="one.sqlite"))["rows"] == 1
    for name in ("one.sqlite", "'one.sqlite'", "one", "one.t", "one.sqlite.t"):
        assert await sql(folder, f"SELECT a FROM {name} WHERE 'one' = 'one'") == [{"a": 1}]
    with pytest.raises(ToolFailed, match=r"3 tables.*shop.db/customers, shop.db/orders"):
        await use(folder, "describe", table="shop.db")
    with pytest.raises(ToolFailed, match=r"no table shop.db/order_lines.*shop.db/orders"):
        await use(folder, "describe", table="shop.db/order_lines")


async def test_changes_in_the_log_of_a_database_in_use_are_seen_and_nothing_is_written(
    tmp_path: Path,
) -> None:
    with closing(sqlite3.connect(tmp_path / "live.db")) as live:
        live.execute("PRAGMA journal_mode = WAL")
        live.executescript("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2)")
        folder = tmp_path / "copied"
        folder.mkdir()
        for ending in ("", "-wal"):
            shutil.copy(tmp_path / f"live.db{ending}", folder / f"live.db{ending}")
        before = state(folder)
        assert await sql(folder, "SELECT sum(a) AS s FROM t") == [{"s": 3}]
        assert state(folder) == before


def hostile_journal(shop: Path, target: Path) -> Path:
    """Writes a rollback journal that names another file as the one to delete afterwards."""
    magic, name = bytes.fromhex("d9d505f920a163d7"), str(target).encode()
    head = (magic + bytes(16)).ljust(512, b"\0")
    sums = len(name).to_bytes(4, "big") + sum(name).to_bytes(4, "big")
    path = Path(f"{shop}-journal")
    path.write_bytes(head + (2).to_bytes(4, "big") + name + sums + magic)
    return path


async def test_a_journal_that_names_another_file_cannot_delete_it(tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("keep me", encoding="utf-8")
    shop = database(tmp_path / "shop.db", "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    hostile_journal(shop, precious)
    before = state(tmp_path)
    with pytest.raises(ToolBusy, match="unfinished change"):
        await use(tmp_path, "describe", table="shop.db/t")
    assert state(tmp_path) == before


ENDLESS = (
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r WHERE n < 0"
)


async def test_a_hostile_database_neither_hangs_nor_writes(tmp_path: Path) -> None:
    made = database(
        tmp_path / "evil.db",
        f"""
        CREATE TABLE good (a); INSERT INTO good VALUES (1);
        CREATE VIEW endless AS {ENDLESS};
        CREATE VIEW reaching AS SELECT load_extension('/tmp/x') AS a;
        CREATE TABLE log (a);
        CREATE TRIGGER t INSTEAD OF INSERT ON endless BEGIN INSERT INTO log VALUES (1); END;
        CREATE VIRTUAL TABLE words USING fts5(text);
        """,
    )
    before = made.read_bytes()
    source = TableTools(tmp_path, rows=RowLimits(seconds=0.3))

    async def ask(query: str) -> Any:
        found: Any = await source.call("tables.sql", {"query": query}, Call(key="k"))
        return found["rows"]

    assert await ask("SELECT a FROM good") == [{"a": 1}]
    with pytest.raises(ToolFailed, match=r"longer than 0.3 s"):
        await ask("SELECT * FROM endless")
    with pytest.raises(ToolFailed):
        await ask("SELECT * FROM reaching")
    with pytest.raises(ToolFailed, match=r"no table words.*evil.db/good"):
        await ask("SELECT * FROM words")
    assert await source.rehearse("tables.sql", {"query": "SELECT * FROM endless"}) == ""
    assert made.read_bytes() == before


async def test_a_file_that_is_no_database_hides_no_other_table(folder: Path) -> None:
    (folder / "broken.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5_000)
    (folder / "text.db").write_text("hello", encoding="utf-8")
    assert await sql(folder, "SELECT count(*) AS n FROM orders") == [{"n": 3}]
    with pytest.raises(ToolFailed, match="not a SQLite file"):
        await use(folder, "describe", table="text.db")
    with pytest.raises(ToolFailed, match="database"):
        await use(folder, "describe", table="broken.db/orders")


async def test_a_database_behind_a_link_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    database(tmp_path / "secret.db", "CREATE TABLE t (a)")
    (tmp_path / "work" / "link.db").symlink_to(tmp_path / "secret.db")
    for table in ("link.db/t", "../secret.db/t", "t", str(tmp_path / "secret.db/t")):
        with pytest.raises(ToolFailed):
            await use(tmp_path / "work", "describe", table=table)


async def test_a_huge_database_holds_up_no_other_table_and_is_read_when_it_is_named(
    folder: Path,
) -> None:
    database(folder / "big.db", "CREATE TABLE logs (a); INSERT INTO logs VALUES (1), (2)")
    with (folder / "big.db").open("r+b") as file:
        file.truncate(60_000_000)  # a sparse file: the rest is no part of the database
    assert await sql(folder, "SELECT count(*) AS n FROM orders") == [{"n": 3}]
    with pytest.raises(ToolFailed, match=r"no table logs.*name tables of big.db with the file"):
        await sql(folder, "SELECT * FROM logs")
    assert await sql(folder, 'SELECT sum(a) AS s FROM "big.db/logs"') == [{"s": 3}]
    assert await sql(folder, "SELECT sum(a) AS s FROM big.db") == [{"s": 3}]


async def test_a_database_with_very_many_tables_holds_up_no_other_table(folder: Path) -> None:
    names = [f"t{number}" for number in range(20_000)]
    database(folder / "many.db", "BEGIN;" + "".join(f"CREATE TABLE {n} (a);" for n in names[:3]))
    with closing(sqlite3.connect(folder / "many.db")) as made:
        made.execute("PRAGMA writable_schema = ON")
        rows = [("table", n, n, 0, f"CREATE VIRTUAL TABLE {n} USING fts5(a)") for n in names[3:]]
        made.executemany("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", rows)
        made.commit()
    assert await sql(folder, "SELECT count(*) AS n FROM orders") == [{"n": 3}]


LOANS = [("Ann", ""), ("Bo", "2026-01-03"), ("Cy", None), ("Di", "  ")]


@pytest.fixture
def loans(tmp_path: Path) -> Path:
    """The same table with empty cells of all sorts: in a database, as CSV and as JSON."""
    with closing(sqlite3.connect(tmp_path / "library.db")) as made:
        made.execute("CREATE TABLE lent (name TEXT, returned TEXT)")
        made.executemany("INSERT INTO lent VALUES (?, ?)", LOANS)
        made.commit()
    lines = ["name,returned", *(f"{name},{day or ''}" for name, day in LOANS)]
    (tmp_path / "loans.csv").write_text("\n".join(lines), encoding="utf-8")
    held = [{"name": name, "returned": day} for name, day in LOANS]
    (tmp_path / "books.json").write_text(json.dumps(held), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("table", ["lent", "loans", "books"])
@pytest.mark.parametrize(
    ("condition", "names"),
    [
        ("returned IS NULL", "Ann Cy Di"),
        ("returned = ''", "Ann Cy Di"),
        ("t.returned=='' ", "Ann Cy Di"),
        ("trim(returned) = ''", "Ann Cy Di"),
        ("returned IS NOT NULL", "Bo"),
        ("returned <> ''", "Bo"),
        ("returned IS NOT ''", "Bo"),
        ("NOT returned = ''", "Bo"),
        ("name = 'returned = '''''", ""),
    ],
)
async def test_empty_cells_of_a_table_are_found_however_a_query_asks_for_them(
    loans: Path, table: str, condition: str, names: str
) -> None:
    found = await sql(loans, f"SELECT name FROM {table} t WHERE {condition} ORDER BY name")
    assert [each["name"] for each in found] == names.split()
