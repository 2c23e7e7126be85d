"""The schema of a SQLite database, read without ever writing to it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from plansmith.adapters.context.schema import Column, ForeignKey, Table, schema_blocks
from plansmith.adapters.models.tokens import count_tokens
from plansmith.errors import Misconfigured
from plansmith.planner.briefing.token_budget import Count
from plansmith.ports import ContextBlock, Ranker

_LONGEST_SAMPLE: Final = 40
_ROWS: Final = 50
_STEPS: Final = (10_000, 2_000)  # a look that takes more instructions than the product is ended
_TABLES: Final = """
    SELECT name, type FROM sqlite_master
    WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name
"""
_COLUMNS: Final = 'SELECT name, type, pk, "notnull" FROM pragma_table_xinfo(?) WHERE hidden <> 1'
_KEYS: Final = 'SELECT id, "from", "table", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq'


class SchemaSource:
    """A SQLite database's tables as context; `samples=0` shows none of its values."""

    def __init__(
        self,
        path: Path | str,
        *,
        samples: int = 3,
        ranker: Ranker | None = None,
        count: Count = count_tokens,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._path = Path(path)
        self._samples = samples
        self._ranker = ranker
        self._count = count
        self._tell = tell

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        """The tables that fit the query, with their relations."""
        notes: list[str] = []
        tables = await asyncio.to_thread(
            read_schema, self._path, samples=self._samples, tell=notes.append
        )
        for note in notes:
            self._tell(note)
        return schema_blocks(
            tables,
            query,
            token_limit=token_limit,
            source=self._path.name,
            count=self._count,
            ranker=self._ranker,
        )


def read_schema(
    path: Path, *, samples: int = 3, tell: Callable[[str], None] = lambda _: None
) -> list[Table]:
    """The tables and views of a database; one that cannot be read is told and left out."""
    address = f"file:{quote(str(path.resolve()))}?mode=ro"
    tables: list[Table] = []
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=2.0)) as database:
            database.text_factory = _text
            database.execute("PRAGMA query_only = ON")
            database.execute("PRAGMA trusted_schema = OFF")
            for name, kind in database.execute(_TABLES).fetchall():
                _limit(database)
                try:
                    tables.append(_table(database, str(name), str(kind), samples))
                except sqlite3.Error as error:
                    tell(f"database {kind} left out: {name}: {error}")
    except sqlite3.Error as error:
        hint = "give the path of an SQLite database that can be read"
        raise Misconfigured(f"cannot read the database {path.name}: {error}", hint=hint) from None
    return tables


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _limit(database: sqlite3.Connection) -> None:
    """Let no table take for ever, whatever is behind its name."""
    instructions, most = _STEPS
    calls = iter(range(most))
    database.set_progress_handler(lambda: next(calls, None) is None, instructions)


def _table(database: sqlite3.Connection, name: str, kind: str, samples: int) -> Table:
    rows = database.execute(_COLUMNS, (name,)).fetchall()
    # A view is a query of someone else's: it is described and never run.
    values = _values(database, name, samples) if samples and kind == "table" else {}
    columns = tuple(
        Column(
            name=str(column),
            type=str(type_ or ""),
            primary=bool(primary),
            required=bool(required),
            samples=tuple(values.get(str(column), ())),
        )
        for column, type_, primary, required in rows
    )
    return Table(name, columns, tuple(_keys(database, name)), kind)


def _values(database: sqlite3.Connection, table: str, samples: int) -> dict[str, list[str]]:
    """A few different values a column, from the first rows."""
    quoted = '"' + table.replace('"', '""') + '"'
    # The name is one the database itself gave, quoted by the rules of SQL.
    cursor = database.execute(f"SELECT * FROM {quoted} LIMIT {_ROWS}")  # noqa: S608
    names = [str(column[0]) for column in cursor.description]
    found: dict[str, list[str]] = {name: [] for name in names}
    for row in cursor:
        for name, value in zip(names, row, strict=True):
            text = _sample(value)
            if text and text not in found[name] and len(found[name]) < samples:
                found[name].append(text)
    return found


def _sample(value: Any) -> str:
    if value is None or isinstance(value, bytes):
        return ""
    text = str(value)
    return text if len(text) <= _LONGEST_SAMPLE else f"{text[:_LONGEST_SAMPLE]}…"


def _keys(database: sqlite3.Connection, table: str) -> Iterator[ForeignKey]:
    keys: dict[int, tuple[str, list[str], list[str]]] = {}
    for number, column, target, to in database.execute(_KEYS, (table,)):
        _, columns, targets = keys.setdefault(number, (str(target), [], []))
        columns.append(str(column))
        targets += [str(to)] if to is not None else []
    for target, columns, targets in keys.values():
        yield ForeignKey(tuple(columns), target, tuple(targets))
