"""A store in one SQLite file: durable, shared by processes, one commit for many runs."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from plansmith.adapters.stores.batched_reads import (
    ANY_RUN,
    BatchedReads,
    Followers,
    ValueCache,
    apart,
    thread_key,
)
from plansmith.adapters.stores.claims import CLAIM_OF, SQLITE_CLAIMS
from plansmith.adapters.stores.commit import (
    BetweenCommits,
    ChangeClaim,
    WithCommit,
    WriterThread,
    closed,
)
from plansmith.adapters.stores.database import Synchronous, converting_errors, open_database
from plansmith.adapters.stores.ledger import Ledger
from plansmith.adapters.stores.packing import COLUMNS, ref_of
from plansmith.adapters.stores.records import Database, DatabaseStore
from plansmith.adapters.stores.rows import DOCTOR, Checked, read_journal, sound_part, values_of
from plansmith.adapters.stores.statements import LAST_WHOLE, SQLITE, Change, Parameters
from plansmith.errors import JournalDamaged
from plansmith.plan.events import Event
from plansmith.plan.sentence import Sentence
from plansmith.ports import Sound

_T = TypeVar("_T")
_AT_ONCE: Final = 500
_FEW: Final = 64
# Of how many runs the last checked event is known.
_MOST_CHECKED: Final = 1000
_Rows = Sequence[tuple[Any, ...]]
# A run, after which number, and whether the event with that number was checked before.
_Asked = tuple[str, int, bool]


class SqliteStore(DatabaseStore):
    """Journals and results in one file.

    `synchronous="full"` survives a power cut; with `"normal"` a power cut may lose the last
    moments, but never the file. Several processes may use the same file: a write waits up to
    `timeout_s` for the others, and a follower sees their events within `poll_s`. Nothing is opened
    before the first call.
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
        self._ledger = Ledger(self._path, synchronous=synchronous, timeout_s=timeout_s, now=now)
        self._writer = WriterThread(self._ledger.commit, settle=self._settle)
        self._readers = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plansmith-read")
        self._reading: sqlite3.Connection | None = None
        self._journals = BatchedReads(self._read_journals)
        self._checked: dict[str, Checked] = {}
        self._was_open = False
        database = Database(
            dialect=SQLITE,
            claims=SQLITE_CLAIMS,
            query=self._query,
            execute=self._execute,
            transact=self._transact,
            submit=self._writer.submit,
            change_claim=self._change_claim,
            now=now,
        )
        super().__init__(
            database,
            values=ValueCache(self._read_values),
            followers=Followers(numbers=self._numbers, watch=self._watch),
        )

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        """Returns the events of a run after a number; none for an unknown run."""
        after = max(after, 0)
        checked = self._checked.get(run)
        if checked is not None and checked.number != after:
            checked = None
        try:
            events = await self._events(run, after, checked)
        except JournalDamaged:
            if checked is None:
                raise
            # Another process may have repaired the run: all of it is checked.
            events = await self._events(run, after, None)
        if events:
            self._checked[run] = Checked.of(events[-1])
            while len(self._checked) > _MOST_CHECKED:
                del self._checked[next(iter(self._checked))]
        return events

    async def _events(self, run: str, after: int, checked: Checked | None) -> list[Event]:
        def decoded(rows: _Rows) -> list[Event]:
            placed = [row for _, *row in rows if row[0] is not None]
            last = rows[-1][0] if rows else 0
            if rows and not _is_whole(last, placed[-1][0] if placed else None, after):
                raise JournalDamaged(Sentence("journal.end_missing", run=run), hint=DOCTOR)
            if checked is None:
                return read_journal(run, placed, after=after)
            if not checked.begins(placed):
                raise JournalDamaged(
                    Sentence("journal.altered", number=after, run=run), hint=DOCTOR
                )
            return read_journal(run, placed[1:], after=after, checked=checked)

        if self._closed:
            raise closed()
        rows = await self._journals.get((run, after, checked is not None)) or ()
        # Much is decoded elsewhere, so that the event loop goes on; little is decoded here, since
        # two threads that both compute only take the interpreter from each other.
        return decoded(rows) if len(rows) <= _FEW else await self._in_thread(lambda: decoded(rows))

    async def sound(self, run: str) -> Sound:
        """Returns the events of a run up to the first that is missing, altered or unreadable."""

        def read(connection: sqlite3.Connection) -> Sound:
            found = connection.execute(_RUN, (run,)).fetchone()
            key, last = found or (0, 0)
            with closing(_until_broken(connection.execute(_ROWS, (key,)))) as rows:
                return sound_part(run, rows, last=int(last))

        return await self._read(read)

    async def close(self) -> None:
        """Finishes all requests and closes the file; may be called twice."""
        if self._closed:
            return
        self._closed = True
        await self._followers.stop()
        await self._values.close()
        await self._journals.close()
        await asyncio.to_thread(self._shut)
        # Callers in this loop get their outcomes before the loop may end.
        await asyncio.sleep(0)

    def _shut(self) -> None:
        self._writer.close()
        self._readers.shutdown()
        with converting_errors(self._path):
            if self._reading is not None:
                self._reading.close()
            self._ledger.close()

    async def _read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        def read() -> _T:
            with converting_errors(self._path, was_open=self._was_open):
                self._ledger.file.need()
                if self._reading is None:
                    self._reading = open_database(self._path, timeout_s=self._timeout_s)
                    self._was_open = True
                    self._ledger.file.need()
                try:
                    return work(self._reading)
                except sqlite3.Error:
                    # The next one begins anew: after trouble with the disk it may stay broken.
                    broken, self._reading = self._reading, None
                    broken.close()
                    raise

        return await self._in_thread(read)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        if self._closed:
            raise closed()
        return await asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def _query(self, statement: str, given: Parameters) -> list[Any]:
        return await self._read(lambda connection: connection.execute(statement, given).fetchall())

    async def _execute(self, statement: str, given: Parameters) -> int:
        def work(connection: sqlite3.Connection) -> int:
            return connection.execute(statement, given).rowcount

        return int(await self._writer.submit(WithCommit(work)))

    async def _change_claim(self, run: str, steps: Sequence[str], given: Parameters) -> Any:
        def work(connection: sqlite3.Connection) -> Any:
            for step in steps:
                connection.execute(step, given)
            return connection.execute(CLAIM_OF, given).fetchone()

        return await self._writer.submit(ChangeClaim(run, work))

    async def _transact(self, changes: Sequence[Change]) -> list[list[int] | None]:
        work = BetweenCommits(lambda: self._ledger.transact(changes))
        found: list[list[int] | None] = await self._writer.submit(work)
        return found

    async def _read_journals(self, keys: Sequence[_Asked]) -> Mapping[_Asked, _Rows]:
        def read(connection: sqlite3.Connection) -> dict[_Asked, _Rows]:
            return {
                (run, start, known): connection.execute(
                    _EVENTS_FROM if known else _EVENTS, (start, run)
                ).fetchall()
                for run, start, known in keys
            }

        return await self._read(read)

    async def _read_values(self, hashes: Sequence[str]) -> Mapping[str, object]:
        def read(connection: sqlite3.Connection) -> Mapping[str, object]:
            refs = [*map(ref_of, hashes)]
            inside = (text for (text,) in _in_parts(connection, _INSIDE, refs))
            found = values_of(hashes, inside)
            rest = [each for each in hashes if each not in found]
            return found | dict(_in_parts(connection, _VALUES, rest))

        return await self._read(read)

    async def _numbers(self, keys: Sequence[str]) -> Mapping[str, int]:
        runs, threads = apart(keys)

        def read(connection: sqlite3.Connection) -> dict[str, int]:
            found = _in_parts(connection, _THREAD_LASTS, threads)
            numbers = {thread_key(thread): int(last) for thread, last in found}
            return numbers | dict(_in_parts(connection, _LASTS, runs))

        position = {ANY_RUN: await self._position()} if ANY_RUN in runs else {}
        return await self._read(read) | position

    async def _watch(self) -> None:
        seen = -1
        while self._followers.any:
            # The writer's own commits do not count: those who wait hear of them at once.
            version = await self._writer.submit(BetweenCommits(self._ledger.others))
            if version != seen:
                seen = version
                await self._followers.look()
            await asyncio.sleep(self._poll_s)


