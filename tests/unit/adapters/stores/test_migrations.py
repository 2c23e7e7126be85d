from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from plansmith.adapters.stores.database import open_database
from plansmith.adapters.stores.doctor import diagnose
from plansmith.adapters.stores.migrations import SQLITE, migrate_sqlite
from plansmith.adapters.stores.rows import entries_of
from plansmith.adapters.stores.sqlite import SqliteStore
from plansmith.errors import Misconfigured
from plansmith.testing.contracts import journal


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def old_file(path: Path, steps: int) -> None:
    """A store as an earlier version left it, with a run in it."""
    connection = sqlite3.connect(path, isolation_level=None)
    migrate_sqlite(connection, "old", SQLITE[:steps])
    connection.execute("INSERT INTO run VALUES (1, 'a', 20)")
    for entry in entries_of(journal("a", 20)):
        connection.execute("INSERT INTO event VALUES (?, ?)", (entry.number, entry.data))
        connection.execute("INSERT INTO place VALUES (1, ?, ?)", (entry.number, entry.number))
    connection.close()


@pytest.mark.parametrize("steps", range(1, len(SQLITE) + 1))
async def test_a_file_of_any_earlier_version_is_brought_up_to_date(
    tmp_path: Path, steps: int
) -> None:
    path = tmp_path / "store.db"
    old_file(path, steps)
    store = SqliteStore(path)
    assert list(await store.events("a")) == journal("a", 20)
    await store.append(journal("a", 21)[20:], ["new"])
    assert len(await store.events("a")) == 21
    await store.close()
    connection = sqlite3.connect(path)
    assert version_of(connection) == len(SQLITE)
    connection.close()


async def test_a_file_of_a_later_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_database(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    store = SqliteStore(path)
    for use in (store.append(journal("a", 1)), store.runs()):
        with pytest.raises(Misconfigured, match="version 99") as caught:
            await use
        assert "newer" in caught.value.hint
    await store.close()
    findings = {found.subject: found for found in await diagnose(f"sqlite:///{path}")}
    assert findings["schema"].level == "error"


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    assert migrate_sqlite(connection, "a", SQLITE[:1]) == 1
    broken = (*SQLITE[:1], "CREATE TABLE half (a); CREATE TABLE half (a)")
    with pytest.raises(sqlite3.Error):
        migrate_sqlite(connection, "a", broken)
    assert version_of(connection) == 1
    tables = connection.execute("SELECT name FROM sqlite_master WHERE name = 'half'").fetchall()
    assert tables == []
    assert migrate_sqlite(connection, "a") == len(SQLITE) - 1
    assert migrate_sqlite(connection, "a") == 0
    connection.close()
