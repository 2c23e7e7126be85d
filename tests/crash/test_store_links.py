"""A PostgreSQL store whose server or connection goes away in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.contract.threads import entry, story
from tests.postgres import Server
from tests.servers.a2a_wire import Wire

from plansmith.errors import JournalError, Misconfigured, StaleWriter
from plansmith.plan.thread import MessageAdded
from plansmith.store.doctor import diagnose, verify
from plansmith.testing.contracts import journal
from plansmith_planner.threads.store import ThreadStore
from plansmith_postgres.store import PostgresStore


@pytest.fixture
def dsn(postgres_server: Server) -> str:
    return postgres_server.new_database()


def cut(server: Server, dsn: str) -> None:
    """End every session of a database."""
    name = dsn.rpartition("/")[2]
    server.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


async def test_cut_sessions_are_opened_again(postgres_server: Server, dsn: str) -> None:
    store = PostgresStore(dsn)
    for number, event in enumerate(journal("a", 6)):
        await store.append([event])
        cut(postgres_server, dsn)
        assert len(await store.events("a")) == number + 1
        cut(postgres_server, dsn)
    assert await verify(store, "a") == 6
    await store.close()


async def test_a_follower_outlives_a_cut_session(postgres_server: Server, dsn: str) -> None:
    store, other = PostgresStore(dsn), PostgresStore(dsn)
    await other.append(journal("a", 1))
    await store.wait("a")
    waiting = asyncio.ensure_future(store.wait("a", after=1))
    await store.runs()
    cut(postgres_server, dsn)
    await other.append(journal("a", 2)[1:])
    await waiting
    assert len(await store.events("a")) == 2
    await store.close()
    await other.close()


@asynccontextmanager
async def wire_to(server: Server, dsn: str) -> AsyncIterator[tuple[Wire, PostgresStore]]:
    """A store behind a wire to the server; `b""` is in every question, whose answer may be lost."""
    wire = Wire(server.port)
    store = PostgresStore(dsn.replace(f":{server.port}/", f":{wire.port}/"))
    async with wire.open():
        yield wire, store
        await store.close()


async def test_a_write_whose_answer_was_lost_is_neither_lost_nor_done_twice(
    postgres_server: Server, dsn: str
) -> None:
    async with wire_to(postgres_server, dsn) as (wire, store):
        await store.append(journal("a", 1))
        await store.append(journal("other", 1))
        for number in range(1, 5):
            wire.swallow = [b""]
            stale = store.append(journal("other", 1))
            outcomes = await asyncio.gather(
                store.append(journal("a", number + 1)[number:], [number]),
                store.append(journal("other", 3)[2:]),
                stale,
                return_exceptions=True,
            )
            assert not wire.swallow
            assert outcomes[0] is None
            assert isinstance(outcomes[1], StaleWriter)
        assert await verify(store, "a") == 5


async def test_an_entry_of_a_thread_is_there_once_whichever_answer_of_the_server_was_lost(
    postgres_server: Server, dsn: str
) -> None:
    async with wire_to(postgres_server, dsn) as (wire, store):
        assert await ThreadStore(store).append_entries(story("trip")[:1])
        number, texts = 1, [""]
        while not wire.swallow:
            wire.swallow, wire.pass_first = [b""], number - 1
            number += 1
            message = MessageAdded(text=f"{number}")
            assert await ThreadStore(store).append_entries([entry("trip", number, message)])
            assert not await ThreadStore(store).append_entries([entry("trip", number, message)])
            texts.append(f"{number}")
        assert number > 5, "a transaction has several answers, each of which was lost"
        found = await ThreadStore(store).thread_entries("trip")
        assert [getattr(each.body, "text", "") for each in found] == texts


async def test_a_server_that_stays_away_is_a_named_error(postgres_server: Server) -> None:
    store = PostgresStore("postgresql://plansmith@127.0.0.1:1/nothing")
    for use in (store.append(journal("a", 1)), store.events("a")):
        with pytest.raises(JournalError, match="cannot be reached"):
            await use
    await store.close()
    missing = PostgresStore(postgres_server.dsn_of("no_such_database"))
    with pytest.raises((JournalError, Misconfigured), match="no_such_database"):
        await missing.runs()
    await missing.close()
    findings = await diagnose("postgresql://plansmith@127.0.0.1:1/nothing")
    assert [found.level for found in findings] == ["error"]


async def test_a_schema_of_another_version_is_refused(postgres_server: Server, dsn: str) -> None:
    assert [found.level for found in await diagnose(dsn)] == ["note"]
    store = PostgresStore(dsn)
    await store.append(journal("a", 2), ["kept"])
    await store.close()
    for version in (99, 12):
        change = f"UPDATE plansmith.migration SET number = {version}"
        postgres_server.sql(change, database=dsn)
        other = PostgresStore(dsn)
        with pytest.raises(Misconfigured, match=f"version {version}"):
            await other.runs()
        await other.close()
        assert [found.level for found in await diagnose(dsn)] == ["error"]


async def test_a_restarted_server_is_waited_for(postgres_server: Server, dsn: str) -> None:
    store = PostgresStore(dsn, patience_s=60)
    await store.append(journal("a", 2))
    await asyncio.to_thread(postgres_server.stop)
    appending = asyncio.ensure_future(store.append(journal("a", 3)[2:]))
    await asyncio.to_thread(postgres_server.start)
    await appending
    assert await verify(store, "a") == 3
    await store.close()
