"""Finds what is too old to be kept: runs that ended long ago, and values that nothing mentions."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from plansmith.adapters.stores import statements as sql
from plansmith.adapters.stores.rows import hashes_in
from plansmith.adapters.stores.statements import Change
from plansmith.plan.chain import moment

_BODIES_AT_ONCE: Final = 10_000


class Queries(Protocol):
    """What is needed of a database."""

    @property
    def query(self) -> Callable[..., Any]:
        """Reads rows."""
        ...

    @property
    def transact(self) -> Callable[..., Any]:
        """Makes changes in one transaction."""
        ...


async def over_before(
    database: Queries, before: datetime, spared: Collection[str] = ()
) -> dict[str, int]:
    """Returns the runs that ended before a moment, with the number of their last event."""
    rows = await database.query(sql.OVER_BEFORE, {"before": moment(before.astimezone(UTC))})
    return {str(run): int(number) for run, number in rows if str(run) not in spared}


async def size_of(database: Queries, run: str) -> int:
    """Returns about how many bytes the journal of a run takes."""
    rows = await database.query(sql.RUN_SIZE, {"run": run})
    return int(rows[0][0] or 0)


async def unmentioned(database: Queries, day: str, seen: int) -> set[str]:
    """Returns the values last put before a day that no event up to a position mentions."""
    rows = await database.query(sql.OLD_CONTENTS, {"day": day})
    old = {str(row[0]) for row in rows}
    for after in range(0, seen if old else 0, _BODIES_AT_ONCE):
        window = {"after": after, "until": min(after + _BODIES_AT_ONCE, seen)}
        bodies = await database.query(sql.BODIES, window)
        old -= hashes_in(str(row[0]) for row in bodies)
    return old


async def sweep(database: Queries, day: str, seen: int) -> int:
    """Deletes the values that no event mentions; returns how many there were."""
    old = await unmentioned(database, day, seen)
    rows = [
        {"hash": each, "day": day, "seen": seen, "pattern": f"%{each}%"} for each in sorted(old)
    ]
    if not rows:
        return 0
    [done] = await database.transact([Change((), [(sql.DELETE_CONTENT, rows)])])
    return sum(done or ())
