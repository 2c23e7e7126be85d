"""PostgreSQL for the SQL tools: a cursor in a read-only transaction, never as a superuser."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final

from plansmith.adapters.context.schema import Column, ForeignKey, Table
from plansmith.adapters.tools.sql_rows import Found, RowLimits
from plansmith.adapters.tools.toolset import Job, watched
from plansmith.errors import Misconfigured, ToolBusy, ToolFailed

Parameters = Sequence[Any] | Mapping[str, Any]
# Functions that act outside of the transaction, or run text as SQL where no check sees it.
_REACHING_OUT: Final = re.compile(
    r"\b(?:set_config|dblink\w*|query_to_xml\w*|cursor_to_xml\w*|table_to_xml\w*|schema_to_xml\w*"
    r"|database_to_xml\w*|lo_\w+|lowrite|pg_read_\w+|pg_write_\w+|pg_ls_\w+|pg_stat_file"
    r"|pg_file_\w+|pg_sleep\w*|pg_terminate_backend|pg_cancel_backend|pg_reload_conf"
    r"|pg_rotate_logfile\w*|pg_notify|pg_switch_wal|pg_create_\w+|pg_drop_\w+|pg_backup_\w+"
    r"|pg_logical_\w+|pg_replication_\w+|pg_promote|pg_advisory_\w+|pg_try_advisory_\w+"
    r"|pg_stat_reset\w*|pg_import_\w+|pg_execute_\w+|plpy\w*|xpath_table)\b",
    re.IGNORECASE,
)
_READING: Final = ("select", "with", "values", "table")
_WRITING: Final = ("insert", "update", "delete", "merge", "with", "create", "alter", "drop")
_FIRST: Final = re.compile(
    r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*([a-z]+)", re.IGNORECASE | re.DOTALL
)
_AS_TEXT: Final = ("date", "time", "timetz", "timestamp", "timestamptz", "interval")
_COLUMNS: Final = """
    SELECT n.nspname, c.relname, c.relkind = 'v' OR c.relkind = 'm',
           a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
           coalesce(a.attnum = ANY (p.conkey), false),
           coalesce(col_description(c.oid, a.attnum), ''), coalesce(obj_description(c.oid), '')
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_constraint p ON p.conrelid = c.oid AND p.contype = 'p'
    WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND n.nspname !~ '^(pg_|information_schema)'
      AND has_schema_privilege(n.oid, 'USAGE')
      AND has_column_privilege(c.oid, a.attnum, 'SELECT')
    ORDER BY 1, 2, a.attnum LIMIT 20000
"""
_KEYS: Final = """
    SELECT n.nspname, c.relname, tn.nspname, t.relname,
           (SELECT array_agg(a.attname ORDER BY k.place)::text[]
            FROM unnest(f.conkey) WITH ORDINALITY k (num, place)
            JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.num),
           (SELECT array_agg(a.attname ORDER BY k.place)::text[]
            FROM unnest(f.confkey) WITH ORDINALITY k (num, place)
            JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = k.num)
    FROM pg_constraint f
    JOIN pg_class c ON c.oid = f.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_class t ON t.oid = f.confrelid JOIN pg_namespace tn ON tn.oid = t.relnamespace
    WHERE f.contype = 'f' ORDER BY f.oid
