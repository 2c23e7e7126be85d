from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from tests.contract.durable_stores import START, DurableStoreContract

from plansmith.store.sqlite import SqliteStore
from plansmith.testing.contracts import PlanStoreContract


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
