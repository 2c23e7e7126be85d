"""PostgreSQL for the SQL tools: requires an ordinary role; reads in a read-only transaction."""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final

from plansmith.errors import Misconfigured, OutcomeUnknown, ToolBusy, ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith_desk.sql import rows as sql_rows
from plansmith_desk.sql.rows import Data, Parameters, RowLimits
from plansmith_desk.sql.schema import Column, ForeignKey, Table
from plansmith_desk.toolset import Job, watched

# Functions that act outside of the transaction, or run text as SQL. That they are named is an
# early word to whoever wrote the statement; what keeps them harmless is the role they run as.
_REACHING_OUT: Final = re.compile(
    r"\b(?:set_config|dblink\w*|query_to_xml\w*|cursor_to_xml\w*|table_to_xml\w*|schema_to_xml\w*"
    r"|database_to_xml\w*|lo_\w+|lowrite|pg_read_\w+|pg_write_\w+|pg_ls_\w+|pg_stat_file"
    r"|pg_file_\w+|pg_sleep\w*|pg_terminate_backend|pg_cancel_backend|pg_reload_conf"
    r"|pg_rotate_logfile\w*|pg_notify|pg_switch_wal|pg_create_\w+|pg_drop_\w+|pg_backup_\w+"
    r"|pg_logical_\w+|pg_replication_\w+|pg_promote|pg_advisory_\w+|pg_try_advisory_\w+"
    r"|pg_stat_reset\w*|ts_stat|ts_rewrite|pg_import_\w+|pg_execute_\w+|plpy\w*|xpath_table)\b",
    re.IGNORECASE,
)
# Roles of the server that reach its files, programs and other sessions.
_MIGHTY: Final = (
    *("pg_read_server_files", "pg_write_server_files", "pg_execute_server_program"),
    *("pg_signal_backend", "pg_checkpoint", "pg_maintain", "pg_create_subscription"),
)
# Of the role itself and of all that it could become: a statement can change its role.
_RIGHTS: Final = """
    SELECT DISTINCT told.what
    FROM pg_roles r
    CROSS JOIN LATERAL (VALUES
        (r.rolsuper, 'it is a superuser'), (r.rolreplication, 'it may replicate'),
        (r.rolcreaterole, 'it may make roles'), (r.rolcreatedb, 'it may make databases'),
        (r.rolname = ANY ($1), 'it is in ' || r.rolname)) told (holds, what)
    WHERE told.holds AND pg_has_role(session_user, r.oid, 'MEMBER')
      AND (NOT (SELECT rolsuper FROM pg_roles WHERE rolname = session_user)
           OR told.what = 'it is a superuser')
    ORDER BY 1
"""
_ROLE: Final = (
    "let Plansmith have a role of its own that only reads: CREATE ROLE plansmith_reader LOGIN "
    "PASSWORD '…'; GRANT pg_read_all_data TO plansmith_reader; (to write, GRANT it INSERT, UPDATE "
    "or DELETE on the tables in question)"
)
_READING: Final = ("select", "with", "values", "table")
_WRITING: Final = ("insert", "update", "delete", "merge", "with", "create", "alter", "drop")
_FIRST: Final = re.compile(
    r"(?>\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*+([a-z]+)", re.IGNORECASE | re.DOTALL
)
_AT_ONCE: Final = 4 * 1024 * 1024
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
    """A PostgreSQL database; opens a connection per statement."""

    kind = "postgresql"

    def __init__(self, url: str, *, limits: RowLimits) -> None:
        self._url = url
        self.limits = limits

    def query(self, sql: str, parameters: Parameters, rows: int, job: Job) -> Data:
        """Returns the rows of one reading statement.

        The role has no rights beyond tables; the transaction is read-only and rolled back; a cursor
        accepts only SELECT or VALUES, and the extended protocol only one statement.
        """
        _refuse(sql)
        first = _FIRST.match(sql)
        if first is not None and first[1].lower() not in _READING:
            message = Sentence("{word} is not allowed", word=first[1].upper())
            raise ToolFailed(message, hint=sql_rows.ONLY_READS)
        text = sql.strip().removesuffix(";")
        with self._opened(job, read_only=True) as connection:
            cursor = connection.cursor()
            declared = f"DECLARE found NO SCROLL CURSOR WITHOUT HOLD FOR {text}"
            cursor.execute(declared, _listed(parameters), binary=True)
            most = rows + 1
            # Fetches rows, few at a time if they are long; clips values before it fetches more.
            found: list[Sequence[Any]] = []
            letters, wanted = self.limits.letters_each, 1
            while len(found) < most:
                cursor.execute(f"FETCH FORWARD {min(wanted, most - len(found)):d} FROM found")
                part: list[Sequence[Any]] = cursor.fetchall()
                if not part:
                    break
                longest = max(len(str(row)) for row in part)
                found += [[sql_rows.shortened(value, letters) for value in row] for row in part]
                wanted = max(1, min(2 * wanted, _AT_ONCE // (longest + 1)))
            columns = [(str(each.name), str(each.type_display)) for each in cursor.description]
            return Data(columns, found[:rows], more=len(found) > rows)

    def execute(self, sql: str, parameters: Parameters, job: Job) -> int:
        """Runs one writing statement atomically; returns how many rows it changed."""
        _require_writing(sql)
        with self._opened(job, read_only=False) as connection:
            cursor = connection.cursor()
            cursor.execute(sql, _listed(parameters), binary=True)
            try:
                connection.commit()
            except _driver().OperationalError as error:
                if (error.sqlstate or "08")[:2] not in ("08", "57"):
                    raise  # the server itself says that it did not commit
                # The connection broke: the server may have committed before.
                raise OutcomeUnknown(
                    Sentence("the process that changed the database ended before it could answer")
                ) from None
            return max(0, int(cursor.rowcount))

    def preview(self, sql: str, parameters: Parameters, job: Job) -> dict[str, Json]:
        """Returns the rows that a statement would change; what it does is not kept."""
        _require_writing(sql)
        with self._opened(job, read_only=False) as connection:
            cursor = connection.cursor()
            try:
                with connection.transaction():
                    text = sql_rows.returning(sql)
                    rows = cursor.stream(text, _listed(parameters), binary=True)
                    return sql_rows.as_changes(cursor, rows, self.limits)
            except _driver().errors.SyntaxError:
                cursor.execute(sql, _listed(parameters), binary=True)
                return sql_rows.as_changes(
                    cursor, cursor if cursor.description else (), self.limits
                )

    def schema(self) -> list[Table]:
        """Returns the readable tables and views in the search path."""
        with self._opened(None, read_only=True) as connection:
            keys = connection.execute(_KEYS).fetchall()
            columns = connection.execute(_COLUMNS).fetchall()
        tables: dict[str, Table] = {}
        for space, name, is_view, column, kind, required, primary, comment, about in columns:
            full, kind_of = _full(space, name), "view" if is_view else "table"
            table = tables.setdefault(full, Table(full, kind=kind_of, comment=about))
            table.columns.append(Column(column, kind, primary, required, comment))
        for space, name, other_space, other, own, targets in keys:
            if (full := _full(space, name)) in tables:
                key = ForeignKey(own, _full(other_space, other), targets)
                tables[full].foreign_keys.append(key)
        return list(tables.values())

    @contextmanager
    def _opened(self, job: Job | None, *, read_only: bool) -> Generator[Any]:
        psycopg = _driver()

        def cancel() -> None:
            with suppress(psycopg.Error):
                connection.cancel()

        try:
            connection = psycopg.connect(
                self._url, connect_timeout=10, cursor_factory=psycopg.RawCursor
            )
            try:
                connection.read_only = read_only
                for name in _AS_TEXT:
                    # As the server writes them: Python has no infinite dates and no year 10000.
                    connection.adapters.register_loader(name, psycopg.types.string.TextLoader)
                wait = int(self.limits.seconds * 1000)
                connection.execute(f"SET LOCAL statement_timeout = {wait:d}")
                connection.execute("SET LOCAL lock_timeout = 3000")
                rights = [row[0] for row in connection.execute(_RIGHTS, [list(_MIGHTY)]).fetchall()]
                if rights:
                    message = Sentence(
                        "the role '{role}' has too many rights: {rights}",
                        role=connection.info.user,
                        rights=[*rights],
                    )
                    raise Misconfigured(message, hint=_ROLE)
                # Slightly above the server's own limit, in case it does not keep that.
                seconds = self.limits.seconds + 5
                with watched(cancel, job=job, seconds=seconds):
                    yield connection
            finally:
                connection.close()
        except psycopg.Error as error:
            raise _worded(error, psycopg, self.limits) from None


def _driver() -> Any:
    try:
        driver = import_module("psycopg")
        import_module("psycopg.types.string")
    except ImportError as error:
        message = f"SQL on PostgreSQL needs psycopg, and it cannot be loaded: {error}"
        raise Misconfigured(message, hint="pip install packages/* 'plansmith[postgres]'") from error
    return driver


def _refuse(sql: str) -> None:
    found = _REACHING_OUT.search(sql)
    if found is not None:
        hint = Sentence("leave it out: it acts outside of the statement")
        raise ToolFailed(Sentence("{word} is not allowed", word=found[0]), hint=hint)
    if re.search(r"u&[\"']", sql, re.IGNORECASE):
        raise ToolFailed(Sentence("U& escapes are not allowed"))
    if "\0" in sql:
        raise ToolFailed(Sentence("the statement has a zero byte"))


def _require_writing(sql: str) -> None:
    _refuse(sql)
    first = _FIRST.match(sql)
    if first is None or first[1].lower() not in _WRITING:
        hint = Sentence("one of {names}", names=[*_WRITING])
        raise ToolFailed(Sentence("the statement is not one that writes to tables"), hint=hint)


def _listed(parameters: Parameters) -> list[Any]:
    if isinstance(parameters, Mapping):
        hint = Sentence("give a list, and write $1, $2 in the statement")
        raise ToolFailed(Sentence("PostgreSQL takes parameters by their place"), hint=hint)
    return list(parameters)


def _full(space: str, name: str) -> str:
    return name if space == "public" else f"{space}.{name}"


def _worded(error: Any, psycopg: Any, limits: RowLimits) -> Exception:
    first = (str(error).splitlines() or [type(error).__name__])[0]
    if isinstance(error, psycopg.errors.QueryCanceled):
        return sql_rows.too_long(limits.seconds)
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
        message = Sentence("the statement is not allowed: {why}", why=first)
        return ToolFailed(message, hint=sql_rows.ONLY_READS)
    if error.sqlstate is None and ("allocate memory" in first or "out of memory" in first):
        # Of this process and not of the server, whose errors have a number.
        return MemoryError()
    if isinstance(error, psycopg.OperationalError):
        return ToolBusy(Sentence("the database cannot be reached or is in use: {why}", why=first))
    return sql_rows.database_says(first)
