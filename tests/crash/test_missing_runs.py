"""Events and runs that were written and are gone: noticed, and never taken for not having been."""

from __future__ import annotations

import itertools
import sqlite3
from pathlib import Path

import pytest
from tests.postgres import Server

from plansmith.errors import JournalDamaged
from plansmith.store.doctor import diagnose, missing_runs
from plansmith.store.sqlite import SqliteStore
from plansmith.testing.contracts import journal
from plansmith_postgres.store import PostgresStore


async def errors_of(path: Path) -> list[str]:
    found = await diagnose(f"sqlite:///{path}")
    return [f"{each.subject}: {each.message}" for each in found if each.level == "error"]


async def test_a_whole_run_that_was_deleted_by_hand_is_noticed_and_one_by_a_verb_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    for run in ("a", "b", "c"):
        await store.append(journal(run, 3))
    assert await store.delete_run("c")
    assert await missing_runs(store) == []
    await store.close()
    assert await errors_of(path) == []
    with sqlite3.connect(path) as file:
        file.execute("DELETE FROM events WHERE run = 'b'")
        file.execute("DELETE FROM runs WHERE name = 'b'")
    file.close()
    assert any("1 of 2 runs" in each for each in await errors_of(path))


_numbers = itertools.count(1)


async def test_postgres_notices_a_missing_end_and_a_missing_run(postgres_server: Server) -> None:
    name = f"ends_{next(_numbers)}"
    store = PostgresStore(postgres_server.new_database(name))
    for run in ("a", "b", "c"):
        await store.append(journal(run, 20))
    assert await store.delete_run("c")
    assert await missing_runs(store) == []
    postgres_server.sql(
        "DELETE FROM plansmith.events WHERE run = 'a' AND number = 20", database=name
    )
    with pytest.raises(JournalDamaged, match="the end of run a is missing"):
        await store.events("a")
    with pytest.raises(JournalDamaged, match="the end of run a is missing"):
        await store.events("a", after=19)
    assert (await store.sound("a")).last == 20
    postgres_server.sql(
        "DELETE FROM plansmith.events WHERE run = 'b'; DELETE FROM plansmith.runs WHERE id = 2",
        database=name,
    )
    [found] = await missing_runs(store)
    assert "1 of 2 runs" in found.message
    await store.close()
