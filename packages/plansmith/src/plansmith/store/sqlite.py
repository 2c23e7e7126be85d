"""A store in one SQLite file: durable, shared by processes, one commit for many runs."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from plansmith.errors import JournalDamaged
from plansmith.plan.sentence import Sentence
from plansmith.ports import Sound
from plansmith.store.claims import CLAIM_OF, SQLITE_CLAIMS
from plansmith.store.commit import (
    BetweenCommits,
    ChangeClaim,
    WithCommit,
    WriterThread,
    closed,
)
from plansmith.store.database_store import Database, DatabaseStore
from plansmith.store.rows import COLUMNS, sound_part
from plansmith.store.sql import LAST, SQLITE, Change, Parameters
from plansmith.store.sqlite_file import Synchronous, converting_errors, open_database
from plansmith.store.sqlite_writer import Ledger

_T = TypeVar("_T")


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
        super().__init__(database)

    async def sound(self, run: str) -> Sound:
        """Returns the events of a run up to the first that is missing, altered or unreadable."""

        def read(connection: sqlite3.Connection) -> Sound:
            [last] = connection.execute(LAST, {"run": run}).fetchone() or (0,)
            with closing(_until_broken(connection.execute(_ROWS, (run,)))) as rows:
                return sound_part(run, rows, last=int(last))

        return await self._read(read)

    async def close(self) -> None:
        """Finishes all requests and closes the file; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._followers.close()
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

    async def _watch(self) -> None:
        seen = -1
        while self._followers.any:
            # The writer's own commits do not count: those who wait hear of them at once.
            version = await self._writer.submit(BetweenCommits(self._ledger.others))
            if version != seen:
                seen = version
                await self._followers.look()
            await asyncio.sleep(self._poll_s)


_ROWS: Final = f"SELECT {COLUMNS} FROM events WHERE run = ? ORDER BY number"  # noqa: S608 - constants


def _until_broken(rows: sqlite3.Cursor) -> Generator[tuple[Any, ...]]:
    try:
        yield from rows
    except sqlite3.Error as error:
        raise JournalDamaged(
            Sentence("the rest of the journal is on a broken page: {error}", error=error)
        ) from None
