"""Reads tables of SQLite files that somebody else wrote: from a copy, guarded, never the file."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Self

from plansmith.errors import ToolBusy, ToolFailed
from plansmith.plan.sentence import Sentence
from plansmith.tools.toolset import Job
from plansmith_desk.folder import FileTooLarge, Folder, NoSuchFile
from plansmith_desk.sql.guard import converting_errors, guard
from plansmith_desk.sql.rows import Data, RowLimits, plain_value
from plansmith_desk.tables.read import TableLimits, check_size, typed

ENDINGS: Final = (".db", ".sqlite", ".sqlite3", ".db3")
_MOST_BYTES: Final = 200_000_000
_LOOK_S: Final = 1.0  # to see what a database has: it must not hold up other tables
_HEAD: Final = b"SQLite format 3\0"
_JOURNAL: Final = bytes.fromhex("d9d505f920a163d7")
# Not virtual tables, whose code is not ours to trust, nor those in which they keep their data.
_TABLES: Final = r"""
    SELECT name FROM sqlite_master AS this
    WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
      AND (type = 'view' OR rootpage > 0)
      AND NOT EXISTS (
        SELECT 1 FROM sqlite_master AS other
        WHERE other.type = 'table' AND other.rootpage = 0
          AND substr(this.name, 1, length(other.name) + 1) = other.name || '_')
    ORDER BY name LIMIT 200
"""


class DatabaseCopy:
    """A private copy of one SQLite file: nothing done with it can reach the file itself.

    The copy has the changes that still wait in the write-ahead log. A rollback journal is never
    copied: it can name other files, and SQLite would delete them.
    """

    def __init__(self, folder: Folder, path: str, *, limits: RowLimits, job: Job) -> None:
        self._folder = folder
        self._path = path
        self._limits = limits
        self._brief = replace(limits, seconds=_LOOK_S)
        self._job = job
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        data, log = self._bytes()
        with converting_errors(self._limits), tempfile.TemporaryDirectory() as place:
            Path(place, "copy").write_bytes(data)
            if log:
                Path(place, "copy-wal").write_bytes(log)
            self._database = sqlite3.connect(Path(place, "copy"), check_same_thread=False)
            self._stack.callback(self._database.close)
            try:
                self._database.execute("PRAGMA query_only = ON")
                self._database.execute("PRAGMA trusted_schema = OFF")
                guard(self._database, self._job, self._brief)
                # Opens the log too: from here on the names of the copies are not needed.
                self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.Error:
                self._stack.close()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _bytes(self) -> tuple[bytes, bytes]:
        log, journal = self._beside("-wal"), self._beside("-journal")
        if journal.startswith(_JOURNAL):
            hint = Sentence("close the program that changes it, or open it there once")
            raise ToolBusy(Sentence("{name} has an unfinished change", name=self._path), hint=hint)
        try:
            data = self._folder.read(self._path, most=_MOST_BYTES)
        except FileTooLarge as error:
            hint = Sentence("name it under databases in the settings and ask it with sql.query")
            raise ToolFailed(error.message, hint=hint) from None
        if not data.startswith(_HEAD):
            raise ToolFailed(Sentence("{name} is not a SQLite file", name=self._path))
        if log != self._beside("-wal"):
            raise ToolBusy(Sentence("{name} is being changed", name=self._path))
        return data, log

    def _beside(self, ending: str) -> bytes:
        try:
            return self._folder.read(self._path + ending, most=_MOST_BYTES)
        except NoSuchFile:
            return b""

    def tables(self) -> list[str]:
        """Returns the names of its tables and views."""
        with converting_errors(self._brief):
            guard(self._database, self._job, self._brief)
            return [str(row[0]) for row in self._database.execute(_TABLES)]

    def read(self, table: str, *, limits: TableLimits) -> Data:
        """Reads a whole table or view."""
        with converting_errors(self._limits):
            guard(self._database, self._job, self._limits)
            names = self._names(table, limits)
            most = min(limits.rows, limits.cells // max(1, len(names))) + 1
            rows = self._rows(table, names, most)
        check_size(len(names), len(rows), limits)
        return typed(names, rows, limits)

    def head(self, table: str, *, rows: int) -> tuple[Data, int]:
        """Reads the first rows of a table or view, and counts all."""
        limits = TableLimits()
        with converting_errors(self._limits):
            guard(self._database, self._job, self._limits)
            names = self._names(table, limits)
            found = self._rows(table, names, rows)
            counted = f"SELECT count(*) FROM {quoted(table)}"  # noqa: S608
            count = int(self._database.execute(counted).fetchone()[0])
        return typed(names, found, limits), count

    def _names(self, table: str, limits: TableLimits) -> list[str]:
        cursor = self._database.execute(f"SELECT * FROM {quoted(table)} LIMIT 0")  # noqa: S608
        names = [str(column[0]) for column in cursor.description]
        check_size(len(names), 0, limits)
        return names

    def _rows(self, table: str, names: Sequence[str], most: int) -> list[list[Any]]:
        # A picture is told by its size: nobody computes with it.
        chosen = ", ".join(
            f"iif(typeof({each}) = 'blob', '(' || length({each}) || ' bytes)', {each})"
            for each in map(quoted, names)
        )
        cursor = self._database.execute(f"SELECT {chosen} FROM {quoted(table)} LIMIT {most}")  # noqa: S608
        return [[plain_value(value) for value in row] for row in cursor]


def quoted(name: str) -> str:
    """Quotes any name for SQL."""
    if "\0" in name:
        raise ToolFailed(Sentence("a column's name has a zero byte"))
    return '"' + name.replace('"', '""') + '"'
