from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from plansmith.errors import JournalDamaged, JournalError, Misconfigured
from plansmith.plan.data import Json
from plansmith.store.sqlite import SqliteStore
from plansmith.store.sqlite_file import named, open_database
from plansmith.testing.contracts import journal


async def test_a_request_too_large_for_the_disk_fails_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.append(journal("a", 1))
    assert store._ledger._connection is not None
    store._ledger._connection.execute("PRAGMA max_page_count = 12")
    large: list[Json] = [str(hash((number, "x"))) * 3 for number in range(5000)]
    outcomes = await asyncio.gather(
        store.append(journal("b", 2)),
        store.put(large),
        store.append(journal("c", 2)),
        return_exceptions=True,
    )
    assert outcomes[0] is None
    assert outcomes[2] is None
    assert isinstance(outcomes[1], JournalError)
    assert "full" in str(outcomes[1])
    assert list(await store.runs()) == ["a", "b", "c"]
    await store.close()


async def test_a_caller_that_gave_up_disturbs_nobody(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    impatient = asyncio.ensure_future(store.append(journal("a", 1)))
    patient = asyncio.ensure_future(store.append(journal("b", 1)))
    await asyncio.sleep(0)
    impatient.cancel()
    await patient
    with pytest.raises(asyncio.CancelledError):
        await impatient
    assert "b" in await store.runs()
    await store.close()


def test_one_store_serves_one_event_loop_after_the_other(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    for number in range(3):
        asyncio.run(store.append(journal("a", number + 1)[number:]))
    assert len(asyncio.run(store.events("a"))) == 3
    asyncio.run(store.close())


def test_two_event_loops_may_use_one_store_at_once(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")

    def work(name: str) -> None:
        async def story() -> None:
            for event in journal(name, 50):
                await store.append([event])

        asyncio.run(story())

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def look() -> None:
        for name in "abc":
            assert list(await store.events(name)) == journal(name, 50)
        await store.close()

    asyncio.run(look())


def test_a_store_that_was_never_used_makes_no_file(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "store.db")
        await store.close()
        await store.close()

    asyncio.run(story())
    assert not list(tmp_path.iterdir())


def test_a_closed_store_leaves_one_file(tmp_path: Path) -> None:
    async def story() -> None:
        store = SqliteStore(tmp_path / "store.db")
        await store.append(journal("a", 1))
        await store.runs()
        await store.close()

    asyncio.run(story())
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"]


def test_durability_is_what_was_asked_for(tmp_path: Path) -> None:
    for name, number in (("full", 2), ("normal", 1)):
        connection = open_database(
            tmp_path / name, synchronous="full" if name == "full" else "normal"
        )
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == number
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        connection.close()


def _error(make: sqlite3.Connection, statement: str) -> sqlite3.Error:
    with pytest.raises(sqlite3.Error) as caught:
        make.execute(statement)
    make.close()
    return caught.value


def test_sqlites_errors_get_names_and_hints(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_database(path).close()
    read_only = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    error = named(_error(read_only, "CREATE TABLE a (b)"), path)
    assert isinstance(error, Misconfigured)
    assert error.hint
    twice = sqlite3.connect(path)
    twice.execute("INSERT INTO runs (id, name, last) VALUES (1, 'a', 1)")
    assert isinstance(
        named(_error(twice, "INSERT INTO runs (id, name, last) VALUES (2, 'a', 1)"), path),
        JournalDamaged,
    )
    other = named(sqlite3.ProgrammingError("something"), path)
    assert type(other) is JournalError
    assert other.hint
