"""Makes the tables of a new store, and refuses a store of another version."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from plansmith.adapters.stores import schemas
from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence

VERSION: Final = 14
# "PLNS": distinguishes our files from those of other programs.
APPLICATION_ID: Final = 0x504C4E53
# Any number will do, as long as every Plansmith takes the same.
_LOCK: Final = 0x504C4E53


def refuse_other_version(name: str, found: int) -> None:
    """Refuses a store that another version of Plansmith wrote."""
    if found > VERSION:
        raise Misconfigured(
            Sentence("store.newer", name=name, version=found, known=VERSION),
            hint=Sentence("store.use_newer"),
        )
    if 0 < found < VERSION:
        raise Misconfigured(
            Sentence("store.older", name=name, version=found, known=VERSION),
            hint=Sentence("store.use_new_store"),
        )


# SQLite.


def prepare_sqlite(connection: sqlite3.Connection, name: str) -> None:
    """Makes the tables of a new file; refuses files of other programs and versions."""
    if _number(connection, "user_version") == VERSION and _is_ours(connection):
        return
    with _transaction(connection):
        # Checked again under the lock: another process may have made them meanwhile.
        found = _number(connection, "user_version")
        _refuse_foreign(connection, name)
        refuse_other_version(name, found)
        if found == 0:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            for statement in filter(str.strip, schemas.SQLITE.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


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


async def prepare_postgres(connection: Any) -> None:
    """Makes the schema and its tables where there are none; refuses other versions."""
    if await schema_version(connection) == VERSION:
        return
    # Locked before the transaction begins: only then does it see what others have made.
    await connection.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
    try:
        async with connection.transaction():
            found = await schema_version(connection)
            refuse_other_version("the schema plansmith", found)
            if found == 0:
                await _refuse_encoding(connection)
                [schema] = await (await connection.execute("SHOW search_path")).fetchone()
                await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
                await connection.execute(_RECORD)
                await connection.execute(schemas.POSTGRES)
                await connection.execute("INSERT INTO migration VALUES (%s)", [VERSION])
    finally:
        if not connection.closed:
            await connection.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])


async def _refuse_encoding(connection: Any) -> None:
    [encoding] = await (await connection.execute("SHOW server_encoding")).fetchone()
    if encoding != "UTF8":
        raise Misconfigured(
            Sentence("store.encoding", encoding=encoding),
            hint="CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
        )


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
