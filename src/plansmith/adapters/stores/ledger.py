"""The writing side of a SQLite store: a batch of requests becomes one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from plansmith.adapters.stores.commit import Deed, Request
from plansmith.adapters.stores.database import (
    SameFile,
    Synchronous,
    in_our_words,
    is_locked,
    named,
    open_database,
)
from plansmith.adapters.stores.ends import End, Ends
from plansmith.adapters.stores.news import SQLITE_POSITION
from plansmith.adapters.stores.rows import DOCTOR, day_of, key_of, mark_of, squeezed, stale
from plansmith.errors import JournalDamaged

_LARGEST_INSERT: Final = 256
_HEADS_KEPT: Final = 10_000
_LOOK_UP: Final = 500


class Head(NamedTuple):
    """The last event of a run: what the next one must follow."""

    id: int
    number: int
    mark: bytes


class Ledger:
    """The one connection that writes; used by one thread only."""

    def __init__(
        self,
        path: Path,
        *,
        synchronous: Synchronous,
        timeout_s: float,
        now: Callable[[], datetime],
    ) -> None:
        self._path = path
        self._synchronous: Synchronous = synchronous
        self._timeout_s = timeout_s
        self._now = now
        self._connection: sqlite3.Connection | None = None
        # What is known of these holds as long as no other connection has written.
        self._heads: dict[str, Head] = {}
        self._data_version = -1
        self._last_run = 0
        self._last_event = 0
        self._was_open = False
        self.ends = Ends(path)
        self.file = SameFile(path)

    def commit(self, batch: Sequence[Request]) -> None:
        """Write what follows in one transaction; each request that does not is told so."""
        try:
            self._write(batch)
        except sqlite3.Error as error:
            self._heads.clear()
            if len(batch) == 1 or is_locked(error):
                for request in batch:
                    request.error = named(error, self._path, was_open=self._was_open)
                self._drop_broken(error)
            else:
                # One request may be at fault, such as one too large for the disk.
                for request in batch:
                    request.error = None
                    self.commit([request])
        except UnicodeDecodeError as error:
            raise JournalDamaged(f"{self._path} is damaged", hint=DOCTOR) from error

    def transact(self, work: Callable[[sqlite3.Connection], int]) -> int:
        """Do something else in a transaction of its own."""
        with in_our_words(self._path, was_open=self._was_open):
            try:
                with _Transaction(self._opened()) as connection:
                    self._heads.clear()
                    return work(connection)
            except sqlite3.Error as error:
                self._drop_broken(error)
                raise

    def _drop_broken(self, error: sqlite3.Error) -> None:
        """After trouble with the disk begin with a new connection: the old one may stay broken."""
        if not is_locked(error):
            with suppress(sqlite3.Error):
                self.close()

    @property
    def position(self) -> int:
        """The place of the newest event that was written here."""
        return self._last_event

    def others(self) -> int:
        """A number that changes when another connection has written."""
        return int(self._opened().execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Close the connection; the last one of all processes tidies the log away."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _write(self, batch: Sequence[Request]) -> None:
        connection = self._opened()
        with _Transaction(connection):
            self._know_heads(connection, batch)
            known = self._last_run
            heads: dict[str, Head] = {}
            places: list[tuple[int, int]] = []
            rows: list[tuple[int, bytes]] = []
            values: dict[bytes, tuple[bytes, int, bytes]] = {}
            for request in batch:
                run = self._place(request, heads)
                if run:
                    places.extend((run, entry.number) for entry in request.entries)
                    rows.extend(self._event_rows(request))
                if request.error is None:
                    values.update(self._value_rows(request))
            runs = [(head.id, run, head.number) for run, head in heads.items()]
            _insert(connection, "INSERT INTO run VALUES", runs, _WENT_ON)
            _insert(connection, "INSERT INTO event VALUES", rows)
            placed = [(*place, row[0]) for place, row in zip(places, rows, strict=True)]
            _insert(connection, "INSERT INTO place VALUES", placed)
            _insert(connection, "INSERT INTO value VALUES", list(values.values()), _PUT_AGAIN)
            if self._last_run > known:
                more = self._last_run - known
                connection.execute("UPDATE tally SET runs = runs + ?", (more,))
            for request in batch:
                if isinstance(request, Deed):
                    request.result = request.action(connection)
        # After the commit: what is remembered there was durable.
        self.ends.note(End(run, head.number, head.mark) for run, head in heads.items())
        self._heads.update(heads)
        while len(self._heads) > _HEADS_KEPT:
            del self._heads[next(iter(self._heads))]

    def _place(self, request: Request, heads: dict[str, Head]) -> int:
        if not request.entries:
            return 0
        head = heads.get(request.run) or self._heads.get(request.run)
        first, last = request.entries[0], request.entries[-1]
        number, mark = (head.number, head.mark) if head else (0, b"")
        if first.number != number + 1 or mark_of(first.before) != mark:
            request.error = stale(request.run, first.number)
            return 0
        if head is None:
            self._last_run += 1
        run = head.id if head else self._last_run
        heads[request.run] = Head(run, last.number, mark_of(last.hash))
        return run

    def _event_rows(self, request: Request) -> Iterator[tuple[int, bytes]]:
        for entry in request.entries:
            self._last_event += 1
            yield self._last_event, entry.data

    def _value_rows(self, request: Request) -> Iterator[tuple[bytes, tuple[bytes, int, bytes]]]:
        day = day_of(self._now())
        for digest, text in request.values:
            key = key_of(digest)
            yield key, (key, day, squeezed(text))

    def _know_heads(self, connection: sqlite3.Connection, batch: Sequence[Request]) -> None:
        version = int(connection.execute("PRAGMA data_version").fetchone()[0])
        if version != self._data_version or not self._heads:
            self._data_version = version
            self._heads.clear()
            self._last_run, self._last_event = connection.execute(_LAST_IDS).fetchone()
        unknown = [each.run for each in batch if each.entries and each.run not in self._heads]
        for start in range(0, len(unknown), _LOOK_UP):
            some = unknown[start : start + _LOOK_UP]
            marks = ", ".join("?" * len(some))
            found = connection.execute(f"{_HEADS} WHERE name IN ({marks})", some)
            for run, key, number, data in found:
                if not isinstance(data, bytes):
                    raise JournalDamaged(f"the last event of run {run} is damaged", hint=DOCTOR)
                self._heads[run] = Head(key, number, mark_of(data))

    def _opened(self) -> sqlite3.Connection:
        self.file.need()
        if self._connection is None:
            self._connection = open_database(
                self._path, synchronous=self._synchronous, timeout_s=self._timeout_s
            )
            self._was_open = True
            self.file.need()
        return self._connection


class _Transaction:
    """A transaction that holds the write lock from its start."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> sqlite3.Connection:
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if error is None:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")


