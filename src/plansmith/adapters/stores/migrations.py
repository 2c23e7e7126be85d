"""Brings a store's tables to the newest version, and moves the rows of earlier releases.

Versions 1 to 7 stored compressed rows. One transaction makes version 8: it renames the old tables,
so that earlier releases no longer write there. Then the rows are moved in many small transactions,
which makes version 9. One transaction each makes 10 to 13. Whoever opens the store goes on there.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, Final

from plansmith.adapters.stores import packing_migration, schemas, status_migration
from plansmith.adapters.stores.broken_pages import LEFT, SoundRows, or_without_removing
from plansmith.adapters.stores.deflated_rows import (
    aside_cells,
    content_cells,
    event_cells,
    fire_cells,
    record_cells,
)
from plansmith.adapters.stores.migration_progress import Progress
from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence

VERSION: Final = 13
_MOVING: Final = 8
_MOVED: Final = 9
_SUMMED: Final = 10
_PACKED: Final = 11
_THREADED: Final = 12
# "PLNS": distinguishes our files from those of other programs.
APPLICATION_ID: Final = 0x504C4E53
# Any number will do, as long as every Plansmith takes the same.
_MIGRATION_LOCK: Final = 0x504C4E53
_SOME_RUNS: Final = 50
_SOME_VALUES: Final = 500
_OLD_TABLES: Final = ("event", "value", "template", "schedule", "fire", "aside")
_log: Final = logging.getLogger("plansmith")


def refuse_newer(name: str, found: int) -> None:
    """Refuses a store that a later Plansmith wrote."""
    if found > VERSION:
        raise Misconfigured(
            Sentence("store.newer", name=name, version=found, known=VERSION),
            hint=Sentence("store.use_newer"),
        )


_TEXTS: Final = "number, type, at, by, hash, body"
_INSERTS: Final = {
    "event": (f"INSERT INTO events (position, run, {_TEXTS}) VALUES ", 8),  # noqa: S608 - constants
    "value": ("INSERT INTO contents (hash, day, body) VALUES ", 3),
    "template": ("INSERT INTO templates (name, version, removed, hash, body) VALUES ", 5),
    "schedule": ("INSERT INTO schedules (id, version, hash, body) VALUES ", 4),
    "fire": ("INSERT INTO fires (schedule, due, version, open, hash, body) VALUES ", 6),
    "aside": (f"INSERT INTO set_aside (run, {_TEXTS}) VALUES ", 7),  # noqa: S608 - constants
}
_RECORDS: Final = {
    "template": ("SELECT name, version, removed, hash, data FROM old_template", record_cells),
    "schedule": ("SELECT id, version, hash, data FROM old_schedule", record_cells),
    "fire": ("SELECT schedule, due, version, open, hash, data FROM old_fire", fire_cells),
    "aside": ("SELECT run, number, data FROM old_aside ORDER BY {}", aside_cells),
}


def _insert(table: str, mark: str) -> str:
    into, cells = _INSERTS[table]
    # A row that is there already was moved before, or is a second one in the place of another.
    return f"{into}({', '.join([mark] * cells)}) ON CONFLICT DO NOTHING"


# SQLite.


def migrate_sqlite(connection: sqlite3.Connection, name: str) -> None:
    """Brings a file to the newest version."""
    if _number(connection, "user_version") == VERSION and _is_ours(connection):
        return
    with _transaction(connection):
        # Checked again under the lock: another process may have migrated meanwhile.
        done = _number(connection, "user_version")
        _refuse_foreign(connection, name)
        refuse_newer(name, done)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        if done == 0:
            _run(connection, schemas.SQLITE)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        elif done < _MOVING:
            _begin_sqlite(connection, done)
            connection.execute(f"PRAGMA user_version = {_MOVING}")
    if 0 < done < _MOVED:
        _move_sqlite(connection, name)
    with _transaction(connection):
        if _number(connection, "user_version") == _MOVED:
            _run(connection, schemas.FROM_9)
            status_migration.tell_sqlite(connection)
            connection.execute(f"PRAGMA user_version = {_SUMMED}")
    or_without_removing(partial(_pack_sqlite, connection, name))
    with _transaction(connection):
        if _number(connection, "user_version") == _PACKED:
            _run(connection, schemas.SQLITE_FROM_11)
            connection.execute(f"PRAGMA user_version = {_THREADED}")
    with _transaction(connection):
        if _number(connection, "user_version") == _THREADED:
            _run(connection, schemas.SQLITE_FROM_12)
            connection.execute(f"PRAGMA user_version = {VERSION}")


def _pack_sqlite(connection: sqlite3.Connection, name: str, *, removing: bool) -> None:
    with closing(SoundRows(connection)) as old, _transaction(connection):
        if _number(connection, "user_version") != _SUMMED:
            return
        _run(connection, schemas.SQLITE_FROM_10)
        packing_migration.pack_sqlite(connection, old, Progress(name, old.last_position()))
        if removing:
            connection.execute("DROP TABLE old_events")
        else:
            _log.warning(LEFT, name, "old_events")
        connection.execute(f"PRAGMA user_version = {_PACKED}")


def _begin_sqlite(connection: sqlite3.Connection, done: int) -> None:
    with closing(SoundRows(connection)) as old:
        last = max((int(old.rows(query)[0][0] or 0) for query in _given(old)), default=0)
    _run(connection, *schemas.EARLIER_SQLITE[done:], schemas.SQLITE_FROM_7)
    connection.execute("UPDATE counter SET position = ?", (last,))


def _given(old: SoundRows) -> Iterable[str]:
    """Queries that tell of the last position that was given."""
    tables = {"event": "id", "place": "event", "gone": "position"}
    there = old.tables()
    for table, column in tables.items():
        query = f"SELECT max({column}) FROM {table}"  # noqa: S608 - constants
        if table in there and old.rows(query):
            yield query


def _move_sqlite(connection: sqlite3.Connection, name: str) -> None:
    with closing(SoundRows(connection)) as old:
        move = _MoveSqlite(connection, old)
        if not move.is_due:
            return
        progress = Progress(name, old.count("old_place") + old.count("old_value"))
        for count in move.parts():
            progress.add(count)
        left = sorted(each for each in old.tables() if each.startswith("old_"))
        if left:
            _log.warning(LEFT, name, ", ".join(left))


class _MoveSqlite:
    """Moves rows, some in each transaction."""

    def __init__(self, connection: sqlite3.Connection, old: SoundRows) -> None:
        self._connection, self._old = connection, old

    @property
    def is_due(self) -> bool:
        return _number(self._connection, "user_version") == _MOVING

    def parts(self) -> Generator[int]:
        """Move everything; after each part the number of its rows."""
        after = 0
        while runs := self._old.rows(_SOME, after, _SOME_RUNS):
            yield or_without_removing(partial(self._runs, runs))
            after = runs[-1][0]
        # From both ends: a broken page in the middle hides what is behind it.
        for query, last in ((_VALUES_UP, b""), (_VALUES_DOWN, b"\xff" * _KEY_BYTES)):
            key: bytes | None = last
            while key is not None:
                count, key = or_without_removing(partial(self._values, query, key))
                yield count
        or_without_removing(self._finish)

    def _runs(self, runs: Sequence[tuple[int, object]], *, removing: bool) -> int:
        moved = 0
        with _transaction(self._connection):
            for key, run in runs if self.is_due else ():
                rows = self._old.of_run(key)
                cells = event_cells(str(run), key, rows)
                self._connection.executemany(_insert("event", "?"), cells)
                if removing:
                    self._connection.execute("DELETE FROM old_place WHERE run = ?", (key,))
                moved += len(rows)
        return moved

    def _values(self, query: str, last: bytes, *, removing: bool) -> tuple[int, bytes | None]:
        with _transaction(self._connection):
            rows = self._old.rows(query, last, _SOME_VALUES) if self.is_due else []
            self._connection.executemany(_insert("value", "?"), content_cells(rows))
            if removing:
                keys = [row[:1] for row in rows]
                self._connection.executemany("DELETE FROM old_value WHERE key = ?", keys)
        return len(rows), rows[-1][0] if rows else None

    def _finish(self, *, removing: bool) -> None:
        with _transaction(self._connection):
            if not self.is_due:
                return
            for table, (query, plain) in _RECORDS.items():
                rows = self._old.rows(query.format("rowid"))
                self._connection.executemany(_insert(table, "?"), plain(rows))
            for table in ("place", "gone", *_OLD_TABLES) if removing else ():
                self._connection.execute(f"DROP TABLE old_{table}")
            self._connection.execute(f"PRAGMA user_version = {_MOVED}")


_SOME: Final = "SELECT id, name FROM runs WHERE id > ? ORDER BY id LIMIT ?"
_KEY_BYTES: Final = 33
_VALUES_UP: Final = "SELECT key, day, data FROM old_value WHERE key > ? ORDER BY key LIMIT ?"
_VALUES_DOWN: Final = """
    SELECT key, day, data FROM old_value WHERE key < ? ORDER BY key DESC LIMIT ?
