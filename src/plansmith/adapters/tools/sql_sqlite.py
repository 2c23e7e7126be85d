"""SQLite for the SQL tools: one file, opened for reading only unless it is told otherwise."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from plansmith.adapters.context.schema import Table
from plansmith.adapters.context.sqlite import read_schema
from plansmith.adapters.tools.sql_guard import Parameters, guard, said, select
from plansmith.adapters.tools.sql_rows import Found, RowLimits
from plansmith.adapters.tools.sql_sums import exact_aggregates
from plansmith.adapters.tools.toolset import Job
from plansmith.errors import PlansmithError, ToolFailed


class SqliteEngine:
    """One SQLite file, opened anew for each statement."""

    kind = "sqlite"

    def __init__(self, path: Path, *, limits: RowLimits) -> None:
        self._path = path
        self._limits = limits

    def query(self, sql: str, parameters: Parameters, rows: int, job: Job) -> Found:
        """The rows of one statement that reads."""
        with self._opened("ro", job) as database:
            return select(database, sql, parameters, rows)

    def execute(self, sql: str, parameters: Parameters, job: Job) -> int:
        """Do one statement that writes, whole or not at all; how many rows it changed."""
        with self._opened("rw", job) as database:
            cursor = database.execute(sql, parameters)
            cursor.fetchall()
            database.commit()
            return max(0, cursor.rowcount)

    def schema(self) -> list[Table]:
        """The tables and views."""
        try:
            return read_schema(self._path)
        except PlansmithError as error:
            raise ToolFailed(error.message, hint=error.hint) from None

    @contextmanager
    def _opened(self, mode: str, job: Job) -> Generator[sqlite3.Connection]:
        if not self._path.is_file():
            raise ToolFailed(f"there is no database {self._path.name}", hint="check its path")
        address = f"file:{quote(str(self._path.resolve()))}?mode={mode}"
        with said(self._limits, writing=mode == "rw"):
            database = sqlite3.connect(address, uri=True, timeout=2.0, check_same_thread=False)
            try:
                database.execute(f"PRAGMA query_only = {'ON' if mode == 'ro' else 'OFF'}")
                database.execute("PRAGMA trusted_schema = OFF")
                exact_aggregates(database)
                guard(database, job, self._limits, writing=mode == "rw")
                yield database
            finally:
                database.close()
