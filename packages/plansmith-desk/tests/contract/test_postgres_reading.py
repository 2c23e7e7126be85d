"""Reading PostgreSQL: what a hostile statement can do when no check of its text sees it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.postgres import Server

from plansmith.errors import Misconfigured, ToolFailed
from plansmith.ports import Call
from plansmith_desk.sql import SqlTools
from plansmith_desk.sql.rows import RowLimits

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
    "DELETE FROM orders RETURNING id",
    "INSERT INTO orders VALUES (3) RETURNING id",
    "TRUNCATE orders",
    "CREATE TABLE evil (a int)",
    "SELECT nextval('numbers')",
    "SELECT setval('numbers', 99)",
    "SELECT id FROM orders FOR UPDATE",
    "CREATE ROLE evil SUPERUSER",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(1, '{outside}')",
    "COPY orders TO '{outside}'",
    "COPY (SELECT 1) TO PROGRAM 'touch {outside}'",
    "SELECT pg_reload_conf()",
    "SELECT pg_rotate_logfile()",
    "SELECT pg_switch_wal()",
    "SELECT pg_create_restore_point('evil')",
    "SELECT pg_promote()",
    "SELECT pg_stat_reset()",
    "SET TRANSACTION READ WRITE",
    "SET transaction_read_only = off",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SET ROLE plansmith",
    "SET SESSION AUTHORIZATION plansmith",
    "COMMIT",
    "ROLLBACK",
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


async def test_what_postgres_lets_a_reader_do_is_undone_when_the_statement_ends(
    shop: Shop,
) -> None:
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
    for tool, given in (
        ("sql.tables", {}),
        ("sql.execute", {"statement": "DELETE FROM orders"}),
    ):
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
