from __future__ import annotations

import itertools
from datetime import datetime

import pytest
from tests.contract.durable_stores import START, DurableStoreContract
from tests.postgres import Server

from plansmith.adapters.stores.postgres import PostgresStore
from plansmith.testing.contracts import PlanStoreContract

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
