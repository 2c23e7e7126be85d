"""DuckDB for the SQL tools: opened for reading only, cut off from files, network and extensions."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Final

from plansmith.adapters.context.schema import Column, Table
from plansmith.adapters.tools.sql_rows import Found, RowLimits, shortened
from plansmith.adapters.tools.toolset import Job, watched
from plansmith.errors import Misconfigured, ToolBusy, ToolFailed

Parameters = Sequence[Any] | Mapping[str, Any]
_CONFINED: Final = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "threads": "2",
    # What does not fit the memory is put beside the database's file, within bounds too.
    "max_temp_directory_size": "2GB",
}
_READING: Final = frozenset({"SELECT", "EXPLAIN"})
_WRITING: Final = frozenset({"INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "MERGE_INTO"})
_COLUMNS: Final = """
    SELECT c.table_schema, c.table_name, t.table_type = 'VIEW', c.column_name, c.data_type,
           c.is_nullable = 'NO'
    FROM information_schema.columns c JOIN information_schema.tables t
      USING (table_catalog, table_schema, table_name)
    ORDER BY 1, 2, c.ordinal_position LIMIT 20000
"""


class DuckEngine:
    """One DuckDB file, opened anew for each statement."""

    kind = "duckdb"

    def __init__(self, path: Path, *, limits: RowLimits) -> None:
        self._path = path
        self._limits = limits

    def query(self, sql: str, parameters: Parameters, rows: int, job: Job) -> Found:
        """The rows of one statement that reads."""
        with self._opened(job, read_only=True) as database:
            found = database.execute(_one(database, sql, _READING), parameters)
            some = islice(iter(found.fetchone, None), rows + 1)
            letters = self._limits.letters_each
            fetched: list[Sequence[Any]] = [[shortened(v, letters) for v in row] for row in some]
            columns = [(str(each[0]), str(each[1]).lower()) for each in found.description]
            return Found(columns, fetched[:rows], more=len(fetched) > rows)

    def execute(self, sql: str, parameters: Parameters, job: Job) -> int:
        """Do one statement that writes, whole or not at all; how many rows it changed."""
        with self._opened(job, read_only=False) as database:
            found = database.execute(_one(database, sql, _WRITING), parameters)
            first = found.fetchone()
            return int(first[0]) if first and isinstance(first[0], int) else 0

    def schema(self) -> list[Table]:
        """The tables and views."""
        tables: dict[str, Table] = {}
        with self._opened(None, read_only=True) as database:
            rows = database.execute(_COLUMNS).fetchall()
        for space, name, is_view, column, kind, required in rows:
            full = name if space == "main" else f"{space}.{name}"
            old = tables.get(full) or Table(full, kind="view" if is_view else "table")
            one = Column(column, kind, required=bool(required))
            tables[full] = Table(full, (*old.columns, one), kind=old.kind)
        return list(tables.values())

    @contextmanager
    def _opened(self, job: Job | None, *, read_only: bool) -> Generator[Any]:
        duckdb = _driver()
        if not self._path.is_file():
            raise ToolFailed(f"there is no database {self._path.name}", hint="check its path")
        with _said(duckdb, self._limits):
            # The engine keeps to this as well as it can; the process it runs in has to.
            config = _CONFINED | {"memory_limit": f"{self._limits.memory_bytes}B"}
            database = duckdb.connect(str(self._path), read_only=read_only, config=config)
            try:
                database.execute("SET lock_configuration = true")
                with watched(database.interrupt, job=job, seconds=self._limits.seconds):
                    yield database
            finally:
                database.close()


def _one(database: Any, sql: str, allowed: frozenset[str]) -> Any:
    """The one statement of a text, of a kind that is allowed."""
    statements = database.extract_statements(sql)
    if len(statements) != 1:
        raise ToolFailed(f"there are {len(statements)} statements", hint="give one at a time")
    kind = str(statements[0].type).rpartition(".")[2]
    if kind not in allowed:
        hint = f"this tool takes {', '.join(sorted(allowed))}"
        raise ToolFailed(f"a statement of the kind {kind} is not allowed", hint=hint)
    return statements[0]


def _driver() -> Any:
    try:
        return import_module("duckdb")
    except ImportError as error:
        message = f"SQL on DuckDB needs duckdb, and it cannot be loaded: {error}"
        raise Misconfigured(message, hint="pip install duckdb") from error


@contextmanager
def _said(duckdb: Any, limits: RowLimits) -> Generator[None]:
    try:
        yield
    except duckdb.Error as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        if isinstance(error, duckdb.InterruptException):
            hint = "ask for less: fewer rows, a filter, a LIMIT"
            message = f"the statement took longer than {limits.seconds:g} s"
            raise ToolFailed(message, hint=hint) from None
        if isinstance(error, duckdb.OutOfMemoryException):
            raise MemoryError from None  # noqa: TRY004 - that is what it is
        if "lock" in first.lower() and isinstance(error, duckdb.IOException):
            raise ToolBusy(f"the database is in use: {first}") from None
        hint = "check the names of tables and columns" if "does not exist" in first else ""
        raise ToolFailed(f"the database says: {first}", hint=hint) from None
