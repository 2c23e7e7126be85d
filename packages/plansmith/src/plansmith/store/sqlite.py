"""A store in one SQLite file: durable, shared by processes, one commit for many runs."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from plansmith.errors import JournalDamaged
from plansmith.plan.sentence import Sentence
from plansmith.ports import IntactPart
from plansmith.store.commit import Append, ChangeClaim, CommitQueue, Request, closed
from plansmith.store.database_store import DatabaseStore
from plansmith.store.rows import DOCTOR, day_of, intact_part, stale, taken_over
from plansmith.store.sql import (
    CLAIM_OF,
    COLUMNS,
    LAST_NUMBER,
    RENEW_CONTENT,
    REPLACE_SUMMARY,
    SQLITE,
    SUMMARY_COLUMNS,
    Change,
    Parameters,
)
from plansmith.store.sqlite_file import (
    SameFile,
    Synchronous,
    converting_errors,
    is_locked,
    open_database,
    setting,
    store_error,
    transaction,
)

_T = TypeVar("_T")
_HEADS_KEPT: Final = 10_000
_LOOK_UP: Final = 500
_ROWS: Final = f"""
    SELECT {COLUMNS} FROM events WHERE run = (SELECT id FROM runs WHERE name = ?) ORDER BY number
"""  # noqa: S608 - constants
# Events whose run is lost keep its id, so that no new run gets it.
_LAST_IDS: Final = f"""
    SELECT max(coalesce((SELECT max(id) FROM runs), 0), coalesce((SELECT max(run) FROM events), 0)),
        ({SQLITE.position})
"""  # noqa: S608 - both are constants
_HEADS: Final = """
    SELECT name, runs.id, last, hash, coalesce(term, 0), status FROM runs
    JOIN events ON events.run = runs.id AND number = last
    LEFT JOIN claims ON claims.run = runs.name
"""
_INTO_RUNS: Final = "INSERT INTO runs (id, name, last, status) VALUES"
_PUT_RUN: Final = "ON CONFLICT (id) DO UPDATE SET last = excluded.last, status = excluded.status"
_INTO_SUMMARIES: Final = f"INSERT INTO summaries (run, {SUMMARY_COLUMNS}) VALUES"
_INTO_EVENTS: Final = f"INSERT INTO events (position, run, {COLUMNS}) VALUES"
_INTO_CONTENTS: Final = "INSERT INTO contents (hash, day, body) VALUES"


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
        super().__init__(SQLITE, now=now)
        self._path = Path(path)
        self._timeout_s, self._poll_s = timeout_s, poll_s
        self._writer = SqliteWriter(
            self._path, synchronous=synchronous, timeout_s=timeout_s, now=now
        )
        # One thread each: a connection is used by one at a time.
        self._write_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plansmith-write")
        self._read_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plansmith-read")
        self._queue = CommitQueue(self._commit, on_settled=self._wake_followers)
        self._read_connection: sqlite3.Connection | None = None
        self._was_open = False

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._followers.close()
        await self._queue.close()
        await asyncio.to_thread(self._shut)

    def _shut(self) -> None:
        self._write_thread.shutdown()
        self._read_thread.shutdown()
        with converting_errors(self._path):
            if self._read_connection is not None:
                self._read_connection.close()
            self._writer.close()

    async def intact_part(self, run: str) -> IntactPart:
        def read(connection: sqlite3.Connection) -> IntactPart:
            [last] = connection.execute(LAST_NUMBER, {"run": run}).fetchone() or (0,)
            with closing(_until_broken(connection.execute(_ROWS, (run,)))) as rows:
                return intact_part(run, rows, last=int(last))

        return await self._read(read)

    async def _query(self, statement: str, given: Parameters) -> list[Any]:
        return await self._read(lambda connection: connection.execute(statement, given).fetchall())

    async def _read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        def read() -> _T:
            with converting_errors(self._path, was_open=self._was_open):
                self._writer.file.require_same()
                if self._read_connection is None:
                    self._read_connection = open_database(self._path, timeout_s=self._timeout_s)
                    self._was_open = True
                    self._writer.file.require_same()
                try:
                    return work(self._read_connection)
                except sqlite3.Error:
                    # The next read opens another: this one may stay broken after a disk error.
                    broken, self._read_connection = self._read_connection, None
                    broken.close()
                    raise

        return await self._in(self._read_thread, read)

    async def _in(self, thread: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
        if self._closed:
            raise closed()
        return await asyncio.get_running_loop().run_in_executor(thread, work)

    def _commit(self, batch: Sequence[Request], settle: Callable[[], None]) -> Awaitable[None]:
        """Has the writer's thread commit a batch, also if the program ends meanwhile."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def end(work: Future[None]) -> None:
            error = work.exception()
            try:
                if error is None:
                    settle()
            finally:  # else nothing would be committed any more
                if not done.done():
                    done.set_exception(error) if error else done.set_result(None)

        def tell(work: Future[None]) -> None:
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(end, work)

        try:
            self._write_thread.submit(self._writer.commit, batch).add_done_callback(tell)
        except RuntimeError:  # closed by another event loop
            raise closed() from None
        return done

    def _submit(self, request: Append) -> Awaitable[Any]:
        return self._queue.submit(request)

    async def _change_claim(self, run: str, statements: Sequence[str], given: Parameters) -> Any:
        return await self._queue.submit(ChangeClaim(run, statements, given))

    async def _transact(self, changes: Sequence[Change]) -> list[list[int] | None]:
        return await self._in(self._write_thread, lambda: self._writer.transact(changes))

    async def _watch(self) -> None:
        seen = -1
        while self._followers.any:
            # The writer's own commits do not change it: followers hear of them at once.
            version = await self._in(self._write_thread, self._writer.data_version)
            if version != seen:
                seen = version
                await self._followers.look()
            await asyncio.sleep(self._poll_s)


