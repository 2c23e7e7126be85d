"""What every store does with threads, and what the durable ones do beyond that."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.contract.threads import ThreadStoreContract, story
from tests.postgres import Server

from plansmith.errors import JournalDamaged
from plansmith.plan.events import Actor, RunFinished, next_event
from plansmith.ports import Finding
from plansmith.store.doctor import diagnose
from plansmith.store.memory import MemoryStore
from plansmith.store.sqlite import SqliteStore
from plansmith.store.urls import open_store
from plansmith.testing.contracts import journal
from plansmith_planner.threads.store import ThreadStore, check_threads
from plansmith_postgres.store import PostgresStore

_numbers = itertools.count(1)


class TestThreadsInMemory(ThreadStoreContract):
    def make_store(self) -> MemoryStore:
        return MemoryStore()


class TestThreadsInFile(ThreadStoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "runs.db"

    def make_store(self) -> SqliteStore:
        return SqliteStore(self.path)


class TestThreadsOnServer(ThreadStoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgres_server: Server) -> None:
        self.dsn = postgres_server.new_database(f"threads_{next(_numbers)}")

    def make_store(self) -> PostgresStore:
        return PostgresStore(self.dsn)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runs.db'}"
    server: Server = request.getfixturevalue("postgres_server")
    return server.new_database(f"threads_{next(_numbers)}")


async def test_threads_are_there_when_the_store_is_opened_again(url: str) -> None:
    first = open_store(url)
    assert await ThreadStore(first).append_entries(story("trip")[:5])
    await first.close()
    second = open_store(url)
    assert await ThreadStore(second).append_entries(story("trip")[5:])
    assert list(await ThreadStore(second).thread_entries("trip")) == story("trip")
    assert await ThreadStore(second).thread_of("trip-run") == "trip"
    await second.close()


async def test_a_thread_outlives_its_runs(url: str) -> None:
    store = open_store(url)
    assert not isinstance(store, MemoryStore)
    for run in ("trip-run", "trip-later"):
        events = journal(run, 1)
        body, by = RunFinished(status="done"), Actor(kind="system")
        at = datetime(2026, 1, 1, tzinfo=UTC)
        await store.append([*events, next_event(body, run=run, by=by, at=at, last=events[-1])])
    await ThreadStore(store).append_entries(story("trip"))
    assert await store.delete_run("trip-later")
    assert (await store.prune(datetime(2026, 2, 1, tzinfo=UTC))).runs == 1
    assert list(await store.runs()) == []
    assert list(await ThreadStore(store).thread_entries("trip")) == story("trip")
    # Otherwise its message would look like one that nobody has acted on.
    assert await ThreadStore(store).thread_of("trip-later") == ""
    await store.close()


async def test_followers_of_a_thread_hear_of_entries_of_another_store(url: str) -> None:
    mine, theirs = open_store(url), open_store(url)
    await ThreadStore(mine).append_entries(story("trip")[:1])
    waiting = asyncio.ensure_future(ThreadStore(mine).wait_thread("trip", after=3))
    news = asyncio.ensure_future(mine.wait_news(0))
    assert await ThreadStore(theirs).append_entries(story("trip")[1:3])
    assert await ThreadStore(theirs).append_entries(story("trip")[3:5])
    await asyncio.wait_for(waiting, 30)
    assert not news.done(), "a thread is no event of a run"
    news.cancel()
    await mine.close()
    await theirs.close()


async def _findings(url: str) -> dict[str, Finding]:
    return {each.subject: each for each in await diagnose(url, checks=[check_threads])}


async def test_the_doctor_says_which_thread_is_damaged_and_puts_its_headline_right(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    store = open_store(url)
    for thread in ("altered", "cut", "holed", "listed", "whole"):
        await ThreadStore(store).append_entries(story(thread))
    await store.close()
    assert (await _findings(url))["threads"].message == "5 threads read, 0 damaged"
    with closing(sqlite3.connect(tmp_path / "runs.db")) as file, file:
        file.execute(
            "UPDATE records SET body = replace(body, 'Rome', 'Oslo') WHERE name = 'altered 4'"
        )
        file.execute("DELETE FROM records WHERE name = 'cut 8'")
        file.execute("DELETE FROM records WHERE name = 'holed 2'")
        file.execute("UPDATE records SET label = 'eve', body = '{}' WHERE name = 'listed'")
    found = await _findings(url)
    told = {name: found[f"thread {name}"].message for name in ("altered", "cut", "holed")}
    assert told == {
        "altered": "entry 4 of thread altered was altered",
        "cut": "the end of thread cut is missing",
        "holed": "entry 2 of thread holed is missing",
    }
    assert found["thread listed"].level == "warning"
    assert found["threads"].message == "5 threads read, 3 damaged"
    store = open_store(url)
    assert [each.thread for each in await ThreadStore(store).threads(owner="eve", limit=9)] == []
    with pytest.raises(JournalDamaged, match="was altered"):
        await ThreadStore(store).thread_entries("altered")
    assert list(await ThreadStore(store).thread_entries("altered", after=4)) == story("altered")[4:]
    # One damaged thread can still be removed, and keeps no other from being read.
    assert await ThreadStore(store).remove_thread("altered")
    assert list(await ThreadStore(store).thread_entries("whole")) == story("whole")
    await store.close()
