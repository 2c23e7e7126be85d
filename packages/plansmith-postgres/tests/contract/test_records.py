"""What every store does with records."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.postgres import Server

from plansmith.errors import JournalDamaged
from plansmith.store.memory import MemoryStore
from plansmith.store.sqlite import SqliteStore
from plansmith.testing.contracts import RecordsContract, record
from plansmith_postgres.store import PostgresStore

_numbers = itertools.count(1)


class TestRecordsInMemory(RecordsContract):
    def make_store(self) -> MemoryStore:
        return MemoryStore()


class TestRecordsInFile(RecordsContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "runs.db"

    def make_store(self) -> SqliteStore:
        return SqliteStore(self.path)


class TestRecordsOnServer(RecordsContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_server: Server) -> None:
        self.dsn = postgres_server.new_database(f"records_{next(_numbers)}")

    def make_store(self) -> PostgresStore:
        return PostgresStore(self.dsn)


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
