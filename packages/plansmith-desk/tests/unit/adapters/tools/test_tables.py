"""Tables in a folder: files and SQLite databases, also hostile ones."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sqlite3
from contextlib import closing, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plansmith.errors import ToolBusy, ToolFailed
from plansmith.plan.data import plain_numbers
from plansmith.ports import Call
from plansmith.testing.contracts import ToolSourceContract
from plansmith_desk.sql.rows import RowLimits, exact_aggregates
from plansmith_desk.tables import TableTools
from plansmith_desk.tables.read import TableLimits, read_table

SALES = """id,region,amount,day,paid,note
1,North,10.50,2026-01-02,true,"a, b"
2,South,5,2026-01-03,false,
3,north,0.1,2026-02-01,true,"two
lines"
4,,0.2,,,=1+1
"""


ENDLESS = (
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n FROM r WHERE n < 0"
)


class TestTablesContract(ToolSourceContract):
    good_call = ("tables.describe", {"table": [{"a": 1}]})

    def make_source(self) -> TableTools:
        return TableTools(Path(__file__).parent)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sales.csv").write_text(SALES, encoding="utf-8")
    bosses = [{"region": "North", "boss": "Ann", "id": 7}, {"region": "South", "boss": None}]
    (tmp_path / "bosses.json").write_text(json.dumps(bosses), encoding="utf-8")
    return tmp_path


async def use(root: Path, tool: str, **words: Any) -> Any:
    source = TableTools(root)
    found = await source.call(f"tables.{tool}", words, Call(key="k"))
    specs = {spec.name: spec for spec in await source.tools()}
    jsonschema_rs.validate(specs[f"tables.{tool}"].output_schema or {}, plain_numbers(found))
    return found


async def test_a_table_is_described_by_its_columns(folder: Path) -> None:
    found = await use(folder, "describe", table="sales.csv")
    assert found["rows"] == 4
    kinds = " ".join(f"{each['name']}:{each['type']}" for each in found["columns"])
    assert kinds == "id:integer region:text amount:number day:date paid:boolean note:text"
    amount = found["columns"][2]
    assert (amount["min"], amount["max"], amount["missing"]) == (0.1, 10.5, 0)
    assert found["columns"][1]["missing"] == 1


async def sql(root: Path, query: str, **words: Any) -> Any:
    return (await use(root, "sql", query=query, **words))["rows"]


@pytest.mark.parametrize(
    ("condition", "ids"),
    [
        ("id = '2'", [2]),
        ("region IS NOT 'North'", [2, 3, 4]),
        ("amount <= '0.1'", [3]),
        ("day >= '2026-01-03'", [2, 3]),
        ("note IS NOT NULL", [1, 3, 4]),
        ("region LIKE 'so%'", [2]),
        ("paid = true", [1, 3]),
    ],
)
async def test_conditions(folder: Path, condition: str, ids: list[int]) -> None:
    rows = await sql(folder, f"SELECT id FROM sales WHERE {condition}")
    assert [row["id"] for row in rows] == ids


async def test_rows_are_grouped_and_summed_without_lost_cents(folder: Path) -> None:
    query = (
        "SELECT paid, sum(amount) AS total, count(*) AS rows, count(DISTINCT region) AS regions"
        " FROM sales GROUP BY paid ORDER BY total DESC"
    )
    assert await sql(folder, query) == [
        {"paid": 1, "total": 10.6, "rows": 2, "regions": 2},
        {"paid": 0, "total": 5.0, "rows": 1, "regions": 1},
        {"paid": None, "total": 0.2, "rows": 1, "regions": 0},
    ]
    tenths = {"t": [{"x": 0.1} for _ in range(10)]}
    assert await sql(folder, "SELECT sum(x) AS x FROM t", tables=tenths) == [{"x": 1.0}]
    few = {"t": [{"x": 1}, {"x": 2}, {"x": 6}]}
    query = "SELECT avg(x) AS mean, median(x) AS median, stdev(x) AS stdev FROM t"
    (figures,) = await sql(folder, query, tables=few)
    assert figures == {"mean": 3, "median": 2, "stdev": pytest.approx(7**0.5)}


async def test_several_tables_are_asked_with_sql(folder: Path) -> None:
    found = await use(
        folder,
        "sql",
        tables={"s": "sales.csv", "b": "bosses.json"},
        query="SELECT boss, exact_sum(amount) AS total FROM s JOIN b USING (region) GROUP BY 1",
    )
    assert found["rows"] == [{"boss": None, "total": 5.0}, {"boss": "Ann", "total": 10.5}]
    left = await sql(folder, "SELECT * FROM sales LEFT JOIN bosses USING (region)")
    assert (len(left), left[0]["id_2"]) == (4, 7)
    rows = [{"x": 1 / 3}, {"x": 1 / 3}, {"x": 0.1 + 0.2}]  # no decimals, so they stay
    assert await sql(folder, "SELECT x FROM t", tables={"t": rows}) == rows


@pytest.mark.parametrize(
    "source",
    ["sales", "SALES", '"sales.csv"', "'sales.csv'", "sales.csv", "./sales.csv", "`sales`"],
)
async def test_a_file_of_the_folder_is_a_table_by_its_name(folder: Path, source: str) -> None:
    found = await use(folder, "sql", query=f"SELECT count(*) AS n FROM {source}")
    assert found["rows"] == [{"n": 4}]


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM s",
        "ATTACH '/tmp/evil.db' AS e",
        "PRAGMA database_list",
        "SELECT 1; SELECT 2",
        "SELECT load_extension('x')",
    ],
)
async def test_sql_over_tables_only_reads(folder: Path, query: str) -> None:
    with pytest.raises(ToolFailed):
        await use(folder, "sql", tables={"s": "sales.csv"}, query=query)


INT = "integer"
FILES = [
    ("plain.csv", b"a,b\n1,2\n", {"a": "integer", "b": "integer"}, ""),
    ("utf16.csv", "ä\tb\n1\t2\n".encode("utf-16"), {"ä": "integer", "b": "integer"}, ""),
    ("gbk.csv", "城市,销量\n北京,5\n".encode("gbk"), {"城市": "text", "销量": INT}, "GB18030"),
    ("semi.csv", "Größe;b\n1,5;x\n".encode("cp1252"), {"Größe": "number", "b": "text"}, "1252"),
    ("money.csv", b'a,b\n"$1,200.50",x\n$3,y\n', {"a": "number", "b": "text"}, "is read as 1200.5"),
    ("gaps.csv", b"a\n12\nn/a\n-\n", {"a": "integer"}, "'n/a' and '-' is read as missing"),
    ("euro.csv", b"a;b\n1.200,50;1\n-3;2\n", {"a": "number", "b": "integer"}, "as 1200.5"),
    ("which.csv", b"a;b\n1,200;1\n3,400;2\n", {"a": "text", "b": "integer"}, ""),
    ("units.csv", b"a\n$3\n4%\n", {"a": "text"}, ""),
    ("pipe.csv", b'a|b\n"x|y"|2\n', {"a": "text", "b": "integer"}, ""),
    ("zeros.csv", b"zip\n007\n123\n", {"zip": "text"}, ""),
    ("huge.csv", b"n\n123456789012345678901234567890\n1\n", {"n": "text"}, ""),
    ("ragged.csv", b"a,b\n1\n1,2,3\n", {"a": INT, "b": INT, "column_3": INT}, "more cells"),
    ("twice.csv", b"a,a,\n1,2,3\n", {"a": INT, "a_2": INT, "column_3": INT}, "renamed"),
    ("empty.csv", b"a,b\n,\n", {"a": "null", "b": "null"}, ""),
    ("times.csv", b"t\n2026-01-01T10:00:00Z\n2026-01-01 10:00\n", {"t": "datetime"}, ""),
    ("rows.json", b'[{"a": 1, "b": [1]}, {"a": 2.5}]', {"a": "number", "b": "json"}, ""),
    ("inside.json", b'{"meta": 1, "rows": [{"a": "x"}]}', {"a": "text"}, ""),
    ("settings.json", b'{"a": 1, "list": [1, 2]}', {"a": "integer", "list": "json"}, ""),
    ("lines.jsonl", b'{"a": true}\n\n{"a": false}\n', {"a": "boolean"}, ""),
    ("lists.json", b"[[1, 2], [3]]", {"column_1": "integer", "column_2": "integer"}, ""),
    ("mixed.json", b'[{"a": 1}, {"a": "x"}]', {"a": "text"}, ""),
]


@pytest.mark.parametrize(("name", "data", "kinds", "note"), FILES, ids=[each[0] for each in FILES])
async def test_files_are_read_whatever_wrote_them(
    tmp_path: Path, name: str, data: bytes, kinds: dict[str, str], note: str
) -> None:
    (tmp_path / name).write_bytes(data)
    found = await use(tmp_path, "describe", table=name)
    assert {each["name"]: each["type"] for each in found["columns"]} == kinds
    assert note in " ".join(found.get("notes", []))


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("quote.csv", b'a,b\n1,"' + b"x" * 200_000, "line 2.*quote may be missing"),
        ("binary.csv", b"\xff\x00\x01\x00\x80", "not a text file"),
        ("nothing.csv", b"", "empty"),
        ("deep.json", b"[" * 100_000, "not JSON"),
        ("number.json", b"3", "list of rows"),
        ("wide.csv", b",".join(b"c" for _ in range(400)) + b"\n1\n", "at most 300 columns"),
    ],
)
async def test_files_that_are_no_tables_are_refused(
    tmp_path: Path, name: str, data: bytes, why: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ToolFailed, match=why):
        await use(tmp_path, "describe", table=name)


async def test_an_encoding_and_a_missing_header_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "gb.csv").write_bytes("北京,1\n上海,2\n".encode("gb18030"))
    rows = await sql(tmp_path, "SELECT * FROM gb", encoding="gb18030", header=False)
    assert rows[0] == {"column_1": "北京", "column_2": 1}
    with pytest.raises(ToolFailed, match="not a text in utf-8"):
        await sql(tmp_path, "SELECT * FROM gb", encoding="utf-8", header=False)


async def test_no_path_leads_out(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "secret.csv").write_text("a\n1\n", encoding="utf-8")
    (tmp_path / "work" / "link.csv").symlink_to(tmp_path / "secret.csv")
    for table in ("../secret.csv", str(tmp_path / "secret.csv"), "link.csv", ".hidden.csv"):
        with pytest.raises(ToolFailed):
            await use(tmp_path / "work", "describe", table=table)
        with pytest.raises(ToolFailed):
            await use(tmp_path / "work", "sql", tables={"t": table}, query="SELECT 1")


async def test_large_tables_are_refused_and_slow_questions_ended(tmp_path: Path) -> None:
    source = TableTools(tmp_path, limits=TableLimits(rows=10), rows=RowLimits(seconds=0.3))
    rows: Any = [{"a": n} for n in range(11)]
    with pytest.raises(ToolFailed, match="more than 10 rows"):
        await source.call("tables.describe", {"table": rows}, Call(key="k"))
    words: Any = {"tables": {"t": [{"a": 1}]}, "query": ENDLESS}
    with pytest.raises(ToolFailed, match=r"longer than 0.3 s"):
        await source.call("tables.sql", words, Call(key="k"))


FORMULAS = (
    *("=1+1", " =1+1", "\u3000=1", "＝1+1", "+cmd|x", "－2+3"),
    *("@home", "﹢1+1", "\t=1", "\n=1"),
)


async def test_no_text_of_a_table_is_a_formula_and_numbers_stay(tmp_path: Path) -> None:
    numbers = ["-5", "+5", "-5.50", "1e3", -5, 0.5]
    rows = [{"=head": each} for each in (*FORMULAS, *numbers)]
    await use(tmp_path, "write", path="x.csv", rows=rows)
    with (tmp_path / "x.csv").open(encoding="utf-8", newline="") as file:
        head, *cells = [row[0] for row in csv.reader(file)]
    assert head == "'=head"
    assert cells == [*(f"'{each}" for each in FORMULAS), *map(str, numbers)]
    await use(tmp_path, "write", path="r.csv", rows=[{"a": "x\r=1"}, {"a": "\r=1"}])
    assert (tmp_path / "r.csv").read_bytes() == b'a\n"x\n=1"\n"\'\n=1"\n'


async def test_rows_are_written_and_formulas_made_harmless(tmp_path: Path) -> None:
    rows = [{"a": "=HYPERLINK(1)", "b": True, "c": -5}, {"a": "-5", "b": None, "c": 0.5}]
    assert "1 texts" in (await use(tmp_path, "write", path="out/x.csv", rows=rows))["notes"][0]
    text = (tmp_path / "out/x.csv").read_text(encoding="utf-8")
    assert text == "a,b,c\n'=HYPERLINK(1),true,-5\n-5,,0.5\n"
    await use(tmp_path, "write", path="x.json", rows=rows, columns=["c"])
    assert json.loads((tmp_path / "x.json").read_text(encoding="utf-8")) == [{"c": -5}, {"c": 0.5}]
    await use(tmp_path, "write", path="none.tsv", rows=[], columns=["a", "b"])
    assert (tmp_path / "none.tsv").read_text(encoding="utf-8") == "a\tb\n"
    with pytest.raises(ToolFailed, match="there already"):
        await use(tmp_path, "write", path="x.json", rows=[{"a": 1}])
    for path in ("x.xlsx", "../x.csv"):
        with pytest.raises(ToolFailed):
            await use(tmp_path, "write", path=path, rows=rows)


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=8))
def test_what_the_csv_module_writes_comes_back(rows: list[tuple[str, str, str]]) -> None:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([("x", "y", "z"), *rows])
    data = out.getvalue().encode()
    found = read_table(data, "x.csv", limits=TableLimits(), encoding=None, header=True)
    assert found.names == ["x", "y", "z"]
    assert len(found.rows) == len(rows)
    for name, kind in found.columns:
        if kind == "text":
            place = found.names.index(name)
            written = [row[place] if row[place].strip() else None for row in rows]
            assert [row[place] for row in found.rows] == written


@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    with suppress(ToolFailed):
        read_table(data, "x.csv", limits=TableLimits(), encoding=None, header=True)


@pytest.mark.parametrize(
    ("text", "query", "rows"),
    [
        (
            "d,x\n1,0.1\n2,0.2\n3,0.3\n4,0.4\n",
            "SELECT sum(x) OVER (ORDER BY d), sum(x) OVER (ORDER BY d ROWS 1 PRECEDING) FROM t",
            [(0.1, 0.1), (0.3, 0.3), (0.6, 0.5), (1.0, 0.7)],
        ),
        ("a,b\n0.1,3\n0.7,1\n", "SELECT a * b, a + 0.2 FROM t", [(0.3, 0.3), (0.7, 0.9)]),
        (
            'what,amount\na,"$1,200.50"\nb,n/a\nc,$0.70\n',
            "SELECT sum(amount), avg(amount) FROM t",
            [(1201.2, 600.6)],
        ),
    ],
)
async def test_written_decimals_are_computed_without_dust(
    tmp_path: Path, text: str, query: str, rows: list[tuple[float, ...]]
) -> None:
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    assert [tuple(row.values()) for row in await sql(tmp_path, query)] == rows


@given(st.lists(st.integers(-(10**11), 10**11), min_size=1, max_size=60))
def test_the_sum_of_any_cents_is_the_sum_of_the_cents(cents: list[int]) -> None:
    database = sqlite3.connect(":memory:")
    exact_aggregates(database)
    database.execute("CREATE TABLE t (x REAL)")
    database.executemany("INSERT INTO t VALUES (?)", [(cent / 100,) for cent in cents])
    (found,) = database.execute("SELECT sum(x) FROM t").fetchone()
    database.close()
    assert found == float(Decimal(sum(cents)) / 100)


async def test_a_query_keeps_the_digits_that_its_tables_write(tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("id,amount,rate\n2,55.00,3\n1,49.90,0.125\n", encoding="utf-8")
    (tmp_path / "t.json").write_text('[{"n": 7.50}, {"n": 1.25}]', encoding="utf-8")
    rows = await sql(tmp_path, "SELECT id, amount AS paid, rate FROM o ORDER BY id DESC")
    assert str(rows) == (
        "[{'id': 2, 'paid': 55.00, 'rate': 3}, {'id': 1, 'paid': 49.90, 'rate': 0.125}]"
    )
    assert str(await sql(tmp_path, "SELECT sum(n) AS s, n FROM t")) == "[{'s': 8.75, 'n': 7.50}]"
    top = await use(tmp_path, "top", table="o", column="amount", count=1)
    assert str(top["rows"][0]["amount"]) == "55.00"
    for ending, cells in (("csv", "2,55.00\n"), ("md", "| 2 | 55.00 |"), ("json", "55.00")):
        await use(tmp_path, "write", path=f"out.{ending}", rows=rows, columns=["id", "paid"])
        assert cells in (tmp_path / f"out.{ending}").read_text(encoding="utf-8")
    await use(tmp_path, "export", table="o", path="copy.csv")
    assert (tmp_path / "copy.csv").read_text() == (tmp_path / "o.csv").read_text()


@pytest.mark.parametrize(
    ("query", "tied"),
    [
        ("SELECT item FROM t GROUP BY item ORDER BY count(*) DESC LIMIT 1", True),
        ("SELECT item, sum(n) AS s FROM t GROUP BY item ORDER BY s DESC LIMIT 1;", False),
        ("SELECT item FROM t GROUP BY item ORDER BY count(*) DESC LIMIT 2", False),
        ("SELECT item FROM t LIMIT 1", False),
    ],
)
async def test_a_limit_that_hides_a_tie_is_told(tmp_path: Path, query: str, *, tied: bool) -> None:
    (tmp_path / "t.csv").write_text("item,n\na,1\na,2\nb,1\nb,3\nc,1\n", encoding="utf-8")
    found = await use(tmp_path, "sql", query=query)
    assert any("tie with the last one" in each for each in found.get("notes", [])) is tied


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
def shop(tmp_path: Path) -> Path:
    database(tmp_path / "shop.db", SHOP)
    (tmp_path / "sales.csv").write_text("customer_id,amount\n1,3\n", encoding="utf-8")
    return tmp_path


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {each.name: (each.read_bytes(), each.stat().st_mtime_ns) for each in folder.iterdir()}


@pytest.mark.parametrize(
    "name", ["orders", "ORDERS", '"shop.db/orders"', "shop.db/orders", "shop.orders", "shop/orders"]
)
async def test_a_table_of_a_database_is_asked_by_its_name(shop: Path, name: str) -> None:
    before = state(shop)
    assert await sql(shop, f"SELECT sum(total) AS t FROM {name}") == [{"t": 15.3}]
    assert state(shop) == before


async def test_tables_of_a_database_are_joined_with_each_other_and_with_files(shop: Path) -> None:
    query = (
        "SELECT name, sum(total) AS t FROM orders o JOIN customers c ON c.id = o.customer_id "
        "GROUP BY name ORDER BY t DESC"
    )
    assert await sql(shop, query) == [{"name": "Ann", "t": 10.3}, {"name": "李雷", "t": 5.0}]
    query = "SELECT name, amount FROM sales s, customers c WHERE c.id = s.customer_id"
    assert await sql(shop, query) == [{"name": "Ann", "amount": 3}]


async def test_a_table_of_a_database_is_described_grouped_ordered_and_exported(shop: Path) -> None:
    described = await use(shop, "describe", table="shop.db/orders")
    kinds = {each["name"]: each["type"] for each in described["columns"]}
    assert kinds["day"] == "date"
    assert (await use(shop, "top", table="orders", column="total", count=1))["rows"][0]["id"] == 1
    groups = await use(shop, "group", table="orders", by="month", value="total")
    assert groups["rows"] == [
        {"month": "2026-01", "sum_total": 10.1},
        {"month": "2026-02", "sum_total": 5.2},
    ]
    assert (await use(shop, "group", table="paid", by="status"))["count"] == 2
    await use(shop, "export", table="customers", path="c.csv")
    text = (shop / "c.csv").read_text(encoding="utf-8")
    assert text == "id,name,photo\n1,Ann,(300000 bytes)\n2,李雷,\n"


async def test_a_database_alone_is_its_only_table_or_lists_them(shop: Path) -> None:
    database(shop / "one.sqlite", "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
    assert (await use(shop, "describe", table="one.sqlite"))["rows"] == 1
    for name in ("one.sqlite", "'one.sqlite'", "one", "one.t", "one.sqlite.t"):
        assert await sql(shop, f"SELECT a FROM {name} WHERE 'one' = 'one'") == [{"a": 1}]
    with pytest.raises(ToolFailed, match=r"3 tables.*shop.db/customers, shop.db/orders"):
        await use(shop, "describe", table="shop.db")
    with pytest.raises(ToolFailed, match=r"no table shop.db/order_lines.*shop.db/orders"):
        await use(shop, "describe", table="shop.db/order_lines")


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


async def test_a_file_that_is_no_database_hides_no_other_table(shop: Path) -> None:
    (shop / "broken.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5_000)
    (shop / "text.db").write_text("hello", encoding="utf-8")
    assert await sql(shop, "SELECT count(*) AS n FROM orders") == [{"n": 3}]
    with pytest.raises(ToolFailed, match="not a SQLite file"):
        await use(shop, "describe", table="text.db")
    with pytest.raises(ToolFailed, match="database"):
        await use(shop, "describe", table="broken.db/orders")


async def test_a_database_behind_a_link_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    database(tmp_path / "secret.db", "CREATE TABLE t (a)")
    (tmp_path / "work" / "link.db").symlink_to(tmp_path / "secret.db")
    for table in ("link.db/t", "../secret.db/t", "t", str(tmp_path / "secret.db/t")):
        with pytest.raises(ToolFailed):
            await use(tmp_path / "work", "describe", table=table)


async def test_a_huge_database_holds_up_no_other_table_and_is_read_when_it_is_named(
    shop: Path,
) -> None:
    database(shop / "big.db", "CREATE TABLE logs (a); INSERT INTO logs VALUES (1), (2)")
    with (shop / "big.db").open("r+b") as file:
        file.truncate(60_000_000)  # a sparse file: the rest is no part of the database
    assert await sql(shop, "SELECT count(*) AS n FROM orders") == [{"n": 3}]
    with pytest.raises(ToolFailed, match=r"no table logs.*name tables of big.db with the file"):
        await sql(shop, "SELECT * FROM logs")
    assert await sql(shop, 'SELECT sum(a) AS s FROM "big.db/logs"') == [{"s": 3}]
    assert await sql(shop, "SELECT sum(a) AS s FROM big.db") == [{"s": 3}]


async def test_a_database_with_very_many_tables_holds_up_no_other_table(shop: Path) -> None:
    names = [f"t{number}" for number in range(20_000)]
    database(shop / "many.db", "BEGIN;" + "".join(f"CREATE TABLE {n} (a);" for n in names[:3]))
    with closing(sqlite3.connect(shop / "many.db")) as made, made:
        made.execute("PRAGMA writable_schema = ON")
        rows = [("table", n, n, 0, f"CREATE VIRTUAL TABLE {n} USING fts5(a)") for n in names[3:]]
        made.executemany("INSERT INTO sqlite_master VALUES (?, ?, ?, ?, ?)", rows)
    assert await sql(shop, "SELECT count(*) AS n FROM orders") == [{"n": 3}]


LOANS = [("Ann", ""), ("Bo", "2026-01-03"), ("Cy", None), ("Di", "  ")]


@pytest.fixture
def loans(tmp_path: Path) -> Path:
    """The same table with empty cells of all sorts: in a database, as CSV and as JSON."""
    path = database(tmp_path / "library.db", "CREATE TABLE lent (name TEXT, returned TEXT)")
    with closing(sqlite3.connect(path)) as made, made:
        made.executemany("INSERT INTO lent VALUES (?, ?)", LOANS)
    lines = ["name,returned", *(f"{name},{day or ''}" for name, day in LOANS)]
    (tmp_path / "loans.csv").write_text("\n".join(lines), encoding="utf-8")
    held = [{"name": name, "returned": day} for name, day in LOANS]
    (tmp_path / "books.json").write_text(json.dumps(held), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("table", ["lent", "loans", "books"])
@pytest.mark.parametrize(
    ("condition", "names"),
    [
        *(("returned IS NULL", "Ann Cy Di"), ("returned = ''", "Ann Cy Di")),
        *(("t.returned=='' ", "Ann Cy Di"), ("trim(returned) = ''", "Ann Cy Di")),
        *(("returned IS NOT NULL", "Bo"), ("returned <> ''", "Bo"), ("returned IS NOT ''", "Bo")),
        *(("NOT returned = ''", "Bo"), ("name = 'returned = '''''", "")),
    ],
)
async def test_empty_cells_of_a_table_are_found_however_a_query_asks_for_them(
    loans: Path, table: str, condition: str, names: str
) -> None:
    found = await sql(loans, f"SELECT name FROM {table} t WHERE {condition} ORDER BY name")
    assert [each["name"] for each in found] == names.split()
