"""Writes to a SQLite store: a batch of requests becomes one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from plansmith.errors import JournalDamaged
from plansmith.plan.events import Event
from plansmith.plan.sentence import Sentence
from plansmith.store.claims import CLAIM_OF
from plansmith.store.commit import Append, ChangeClaim, Request, WithCommit
from plansmith.store.rows import (
    COLUMNS,
    DOCTOR,
    SUMMARY_COLUMNS,
    day_of,
    stale,
    taken_over,
)
from plansmith.store.sql import PUT_AGAIN, SQLITE, SUM_UP_AGAIN, Change
from plansmith.store.sqlite_file import (
    SameFile,
    Synchronous,
    converting_errors,
    is_locked,
    named,
    open_database,
)

# With eight cells a row still within what any SQLite takes in one statement.
_LARGEST_INSERT: Final = 64
_HEADS_KEPT: Final = 10_000
_LOOK_UP: Final = 500
_Rows = Sequence[tuple[object, ...]]


class Head(msgspec.Struct, frozen=True, gc=False):
    """The last event of a run, which the next one must follow.

    `term` is that of the present claim of the run, 0 without one.
    """

    id: int
    number: int
    hash: str
    status: str
    term: int = 0

    def is_before(self, event: Event) -> bool:
        """Tells whether an event follows this one."""
        return event.before == self.hash and event.number == self.number + 1


class Ledger:
    """The only connection that writes; used by one thread."""

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
        self.file = SameFile(path)

    def commit(self, batch: Sequence[Request]) -> None:
        """Writes all valid requests in one transaction; sets the error of the others."""
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
            raise JournalDamaged(
                Sentence("{path} is damaged", path=self._path), hint=DOCTOR
            ) from error

    def transact(self, changes: Sequence[Change]) -> list[list[int] | None]:
        """Makes changes in one transaction; returns how many rows each step changed."""
        with converting_errors(self._path, was_open=self._was_open):
            try:
                with _Transaction(self._opened()) as connection:
                    self._heads.clear()
                    connection.execute(SQLITE.take, {"count": 0})
                    return [_change(connection, each) for each in changes]
            except sqlite3.Error as error:
                self._drop_broken(error)
                raise

    def _drop_broken(self, error: sqlite3.Error) -> None:
        """Closes the connection after a disk error: it may stay broken."""
        if not is_locked(error):
            with suppress(sqlite3.Error):
                self.close()

    def others(self) -> int:
        """Returns a number that changes when another connection has written."""
        return int(self._opened().execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Closes the connection; the last one of all processes removes SQLite's log."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _write(self, batch: Sequence[Request]) -> None:
        connection = self._opened()
        appends = [request for request in batch if isinstance(request, Append)]
        # A power cut ends every process that a claim is about, and every append writes the claims
        # before it to the disk too: alone they need not wait for it.
        only_claims = all(isinstance(request, ChangeClaim) for request in batch)
        with _Transaction(connection, hurry=only_claims and self._synchronous == "full"):
            self._load_heads(connection, appends)
            known = self._last_run
            heads, events, values = self._rows(appends)
            going_on, others = self._rows_of_runs(heads)
            _insert(connection, _INTO_RUNS, going_on, _UPDATE_LAST)
            _insert(connection, _INTO_RUNS, others, _UPDATE_STATUS)
            _insert(connection, _INTO_SUMMARIES, _summaries(appends, heads), SUM_UP_AGAIN)
            _insert(connection, _INTO_EVENTS, events)
            _insert(connection, _INTO_CONTENTS, values, PUT_AGAIN)
            if self._last_run > known:
                more = self._last_run - known
                connection.execute("UPDATE tally SET runs = runs + ?", (more,))
            claims: dict[str, Any] = {}
            for work in batch:
                if isinstance(work, WithCommit):
                    work.result = work.action(connection)
                    if isinstance(work, ChangeClaim):
                        claims[work.run] = work.result
        self._heads.update(heads)
        for run, claim in claims.items():
            if run in self._heads:
                self._heads[run] = msgspec.structs.replace(
                    self._heads[run], term=claim[1] if claim else 0
                )
        while len(self._heads) > _HEADS_KEPT:
            del self._heads[next(iter(self._heads))]

    def _rows(self, appends: Sequence[Append]) -> tuple[dict[str, Head], _Rows, _Rows]:
        """Returns the new heads, the events and the values of all valid requests."""
        heads: dict[str, Head] = {}
        events: list[tuple[object, ...]] = []
        values: dict[str, tuple[object, ...]] = {}
        day = day_of(self._now())
        for request in appends:
            placed = request.is_sound() and self._place(request, heads)
            for row in request.rows if placed else ():
                self._last_event += 1
                events.append((self._last_event, request.run, *row))
            for digest, text in request.values if request.error is None else ():
                values[digest] = (digest, day, text.decode())
        return heads, events, list(values.values())

    def _rows_of_runs(self, heads: Mapping[str, Head]) -> tuple[_Rows, _Rows]:
        """Returns the runs whose status stays, which leaves the index of statuses alone; others."""
        going_on: list[tuple[object, ...]] = []
        others: list[tuple[object, ...]] = []
        for run, head in heads.items():
            stays = run in self._heads and self._heads[run].status == head.status
            rows = going_on if stays else others
            rows += ((head.id, run, head.number, head.status),)
        return going_on, others

    def _place(self, request: Append, heads: dict[str, Head]) -> bool:
        """Makes the new head of the run; sets the error if the events do not follow the old one."""
        if not request.events:
            return False
        head = heads.get(request.run) or self._heads.get(request.run)
        first, last = request.events[0], request.events[-1]
        if request.term and request.term != (head.term if head else self._term_of(request.run)):
            request.error = taken_over(request.run)
            return False
        if not (head.is_before(first) if head else (first.number, first.before) == (1, "")):
            request.error = stale(request.run, first.number)
            return False
        if head is None:
            self._last_run += 1
        key, term = (head.id, head.term) if head else (self._last_run, 0)
        heads[request.run] = Head(key, last.number, last.hash, request.status, term)
        return True

    def _term_of(self, run: str) -> int:
        """Returns the term of a run that has no event yet; 0 without a claim."""
        found = self._opened().execute(CLAIM_OF, {"run": run}).fetchone()
        return int(found[1]) if found else 0

    def _load_heads(self, connection: sqlite3.Connection, batch: Sequence[Append]) -> None:
        version = int(connection.execute("PRAGMA data_version").fetchone()[0])
        if version != self._data_version or not self._heads:
            self._data_version = version
            self._heads.clear()
            self._last_run, self._last_event = connection.execute(_LAST_IDS).fetchone()
        unknown = [each.run for each in batch if each.events and each.run not in self._heads]
        for start in range(0, len(unknown), _LOOK_UP):
            some = unknown[start : start + _LOOK_UP]
            marks = ", ".join("?" * len(some))
            found = connection.execute(f"{_HEADS} WHERE name IN ({marks})", some)
            for run, key, number, digest, status, term in found:
                self._heads[run] = Head(key, number, str(digest), status, term)

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
    """A transaction that takes the write lock at its start; in a `hurry` without the disk."""

    def __init__(self, connection: sqlite3.Connection, *, hurry: bool = False) -> None:
        self._connection, self._hurry = connection, hurry

    def __enter__(self) -> sqlite3.Connection:
        if self._hurry:
            self._connection.execute("PRAGMA synchronous = normal")
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if error is None:
                self._connection.execute("COMMIT")
        finally:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if self._hurry:
                self._connection.execute("PRAGMA synchronous = full")


def _change(connection: sqlite3.Connection, change: Change) -> list[int] | None:
    if not all(connection.execute(*need).fetchone() for need in change.needs):
        return None
    return [connection.executemany(step, rows).rowcount for step, rows in change.steps]


_LAST_IDS: Final = f"SELECT (SELECT coalesce(max(id), 0) FROM runs), ({SQLITE.position})"  # noqa: S608 - both are constants
_HEADS: Final = """
    SELECT name, runs.id, last, hash, status, coalesce(term, 0) FROM runs
    JOIN events ON events.run = name AND number = last
    LEFT JOIN claims ON claims.run = runs.name
"""
_INTO_RUNS: Final = "INSERT INTO runs (id, name, last, status) VALUES"
_UPDATE_LAST: Final = "ON CONFLICT (id) DO UPDATE SET last = excluded.last"
_UPDATE_STATUS: Final = f"{_UPDATE_LAST}, status = excluded.status"
_INTO_SUMMARIES: Final = f"INSERT INTO summaries (run, {SUMMARY_COLUMNS}) VALUES"
_INTO_EVENTS: Final = f"INSERT INTO events (position, run, {COLUMNS}) VALUES"
_INTO_CONTENTS: Final = "INSERT INTO contents (hash, day, body) VALUES"


def _summaries(appends: Sequence[Append], heads: Mapping[str, Head]) -> _Rows:
    """Returns the last summary of each run that has one."""
    found = {
        each.run: (heads[each.run].id, *each.summary)
        for each in appends
        if each.error is None and each.events and each.summary is not None
    }
    return list(found.values())


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
