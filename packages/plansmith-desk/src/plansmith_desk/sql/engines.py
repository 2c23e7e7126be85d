"""Databases by URL; every statement runs in a child process with a memory limit."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote, urlsplit

from pydantic import TypeAdapter

from plansmith.errors import Misconfigured, ToolBusy, ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith_desk.sandbox.subprocesses import SUBPROCESSES, ProcessLimits
from plansmith_desk.sql import rows as sql_rows
from plansmith_desk.sql.postgres import PostgresEngine
from plansmith_desk.sql.rows import Data, Parameters, RowLimits
from plansmith_desk.sql.schema import Column, Table, read_schema
from plansmith_desk.toolset import Job, watched

HINT: Final = Sentence(
    "sqlite:///file.db, duckdb:///file.duckdb or postgresql://user@host/database"
)


class Database:
    """A database as the tools use it: runs every statement in a child process."""

    def __init__(self, url: str, limits: RowLimits) -> None:
        self._limits = limits
        # Nothing is opened here: this only says whether the address can be one.
        self._engine = _engine(url, limits)
        self.kind = self._engine.kind

    def schema(self) -> list[Table]:
        return TypeAdapter(list[Table]).validate_python(self.do("schema", None))

    def do(self, act: str, job: Job | None, **given: Any) -> Json:
        """Calls `query`, `execute`, `preview` or `schema` of the engine, in a child."""
        # A child starts without the environment; libpq is given its own part of it.
        own = {name: text for name, text in os.environ.items() if name.startswith("PG")}
        arguments = {"engine": self._engine, "act": act, "given": given}
        arguments |= own if self.kind == "postgresql" else {}
        limits = ProcessLimits(
            seconds=self._limits.seconds,
            memory_bytes=self._limits.memory_bytes,
            writes=act == "execute",
        )
        return SUBPROCESSES.call(act_here, arguments, limits=limits, job=job)


def act_here(
    job: Job, *, engine: Engine, act: str, given: Mapping[str, Any], **environment: str
) -> Json:
    """Does in this process what a `Database` asks its child for."""
    os.environ.update(environment)
    try:
        if act == "query":
            return sql_rows.as_result(engine.query(**given, job=job), engine.limits)
        if act == "execute":
            return engine.execute(**given, job=job)
        if act == "preview":
            return engine.preview(**given, job=job)
        return cast("Json", [asdict(each) for each in engine.schema()])
    finally:
        for name in environment:
            del os.environ[name]


def _engine(url: str, limits: RowLimits) -> Engine:
    """Returns the database at a URL; opens nothing before its first use."""
    scheme, _, rest = url.partition(":")
    if scheme in ("postgresql", "postgres"):
        return PostgresEngine(url, limits=limits)
    if scheme not in ("sqlite", "duckdb") or not rest.startswith("///"):
        message = Sentence("'{text}' is not the address of a database", text=scheme)
        raise Misconfigured(message, hint=HINT)
    # Three slashes and a path relative to here; a fourth one makes it absolute.
    # A child may run in another folder.
    path = Path(unquote(urlsplit(url).path)[1:]).expanduser().absolute()
    return (SqliteEngine if scheme == "sqlite" else DuckEngine)(path, limits=limits)


class _InFile:
    """A database in one file, opened anew for each statement."""

    def __init__(self, path: Path, *, limits: RowLimits) -> None:
        self.path = path
        self.limits = limits

    def _check(self) -> None:
        if not self.path.is_file():
            raise ToolFailed(Sentence("there is no database {name}", name=self.path.name))


class SqliteEngine(_InFile):
    """One SQLite file."""

    kind = "sqlite"

    def query(self, sql: str, parameters: Parameters, rows: int, job: Job) -> Data:
        with self._opened("ro", job) as database:
            return sql_rows.select(database, sql, parameters, rows)

    def execute(self, sql: str, parameters: Parameters, job: Job) -> int:
        with self._opened("rw", job) as database:
            cursor = database.execute(sql, parameters)
            cursor.fetchall()
            database.commit()
            return max(0, cursor.rowcount)

    def preview(self, sql: str, parameters: Parameters, job: Job) -> dict[str, Json]:
        """Returns the rows that a statement would change; what it does is not kept."""
        with self._opened("rw", job) as database:
            database.execute("BEGIN")  # Python begins nothing by itself for a CREATE or DROP
            try:
                cursor = database.execute(sql_rows.returning(sql), parameters)
            except sqlite3.OperationalError:  # it changes no rows, or says itself what it returns
                cursor = database.execute(sql, parameters)
            return sql_rows.as_changes(cursor, cursor, self.limits)

    def schema(self) -> list[Table]:
        return read_schema(self.path)

    @contextmanager
    def _opened(self, mode: str, job: Job) -> Generator[sqlite3.Connection]:
        self._check()
        writing = mode == "rw"
        with (
            sql_rows.converting_errors(self.limits, writing=writing),
            sql_rows.opened(self.path, mode=mode) as database,
        ):
            sql_rows.exact_aggregates(database)
            sql_rows.guard(database, job, self.limits, writing=writing)
            yield database


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


class DuckEngine(_InFile):
    """One DuckDB file."""

    kind = "duckdb"

    def query(self, sql: str, parameters: Parameters, rows: int, job: Job) -> Data:
        with self._opened(job, read_only=True) as database:
            found = database.execute(_single_statement(database, sql, _READING), parameters)
            some = islice(iter(found.fetchone, None), rows + 1)
            letters = self.limits.letters_each
            fetched = [[sql_rows.shortened(value, letters) for value in row] for row in some]
            columns = [(str(each[0]), str(each[1]).lower()) for each in found.description]
            return Data(columns, fetched[:rows], more=len(fetched) > rows)

    def execute(self, sql: str, parameters: Parameters, job: Job) -> int:
        with self._opened(job, read_only=False) as database:
            found = database.execute(_single_statement(database, sql, _WRITING), parameters)
            first = found.fetchone()
            return int(first[0]) if first and isinstance(first[0], int) else 0

    def preview(self, sql: str, parameters: Parameters, job: Job) -> dict[str, Json]:
        """Returns the rows that a statement would change; what it does is not kept."""
        with self._opened(job, read_only=False) as database:
            database.begin()
            try:
                statement = _single_statement(database, sql_rows.returning(sql), _WRITING)
            except import_module("duckdb").ParserException:
                statement = _single_statement(database, sql, _WRITING)
            found = database.execute(statement, parameters)
            return sql_rows.as_changes(found, iter(found.fetchone, None), self.limits)

    def schema(self) -> list[Table]:
        tables: dict[str, Table] = {}
        with self._opened(None, read_only=True) as database:
            rows = database.execute(_COLUMNS).fetchall()
        for space, name, is_view, column, kind, required in rows:
            full = name if space == "main" else f"{space}.{name}"
            table = tables.setdefault(full, Table(full, kind="view" if is_view else "table"))
            table.columns.append(Column(column, kind, required=bool(required)))
        return list(tables.values())

    @contextmanager
    def _opened(self, job: Job | None, *, read_only: bool) -> Generator[Any]:
        try:
            duckdb = import_module("duckdb")
        except ImportError as error:
            message = f"SQL on DuckDB needs duckdb, and it cannot be loaded: {error}"
            raise Misconfigured(message, hint="pip install duckdb") from error
        self._check()
        with _converting_errors(duckdb, self.limits):
            # The engine keeps to this as well as it can; the process it runs in has to.
            config = _CONFINED | {"memory_limit": f"{self.limits.memory_bytes}B"}
            database = duckdb.connect(str(self.path), read_only=read_only, config=config)
            try:
                database.execute("SET lock_configuration = true")
                with watched(database.interrupt, job=job, seconds=self.limits.seconds):
                    yield database
            finally:
                database.close()


Engine = SqliteEngine | DuckEngine | PostgresEngine


def _single_statement(database: Any, sql: str, allowed: frozenset[str]) -> Any:
    """Parses a text that must be one statement of an allowed kind."""
    statements = database.extract_statements(sql)
    if len(statements) != 1:
        hint = Sentence("give one at a time")
        raise ToolFailed(Sentence("there are {count} statements", count=len(statements)), hint=hint)
    kind = str(statements[0].type).rpartition(".")[2]
    if kind not in allowed:
        hint = Sentence("this tool takes {names}", names=[*sorted(allowed)])
        message = Sentence("a statement of the kind {kind} is not allowed", kind=kind)
        raise ToolFailed(message, hint=hint)
    return statements[0]


@contextmanager
def _converting_errors(duckdb: Any, limits: RowLimits) -> Generator[None]:
    try:
        yield
    except duckdb.Error as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        if isinstance(error, duckdb.InterruptException):
            raise sql_rows.too_long(limits.seconds) from None
        if isinstance(error, duckdb.OutOfMemoryException):
            raise MemoryError from None  # noqa: TRY004 - that is what it is
        if "lock" in first.lower() and isinstance(error, duckdb.IOException):
            raise ToolBusy(Sentence("the database is in use: {why}", why=first)) from None
        raise sql_rows.database_says(first) from None
