"""Stores that outlive a process: every contract, and events that are appended together."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.contract.durable_stores import START, AnyStore, DurableStoreContract, Store
from tests.postgres import Server
from tests.waiting import until

from plansmith.engine.journal import load_results
from plansmith.errors import JournalDamaged, JournalError, Misconfigured, StaleWriter
from plansmith.plan.data import Json, canonical_hash
from plansmith.plan.events import (
    Actor,
    AnyBody,
    Event,
    RunCreated,
    RunPaused,
    next_events,
    verify_chain,
)
from plansmith.plan.run import Run, Steps, StepState, StepStatus
from plansmith.store.memory import MemoryStore
from plansmith.store.sqlite import SqliteStore
from plansmith.store.urls import open_store
from plansmith.testing.claim_contracts import ClaimsContract
from plansmith.testing.contracts import DocumentsContract, JournalStoreContract, document
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


class TestPostgresStore(_OnServer, JournalStoreContract):
    pass


class TestDurablePostgresStore(_OnServer, DurableStoreContract):
    pass


class TestClaimsOnServer(_OnServer, ClaimsContract):
    pass


class TestRecordsOnServer(_OnServer, DocumentsContract):
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


class TestSqliteStore(_InFile, JournalStoreContract):
    pass


class TestDurableSqliteStore(_InFile, DurableStoreContract):
    pass


class TestRecordsInFile(_InFile, DocumentsContract):
    pass


class TestClaimsInFile(_InFile, ClaimsContract):
    pass


class TestClaimsInMemory(ClaimsContract):
    def make_store(self) -> MemoryStore:
        return MemoryStore()


class TestRecordsInMemory(DocumentsContract):
    def make_store(self) -> MemoryStore:
        return MemoryStore()


async def test_an_altered_record_says_so_when_its_body_is_read(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    await store.put_documents([document("a"), document("b")])
    await store.close()
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE documents SET body = body || ' ' WHERE name = 'a'")
    store = SqliteStore(path)
    a, b = await store.documents("note")
    assert (a.altered, b.altered) == (True, False)
    assert b.checked_body == document("b").body
    with pytest.raises(JournalDamaged, match="note a was altered"):
        _ = a.checked_body
    await store.close()


START = datetime(2026, 1, 1, 12, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SYSTEM = Actor(kind="system")


def opened(url: str) -> Store:
    store = open_store(url)
    assert isinstance(store, SqliteStore | PostgresStore)
    return store


@pytest.fixture
async def durable(url: str) -> AsyncIterator[Store]:
    made = opened(url)
    yield made
    await made.close()


def together(length: int, *, last: Event | None = None, at: datetime = START) -> list[Event]:
    """Events of one moment."""
    bodies: list[AnyBody] = [RunPaused(reason=f"{number}") for number in range(length)]
    if last is None:
        bodies[0] = RunCreated(request="请求")
    return next_events(bodies, run="a", by=SYSTEM, at=at, last=last)


async def test_events_appended_together_are_read_from_any_number_on(durable: Store) -> None:
    store, events = durable, together(20)
    later = START + timedelta(seconds=1)
    events += together(3, last=events[-1], at=later)
    events += together(1, last=events[-1])
    events += together(12, last=events[-1], at=EPOCH)
    for start, end in ((0, 20), (20, 23), (23, 24), (24, 36)):
        await store.append(events[start:end])
    for after in range(-1, 38):
        assert list(await store.events("a", after=after)) == events[max(after, 0) :]
    verify_chain(await store.events("a"))


@pytest.mark.parametrize("after", [2, 10, 11])
async def test_a_journal_that_is_cut_among_events_appended_together_goes_on_there(
    url: str, after: int
) -> None:
    first, events = opened(url), together(10)
    events += together(4, last=events[-1])
    await first.append(events[:10])
    await first.append(events[10:])
    assert await first.set_aside("a", after, []) == 14 - after
    aside = await first._query("SELECT number FROM set_aside ORDER BY id", {})
    assert aside == [(number,) for number in range(after + 1, 15)]
    await first.close()
    again = opened(url)
    assert list(await again.events("a")) == events[:after]
    with pytest.raises(StaleWriter):
        await again.append(together(1, last=events[after]))
    new = together(2, last=events[after - 1])
    await again.append(new)
    assert list(await again.events("a")) == [*events[:after], *new]
    other = together(1, last=new[0])
    assert await again.set_aside("a", after + 1, other) == 1
    assert list(await again.events("a", after=after)) == [new[0], *other]
    with pytest.raises(StaleWriter):
        await again.set_aside("a", after + 1, together(1, last=events[-1]))
    await again.close()


async def test_reading_on_finds_what_another_process_left_there(url: str) -> None:
    reader, writer = opened(url), opened(url)
    events = together(3)
    await writer.append(events)
    assert list(await reader.events("a")) == events
    other = together(2, last=events[1])
    await writer.set_aside("a", 2, other)
    assert list(await reader.events("a", after=3)) == other[1:]
    await writer.delete_run("a")
    assert list(await reader.events("a", after=1)) == []
    await writer.append(events)
    assert list(await reader.events("a", after=1)) == events[1:]
    for each in (reader, writer):
        await each.close()


async def test_reading_on_refuses_a_journal_whose_known_event_has_another_hash(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.append(together(2))
    with closing(sqlite3.connect(tmp_path / "store.db")) as file, file:
        file.execute("UPDATE events SET hash = x'00' WHERE number = 2")
    with pytest.raises(JournalDamaged):
        await store.events("a", after=2)
    await store.close()


async def test_the_rows_of_a_store_can_be_read_by_a_person(url: str) -> None:
    store = opened(url)
    await store.append(together(5))
    await store.close()
    query = "SELECT number, at FROM events ORDER BY number"
    if isinstance(store, SqliteStore):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            rows = file.execute(query).fetchall()
    else:
        psycopg = pytest.importorskip("psycopg")
        with psycopg.connect(url, options="-c search_path=plansmith") as connection:
            rows = connection.execute(query).fetchall()
    assert rows == [(number, "2026-01-01T12:00:00.000000Z") for number in range(1, 6)]


# Many values at once


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_many_values_come_in_their_order_as_objects_of_their_own(
    address: Callable[[str], str], kind: str
) -> None:
    values: list[Json] = [None, 1.5, "text" * 20, {"a": ["1" * 64]}, [], "x" * 5000]
    url = address(kind)
    store = opened_any(url)
    digests = [await store.put(each) for each in values]
    if kind != "memory":  # nothing is still in its cache
        await store.close()
        store = opened_any(url)
    assert await store.get_many(digests[::-1]) == values[::-1]
    assert await store.get_many([]) == []
    new = await store.put("new" * 30)
    # One is cached, one is not.
    assert await store.get_many([new, digests[2]]) == ["new" * 30, values[2]]
    for _ in range(2):
        first, second = await store.get_many([digests[3]] * 2)
        assert isinstance(first, dict)
        first["a"] = 2
        assert second == values[3]
        assert await store.get_many([digests[3]]) == [values[3]]
        await store.put(values[3])  # from now on cached
    gone = canonical_hash("gone")
    with pytest.raises(JournalDamaged, match=f"no value is stored under {gone}"):
        await store.get_many([digests[0], gone])
    await store.close()


def opened_any(url: str) -> AnyStore:
    made = open_store(url)
    assert isinstance(made, AnyStore)
    return made


async def test_an_altered_one_of_many_values_is_damage_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    good, bad = await store.put("good" * 20), await store.put("bad" * 30)
    await store.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE contents SET body = '\"BAD\"' WHERE hash = ?", (bad,))
    connection.commit()
    connection.close()
    store = SqliteStore(path)
    with pytest.raises(JournalDamaged, match=f"the value stored under {bad} was altered"):
        await store.get_many([good, bad])
    assert await store.get_many([good]) == ["good" * 20]
    await store.close()


async def test_the_results_of_a_run_are_read_together(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    values: list[Json] = [str(place % 2) * 80 for place in range(4)]
    hashes = [await store.put(value) for value in values]
    steps = {
        f"s{place}": StepState(status=StepStatus.DONE, result_hash=digest)
        for place, digest in enumerate(hashes)
    }
    run = Run(id="r", steps=Steps(steps | {"open": StepState()}))
    assert await load_results(store, run) == dict(zip(steps, values, strict=True))
    await store.close()
