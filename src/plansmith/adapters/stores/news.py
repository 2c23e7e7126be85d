"""What happened in any run since a position: the order in which a whole store grew."""

from __future__ import annotations

import sqlite3
from typing import Final

from plansmith.ports import News

# Followers of all runs wait under this name, which no run has.
ANY_RUN: Final = ""


def sqlite_news(connection: sqlite3.Connection, after: int, limit: int) -> list[News]:
    """What came behind a position, oldest first."""
    rows = connection.execute(_NEWS, {"after": after, "limit": limit})
    return [News(position, run, number) for position, run, number in rows]


def sqlite_position(connection: sqlite3.Connection) -> int:
    """The place of the newest event, also of one that is gone."""
    return int(connection.execute(SQLITE_POSITION).fetchone()[0])


SQLITE_POSITION: Final = """
    SELECT max(
        (SELECT coalesce(max(id), 0) FROM event), (SELECT coalesce(max(position), 0) FROM gone)
    )
"""
# Few runs go on at a time: first which, by their last event, then what is new of those.
_NEWS: Final = """
    SELECT place.event, name, number FROM (
        SELECT id, name FROM run JOIN place AS newest ON newest.run = id AND number = last
        WHERE newest.event > :after
    ) AS moved JOIN place ON place.run = moved.id AND place.event > :after
    ORDER BY place.event LIMIT :limit
"""
POSTGRES_NEWS: Final = """
    SELECT position, name, number FROM plansmith.event JOIN plansmith.run ON run.id = event.run
    WHERE position > %s ORDER BY position LIMIT %s
"""
POSTGRES_POSITION: Final = "SELECT position FROM plansmith.counter"