"""


class PostgresEngine:
    """One PostgreSQL database; a connection a statement."""

    kind = "postgresql"

    def __init__(self, url: str, *, limits: RowLimits) -> None:
        self._url = url
        self._limits = limits

    def query(self, sql: str, parameters: Parameters, rows: int, job: Job) -> Found:
        """The rows of one statement that reads.

        A cursor takes nothing but a SELECT or VALUES, without writing parts; the extended
        protocol takes one statement; the transaction writes nothing.
        """
        _refuse(sql)
        first = _FIRST.match(sql)
        if first is not None and first[1].lower() not in _READING:
            hint = "this tool only reads: give one SELECT over the tables"
            raise ToolFailed(f"{first[1].upper()} does more than it may", hint=hint)
        text = sql.strip().removesuffix(";")
        with self._opened(job, read_only=True) as connection:
            cursor = connection.cursor()
            declared = f"DECLARE found NO SCROLL CURSOR WITHOUT HOLD FOR {text}"
            cursor.execute(declared, _listed(parameters), binary=True)
            cursor.execute(f"FETCH FORWARD {rows + 1:d} FROM found")
            fetched: list[Sequence[Any]] = cursor.fetchall()
            columns = [(str(each.name), str(each.type_display)) for each in cursor.description]
            return Found(columns, fetched[:rows], more=len(fetched) > rows)

    def execute(self, sql: str, parameters: Parameters, job: Job) -> int:
        """Do one statement that writes, whole or not at all; how many rows it changed."""
        _refuse(sql)
        first = _FIRST.match(sql)
        if first is None or first[1].lower() not in _WRITING:
            hint = f"one of {', '.join(_WRITING)}"
            raise ToolFailed("the statement is not one that writes to tables", hint=hint)
        with self._opened(job, read_only=False) as connection:
            cursor = connection.cursor()
            cursor.execute(sql, _listed(parameters), binary=True)
            connection.commit()
            return max(0, int(cursor.rowcount))

    def schema(self) -> list[Table]:
        """The tables and views that can be read, as far as the search path knows them."""
        with self._opened(None, read_only=True) as connection:
            keys = connection.execute(_KEYS).fetchall()
            columns = connection.execute(_COLUMNS).fetchall()
        tables: dict[str, Table] = {}
        for space, name, is_view, column, kind, required, primary, comment, about in columns:
            full = _full(space, name)
            old = tables.get(full) or Table(full, (), _keys(keys, space, name), comment=about)
            one = Column(column, kind, primary, required, comment)
            kind_of = "view" if is_view else "table"
            tables[full] = Table(full, (*old.columns, one), old.foreign_keys, kind_of, about)
        return list(tables.values())

    @contextmanager
    def _opened(self, job: Job | None, *, read_only: bool) -> Generator[Any]:
        psycopg = _driver()
        with _said(psycopg, self._limits):
            connection = psycopg.connect(
                self._url, connect_timeout=10, cursor_factory=psycopg.RawCursor
            )
            try:
                connection.read_only = read_only
                self._prepare(connection, psycopg, read_only=read_only)
                with watched(_canceller(connection, psycopg), job=job, seconds=_late(self._limits)):
                    yield connection
            finally:
                connection.close()

    def _prepare(self, connection: Any, psycopg: Any, *, read_only: bool) -> None:
        for name in _AS_TEXT:
            # As the server writes them: Python has no infinite dates and no year 10000.
            connection.adapters.register_loader(name, psycopg.types.string.TextLoader)
        wait = int(self._limits.seconds * 1000)
        connection.execute(f"SET LOCAL statement_timeout = {wait:d}")
        connection.execute("SET LOCAL lock_timeout = 3000")
        if not read_only:
            return
        mighty = connection.execute(
            "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
        ).fetchone()
        known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'pg_read_all_data'")
        if mighty and mighty[0] and known.fetchone():
            # A superuser reads files and starts programs even in a read-only transaction.
            connection.execute("SET LOCAL ROLE pg_read_all_data")


def _canceller(connection: Any, psycopg: Any) -> Callable[[], None]:
    def cancel() -> None:
        with suppress(psycopg.Error):
            connection.cancel()

    return cancel


def _late(limits: RowLimits) -> float:
    """A little after the server's own time limit, should it not keep that."""
    return limits.seconds + 5


def _driver() -> Any:
    try:
        driver = import_module("psycopg")
        import_module("psycopg.types.string")
    except ImportError as error:
        message = f"SQL on PostgreSQL needs psycopg, and it cannot be loaded: {error}"
        raise Misconfigured(message, hint="pip install 'plansmith[postgres]'") from error
    return driver


def _refuse(sql: str) -> None:
    found = _REACHING_OUT.search(sql)
    if found is not None:
        hint = "leave it out: it acts outside of the statement"
        raise ToolFailed(f"{found[0]} is not allowed", hint=hint)
    if re.search(r"u&[\"']", sql, re.IGNORECASE):
        raise ToolFailed("U& escapes are not allowed", hint="write the letters themselves")
    if "\0" in sql:
        raise ToolFailed("the statement has a zero byte", hint="leave it out")


def _listed(parameters: Parameters) -> list[Any]:
    if isinstance(parameters, Mapping):
        hint = "give a list, and write $1, $2 in the statement"
        raise ToolFailed("PostgreSQL takes parameters by their place", hint=hint)
    return list(parameters)


def _full(space: str, name: str) -> str:
    return name if space == "public" else f"{space}.{name}"


def _keys(rows: Sequence[Sequence[Any]], space: str, name: str) -> tuple[ForeignKey, ...]:
    return tuple(
        ForeignKey(tuple(columns), _full(other_space, other), tuple(targets))
        for key_space, table, other_space, other, columns, targets in rows
        if (key_space, table) == (space, name)
    )


@contextmanager
def _said(psycopg: Any, limits: RowLimits) -> Generator[None]:
    try:
        yield
    except psycopg.errors.QueryCanceled:
        hint = "ask for less: fewer rows, an indexed column, a LIMIT"
        message = f"the statement took longer than {limits.seconds:g} s"
        raise ToolFailed(message, hint=hint) from None
    except psycopg.errors.ReadOnlySqlTransaction as error:
        hint = "this tool only reads: give one SELECT over the tables"
        message = f"the statement does more than it may: {_first_line(error)}"
        raise ToolFailed(message, hint=hint) from None
    except psycopg.OperationalError as error:
        raise ToolBusy(
            f"the database cannot be reached or is in use: {_first_line(error)}"
        ) from None
    except psycopg.Error as error:
        first = _first_line(error)
        hint = "check the names of tables and columns" if "does not exist" in first else ""
        raise ToolFailed(f"the database says: {first}", hint=hint) from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
