"""Damaged ends of journals, kept apart, so that their runs can go on from the last good event."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, Final

from plansmith.adapters.stores.ends import End, Ends
from plansmith.adapters.stores.news import sqlite_position
from plansmith.adapters.stores.rows import Entry, mark_of, sound_part, stale
from plansmith.errors import JournalDamaged
from plansmith.ports import Sound

_SQLITE_HEAD: Final = """
    SELECT run.id, data FROM run
    JOIN place ON place.run = run.id AND number = ? JOIN event ON event.id = place.event
    WHERE name = ?
"""
_SQLITE_KEEP: Final = """
    INSERT INTO aside (run, number, data)
    SELECT ?, number, coalesce(data, x'') FROM place LEFT JOIN event ON event.id = place.event
    WHERE place.run = ? AND number > ? ORDER BY number
"""
_SQLITE_DROP: Final = (
    "DELETE FROM event WHERE id IN (SELECT event FROM place WHERE run = ? AND number > ?)",
    "DELETE FROM place WHERE run = ? AND number > ?",
)
_SQLITE_ROWS: Final = """
    SELECT number, data FROM place LEFT JOIN event ON event.id = place.event
    WHERE place.run = ? ORDER BY number
"""
SQLITE_ASIDE: Final = "SELECT number, data FROM aside WHERE run = ? ORDER BY rowid"
_POSTGRES_TAKE: Final = """
    UPDATE plansmith.counter SET position = position + %s RETURNING position - %s
"""
_POSTGRES_HEAD: Final = """
    SELECT run.id, data FROM plansmith.run JOIN plansmith.event ON event.run = run.id
    WHERE name = %s AND number = %s
"""
_POSTGRES_KEEP: Final = """
    WITH dropped AS (
        DELETE FROM plansmith.event WHERE run = %s AND number > %s RETURNING number, data
    )
    INSERT INTO plansmith.aside (run, number, data)
    SELECT %s, number, data FROM dropped ORDER BY number
"""
_POSTGRES_END: Final = "UPDATE plansmith.ending SET number = %s, mark = %s WHERE run = %s"
_POSTGRES_ADD: Final = """
    INSERT INTO plansmith.event (run, number, data, position) VALUES (%s, %s, %s, %s)
"""
POSTGRES_TALLY: Final = "SELECT (SELECT count(*) FROM plansmith.run), runs FROM plansmith.tally"
POSTGRES_ASIDE: Final = "SELECT number, data FROM plansmith.aside WHERE run = %s ORDER BY id"


def sound_in_sqlite(connection: sqlite3.Connection, run: str, end: End | None) -> Sound:
    """The events of a run up to the first that is missing, altered or on a broken page."""
    found = connection.execute("SELECT id, last FROM run WHERE name = ?", (run,)).fetchone()
    key, last = found or (0, 0)
    rows = connection.execute(_SQLITE_ROWS, (key,))
    return sound_part(run, _until_broken(rows), last=max(int(last), end.number if end else 0))


def missing_in_sqlite(connection: sqlite3.Connection, ends: Ends) -> list[str]:
    """Runs that were written and are not there any more, in words."""
    names = {str(row[0]) for row in connection.execute("SELECT name FROM run")}
    gone = [end.run for end in ends.all() if end.run not in names]
    [should] = connection.execute("SELECT runs FROM tally").fetchone()
    kept = f"if an older copy was put back on purpose, remove {ends.path}"
    return [*(f"run {run} ({kept})" for run in gone), *missing_words(len(names), int(should))]


def missing_words(runs: int, should: int) -> list[str]:
    """What a count of runs says."""
    return [f"{should - runs} of {should} runs"] if runs < should else []


def _until_broken(rows: sqlite3.Cursor) -> Iterator[tuple[int, object]]:
    try:
        yield from rows
    except sqlite3.Error as error:
        raise JournalDamaged(f"the rest of the journal is on a broken page: {error}") from None


def set_aside_in_sqlite(
    connection: sqlite3.Connection, run: str, after: int, entries: Sequence[Entry]
) -> int:
    """Move the rows behind a number and add others in their place; how many were moved."""
    head = connection.execute(_SQLITE_HEAD, (after, run)).fetchone()
    if head is None or (entries and mark_of(bytes(head[1])) != mark_of(entries[0].before)):
        raise stale(run, after + 1)
    key = int(head[0])
    # Positions never come twice: see `news`.
    position = sqlite_position(connection)
    moved = connection.execute(_SQLITE_KEEP, (run, key, after)).rowcount
    for statement in _SQLITE_DROP:
        connection.execute(statement, (key, after))
    connection.execute("DELETE FROM gone")
    connection.execute("INSERT INTO gone VALUES (?)", (position,))
    for number, entry in enumerate(entries, start=1):
        connection.execute("INSERT INTO event VALUES (?, ?)", (position + number, entry.data))
        connection.execute(
            "INSERT INTO place VALUES (?, ?, ?)", (key, entry.number, position + number)
        )
    last = entries[-1].number if entries else after
    connection.execute("UPDATE run SET last = ? WHERE id = ?", (last, key))
    return moved


async def set_aside_in_postgres(
    connection: Any, run: str, after: int, entries: Sequence[Entry]
) -> int:
    """Move the rows behind a number and add others in their place; how many were moved."""
    async with connection.transaction():
        # The counter comes first, as in every append: whoever has it writes alone.
        count = len(entries)
        cursor = await connection.execute(_POSTGRES_TAKE, [count, count])
        position = int((await cursor.fetchone())[0])
        cursor = await connection.execute(_POSTGRES_HEAD, [run, after], binary=True)
        head = await cursor.fetchone()
        if head is None or (entries and mark_of(bytes(head[1])) != mark_of(entries[0].before)):
            raise stale(run, after + 1)
        moved = await connection.execute(_POSTGRES_KEEP, [head[0], after, run])
        for number, entry in enumerate(entries, start=1):
            given = [head[0], entry.number, entry.data, position + number]
            await connection.execute(_POSTGRES_ADD, given)
        last = entries[-1].number if entries else after
        mark = mark_of(entries[-1].hash if entries else bytes(head[1]))
        await connection.execute(_POSTGRES_END, [last, mark, head[0]])
        await connection.execute("SELECT pg_notify('plansmith', %s)", [f"{last} {run[:1000]}"])
        return int(moved.rowcount)
