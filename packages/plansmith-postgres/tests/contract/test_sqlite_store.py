from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path

import pytest
from tests.contract.durable_stores import START, DurableStoreContract

from plansmith.errors import JournalDamaged
from plansmith.store.memory import MemoryStore
from plansmith.store.sqlite import SqliteStore
from plansmith.testing.claim_contracts import ClaimsContract
from plansmith.testing.contracts import PlanStoreContract, RecordsContract, record


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


class TestRecordsInMemory(RecordsContract):
    def make_store(self) -> MemoryStore:
        return MemoryStore()


class TestClaimsInMemory(ClaimsContract):
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
