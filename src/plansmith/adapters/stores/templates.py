"""Templates in a database: a version is a row that never changes but for going out of use."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Any, Final

from plansmith.adapters.stores.rows import read_value, squeezed
from plansmith.plan.data import Json, content_of

ALL: Final = "SELECT name, version, removed, hash, data FROM {} ORDER BY name, version"
_SQLITE_LAST: Final = "SELECT version, hash FROM template WHERE name = ? ORDER BY version DESC"
_SQLITE_ADD: Final = "INSERT INTO template VALUES (?, ?, 0, ?, ?)"
_SQLITE_DROP: Final = """
    UPDATE template SET removed = 1
    WHERE name = ? AND removed = 0 AND version = coalesce(?, version)
"""
# One statement: many share the connection. Of two writers one finds the number taken, and neither
# value: it looks again.
_POSTGRES_KEEP: Final = """
    WITH last AS (
        SELECT version, hash FROM plansmith.template WHERE name = %(name)s
        ORDER BY version DESC LIMIT 1
    ), added AS (
        INSERT INTO plansmith.template (name, version, removed, hash, data)
        SELECT %(name)s, coalesce((SELECT version FROM last), 0) + 1, 0, %(hash)s, %(data)s
        WHERE NOT EXISTS (SELECT FROM last WHERE hash = %(hash)s)
        ON CONFLICT DO NOTHING RETURNING version
    )
    SELECT version FROM added UNION ALL SELECT version FROM last WHERE hash = %(hash)s
"""
_POSTGRES_DROP: Final = """
    UPDATE plansmith.template SET removed = 1
    WHERE name = %s AND removed = 0 AND version = coalesce(%s::integer, version)
"""


def read_templates(rows: Iterable[Any]) -> list[tuple[str, int, bool, Json]]:
    """Templates from their rows; one that was altered is an error, never something else."""
    return [
        (str(name), int(version), bool(removed), read_value(bytes(digest).hex(), bytes(data)))
        for name, version, removed, digest, data in rows
    ]


def keep_in_sqlite(connection: sqlite3.Connection, name: str, value: Json) -> int:
    """Add a version, unless it is the last one again."""
    digest, text = content_of(value)
    key = bytes.fromhex(digest)
    last = connection.execute(_SQLITE_LAST, (name,)).fetchone()
    if last is not None and bytes(last[1]) == key:
        return int(last[0])
    version = int(last[0]) + 1 if last is not None else 1
    connection.execute(_SQLITE_ADD, (name, version, key, squeezed(text)))
    return version


def drop_from_sqlite(connection: sqlite3.Connection, name: str, version: int | None) -> int:
    """Take versions out of use."""
    return connection.execute(_SQLITE_DROP, (name, version)).rowcount


async def keep_in_postgres(connection: Any, name: str, value: Json) -> int:
    """Add a version, unless it is the last one again."""
    digest, text = content_of(value)
    given = {"name": name, "hash": bytes.fromhex(digest), "data": squeezed(text)}
    found = None
    while found is None:
        cursor = await connection.execute(_POSTGRES_KEEP, given)
        found = await cursor.fetchone()
    return int(found[0])


async def drop_from_postgres(connection: Any, name: str, version: int | None) -> int:
    """Take versions out of use."""
    done = await connection.execute(_POSTGRES_DROP, [name, version])
    return int(done.rowcount)
