"""A store on PostgreSQL, in the schema `plansmith`: the same journal for many machines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from plansmith.adapters.stores import statements
from plansmith.adapters.stores.commit import Request, WriterTask, closed, settle_all
from plansmith.adapters.stores.followers import Followers
from plansmith.adapters.stores.link import Link
from plansmith.adapters.stores.news import ANY_RUN, POSTGRES_NEWS, POSTGRES_POSITION
from plansmith.adapters.stores.records import PostgresRecords
from plansmith.adapters.stores.retention import Pruned, expired, keys_in, last_day
from plansmith.adapters.stores.rows import (
    DOCTOR,
    HEADER_BYTES,
    RunHead,
    day_of,
    entries_of,
    head_of,
    journal_start,
    read_journal,
    stale,
)
from plansmith.adapters.stores.schedules import prune_in_postgres
from plansmith.adapters.stores.statements import columns_of, units_of
from plansmith.adapters.stores.together import Together
from plansmith.adapters.stores.values import Values
from plansmith.errors import JournalDamaged
from plansmith.plan.data import Content, Json, content_of
from plansmith.plan.events import Event
from plansmith.ports import News

_T = TypeVar("_T")
_SOME: Final = 1000
_ANY_DAY: Final = 2**31 - 1
_FAR: Final = 2**63


class PostgresStore(PostgresRecords):
    """Journals and results in a PostgreSQL database.

    A lost connection is opened again for up to `patience_s`; a write that was under way is then
    looked up, so that it is neither lost nor done twice. Nothing is reached before the first call.
    """

    def __init__(
        self,
        dsn: str,
        *,
        patience_s: float = 10.0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._now = now
        self._writing = Link(dsn, patience_s=patience_s)
        self._reading = Link(dsn, patience_s=patience_s)
        self._listening = Link(dsn, patience_s=patience_s)
        self._writer = WriterTask(self._commit, settle=self._settle)
        self._followers = Followers(numbers=self._numbers, watch=self._watch)
        self._values = Values(self._read_values)
        self._journals = Together(self._read_journals)
        self._closed = False

    async def append(self, events: Sequence[Event], values: Sequence[Json | Content] = ()) -> None:
        """Keep events that follow the last one of their run, and values, all or none."""
        entries = entries_of(events)
        texts = [content_of(value) for value in values]
        if entries or texts:
            run = events[0].run if events else ""
            await self._writer.submit(Request(run, entries, texts))
            self._values.keep(texts)

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        """The events of a run behind a number; none for an unknown run."""
        if self._closed:
            raise closed()
        start = journal_start(after)
        rows = await self._journals.get((run, start)) or ()
        placed = [(number, data) for number, data, _ in rows if number is not None]
        found, last = placed[-1][0] if placed else 0, (rows[-1][2] or 0) if rows else 0
        if found < last and start <= last:
            raise JournalDamaged(f"the end of run {run} is missing", hint=DOCTOR)
        return read_journal(run, placed, after=after)

    async def runs(self) -> Sequence[str]:
        """The ids of all runs, oldest first."""
        rows = await self._read("SELECT name FROM plansmith.run ORDER BY id", [])
        return [str(row[0]) for row in rows]

    async def heads(self) -> Sequence[RunHead]:
        """Where every run stands, oldest first, without reading the runs."""
        rows = await self._read(statements.HEADS, [HEADER_BYTES, HEADER_BYTES])
        return [head_of(*row) for row in rows]

    async def open_runs(self) -> Sequence[str]:
        """The ids of the runs that are not over, oldest first."""
        return [head.run for head in await self.heads() if not head.over]

    async def news(self, after: int = 0, *, limit: int = 1000) -> Sequence[News]:
        """The events of all runs behind a position, in the order they became durable."""
        return [News(*row) for row in await self._read(POSTGRES_NEWS, [after, limit])]

    async def wait_news(self, after: int) -> int:
        """Return the newest position when it is behind the given one."""
        while (position := await self._position()) <= after:
            await self._followers.wait(ANY_RUN, after)
        return position

    async def _position(self) -> int:
        return int((await self._read(POSTGRES_POSITION, []))[0][0])

    async def put(self, value: Json) -> str:
        """Keep a value once, and return its content hash."""
        content = content_of(value)
        await self._writer.submit(Request(values=[content]))
        self._values.keep([content])
        return content.digest

    async def get(self, digest: str) -> Json:
        """The value of a content hash."""
        if self._closed:
            raise closed()
        return await self._values.get(digest)

    async def _change(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        async def change(connection: Any, _: bool) -> _T:  # noqa: FBT001 - Link's form
            return await work(connection)

        if self._closed:
            raise closed()
        return await self._reading.use(change)

    async def wait(self, run: str, *, after: int = 0) -> None:
        """Return when the run has an event behind the number, whoever appends it."""
        await self._followers.wait(run, after)

    async def delete_run(self, run: str) -> bool:
        """Remove a run's journal; its values go with the next `prune`."""
        return await self._delete({run: None}) > 0

    async def prune(self, before: datetime) -> Pruned:
        """Remove runs and fires that were over before a moment, then values nobody mentions."""
        self._values.forget()
        old = expired(await self.heads(), before)
        runs = await self._delete({head.run: head.number for head in old}) if old else 0
        fires = await self._change(lambda link: prune_in_postgres(link, before))
        return Pruned(runs, await self._sweep(last_day(before, self._now())), fires)

    async def unmentioned(self) -> int:
        """How many values no event mentions."""

        async def count(connection: Any, _: bool) -> int:  # noqa: FBT001 - Link's form
            return len((await _unmentioned(connection, _ANY_DAY))[0])

        return await self._reading.use(count)

    async def close(self) -> None:
        """Finish what was asked for and let the connections go; harmless when done twice."""
        if self._closed:
            return
        self._closed = True
        await self._followers.stop()
        await self._values.close()
        await self._journals.close()
        await self._writer.close()
        for link in (self._writing, self._reading, self._listening):
            await link.close()

    def _settle(self, requests: Sequence[Request]) -> None:
        settle_all(requests)
        if self._followers.any:
            done = (each for each in requests if each.entries and each.error is None)
            self._wake({each.run: each.entries[-1].number for each in done})

    async def _commit(self, batch: Sequence[Request]) -> None:
        rest = batch
        while rest:
            units, puts, rest = units_of(rest)
            won = await self._write(units, puts)
            for run, requests in units.items():
                for request in requests:
                    if run not in won:
                        request.error = stale(run, request.entries[0].number)

    async def _write(
        self, units: Mapping[str, Sequence[Request]], puts: Sequence[Request]
    ) -> set[str]:
        asked = await columns_of(units, puts, day=day_of(self._now()))

        async def write(connection: Any, again: bool) -> set[str]:  # noqa: FBT001 - Link's form
            cursor = await connection.execute(statements.APPEND, asked, prepare=True)
            won = {str(row[0]) for row in await cursor.fetchall()}
            if again:
                # The lost connection may have taken the answer with it, not the write.
                won |= await self._stored(connection, set(units) - won, units)
            return won

        return await self._writing.use(write)

    async def _stored(
        self, connection: Any, lost: set[str], units: Mapping[str, Sequence[Request]]
    ) -> set[str]:
        found: set[str] = set()
        for run in lost:
            last = units[run][-1].entries[-1]
            cursor = await connection.execute(statements.ROW, [run, last.number], binary=True)
            row = await cursor.fetchone()
            if row is not None and row[0] == last.data:
                found.add(run)
        return found

    async def _read(self, query: str, parameters: Sequence[object]) -> list[Any]:
        async def read(connection: Any, _: bool) -> list[Any]:  # noqa: FBT001 - Link's form
            cursor = await connection.execute(query, parameters, binary=True)
            rows: list[Any] = await cursor.fetchall()
            return rows

        if self._closed:
            raise closed()
        return await self._reading.use(read)

    async def _read_journals(
        self, keys: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], list[tuple[Any, Any, Any]]]:
        found: dict[tuple[str, int], list[tuple[Any, Any, Any]]] = {key: [] for key in keys}
        asked = [[run for run, _ in keys], [start for _, start in keys]]
        for run, start, number, data, last in await self._read(statements.EVENTS, asked):
            found[run, start].append((number, data, last))
        return found

    async def _read_values(self, keys: Sequence[bytes]) -> Mapping[bytes, object]:
        query = "SELECT key, data FROM plansmith.value WHERE key = ANY(%b)"
        return {bytes(key): data for key, data in await self._read(query, [list(keys)])}

    async def _numbers(self, runs: Sequence[str]) -> Mapping[str, int]:
        numbers = dict(await self._read(statements.NUMBERS, [list(runs)]))
        return numbers | ({ANY_RUN: await self._position()} if ANY_RUN in runs else {})

    def _wake(self, numbers: Mapping[str, int]) -> None:
        # Whoever follows all runs asks for the position itself.
        self._followers.wake({**numbers, ANY_RUN: _FAR} if numbers else {})

    async def _watch(self) -> None:
        async def listen(connection: Any, _: bool) -> None:  # noqa: FBT001 - Link's form
            await connection.execute("LISTEN plansmith")
            # What happened before the first notification, or while the connection was lost.
            await self._followers.look()
            async for note in connection.notifies():
                number, _space, run = note.payload.partition(" ")
                self._wake({run: int(number)})
                if not self._followers.any:
                    return

        await self._listening.use(listen)

    async def _delete(self, runs: Mapping[str, int | None]) -> int:
        async def delete(connection: Any, _: bool) -> int:  # noqa: FBT001 - Link's form
            async with connection.transaction():
                await connection.execute(statements.NO_APPENDS)
                done = await connection.execute(
                    statements.DELETE, [list(runs), list(runs.values())]
                )
                return int(done.rowcount)

        if self._closed:
            raise closed()
        return await self._reading.use(delete)

    async def _sweep(self, day: int) -> int:
        async def sweep(connection: Any, _: bool) -> int:  # noqa: FBT001 - Link's form
            old, seen = await _unmentioned(connection, day)
            if not old:
                return 0
            async with connection.transaction():
                # Nobody appends now: what was written since may mention some of them again.
                await connection.execute(statements.NO_APPENDS)
                news = await connection.execute(statements.NEWS, [list(seen), list(seen.values())])
                keys = list(old - keys_in(await news.fetchall()))
                done = await connection.execute(statements.DELETE_VALUES, [keys, day])
                return int(done.rowcount)

        return await self._reading.use(sweep)


async def _unmentioned(connection: Any, day: int) -> tuple[set[bytes], dict[int, int]]:
    async with connection.transaction():
        await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor = await connection.execute(statements.OLD_VALUES, [day], binary=True)
        old = {bytes(row[0]) for row in await cursor.fetchall()}
        cursor = await connection.execute(statements.LAST_NUMBERS)
        seen = {int(run): int(number) for run, number in await cursor.fetchall()}
        if old:
            async with connection.cursor("plansmith_rows", binary=True) as rows:
                await rows.execute(statements.ALL_ROWS)
                while some := await rows.fetchmany(_SOME):
                    old -= keys_in(some)
    return old, seen
