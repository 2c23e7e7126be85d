"""Which process runs which run, in a table beside the journals: of two who claim one, one wins."""

from __future__ import annotations

import sqlite3
from typing import Any, Final

OWNERS: Final = "SELECT run, owner FROM {} ORDER BY run"
_SQLITE_CLAIM: Final = """
    INSERT INTO owner (run, owner) VALUES (:run, :owner)
    ON CONFLICT (run) DO UPDATE SET owner = excluded.owner WHERE owner.owner = :instead_of
"""
SQLITE_OWNER: Final = "SELECT owner FROM owner WHERE run = ?"
_SQLITE_RELEASE: Final = "DELETE FROM owner WHERE run = ? AND owner = ?"
# One statement; who loses sees no row, and asks who it is.
_POSTGRES_CLAIM: Final = """
    INSERT INTO plansmith.owner AS held (run, owner) VALUES (%(run)s, %(owner)s)
    ON CONFLICT (run) DO UPDATE SET owner = excluded.owner
    WHERE held.owner IN (%(instead_of)s, excluded.owner) RETURNING owner
"""
POSTGRES_OWNER: Final = "SELECT owner FROM plansmith.owner WHERE run = %s"
POSTGRES_RELEASE: Final = "DELETE FROM plansmith.owner WHERE run = %s AND owner = %s"


def claim_in_sqlite(connection: sqlite3.Connection, run: str, owner: str, instead_of: str) -> str:
    """Own a run, if nobody or the named one does; who owns it now."""
    given = {"run": run, "owner": owner, "instead_of": instead_of}
    connection.execute(_SQLITE_CLAIM, given)
    return str(connection.execute(SQLITE_OWNER, (run,)).fetchone()[0])


def release_in_sqlite(connection: sqlite3.Connection, run: str, owner: str) -> int:
    """Own a run no more."""
    return connection.execute(_SQLITE_RELEASE, (run, owner)).rowcount


async def claim_in_postgres(connection: Any, run: str, owner: str, instead_of: str) -> str:
    """Own a run, if nobody or the named one does; who owns it now."""
    given = {"run": run, "owner": owner, "instead_of": instead_of}
    found = None
    while found is None:
        found = await (await connection.execute(_POSTGRES_CLAIM, given)).fetchone()
        if found is None:  # another one has it, unless it was let go this moment
            found = await (await connection.execute(POSTGRES_OWNER, [run])).fetchone()
    return str(found[0])
