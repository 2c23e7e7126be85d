"""Makes version 11 of a store: events, which were rows of texts, are packed.

Values stay in a table of their own; only those of later events are stored inside their rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from plansmith.adapters.stores.broken_pages import SoundRows
from plansmith.adapters.stores.migration_progress import Progress
from plansmith.adapters.stores.packing import PACKED_COLUMNS, packed_text
from plansmith.adapters.stores.schemas import POSTGRES_FROM_10

_AT_ONCE: Final = 1000
_ROWS: Final = "SELECT position, run, number, type, at, by, hash, body FROM"
_ONE: Final = f"{_ROWS} events WHERE position = ?"
_SOME: Final = f"{_ROWS} {{1}} WHERE position > {{0}} ORDER BY position LIMIT {{0}}"
_INSERT: Final = f"""
    INSERT INTO events (position, run, {PACKED_COLUMNS})
    VALUES ({{0}}, {{0}}, {{0}}, {{0}}, {{0}}, {{0}}, {{0}}, {{0}}, {{0}}, {{0}})
"""  # noqa: S608 - constants


def _packed(rows: Sequence[Sequence[Any]]) -> list[tuple[object, ...]]:
    return [(position, run, *packed_text(number, cells)) for position, run, number, *cells in rows]


def pack_sqlite(connection: sqlite3.Connection, old: SoundRows, progress: Progress) -> None:
    """Packs all rows that can be read, in one transaction."""
    after, last = 0, old.last_position()
    insert, some = _INSERT.format("?"), _SOME.format("?", "events")
    while after < last:
        rows = old.rows(some, after, _AT_ONCE)
        if rows:
            after = rows[-1][0]
        else:
            # The next one is on a broken page: each is looked for by its position.
            end = min(after + _AT_ONCE, last)
            rows = [row for at in range(after + 1, end + 1) for row in old.rows(_ONE, at)]
            after = end
        connection.executemany(insert, _packed(rows))
        progress.add(len(rows))


async def pack_postgres(connection: Any) -> None:
    """Makes the table and packs all rows, in one transaction."""
    await connection.execute(POSTGRES_FROM_10)
    count = await connection.execute("SELECT count(*) FROM old_events")
    progress = Progress("the schema plansmith", (await count.fetchone())[0])
    after, some = 0, _SOME.format("%s", "old_events")
    async with connection.cursor() as cursor:
        while True:
            await cursor.execute(some, [after, _AT_ONCE])
            rows = await cursor.fetchall()
            if not rows:
                break
            await cursor.executemany(_INSERT.format("%s"), _packed(rows))
            after = rows[-1][0]
            progress.add(len(rows))
    await connection.execute("DROP TABLE old_events")