_LAST_IDS: Final = f"SELECT (SELECT coalesce(max(id), 0) FROM run), ({SQLITE_POSITION})"  # noqa: S608 - both are constants
_HEADS: Final = """
    SELECT name, run.id, last, data FROM run
    JOIN place ON place.run = run.id AND number = last
    JOIN event ON event.id = place.event
"""
_WENT_ON: Final = "ON CONFLICT (id) DO UPDATE SET last = excluded.last"
# A value put again is young again, so that retention does not take it from its new user.
_PUT_AGAIN: Final = (
    "ON CONFLICT (key) DO UPDATE SET day = excluded.day WHERE value.day < excluded.day"
)


def _insert(
    connection: sqlite3.Connection, into: str, rows: Sequence[tuple[Any, ...]], also: str = ""
) -> None:
    # Few statements with many rows: each statement lets go of the interpreter lock once.
    for some in _in_powers_of_two(rows):
        statement = _statement(into, len(some[0]), len(some), also)
        connection.execute(statement, [cell for row in some for cell in row])


@lru_cache(maxsize=64)
def _statement(into: str, cells: int, rows: int, also: str) -> str:
    marks = f"({', '.join('?' * cells)})"
    return f"{into} {', '.join([marks] * rows)} {also}"


def _in_powers_of_two(rows: Sequence[Any]) -> Iterable[Sequence[Any]]:
    # Few different lengths, so that the prepared statements are found again.
    start = 0
    while start < len(rows):
        size = min(1 << ((len(rows) - start).bit_length() - 1), _LARGEST_INSERT)
        yield rows[start : start + size]
        start += size