_EVENTS_FROM: Final = f"""
    SELECT last, {COLUMNS} FROM runs LEFT JOIN events ON events.run = runs.id AND number >= ?
    WHERE name = ? ORDER BY number
"""  # noqa: S608 - constants
_EVENTS: Final = f"""
    SELECT last, {COLUMNS} FROM runs
    LEFT JOIN events ON events.run = runs.id AND number >= coalesce({LAST_WHOLE.format("?")}, 0)
    WHERE name = ? ORDER BY number
"""  # noqa: S608 - constants
_RUN: Final = "SELECT id, last FROM runs WHERE name = ?"
_ROWS: Final = f"SELECT {COLUMNS} FROM events WHERE run = ? ORDER BY number"  # noqa: S608 - constants
_VALUES: Final = "SELECT hash, body FROM contents WHERE hash"
_INSIDE: Final = "SELECT value FROM events WHERE ref"
_LASTS: Final = "SELECT name, last FROM runs WHERE name"
_THREAD_LASTS: Final = "SELECT thread, last FROM threads WHERE thread"


def _in_parts(
    connection: sqlite3.Connection, query: str, keys: Sequence[object]
) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(keys), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]
        yield from connection.execute(f"{query} IN ({', '.join('?' * len(some))})", some)


def _is_whole(last: object, found: object, start: int) -> bool:
    return found == last if found is not None else isinstance(last, int) and 0 < last < start


def _until_broken(rows: sqlite3.Cursor) -> Generator[tuple[Any, ...]]:
    try:
        yield from rows
    except sqlite3.Error as error:
        raise JournalDamaged(Sentence("journal.broken_page", error=error)) from None
