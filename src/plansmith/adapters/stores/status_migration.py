"""Makes version 10 of a store: runs get a status, and room for their summaries.

The status of a run that is over is in its last event. The others, and all summaries, are made of
the journals when they are first needed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from plansmith.plan.summary import OVER_STATUSES

_AT_ONCE: Final = 500
# A cross join keeps SQLite from reading all events.
_ENDS: Final = """
    SELECT runs.id, body FROM runs CROSS JOIN events
    WHERE runs.id > {0} AND events.run = runs.id AND number = last AND type = 'run_finished'
    ORDER BY runs.id LIMIT {0}
"""
_TELL: Final = "UPDATE runs SET status = {0} WHERE id = {0}"


def tell_sqlite(connection: sqlite3.Connection) -> None:
    """Fills in the statuses of runs that are over; leaves those on a broken page open."""
    after = 0
    with suppress(sqlite3.DatabaseError, UnicodeDecodeError):
        while rows := connection.execute(_ENDS.format("?"), (after, _AT_ONCE)).fetchall():
            connection.executemany(_TELL.format("?"), _told(rows))
            after = rows[-1][0]


async def tell_postgres(connection: Any) -> None:
    """Fills in the statuses of runs that are over."""
    after = 0
    async with connection.cursor() as cursor:
        while True:
            await cursor.execute(_ENDS.format("%s"), [after, _AT_ONCE])
            rows = await cursor.fetchall()
            if not rows:
                return
            await cursor.executemany(_TELL.format("%s"), _told(rows))
            after = rows[-1][0]


def _told(rows: Iterable[Sequence[Any]]) -> list[tuple[str, int]]:
    return [(status, key) for key, body in rows if (status := _status(body)) in OVER_STATUSES]


def _status(body: object) -> str:
    try:
        found: Any = json.loads(str(body))
        return str(found["status"])
    except (LookupError, RecursionError, TypeError, ValueError):
        return ""
