"""A store on PostgreSQL, in a schema of its own, for several machines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from plansmith.store.commit import Append, CommitQueue, Request, closed
from plansmith.store.database_store import DatabaseStore
from plansmith.store.rows import day_of, stale, taken_over
from plansmith.store.sql import CLAIM_OF, Change, Parameters
from plansmith_postgres.connection import Connection, ConnectionPool
from plansmith_postgres.statements import (
    APPEND,
    EVENT_HASH,
    POSTGRES,
    columns_of,
    for_postgres,
    units_of,
)

_T = TypeVar("_T")


class PostgresStore(DatabaseStore):
    """Journals and results in a PostgreSQL database.

    Reads over up to `connections`. Reconnects for up to `patience_s`; an interrupted write is then
    looked up, so that it is neither lost nor done twice. Nothing is opened before the first call.
    """

    def __init__(
        self,
        dsn: str,
        *,
        patience_s: float = 10.0,
        connections: int = 4,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(POSTGRES, now=now)
        make = partial(Connection, dsn, patience_s=patience_s)
        # To plan the one statement of an append takes longer than to make it.
        self._writing = make(plan_once=True)
        self._reading = ConnectionPool(make, most=connections)
        self._listening = make()
        # A transaction has its connection for itself.
        self._changing = ConnectionPool(make, most=1)
        self._queue = CommitQueue(self._commit, on_settled=self._wake_followers)

    async def close(self) -> None:
        """Finishes all requests and closes the connections; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._followers.close()
        await self._queue.close()
        for connection in (self._writing, self._reading, self._listening, self._changing):
            await connection.close()

    def _submit(self, request: Append) -> Awaitable[Any]:
        return self._queue.submit(request)

    async def _commit(self, batch: Sequence[Request], settle: Callable[[], None]) -> None:
        rest: Sequence[Append] = [each for each in batch if isinstance(each, Append)]
        while rest:
            units, puts, rest = units_of(rest)
            won = await self._write(units, puts)
            for run, requests in units.items():
                for request in requests if not won.get(run) else ():
                    first = request.events[0].number
                    request.error = taken_over(run) if run in won else stale(run, first)
        settle()
        await asyncio.sleep(0)

    async def _write(
        self, units: Mapping[str, Sequence[Append]], puts: Sequence[Append]
    ) -> dict[str, bool]:
        """Returns the runs that were written, and as false those that were taken over."""
        columns = columns_of(units, puts, day=day_of(self._now()))

        async def write(connection: Any, attempt: int) -> dict[str, bool]:
            cursor = await connection.execute(APPEND, columns, prepare=True)
            won = {str(row[0]): bool(row[1]) for row in await cursor.fetchall()}
            if attempt > 1:
                # The lost connection may have taken the answer with it, not the write.
                for run in [each for each in units if not won.get(each)]:
                    last = units[run][-1].events[-1]
                    cursor = await connection.execute(EVENT_HASH, [run, last.number])
                    if await cursor.fetchone() == (last.hash,):
                        won[run] = True
            return won

        return await self._writing.use(write)

    async def _use(self, pool: ConnectionPool, work: Callable[[Any, int], Awaitable[_T]]) -> _T:
        if self._closed:
            raise closed()
        return await pool.use(work)

    async def _query(self, statement: str, given: Parameters) -> list[Any]:
        async def read(connection: Any, attempt: int) -> list[Any]:
            del attempt
            cursor = await connection.execute(for_postgres(statement), given, binary=True)
            rows: list[Any] = await cursor.fetchall()
            return rows

        return await self._use(self._reading, read)

    async def _change_claim(self, run: str, statements: Sequence[str], given: Parameters) -> Any:
        async def change(connection: Any, attempt: int) -> Any:
            del attempt
            for statement in statements:
                cursor = await connection.execute(for_postgres(statement), given)
                if cursor.description is not None and (row := await cursor.fetchone()):
                    return row
            found = await connection.execute(for_postgres(CLAIM_OF), {"run": run})
            return await found.fetchone()

        return await self._use(self._reading, change)

    async def _transact(self, changes: Sequence[Change]) -> list[list[int] | None]:
        async def transact(connection: Any, attempt: int) -> list[list[int] | None]:
            async with connection.transaction(), connection.cursor() as cursor:
                # The counter comes first, as in every append: whoever has it writes alone.
                await cursor.execute(for_postgres(POSTGRES.take_positions), {"count": 0})
                return [await _change(cursor, each, again=attempt > 1) for each in changes]

        return await self._use(self._changing, transact)

    async def _watch(self) -> None:
        async def listen(connection: Any, attempt: int) -> None:
            del attempt
            await connection.execute(f"LISTEN {self._listening.schema}")
            # What happened before the first notification, or while the connection was lost.
            await self._followers.look()
            async for note in connection.notifies():
                number, _space, run = note.payload.partition(" ")
                self._wake({run: int(number)})
                if not self._followers.any:
                    return

        await self._listening.use(listen)


async def _change(cursor: Any, change: Change, *, again: bool) -> list[int] | None:
    if not await _all_exist(cursor, change.needs):
        # The lost connection may have taken the answer with it, not the change.
        made = again and change.made and await _all_exist(cursor, change.made)
        return [] if made else None
    counts: list[int] = []
    for statement, rows in change.statements:
        await cursor.executemany(for_postgres(statement), rows)
        counts.append(int(cursor.rowcount))
    return counts


async def _all_exist(cursor: Any, queries: Sequence[tuple[str, Parameters]]) -> bool:
    for statement, parameters in queries:
        await cursor.execute(for_postgres(statement), parameters)
        if await cursor.fetchone() is None:
            return False
    return True