def _until_broken(rows: sqlite3.Cursor) -> Generator[tuple[Any, ...]]:
    try:
        yield from rows
    except sqlite3.Error as error:
        raise JournalDamaged(
            Sentence("the rest of the journal is on a broken page: {error}", error=error)
        ) from None


class _Head(NamedTuple):
    """The last event of a run, which the next one must follow; the term of its claim, or 0."""

    id: int
    number: int
    hash: str
    term: int = 0
    status: str = ""


class SqliteWriter:
    """The only connection that writes, used by one thread: a batch becomes one transaction."""

    def __init__(
        self, path: Path, *, synchronous: Synchronous, timeout_s: float, now: Callable[[], datetime]
    ) -> None:
        self._path = path
        self._synchronous: Synchronous = synchronous
        self._timeout_s = timeout_s
        self._now = now
        self._connection: sqlite3.Connection | None = None
        # The last events of some runs, and the last ids. They hold until another connection writes:
        # `_load_heads` sees that by SQLite's `data_version`, and forgets them.
        self._heads: dict[str, _Head] = {}
        self._data_version = -1
        self._last_run = 0
        self._last_event = 0
        self._was_open = False
        self.file = SameFile(path)

    def commit(self, batch: Sequence[Request]) -> None:
        """Writes all valid requests in one transaction; sets the error of the others."""
        try:
            self._write(batch)
        except sqlite3.Error as error:
            self._heads.clear()
            if len(batch) == 1 or is_locked(error):
                for request in batch:
                    request.error = store_error(error, self._path, was_open=self._was_open)
                self._drop_broken(error)
            else:
                # One request may be at fault, such as one too large for the disk.
                for request in batch:
                    request.error = None
                    self.commit([request])
        except UnicodeDecodeError as error:
            raise JournalDamaged(
                Sentence("{path} is damaged", path=self._path), hint=DOCTOR
            ) from error

    def transact(self, changes: Sequence[Change]) -> list[list[int] | None]:
        """Makes changes in one transaction; returns how many rows each statement changed."""
        counts: list[list[int] | None] = []
        with converting_errors(self._path, was_open=self._was_open):
            try:
                with transaction(self._opened()) as connection:
                    self._heads.clear()
                    connection.execute(SQLITE.take_positions, {"count": 0})
                    for needs, statements, _ in changes:
                        met = all(connection.execute(*need).fetchone() for need in needs)
                        done = (connection.executemany(*each).rowcount for each in statements)
                        counts.append([*done] if met else None)
            except sqlite3.Error as error:
                self._drop_broken(error)
                raise
        return counts

    def data_version(self) -> int:
        """Returns a number that changes when another connection has written."""
        with converting_errors(self._path, was_open=self._was_open):
            return setting(self._opened(), "data_version")

    def close(self) -> None:
        """Closes the connection; the last one of all processes removes SQLite's log."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _drop_broken(self, error: sqlite3.Error) -> None:
        """Closes the connection after a disk error: it may stay broken."""
        if not is_locked(error):
            with suppress(sqlite3.Error):
                self.close()

    def _opened(self) -> sqlite3.Connection:
        self.file.require_same()
        if self._connection is None:
            self._connection = open_database(
                self._path, synchronous=self._synchronous, timeout_s=self._timeout_s
            )
            self._was_open = True
            self.file.require_same()
        return self._connection

    def _write(self, batch: Sequence[Request]) -> None:
        connection = self._opened()
        appends = [each for each in batch if isinstance(each, Append)]
        claims = [each for each in batch if isinstance(each, ChangeClaim)]
        # Claims alone need not wait for the disk: a power cut ends every process that they are
        # about, and the next append writes them to the disk too.
        claims_only = not appends and self._synchronous == "full"
        try:
            if claims_only:
                connection.execute("PRAGMA synchronous = normal")
            with transaction(connection):
                heads = self._append(connection, appends)
                for claim in claims:
                    for statement in claim.statements:
                        connection.execute(statement, claim.given)
                    claim.result = connection.execute(CLAIM_OF, {"run": claim.run}).fetchone()
        finally:
            if claims_only:
                connection.execute("PRAGMA synchronous = full")
        self._heads |= heads
        for claim in claims:
            if claim.run in self._heads:
                term = claim.result[1] if claim.result else 0
                self._heads[claim.run] = self._heads[claim.run]._replace(term=term)
        while len(self._heads) > _HEADS_KEPT:
            del self._heads[next(iter(self._heads))]

    def _append(
        self, connection: sqlite3.Connection, appends: Sequence[Append]
    ) -> dict[str, _Head]:
        """Writes the rows of all valid appends; returns the new heads of their runs."""
        self._load_heads(connection, appends)
        known, day = self._last_run, day_of(self._now())
        heads: dict[str, _Head] = {}
        events: list[tuple[object, ...]] = []
        contents: dict[str, tuple[object, ...]] = {}
        summaries: dict[str, tuple[object, ...]] = {}
        for request in appends:
            if request.events and not self._place(request, heads):
                continue
            for digest, text in request.values:
                contents[digest] = (digest, day, text.decode())
            if request.events:
                head = heads[request.run]
                for row in request.rows:
                    self._last_event += 1
                    events.append((self._last_event, head.id, *row))
                if request.summary is not None:
                    summaries[request.run] = (head.id, *request.summary)
        # A status that stays is not set, which would write its index: 10 % of a commit's time.
        old = self._heads
        same = {run for run in heads if run in old and old[run].status == heads[run].status}
        lasts = [(heads[run].number, heads[run].id) for run in same]
        connection.executemany("UPDATE runs SET last = ? WHERE id = ?", lasts)
        rows = [(h.id, run, h.number, h.status) for run, h in heads.items() if run not in same]
        _insert(connection, _INTO_RUNS, rows, _PUT_RUN)
        _insert(connection, _INTO_SUMMARIES, [*summaries.values()], REPLACE_SUMMARY)
        _insert(connection, _INTO_EVENTS, events)
        _insert(connection, _INTO_CONTENTS, [*contents.values()], RENEW_CONTENT)
        if self._last_run > known:
            connection.execute("UPDATE tally SET runs = runs + ?", (self._last_run - known,))
        return heads

    def _load_heads(self, connection: sqlite3.Connection, appends: Sequence[Append]) -> None:
        version = setting(connection, "data_version")
        if version != self._data_version or not self._heads:
            self._data_version = version
            self._heads.clear()
            self._last_run, self._last_event = connection.execute(_LAST_IDS).fetchone()
        unknown = [each.run for each in appends if each.events and each.run not in self._heads]
        for start in range(0, len(unknown), _LOOK_UP):
            some = unknown[start : start + _LOOK_UP]
            marks = ", ".join("?" * len(some))
            for run, *cells in connection.execute(f"{_HEADS} WHERE name IN ({marks})", some):
                self._heads[run] = _Head(*cells)

    def _place(self, request: Append, heads: dict[str, _Head]) -> bool:
        """Makes the new head of the run; sets the error if the events do not follow the old one."""
        run, first, last = request.run, request.events[0], request.events[-1]
        head = heads.get(run) or self._heads.get(run)
        if head is None:
            # This is its first event; it may have been claimed before.
            claim = self._opened().execute(CLAIM_OF, {"run": run}).fetchone()
            head = _Head(0, 0, "", claim[1] if claim else 0)
        if request.term and request.term != head.term:
            request.error = taken_over(run)
            return False
        if (first.number - 1, first.before) != (head.number, head.hash):
            request.error = stale(run, first.number)
            return False
        if not head.id:
            self._last_run += 1
            head = head._replace(id=self._last_run)
        heads[run] = _Head(head.id, last.number, last.hash, head.term, request.status)
        return True


def _insert(
    connection: sqlite3.Connection, into: str, rows: Sequence[tuple[object, ...]], also: str = ""
) -> None:
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"{into} ({marks}) {also}", rows)
