"""Schedules and their fires in a database: a row is followed only by its next version."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from plansmith.adapters.stores.rows import read_value, squeezed
from plansmith.plan.data import content_of
from plansmith.plan.schedules import Fire, Schedule

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
SCHEDULES: Final = "SELECT hash, data FROM {} ORDER BY id"
FIRES: Final = "SELECT hash, data FROM {0} WHERE schedule = {1} ORDER BY due DESC LIMIT {1}"
OPEN_FIRES: Final = "SELECT hash, data FROM {} WHERE open = 1 ORDER BY schedule, due"
# However rare a schedule is, failures in a row are counted in what is left of its fires.
_SPARED: Final = 100
_OLD_FIRES: Final = """
    DELETE FROM {0} AS old
    WHERE open = 0 AND due < {1} AND (
        SELECT count(*) FROM {0} AS newer
        WHERE newer.schedule = old.schedule AND newer.due > old.due
    ) >= {2}
"""

# A first version is added where there is none, any other replaces the one before it.
_SQLITE_SCHEDULE: Final = """
    INSERT INTO schedule (id, version, hash, data) VALUES (:id, :version, :hash, :data)
    ON CONFLICT (id) DO UPDATE
    SET version = excluded.version, hash = excluded.hash, data = excluded.data
    WHERE schedule.version = excluded.version - 1
"""
_SQLITE_FIRE: Final = """
    INSERT INTO fire (schedule, due, version, open, hash, data)
    VALUES (:schedule, :due, :version, :open, :hash, :data)
    ON CONFLICT (schedule, due) DO UPDATE
    SET version = excluded.version, open = excluded.open, hash = excluded.hash,
        data = excluded.data
    WHERE fire.version = excluded.version - 1
"""
_SQLITE_SCHEDULE_HASH: Final = "SELECT hash FROM schedule WHERE id = :id"
_SQLITE_FIRE_HASH: Final = "SELECT hash FROM fire WHERE schedule = :schedule AND due = :due"
_POSTGRES_SCHEDULE: Final = """
    INSERT INTO plansmith.schedule AS kept (id, version, hash, data)
    VALUES (%(id)s, %(version)s, %(hash)s, %(data)s)
    ON CONFLICT (id) DO UPDATE
    SET version = excluded.version, hash = excluded.hash, data = excluded.data
    WHERE kept.version = excluded.version - 1
"""
_POSTGRES_FIRE: Final = """
    INSERT INTO plansmith.fire AS kept (schedule, due, version, open, hash, data)
    VALUES (%(schedule)s, %(due)s, %(version)s, %(open)s, %(hash)s, %(data)s)
    ON CONFLICT (schedule, due) DO UPDATE
    SET version = excluded.version, open = excluded.open, hash = excluded.hash,
        data = excluded.data
    WHERE kept.version = excluded.version - 1
"""
_POSTGRES_SCHEDULE_HASH: Final = "SELECT hash FROM plansmith.schedule WHERE id = %(id)s"
_POSTGRES_FIRE_HASH: Final = """
    SELECT hash FROM plansmith.fire WHERE schedule = %(schedule)s AND due = %(due)s
"""


def _row(record: Schedule | Fire) -> dict[str, Any]:
    digest, text = content_of(record.to_json())
    row = {"version": record.version, "hash": bytes.fromhex(digest), "data": squeezed(text)}
    if isinstance(record, Schedule):
        return row | {"id": record.id}
    row |= {"schedule": record.schedule, "due": _moment(record.due)}
    return row | {"open": int(record.state.open)}


def _moment(at: datetime) -> int:
    return (at - _EPOCH) // _MICROSECOND


def put_in_sqlite(connection: sqlite3.Connection, record: Schedule | Fire) -> int:
    """Keep the next version; 1 when this very one is there afterwards."""
    row = _row(record)
    is_schedule = isinstance(record, Schedule)
    connection.execute(_SQLITE_SCHEDULE if is_schedule else _SQLITE_FIRE, row)
    query = _SQLITE_SCHEDULE_HASH if is_schedule else _SQLITE_FIRE_HASH
    return int(bytes(connection.execute(query, row).fetchone()[0]) == row["hash"])


async def put_in_postgres(connection: Any, record: Schedule | Fire) -> int:
    """Keep the next version; 1 when this very one is there afterwards."""
    row = _row(record)
    is_schedule = isinstance(record, Schedule)
    await connection.execute(_POSTGRES_SCHEDULE if is_schedule else _POSTGRES_FIRE, row)
    query = _POSTGRES_SCHEDULE_HASH if is_schedule else _POSTGRES_FIRE_HASH
    cursor = await connection.execute(query, row)
    return int(bytes((await cursor.fetchone())[0]) == row["hash"])


def prune_in_sqlite(connection: sqlite3.Connection, before: datetime) -> int:
    """Remove old fires that are over; the newest ones of each schedule stay. How many went."""
    query = _OLD_FIRES.format("fire", "?", "?")
    return connection.execute(query, (_moment(before), _SPARED)).rowcount


async def prune_in_postgres(connection: Any, before: datetime) -> int:
    """Remove old fires that are over; the newest ones of each schedule stay. How many went."""
    query = _OLD_FIRES.format("plansmith.fire", "%s", "%s")
    return int((await connection.execute(query, [_moment(before), _SPARED])).rowcount)


def read_schedules(rows: Iterable[Any]) -> Sequence[Schedule]:
    """Schedules from their rows; an altered one is an error, never something else."""
    return [_schedule(bytes(digest), bytes(data)) for digest, data in rows]


def read_fires(rows: Iterable[Any]) -> Sequence[Fire]:
    """Fires from their rows."""
    return [_fire(bytes(digest), bytes(data)) for digest, data in rows]


# Whoever keeps schedules reads all of them again and again, and few have changed.
@lru_cache(maxsize=4096)
def _schedule(digest: bytes, data: bytes) -> Schedule:
    return Schedule.model_validate(read_value(digest.hex(), data))


@lru_cache(maxsize=4096)
def _fire(digest: bytes, data: bytes) -> Fire:
    return Fire.model_validate(read_value(digest.hex(), data))


class ScheduleTable:
    """Schedules and fires in dictionaries, for as long as the process lasts."""

    def __init__(self) -> None:
        self._schedules: dict[str, Schedule] = {}
        self._fires: dict[tuple[str, datetime], Fire] = {}

    def put_schedule(self, schedule: Schedule) -> bool:
        """Keep the next version."""
        before = self._schedules.get(schedule.id)
        if before is None or before.version == schedule.version - 1:
            self._schedules[schedule.id] = schedule
        return self._schedules[schedule.id] == schedule

    def put_fire(self, fire: Fire) -> bool:
        """Keep the next version."""
        before = self._fires.get(fire.key)
        if before is None or before.version == fire.version - 1:
            self._fires[fire.key] = fire
        return self._fires[fire.key] == fire

    def schedules(self) -> Sequence[Schedule]:
        """All of them, oldest first."""
        return [self._schedules[each] for each in sorted(self._schedules)]

    def fires(self, schedule: str, limit: int) -> Sequence[Fire]:
        """The newest fires of a schedule, newest first."""
        own = sorted(key for key in self._fires if key[0] == schedule)
        return [self._fires[key] for key in own[::-1][:limit]]

    def open_fires(self) -> Sequence[Fire]:
        """The fires of all schedules of which something may still come."""
        return [fire for _, fire in sorted(self._fires.items()) if fire.state.open]
