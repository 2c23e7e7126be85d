from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from plansmith.adapters.stores.database import open_database
from plansmith.adapters.stores.doctor import diagnose
from plansmith.adapters.stores.migrations import VERSION, migrate_sqlite
from plansmith.adapters.stores.schemas import EARLIER_SQLITE
from plansmith.adapters.stores.sqlite import SqliteStore
from plansmith.errors import Misconfigured
from plansmith.testing.contracts import journal

EARLIER = Path(__file__).parents[3] / "replay" / "store-0.1.db"


def version_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def old_file(path: Path, steps: int) -> None:
    """A store as an earlier version left it, with the runs of the first release in it."""
    connection = sqlite3.connect(path, isolation_level=None)
    for step in EARLIER_SQLITE[:steps]:
        connection.executescript(step)
    connection.execute("ATTACH ? AS earlier", (str(EARLIER),))
    for table in ("run", "event", "place"):
        connection.execute(f"INSERT INTO main.{table} SELECT * FROM earlier.{table}")
    connection.execute("PRAGMA application_id = 0x504C4E53")
    connection.execute(f"PRAGMA user_version = {steps}")
    connection.close()


@pytest.mark.parametrize("steps", range(1, len(EARLIER_SQLITE) + 1))
async def test_a_file_of_any_earlier_version_is_brought_up_to_date(
    tmp_path: Path, steps: int
) -> None:
    path = tmp_path / "store.db"
    old_file(path, steps)
    store = SqliteStore(path)
    assert len(await store.events("run-1")) == 55
    await store.append(journal("a", 21), ["new"])
    assert list(await store.events("a")) == journal("a", 21)
    await store.close()
    connection = sqlite3.connect(path)
    assert version_of(connection) == VERSION
    connection.close()


def tables_of(path: Path) -> dict[str, list[Any]]:
    connection = open_database(path)
    names = connection.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
    found = {
        str(name): connection.execute(f"PRAGMA table_info({name})").fetchall()
        or connection.execute(f"PRAGMA index_info({name})").fetchall()
        for [name] in names.fetchall()
    }
    connection.close()
    return found


def test_a_migrated_file_has_the_tables_of_a_new_one(tmp_path: Path) -> None:
    shutil.copy(EARLIER, tmp_path / "old.db")
    assert tables_of(tmp_path / "old.db") == tables_of(tmp_path / "new.db")


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
    path = tmp_path / "store.db"
    old_file(path, 3)
    connection = sqlite3.connect(path, isolation_level=None)
    # In the way of a table that a later step makes.
    connection.execute("CREATE TABLE contents (theirs)")
    tables = connection.execute("SELECT * FROM sqlite_master").fetchall()
    with pytest.raises(sqlite3.Error):
        migrate_sqlite(connection, "a")
    assert version_of(connection) == 3
    assert connection.execute("SELECT * FROM sqlite_master").fetchall() == tables
    connection.execute("DROP TABLE contents")
    migrate_sqlite(connection, "a")
    assert version_of(connection) == VERSION
    migrate_sqlite(connection, "a")
    connection.close()
