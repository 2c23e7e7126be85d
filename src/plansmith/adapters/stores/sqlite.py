"""A store in one SQLite file: durable, shared by processes, with one commit for many runs."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from plansmith.adapters.stores.commit import Deed, Errand, Request, WriterThread, closed, settle_all
from plansmith.adapters.stores.database import Synchronous, in_our_words, open_database
from plansmith.adapters.stores.ends import End, Ends, need_end
from plansmith.adapters.stores.followers import Followers
from plansmith.adapters.stores.ledger import Ledger
from plansmith.adapters.stores.news import ANY_RUN, sqlite_news, sqlite_position
from plansmith.adapters.stores.records import SqliteRecords
from plansmith.adapters.stores.retention import Pruned, expired, keys_in, last_day
from plansmith.adapters.stores.rows import (
    DOCTOR,
    HEADER_BYTES,
    RunHead,
    entries_of,
    head_of,
    journal_start,
    read_journal,
)
from plansmith.adapters.stores.schedules import prune_in_sqlite
from plansmith.adapters.stores.together import Together
from plansmith.adapters.stores.values import Values
from plansmith.errors import JournalDamaged, PlansmithError
from plansmith.plan.data import Content, Json, content_of
from plansmith.plan.events import Event
from plansmith.ports import News

_T = TypeVar("_T")
_ANY_DAY: Final = 2**31 - 1
_FAR: Final = 2**63
_AT_ONCE: Final = 500
_FEW: Final = 64
_Rows = Sequence[tuple[Any, Any, Any]]


class SqliteStore(SqliteRecords):
    """Journals and results in one file.

    `synchronous="full"` survives a power cut; `"normal"` survives the end of the process, and a
    power cut may take the last moments, never the file. Another process may use the same file:
    a write waits for it up to `timeout_s`, and a follower sees its events within `poll_s`.
    Nothing is opened before the first call.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        synchronous: Synchronous = "full",
        timeout_s: float = 10.0,
        poll_s: float = 0.05,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._path = Path(path)
        self._timeout_s = timeout_s
        self._poll_s = poll_s
        self._now = now
        self._ledger = Ledger(self._path, synchronous=synchronous, timeout_s=timeout_s, now=now)
        self._writer = WriterThread(self._ledger.commit, settle=self._settle)
        self._readers = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plansmith-read")
        self._reading: sqlite3.Connection | None = None
        self._followers = Followers(numbers=self._numbers, watch=self._watch)
        self._values = Values(self._read_values)
        self._journals = Together(self._read_journals)
        self._closed = False
        self._was_open = False

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
        start = journal_start(after)

        def decoded(rows: _Rows) -> list[Event]:
            placed = [(number, data) for _, number, data in rows if number is not None]
            if rows and not _is_whole(rows[-1][0], placed[-1][0] if placed else None, start):
                raise JournalDamaged(f"the end of run {run} is missing", hint=DOCTOR)
            need_end(run, end, rows[-1][0] if rows else 0, placed[-1:])
            return read_journal(run, placed, after=after)

        # Remembered before the rows are read: what others write meanwhile is in both or in none.
        end = await self._elsewhere(lambda: self._ledger.ends.of(run))
        rows = await self._journals.get((run, start)) or ()
        # Much is decoded elsewhere, so that the event loop goes on; little is decoded here, since
        # two threads that both compute only take the interpreter from each other.
        return decoded(rows) if len(rows) <= _FEW else await self._elsewhere(lambda: decoded(rows))

    async def runs(self) -> Sequence[str]:
        """The ids of all runs, oldest first."""
        rows = await self._read(
            lambda connection: connection.execute("SELECT name FROM run ORDER BY id").fetchall()
        )
        return [str(row[0]) for row in rows]

    async def heads(self) -> Sequence[RunHead]:
        """Where every run stands, oldest first, without reading the runs."""
        return await self._read(_heads)

    async def open_runs(self) -> Sequence[str]:
        """The ids of the runs that are not over, oldest first."""
        return [head.run for head in await self.heads() if not head.over]

    async def news(self, after: int = 0, *, limit: int = 1000) -> Sequence[News]:
        """The events of all runs behind a position, in the order they became durable."""
        return await self._read(lambda connection: sqlite_news(connection, after, limit))

    async def wait_news(self, after: int) -> int:
        """Return the newest position when it is behind the given one."""
        while (position := await self._read(sqlite_position)) <= after:
            await self._followers.wait(ANY_RUN, after)
        return position

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

    async def wait(self, run: str, *, after: int = 0) -> None:
        """Return when the run has an event behind the number, whoever appends it."""
        await self._followers.wait(run, after)

    async def delete_run(self, run: str) -> bool:
        """Remove a run's journal; its values go with the next `prune`."""
        gone = await self._transact(lambda connection: _delete_run(connection, run, None)) > 0
        self._ledger.ends.forget(run)
        return gone

    async def prune(self, before: datetime) -> Pruned:
        """Remove runs and fires that were over before a moment, then values nobody mentions."""
        self._values.forget()
        old = expired(await self.heads(), before)

        def delete(connection: sqlite3.Connection) -> int:
            return sum(_delete_run(connection, head.run, head.number) for head in old)

        runs = await self._transact(delete) if old else 0
        left = set(await self.runs()) if old else set[str]()
        for head in old:
            if head.run not in left:
                self._ledger.ends.forget(head.run)
        fires = await self._transact(lambda connection: prune_in_sqlite(connection, before))
        return Pruned(runs, await self._sweep(last_day(before, self._now())), fires)

    async def unmentioned(self) -> int:
        """How many values no event mentions."""
        values, _ = await self._read(lambda connection: _unmentioned(connection, _ANY_DAY))
        return len(values)

    async def close(self) -> None:
        """Finish what was asked for and let the file go; harmless when done twice."""
        if self._closed:
            return
        self._closed = True
        await self._followers.stop()
        await self._values.close()
        await self._journals.close()
        await asyncio.to_thread(self._shut)
        # What the writer settled in this loop is told before the loop may end.
        await asyncio.sleep(0)

    def _shut(self) -> None:
        self._writer.close()
        self._readers.shutdown()
        with in_our_words(self._path):
            if self._reading is not None:
                self._reading.close()
            self._ledger.close()
        self._ledger.ends.close(self._agrees)

    def _agrees(self, ends: Iterable[End]) -> bool:
        """Whether all that was written is in the file: asked anew, as the next process would."""
        try:
            connection = open_database(self._path, timeout_s=self._timeout_s)
        except PlansmithError:
            return False
        try:
            return all(_last_of(connection, end.run) >= end.number for end in ends)
        except sqlite3.Error:
            return False
        finally:
            connection.close()

    def _settle(self, requests: Sequence[Request]) -> None:
        settle_all(requests)
        if self._followers.any:
            done = (each for each in requests if each.entries and each.error is None)
            numbers = {each.run: each.entries[-1].number for each in done}
            self._followers.wake(numbers | ({ANY_RUN: self._ledger.position} if numbers else {}))

    async def _read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        def read() -> _T:
            with in_our_words(self._path, was_open=self._was_open):
                if self._reading is None:
                    self._reading = open_database(self._path, timeout_s=self._timeout_s)
                    self._was_open = True
                try:
                    return work(self._reading)
                except sqlite3.Error:
                    # The next one begins anew: after trouble with the disk it may stay broken.
                    broken, self._reading = self._reading, None
                    broken.close()
                    raise

        return await self._elsewhere(read)

    async def _elsewhere(self, work: Callable[[], _T]) -> _T:
        if self._closed:
            raise closed()
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def _read_journals(
        self, keys: Sequence[tuple[str, int]]
    ) -> Mapping[tuple[str, int], _Rows]:
        return await self._read(
            lambda connection: {
                (run, start): connection.execute(_EVENTS, (start, run)).fetchall()
                for run, start in keys
            }
        )

    async def _read_values(self, keys: Sequence[bytes]) -> Mapping[bytes, object]:
        return await self._read(lambda connection: dict(_in_parts(connection, _VALUES, keys)))

    async def _transact(self, work: Callable[[sqlite3.Connection], int]) -> int:
        errand = Errand(lambda: self._ledger.transact(work))
        return int(await self._writer.submit(errand))

    async def _with_others(self, work: Callable[[sqlite3.Connection], object]) -> Any:
        return await self._writer.submit(Deed(work))

    @property
    def ends(self) -> Ends:
        """Where journals ended when they were last written."""
        return self._ledger.ends

    def _wake(self, numbers: Mapping[str, int]) -> None:
        self._followers.wake({**numbers, ANY_RUN: _FAR} if numbers else {})

    async def _numbers(self, runs: Sequence[str]) -> Mapping[str, int]:
        def last(connection: sqlite3.Connection) -> dict[str, int]:
            numbers = dict(_in_parts(connection, _LASTS, runs))
            return numbers | ({ANY_RUN: sqlite_position(connection)} if ANY_RUN in runs else {})

        return await self._read(last)

    async def _watch(self) -> None:
        seen = -1
        while self._followers.any:
            # The writer's own commits do not count: those who wait hear of them at once.
            version = await self._writer.submit(Errand(self._ledger.others))
            if version != seen:
                seen = version
                await self._followers.look()
            await asyncio.sleep(self._poll_s)

    async def _sweep(self, day: int) -> int:
        old, last = await self._read(lambda connection: _unmentioned(connection, day))
        if not old:
            return 0

        def delete(connection: sqlite3.Connection) -> int:
            # Under the lock: what was written since may mention some of them again. Ids grow
            # as long as the last row read is there; if it is gone, the next sweep will do.
            if last and last not in connection.execute(_ROW, last[:1]):
                return 0
            read_to = last[0] if last else 0
            news = connection.execute(f"{_ROWS} WHERE event.id > ?", (read_to,))
            keys = [(key, day) for key in old - keys_in(news)]
            done = connection.executemany("DELETE FROM value WHERE key = ? AND day < ?", keys)
            return done.rowcount

        return await self._transact(delete)


