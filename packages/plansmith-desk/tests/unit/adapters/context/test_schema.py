from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from plansmith.ports import ContextBlock
from plansmith_desk.sql import schema
from plansmith_planner.models.tokens import count_tokens

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT);
CREATE TABLE orders (
  id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers(id),
  status TEXT, amount DECIMAL(10,2), photo BLOB
);
CREATE TABLE "order lines" (
  order_id INTEGER, item TEXT, a INTEGER, b INTEGER,
  FOREIGN KEY (order_id) REFERENCES orders, FOREIGN KEY (a, b) REFERENCES pairs(x, y)
);
CREATE TABLE 员工 (编号 INTEGER, 姓名 TEXT);
CREATE VIEW paid AS SELECT * FROM orders WHERE status = 'paid';
INSERT INTO customers VALUES (1, 'Anna', 'Oslo'), (2, 'Bo', 'Rome'), (3, 'Cy', 'Rome');
INSERT INTO orders VALUES (1, 1, 'paid', 12.5, x'00ff'), (2, 2, 'open', NULL, NULL);
"""


def gathered(path: Path, query: str, *, token_limit: int) -> list[ContextBlock]:
    return schema.schema_blocks(schema.read_schema(path), query, token_limit=token_limit)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    path = tmp_path / "shop #1?.db"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SHOP)
        for at in range(40):
            database.execute(f"CREATE TABLE log_{at} (id INTEGER, remark_{at} TEXT)")
        database.commit()
    return path


def test_the_tables_that_fit_come_first_with_what_they_point_at(shop: Path) -> None:
    blocks = gathered(shop, "total amount of paid orders", token_limit=700)
    texts = {block.text.splitlines()[0]: block.text for block in blocks}
    assert texts["table orders"].splitlines() == [
        "table orders",
        '- id INTEGER, primary key; such as "1", "2"',
        '- customer_id INTEGER, not null; such as "1", "2"',
        '- status TEXT; such as "paid", "open"',
        '- amount DECIMAL(10,2); such as "12.5"',
        "- photo BLOB",
        "orders(customer_id) -> customers(id)",
    ]
    assert "table customers" in texts
    assert texts["view paid"].count("such as") == 0
    assert '"order lines"(order_id) -> orders' in texts['table "order lines"']
    assert '"order lines"(a, b) -> pairs(x, y)' in texts['table "order lines"']
    assert blocks[-1].title == schema.OTHERS
    assert "log_0, log_1" in blocks[-1].text


@pytest.mark.parametrize("tokens", [0, 10, 40, 120, 500])
@pytest.mark.parametrize("query", ["orders", "nothing that fits"])
def test_the_limit_is_kept(shop: Path, tokens: int, query: str) -> None:
    blocks = gathered(shop, query, token_limit=tokens)
    assert sum(count_tokens(block.text) for block in blocks) <= tokens
    assert bool(blocks) == (tokens >= 40)


def test_a_database_is_never_written_to(shop: Path) -> None:
    before = shop.read_bytes()
    shop.chmod(0o444)
    shop.parent.chmod(0o555)
    try:
        assert gathered(shop, "orders", token_limit=500)
    finally:
        shop.parent.chmod(0o755)
    assert shop.read_bytes() == before
    assert [each.name for each in shop.parent.iterdir()] == [shop.name]


def test_a_table_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "odd.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE good (x TEXT)")
        database.execute("INSERT INTO good VALUES (CAST(x'ff41' AS TEXT))")
        database.execute("CREATE VIEW broken AS SELECT * FROM gone")
        database.commit()
    blocks = gathered(path, "good", token_limit=200)
    assert [block.text for block in blocks] == ['table good\n- x TEXT; such as "\ufffdA"']
