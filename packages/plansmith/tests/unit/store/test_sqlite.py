from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from plansmith.errors import JournalDamaged, JournalError, Misconfigured
from plansmith.plan.data import Json
from plansmith.store.commit import Request
from plansmith.store.doctor import diagnose
from plansmith.store.sql import VERSION
from plansmith.store.sqlite import SqliteStore
from plansmith.store.sqlite_file import open_database, store_error
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


@pytest.mark.parametrize("version", [VERSION + 1, 99])
async def test_a_file_of_another_version_is_refused_and_not_touched(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "store.db"
    open_database(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    store = SqliteStore(path)
    for use in (store.append(journal("a", 1)), store.runs()):
        with pytest.raises(Misconfigured, match=f"version {version}") as caught:
            await use
        assert "another store" in caught.value.hint
    await store.close()
    findings = {found.subject: found for found in await diagnose(f"sqlite:///{path}")}
    assert findings["schema"].level == "error"
    assert path.read_bytes() == before


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
    error = store_error(_error(read_only, "CREATE TABLE a (b)"), path)
    assert isinstance(error, Misconfigured)
    assert error.hint
    twice = sqlite3.connect(path)
    twice.execute("INSERT INTO runs (id, name, last) VALUES (1, 'a', 1)")
    assert isinstance(
        store_error(_error(twice, "INSERT INTO runs (id, name, last) VALUES (2, 'a', 1)"), path),
        JournalDamaged,
    )
    other = store_error(sqlite3.ProgrammingError("something"), path)
    assert type(other) is JournalError
    assert other.hint


def test_what_waits_for_a_commit_is_stored_although_its_program_ends_without_closing(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    commit, begun, go_on = store._ledger.commit, threading.Event(), threading.Event()

    def slow(batch: Sequence[Request]) -> None:
        begun.set()
        assert go_on.wait(30)
        commit(batch)

    async def program() -> None:
        writing = [asyncio.create_task(store.append(journal("r1", 1)))]
        await asyncio.to_thread(begun.wait, 30)
        writing += [asyncio.create_task(store.append(journal(f"r{n}", 1))) for n in (2, 3)]
        await asyncio.sleep(0)
        assert not any(each.done() for each in writing)  # and the program is over

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store._ledger, "commit", slow)
        asyncio.run(program())
        go_on.set()
        store._writer.submit(int).result(30)  # after all that was given before

    async def read() -> Sequence[str]:
        found = await store.runs()
        await store.close()
        return found

    assert [*asyncio.run(read())] == ["r1", "r2", "r3"]


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
