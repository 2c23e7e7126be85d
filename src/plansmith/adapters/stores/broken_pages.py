"""Reads a SQLite file of which some pages are broken, as far as they are not.

Through a connection of its own: where a connection meets a broken page in a transaction, SQLite
lets it write nothing more in that transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, Final, TypeVar

_T = TypeVar("_T")
LEFT: Final = "%s has broken pages: what could not be read is left in %s"
# The table may end with a broken page, its index somewhere else.
_LAST_POSITIONS: Final = (
    "SELECT max(position) FROM events",
    "SELECT max(position) FROM events INDEXED BY events_run WHERE run > 0",
)
_GIVEN: Final = "SELECT (SELECT max(position) FROM counter) + sum(last) FROM runs"


class SoundRows:
    """Rows that are committed, beside a connection that writes; those on broken pages are left."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        _, _, path = connection.execute("PRAGMA database_list").fetchone()
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.text_factory = connection.text_factory
        self._connection.execute("PRAGMA cell_size_check = ON")

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def tables(self) -> set[str]:
        """The names of all tables."""
        names = self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {str(row[0]) for row in names}

    def rows(self, query: str, *given: object) -> list[Any]:
        """The rows up to the first broken page; all of them, as a rule."""
        found: list[Any] = []
        try:
            for row in self._connection.execute(query, given):
                found.append(row)  # noqa: PERF402 - those before the damage count
        except sqlite3.DatabaseError as error:
            _need_damage(error)
        return found

    def count(self, table: str) -> int:
        """How many rows of a table can be counted."""
        return sum(row[0] for row in self.rows(f"SELECT count(*) FROM {table}"))  # noqa: S608 - constants

    def last_position(self) -> int:
        """The last position of an event, before events are packed."""
        found = [int(at or 0) for query in _LAST_POSITIONS for (at,) in self.rows(query)]
        # What a broken page says may be far beyond all that was ever written.
        given = [int(at or 0) for (at,) in self.rows(_GIVEN)]
        return min(max(found, default=0), *given) if given else max(found, default=0)

    def of_run(self, key: int) -> list[tuple[int, int, object]]:
        """Positions, numbers and data of a run's events, where necessary one by one."""
        try:
            return self._connection.execute(_OLD_ROWS, (key,)).fetchall()
        except sqlite3.DatabaseError as error:
            _need_damage(error)
        places = "SELECT event, number FROM old_place WHERE run = ? ORDER BY number"
        return [
            (event, number, data)
            for event, number in self.rows(places, key)
            for (data,) in self.rows("SELECT data FROM old_event WHERE id = ?", event)
        ]


def or_without_removing(work: Callable[..., _T]) -> _T:
    """Work that removes what it moved; where that is on a broken page, it is left there."""
    try:
        return work(removing=True)
    except sqlite3.DatabaseError as error:
        _need_damage(error)
    return work(removing=False)


def _need_damage(error: sqlite3.Error) -> None:
    """Only damage is passed over: a full disk and a lock are for whoever asked."""
    if (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF != sqlite3.SQLITE_CORRUPT:
        raise error


_OLD_ROWS = """
    SELECT event, number, data FROM old_place JOIN old_event ON id = event
    WHERE run = ? ORDER BY number
"""
