from __future__ import annotations

import asyncio
import itertools
import sqlite3
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.contract.durable_stores import START, DurableStoreContract
from tests.postgres import Server
from tests.waiting import until

from plansmith.errors import JournalDamaged, JournalError, Misconfigured
from plansmith.store.memory import MemoryStore
from plansmith.store.sqlite import SqliteStore
from plansmith.testing.claim_contracts import ClaimsContract
from plansmith.testing.contracts import PlanStoreContract, RecordsContract, record
from plansmith_postgres.connection import Connection
from plansmith_postgres.store import PostgresStore

_numbers = itertools.count(1)


class _OnServer:
    @pytest.fixture(autouse=True)
    def _database(self, postgres_server: Server) -> None:
        self.dsn = postgres_server.new_database(f"contract_{next(_numbers)}")

    def open_store(self, *, now: datetime = START) -> PostgresStore:
        return PostgresStore(self.dsn, now=lambda: now)

    def make_store(self) -> PostgresStore:
        return self.open_store()


class TestPostgresStore(_OnServer, PlanStoreContract):
    pass


class TestDurablePostgresStore(_OnServer, DurableStoreContract):
    pass


class TestClaimsOnServer(_OnServer, ClaimsContract):
    pass


class TestRecordsOnServer(_OnServer, RecordsContract):
    pass


async def test_the_server_never_compiles_a_statement_of_the_store(postgres_server: Server) -> None:
    # On tables that were not analysed yet it overrates them, and compiled one for seconds.
    connection = Connection(
        postgres_server.new_database(f"contract_{next(_numbers)}"), patience_s=1
    )

    async def setting(open_connection: Any, _attempt: int) -> str:
        cursor = await open_connection.execute("SHOW jit")
        return str((await cursor.fetchone())[0])

    assert await connection.use(setting) == "off"
    await connection.close()


async def test_a_query_that_is_given_up_half_way_leaves_a_store_that_works(
    postgres_server: Server,
) -> None:
    store = PostgresStore(postgres_server.new_database(f"contract_{next(_numbers)}"), connections=1)
    await store.runs()
    for turns in range(1, 40):
        task = asyncio.create_task(store.runs())
        for _ in range(turns % 7):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()  # also while the driver cleans up
        with suppress(asyncio.CancelledError):
            await task
        assert list(await store.runs()) == []
    await store.close()


async def test_a_store_that_closes_while_a_follower_connects_leaves_no_connection(
    postgres_server: Server,
) -> None:
    name = f"contract_{next(_numbers)}"
    dsn = postgres_server.new_database(name)
    await _closed_after(dsn, 1)
    for turns in range(40):
        await _closed_after(dsn, turns / 1000)
    left = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'"
    await until(lambda: postgres_server.sql(left) == "0")


async def _closed_after(dsn: str, seconds: float) -> None:
    store = PostgresStore(dsn)
    waiting = asyncio.create_task(store.wait("a"))
    await asyncio.sleep(seconds)
    await store.close()
    with pytest.raises(JournalError):
        await waiting


async def test_stores_that_are_opened_at_the_same_time_make_their_tables_once(
    postgres_server: Server,
) -> None:
    dsn = postgres_server.new_database(f"contract_{next(_numbers)}")
    stores = [PostgresStore(dsn) for _ in range(4)]
    found = await asyncio.gather(*(each.claims() for each in stores))
    assert [[*claims] for claims in found] == [[], [], [], []]
    for each in stores:
        await each.close()


async def test_a_database_whose_text_is_not_utf8_is_refused(postgres_server: Server) -> None:
    name = f"latin_{next(_numbers)}"
    options = "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    postgres_server.sql(f"CREATE DATABASE {name} {options}")
    store = PostgresStore(postgres_server.dsn_of(name))
    with pytest.raises(Misconfigured, match="LATIN1"):
        await store.runs()
    await store.close()


# SQLite


class _InFile:
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "folder" / "plansmith.db"

    def open_store(self, *, now: datetime = START) -> SqliteStore:
        return SqliteStore(self.path, poll_s=0.005, now=lambda: now)

    def make_store(self) -> SqliteStore:
        return self.open_store()


class TestSqliteStore(_InFile, PlanStoreContract):
    pass


class TestDurableSqliteStore(_InFile, DurableStoreContract):
    pass


class TestRecordsInFile(_InFile, RecordsContract):
    pass


class TestClaimsInFile(_InFile, ClaimsContract):
    pass


class TestClaimsInMemory(ClaimsContract):
    def make_store(self) -> MemoryStore:
        return MemoryStore()


class TestRecordsInMemory(RecordsContract):
    def make_store(self) -> MemoryStore:
        return MemoryStore()


async def test_an_altered_record_says_so_when_its_body_is_read(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    await store.put_records([record("a"), record("b")])
    await store.close()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE records SET body = body || ' ' WHERE name = 'a'")
    store = SqliteStore(path)
    a, b = await store.records("note")
    assert (a.altered, b.altered) == (True, False)
    assert b.checked_body == record("b").body
    with pytest.raises(JournalDamaged, match="note a was altered"):
        _ = a.checked_body
    await store.close()
