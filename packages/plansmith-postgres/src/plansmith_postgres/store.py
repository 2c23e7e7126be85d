"""A store on PostgreSQL, in a schema of its own, for several machines."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from plansmith.ports import Sound
from plansmith.store.claims import CLAIM_OF
from plansmith.store.commit import Append, Request, Settle, closed
from plansmith.store.database_store import Database, DatabaseStore
from plansmith.store.rows import day_of, sound_part, stale, taken_over
from plansmith.store.sql import EVENTS, Change, Parameters
from plansmith_postgres.connection import Connection, ConnectionPool
from plansmith_postgres.statements import (
    APPEND,
    HASH,
    POSTGRES,
    POSTGRES_CLAIMS,
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
        self._now = now
        # To plan the one statement of an append takes longer than to make it.
        self._writing = Connection(dsn, patience_s=patience_s, plan_once=True)
        make = partial(Connection, dsn, patience_s=patience_s)
        self._reading = ConnectionPool(make, most=connections)
        self._listening = Connection(dsn, patience_s=patience_s)
        # A transaction has its connection for itself.
        self._changing = Connection(dsn, patience_s=patience_s)
        self._transacting = asyncio.Lock()
        self._writer = _WriterTask(self._commit, settle=self._settle)
        database = Database(
            dialect=POSTGRES,
            claims=POSTGRES_CLAIMS,
            query=self._query,
            execute=self._execute,
            transact=self._transact,
            submit=self._writer.submit,
            change_claim=self._change_claim,
            now=now,
        )
        super().__init__(database)

    async def sound(self, run: str) -> Sound:
        """Returns the events of a run up to the first that is missing or altered."""
        rows = await self._query(EVENTS, {"run": run, "after": 0})
        placed = [row for _, *row in rows if row[0] is not None]
        return sound_part(run, placed, last=rows[-1][0] if rows else 0)

    async def close(self) -> None:
        """Finishes all requests and closes the connections; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._followers.close()
        await self._writer.close()
        for connection in (self._writing, self._reading, self._listening, self._changing):
            await connection.close()

    async def _commit(self, batch: Sequence[Request]) -> None:
        rest: Sequence[Append] = [
            each for each in batch if isinstance(each, Append) and each.is_sound()
        ]
        while rest:
            units, puts, rest = units_of(rest)
            won = await self._write(units, puts)
            for run, requests in units.items():
                for request in requests if not won.get(run) else ():
                    first = request.events[0].number
                    request.error = taken_over(run) if run in won else stale(run, first)

    async def _write(
        self, units: Mapping[str, Sequence[Append]], puts: Sequence[Append]
    ) -> dict[str, bool]:
        """Returns the runs that were written, and as false those that were taken over."""
        asked = columns_of(units, puts, day=day_of(self._now()))

        async def write(connection: Any, again: bool) -> dict[str, bool]:  # noqa: FBT001 - as `use` calls it
            cursor = await connection.execute(APPEND, asked, prepare=True)
            won = {str(row[0]): bool(row[1]) for row in await cursor.fetchall()}
            if again:
                # The lost connection may have taken the answer with it, not the write.
                lost = {run for run in units if not won.get(run)}
                won |= dict.fromkeys(await self._stored(connection, lost, units), True)
            return won

        return await self._writing.use(write)

    async def _stored(
        self, connection: Any, lost: set[str], units: Mapping[str, Sequence[Append]]
    ) -> set[str]:
        found: set[str] = set()
        for run in lost:
            last = units[run][-1].events[-1]
            cursor = await connection.execute(HASH, [run, last.number])
            row = await cursor.fetchone()
            if row is not None and row[0] == last.hash:
                found.add(run)
        return found

    async def _use(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        async def use(connection: Any, _: bool) -> _T:  # noqa: FBT001 - as `use` calls it
            return await work(connection)

        if self._closed:
            raise closed()
        return await self._reading.use(use)

    async def _read(self, query: str, given: Parameters | Sequence[object]) -> list[Any]:
        async def read(connection: Any) -> list[Any]:
            rows: list[Any] = await (await connection.execute(query, given, binary=True)).fetchall()
            return rows

        return await self._use(read)

    async def _query(self, statement: str, given: Parameters) -> list[Any]:
        return await self._read(for_postgres(statement), given)

    async def _execute(self, statement: str, given: Parameters) -> int:
        async def execute(connection: Any) -> int:
            return int((await connection.execute(for_postgres(statement), given)).rowcount)

        return await self._use(execute)

    async def _change_claim(self, _: str, steps: Sequence[str], given: Parameters) -> Any:
        async def change(connection: Any) -> Any:
            for step in steps:
                cursor = await connection.execute(for_postgres(step), given)
                if cursor.description is not None and (row := await cursor.fetchone()):
                    return row
            found = await connection.execute(for_postgres(CLAIM_OF), given)
            return await found.fetchone()

        return await self._use(change)

    async def _transact(self, changes: Sequence[Change]) -> list[list[int] | None]:
        async def transact(connection: Any, again: bool) -> list[list[int] | None]:  # noqa: FBT001 - as `use` calls it
            async with connection.transaction(), connection.cursor() as cursor:
                # The counter comes first, as in every append: whoever has it writes alone.
                await cursor.execute(for_postgres(POSTGRES.take), {"count": 0})
                return [await _change(cursor, each, again=again) for each in changes]

        if self._closed:
            raise closed()
        async with self._transacting:
            return await self._changing.use(transact)

    async def _watch(self) -> None:
        async def listen(connection: Any, _: bool) -> None:  # noqa: FBT001 - as `use` calls it
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
    if not await _finds(cursor, change.needs):
        # The lost connection may have taken the answer with it, not the change.
        made = again and change.made and await _finds(cursor, change.made)
        return [] if made else None
    counts: list[int] = []
    for step, rows in change.steps:
        await cursor.executemany(for_postgres(step), rows)
        counts.append(int(cursor.rowcount))
    return counts


async def _finds(cursor: Any, asked: Sequence[tuple[str, Parameters]]) -> bool:
    for statement, given in asked:
        await cursor.execute(for_postgres(statement), given)
        if await cursor.fetchone() is None:
            return False
    return True


class _WriterTask:
    """Passes all requests since the last commit to `commit`, in a task while there is work."""

    def __init__(
        self, commit: Callable[[Sequence[Request]], Awaitable[None]], *, settle: Settle
    ) -> None:
        self._commit = commit
        self._settle = settle
        self._waiting: list[Request] = []
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def submit(self, request: Request) -> asyncio.Future[Any]:
        """Queues a request; the future is done when its outcome is durable."""
        if self._closed:
            raise closed()
        self._waiting.append(request)
        if self._task is None:
            self._task = request.future.get_loop().create_task(self._work())
        return request.future

    async def close(self) -> None:
        self._closed = True
        if self._task is not None:
            await self._task

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                try:
                    await self._commit(batch)
                except Exception as error:  # noqa: BLE001 - a caller must never wait for ever
                    for request in batch:
                        request.error = request.error or error
                self._settle(batch)
        finally:
            self._task = None