_EVENTS: Final = """
    SELECT last, number, data FROM run
    LEFT JOIN place ON place.run = run.id AND number >= ?
    LEFT JOIN event ON event.id = place.event
    WHERE name = ? ORDER BY number
"""
_VALUES: Final = "SELECT key, data FROM value WHERE key"
_LASTS: Final = "SELECT name, last FROM run WHERE name"
_LAST: Final = "SELECT last FROM run WHERE name = ?"
_HEADS: Final = """
    SELECT name, last, substr(newest.data, 1, :bytes), substr(oldest.data, 1, :bytes) FROM run
    LEFT JOIN place AS first ON first.run = run.id AND first.number = 1
    LEFT JOIN place AS final ON final.run = run.id AND final.number = last
    LEFT JOIN event AS newest ON newest.id = final.event
    LEFT JOIN event AS oldest ON oldest.id = first.event
    ORDER BY run.id
"""


def _in_parts(
    connection: sqlite3.Connection, query: str, keys: Sequence[object]
) -> Iterator[tuple[Any, Any]]:
    for start in range(0, len(keys), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]
        yield from connection.execute(f"{query} IN ({', '.join('?' * len(some))})", some)


def _last_of(connection: sqlite3.Connection, run: str) -> int:
    found = connection.execute(_LAST, (run,)).fetchone()
    return int(found[0]) if found else 0


