"""Makes version 11 of a store: events, which were rows of texts, are packed.

Values stay in a table of their own; only those of later events are stored inside their rows.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

from plansmith.adapters.stores.broken_pages import SoundRows
from plansmith.adapters.stores.migration_progress import Progress
from plansmith.adapters.stores.packing import PACKED_COLUMNS, packed_text

_AT_ONCE: Final = 1000
_ROWS: Final = "SELECT position, run, number, type, at, by, hash, body FROM"
_SOME: Final = f"{_ROWS} {{1}} WHERE position > {{0}} ORDER BY position LIMIT {{0}}"
_INSERT: Final = f"""
    INSERT INTO events (position, run, {PACKED_COLUMNS})
    VALUES ({{0}}, {{0}}, {{0}}, {{0}}, {{0}}, {{0}}, {{0}}, {{0}}, {{0}}, {{0}})
"""  # noqa: S608 - constants
# The table may end with a broken page, its index somewhere else.
_LAST: Final = (
    "SELECT max(position) FROM events",
    "SELECT max(position) FROM events INDEXED BY events_run WHERE run > 0",
)


def _packed(rows: Sequence[Sequence[Any]]) -> list[tuple[object, ...]]:
    return [(position, run, *packed_text(number, cells)) for position, run, number, *cells in rows]


def count_sqlite(old: SoundRows) -> int:
    """Returns how many rows there are to be packed."""
    return max((int(row[0] or 0) for query in _LAST for row in old.rows(query)), default=0)


def pack_sqlite(connection: sqlite3.Connection, old: SoundRows) -> Iterator[int]:
    """Packs all rows that can be read, in one transaction; tells how many after each part."""
    after, last = 0, count_sqlite(old)
    insert, some, one = _INSERT.format("?"), _SOME.format("?", "events"), f"{_ROWS} events"
    while after < last:
        rows = old.rows(some, after, _AT_ONCE)
        if not rows:
            # A broken page or none any more: whatever is behind it has a position of its own.
            end = min(after + _AT_ONCE, last)
            each = range(after + 1, end + 1)
            rows = [row for at in each for row in old.rows(f"{one} WHERE position = ?", at)]
            after = end
        else:
            after = rows[-1][0]
        connection.executemany(insert, _packed(rows))
        yield len(rows)


async def pack_postgres(connection: Any) -> None:
    """Packs all rows in one transaction."""
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