"""


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _run(connection: sqlite3.Connection, *scripts: str) -> None:
    for script in scripts:
        for statement in filter(str.strip, script.split(";")):
            connection.execute(statement)


def _refuse_foreign(connection: sqlite3.Connection, name: str) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables and not _is_ours(connection):
        raise Misconfigured(
            Sentence("store.other_program", name=name), hint=Sentence("store.own_file")
        )


def _is_ours(connection: sqlite3.Connection) -> bool:
    return _number(connection, "application_id") == APPLICATION_ID


def _number(connection: sqlite3.Connection, setting: str) -> int:
    return int(connection.execute(f"PRAGMA {setting}").fetchone()[0])


# PostgreSQL.


async def migrate_postgres(connection: Any) -> None:
    """Brings the schema of a connection to the newest version."""
    if await schema_version(connection) == VERSION:
        return
    # Locked before the transaction begins: only then does it see what others have made.
    await connection.execute("SELECT pg_advisory_lock(%s)", [_MIGRATION_LOCK])
    try:
        async with connection.transaction():
            done = await schema_version(connection)
            refuse_newer("the schema plansmith", done)
            await _refuse_encoding(connection)
            if done < _MOVING:
                await _begin_postgres(connection, done)
        if 0 < done < _MOVED:
            await _move_postgres(connection)
        for before, after, change in _POSTGRES_STEPS:
            async with connection.transaction():
                if await schema_version(connection) == before:
                    await change(connection)
                    await _note(connection, after)
    finally:
        if not connection.closed:
            await connection.execute("SELECT pg_advisory_unlock(%s)", [_MIGRATION_LOCK])


async def _sum_up_postgres(connection: Any) -> None:
    await connection.execute(schemas.FROM_9)
    await status_migration.tell_postgres(connection)


def _script(text: str) -> Callable[[Any], Awaitable[object]]:
    async def run(connection: Any) -> None:
        await connection.execute(text)

    return run


# Each in a transaction of its own: from which version, to which one, and how.
_POSTGRES_STEPS: Final = (
    (_MOVED, _SUMMED, _sum_up_postgres),
    (_SUMMED, _PACKED, packing_migration.pack_postgres),
    (_PACKED, _THREADED, _script(schemas.POSTGRES_FROM_11)),
    (_THREADED, VERSION, _script(schemas.POSTGRES_FROM_12)),
)


async def _begin_postgres(connection: Any, done: int) -> None:
    [schema] = await (await connection.execute("SHOW search_path")).fetchone()
    await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
    await connection.execute(_RECORD)
    steps = (*schemas.EARLIER_POSTGRES[done:], schemas.POSTGRES_FROM_7)
    for script in steps if done else (schemas.POSTGRES,):
        await connection.execute(script)
    await _note(connection, _MOVING if done else VERSION)


async def _note(connection: Any, version: int) -> None:
    await connection.execute("INSERT INTO migration VALUES (%s)", [version])


async def _move_postgres(connection: Any) -> None:
    count = "SELECT (SELECT count(*) FROM old_event) + (SELECT count(*) FROM old_value)"
    [total] = await (await connection.execute(count)).fetchone()
    progress = Progress("the schema plansmith", total)
    after = 0
    some = "SELECT id, name FROM runs WHERE id > %s ORDER BY id LIMIT %s"
    while runs := await _fetch(connection, some, after, _SOME_RUNS):
        async with connection.transaction():
            moved = [await _move_run_in_postgres(connection, key, run) for key, run in runs]
        progress.add(sum(moved))
        after = runs[-1][0]
    values = [()]
    while values:
        async with connection.transaction():
            values = await _fetch(connection, _SOME_OLD_VALUES, _SOME_VALUES)
            await _insert_all(connection, "value", content_cells(values))
        progress.add(len(values))
    async with connection.transaction():
        for table, (query, plain) in _RECORDS.items():
            rows = await _fetch(connection, query.format("id"))
            await _insert_all(connection, table, plain(rows))
        for table in _OLD_TABLES:
            await connection.execute(f"DROP TABLE old_{table}")
        await _note(connection, _MOVED)


async def _move_run_in_postgres(connection: Any, key: int, run: str) -> int:
    old = "DELETE FROM old_event WHERE run = %s RETURNING position, number, data"
    rows = sorted(await _fetch(connection, old, key), key=lambda row: row[1])
    await _insert_all(connection, "event", event_cells(run, key, rows))
    return len(rows)


async def _fetch(connection: Any, query: str, *given: object) -> list[Any]:
    rows: list[Any] = await (await connection.execute(query, given, binary=True)).fetchall()
    return rows


async def _insert_all(connection: Any, table: str, rows: Sequence[Sequence[object]]) -> None:
    async with connection.cursor() as cursor:
        await cursor.executemany(_insert(table, "%s"), rows)


async def _refuse_encoding(connection: Any) -> None:
    [encoding] = await (await connection.execute("SHOW server_encoding")).fetchone()
    if encoding != "UTF8":
        raise Misconfigured(
            Sentence("store.encoding", encoding=encoding),
            hint="CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
        )


_SOME_OLD_VALUES: Final = """
    DELETE FROM old_value WHERE key IN (SELECT key FROM old_value ORDER BY key LIMIT %s)
    RETURNING key, day, data
"""
_RECORD: Final = """
    CREATE TABLE IF NOT EXISTS migration (
        number integer PRIMARY KEY,
        at timestamptz NOT NULL DEFAULT now()
    )
"""


async def schema_version(connection: Any) -> int:
    """Returns the version of the schema; 0 if there is none."""
    cursor = await connection.execute("SELECT to_regclass('migration') IS NOT NULL")
    if not (await cursor.fetchone())[0]:
        return 0
    cursor = await connection.execute("SELECT coalesce(max(number), 0) FROM migration")
    return int((await cursor.fetchone())[0])
