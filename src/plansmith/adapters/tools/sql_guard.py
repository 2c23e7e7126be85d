"""What SQLite may do for a tool: every act asked of an authorizer, sizes and time bounded."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from plansmith.adapters.tools.sql_rows import Found, RowLimits
from plansmith.adapters.tools.toolset import Job
from plansmith.errors import ToolBusy, ToolFailed

Parameters = Sequence[Any] | Mapping[str, Any]
_TICK: Final = 2_000  # instructions between two looks at the time
_READS: Final = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_READ,
        sqlite3.SQLITE_RECURSIVE,
        sqlite3.SQLITE_FUNCTION,
        sqlite3.SQLITE_PRAGMA,
    }
)
_WRITES: Final = frozenset(
    {
        *(sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE),
        *(sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_ALTER_TABLE),
        *(sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_DROP_INDEX, sqlite3.SQLITE_REINDEX),
        *(sqlite3.SQLITE_CREATE_VIEW, sqlite3.SQLITE_DROP_VIEW, sqlite3.SQLITE_TRANSACTION),
    }
)
# Pragmas that only tell of a schema; all others may change how the file is used.
_TELLING: Final = frozenset(
    {
        *("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"),
        "foreign_key_list",
    }
)
_REACHING_OUT: Final = frozenset(
    {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "sqlite_dbpage"}
)
_LONGEST: Final = 250_000
_LIMITS: Final = {
    # Functions such as instr and trim look at the time only when they are done, and take the
    # product of two lengths: at four million letters ten minutes, at this two seconds.
    sqlite3.SQLITE_LIMIT_LENGTH: _LONGEST,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    # A long pattern of LIKE works for minutes without a look at the time.
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 10,
}


def guard(
    database: sqlite3.Connection, job: Job, limits: RowLimits, *, writing: bool = False
) -> None:
    """Confine a connection: what it may do, how much it may hold, how long it may take."""
    for limit, most in _LIMITS.items():
        database.setlimit(limit, most)
    allowed = _READS | _WRITES if writing else _READS

    def may(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        # SQLite names a pragma and the altered table first, a function second.
        name = first if action == sqlite3.SQLITE_PRAGMA else second
        word = (name or "").lower()
        fine = action in allowed
        fine &= action != sqlite3.SQLITE_PRAGMA or word in _TELLING
        fine &= action != sqlite3.SQLITE_FUNCTION or word not in _REACHING_OUT
        return sqlite3.SQLITE_OK if fine else sqlite3.SQLITE_DENY

    database.set_authorizer(may)
    end = time.monotonic() + limits.seconds
    database.set_progress_handler(lambda: job.given_up or time.monotonic() > end, _TICK)
    database.text_factory = _text


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def select(database: sqlite3.Connection, sql: str, parameters: Parameters, rows: int) -> Found:
    """Some rows of a statement, with the types of the values that are in them."""
    if "printf" in sql.lower() or "format" in sql.lower():
        # SQLite's own writes a billion letters before it looks at the limit or the time.
        for name in ("printf", "format"):
            database.create_function(name, -1, _format, deterministic=True)
    cursor = database.execute(sql, parameters)
    if cursor.description is None:
        raise ToolFailed("the statement gives no rows", hint="give a SELECT")
    fetched = cursor.fetchmany(rows + 1)
    names = [str(column[0]) for column in cursor.description]
    kinds = [_kind([row[place] for row in fetched[:rows]]) for place in range(len(names))]
    return Found(list(zip(names, kinds, strict=True)), fetched[:rows], more=len(fetched) > rows)


def _format(pattern: object = None, *values: object) -> str | None:
    """What printf writes, for widths below 1000; nothing for what it does not know."""
    if pattern is None:
        return None
    text = str(pattern)
    if _SPEC.sub("", text).count("%"):
        return None
    given = iter(values)
    return _SPEC.sub(lambda found: _written(found, given), text)


def _written(found: re.Match[str], given: Iterator[object]) -> str:
    flags, width, places, kind = found.groups()
    if kind == "%":
        return "%"
    value = next(given, None)
    comma = "," if "," in flags else ""
    if kind in "dixXo":
        kind = "d" if kind == "i" else kind
        whole = int(float(str(value or 0)))
        body = f"{whole:{comma}d}" if kind == "d" else f"%{kind}" % whole
    elif kind in "feEgG":
        body = f"{float(str(value or 0)):{comma}{places or ''}{kind}}"
    else:
        body = "" if value is None else str(value)
        body = body[:1] if kind == "c" else body[: int(places[1:] or 0)] if places else body
    body = f"+{body}" if "+" in flags and body[:1].isdigit() else body
    size = int(width or 0)
    if "-" in flags:
        return body.ljust(size)
    return body.zfill(size) if "0" in flags and kind not in "sc" else body.rjust(size)


_SPEC: Final = re.compile(r"%([-+0, ]*)(\d{0,3})(\.\d{0,3})?([dixXofeEgGsc%])")


def _kind(values: Sequence[Any]) -> str:
    """SQLite has types by value: the one of a column is what its values have in common."""
    kinds = {_NAMES[type(value).__name__] for value in values if value is not None}
    if kinds == {"integer", "number"}:
        return "number"
    return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "null"


_NAMES: Final = {"int": "integer", "float": "number", "str": "text", "bytes": "binary"}


@contextmanager
def said(limits: RowLimits, *, writing: bool = False) -> Generator[None]:
    """SQLite's errors in our words."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise _worded(str(error), limits, writing=writing) from None
    except (OverflowError, ValueError) as error:
        raise ToolFailed(f"the database cannot take that: {error}") from None


def _worded(text: str, limits: RowLimits, *, writing: bool) -> ToolFailed:
    if "interrupted" in text:
        hint = "ask for less: fewer rows, an indexed column, a LIMIT"
        return ToolFailed(f"the statement took longer than {limits.seconds:g} s", hint=hint)
    if any(each in text for each in ("not authorized", "denied", "prohibited", "readonly")):
        hint = "this tool only reads: give one SELECT over the tables"
        hint = "this tool changes tables and rows, and nothing else" if writing else hint
        return ToolFailed(f"the statement does more than it may: {text}", hint=hint)
    if "one statement" in text:
        return ToolFailed("there is more than one statement", hint="give one at a time")
    if "locked" in text or "busy" in text:
        return ToolBusy(f"the database is in use: {text}")
    if "too big" in text:
        hint = "leave its column out, or take its length()"
        return ToolFailed(f"a value is larger than {_LONGEST:,} bytes", hint=hint)
    hint = "check the names of tables and columns" if "no such" in text else ""
    return ToolFailed(f"the database says: {text}", hint=hint)