def _is_whole(last: object, found: object, start: int) -> bool:
    return found == last if found is not None else isinstance(last, int) and 0 < last < start


def _heads(connection: sqlite3.Connection) -> list[RunHead]:
    return [head_of(*row) for row in connection.execute(_HEADS, {"bytes": HEADER_BYTES})]


def _delete_run(connection: sqlite3.Connection, run: str, number: int | None) -> int:
    # With a number: only if the run has not gone on since.
    last = connection.execute(_LAST, (run,)).fetchone()
    if last is None or number not in (None, last[0]):
        return 0
    connection.execute("UPDATE tally SET runs = runs - 1")
    position = sqlite_position(connection)
    connection.execute("DELETE FROM gone")
    connection.execute("INSERT INTO gone VALUES (?)", (position,))
    for statement in _DELETE_RUN:
        connection.execute(statement, (run,))
    return 1


def _unmentioned(connection: sqlite3.Connection, day: int) -> tuple[set[bytes], _Row | None]:
    last: _Row | None = connection.execute(_LAST_ROW).fetchone()
    old = {bytes(row[0]) for row in connection.execute(_OLD_VALUES, (day,))}
    if old and last:
        rows = connection.execute(f"{_ROWS} WHERE event.id <= ?", last[:1])
        old -= keys_in(rows)
    return old, last


_Row = tuple[int, bytes]
_ROWS: Final = """
    SELECT name, number, data FROM run JOIN place ON place.run = run.id
    CROSS JOIN event ON event.id = place.event
"""
_ROW: Final = "SELECT id, data FROM event WHERE id = ?"
_LAST_ROW: Final = "SELECT id, data FROM event ORDER BY id DESC LIMIT 1"
_OLD_VALUES: Final = "SELECT key FROM value WHERE day < ?"
_DELETE_RUN: Final = (
    "DELETE FROM owner WHERE run = ?",
    "DELETE FROM aside WHERE run = ?",
    "DELETE FROM event WHERE id IN (SELECT event FROM place JOIN run ON id = run WHERE name = ?)",
    "DELETE FROM place WHERE run = (SELECT id FROM run WHERE name = ?)",
    "DELETE FROM run WHERE name = ?",
)
