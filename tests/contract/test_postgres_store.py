from __future__ import annotations

import itertools
from datetime import datetime
from typing import Any

import pytest
from tests.contract.durable_stores import START, DurableStoreContract
from tests.postgres import Server

from plansmith.adapters.stores.pg_connection import Connection
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


async def test_the_server_never_compiles_a_statement_of_the_store(postgres_server: Server) -> None:
    # On tables that were not analysed yet it overrates them, and compiled one for seconds.
    connection = Connection(
        postgres_server.new_database(f"contract_{next(_numbers)}"), patience_s=1
    )

    async def setting(open_connection: Any, _again: bool) -> str:
        cursor = await open_connection.execute("SHOW jit")
        return str((await cursor.fetchone())[0])

    assert await connection.use(setting) == "off"
    await connection.close()
