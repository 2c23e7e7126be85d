"""Describes the tables of databases that fit a request, and reads the schema of SQLite files."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence
from plansmith.ports import ContextBlock, Ranker
from plansmith.text import clip
from plansmith_planner.context.lexical import LexicalRanker
from plansmith_planner.context.token_budget import Count, clipped
from plansmith_planner.models.tokens import count_tokens

OTHERS: Final = "other database tables"
_PLAIN: Final = re.compile(r"[^\W\d][\w$]{0,127}")
_MOST_NAMED: Final = 40


@dataclass(frozen=True, slots=True)
class Column:
    """A column, with a few of its values."""

    name: str
    type: str = ""
    primary: bool = False
    required: bool = False
    comment: str = ""
    samples: tuple[str, ...] = ()

    def line(self) -> str:
        """Returns the column as a planner reads it."""
        facts = [" ".join(self.type.split())] if self.type else []
        facts += ["primary key"] * self.primary + ["not null"] * self.required
        line = f"- {named(self.name)} {', '.join(facts)}".rstrip()
        line += f" -- {json.dumps(self.comment, ensure_ascii=False)}" if self.comment else ""
        values = ", ".join(json.dumps(value, ensure_ascii=False) for value in self.samples)
        return f"{line}; such as {values}" if values else line


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns that refer to columns of another table."""

    columns: tuple[str, ...]
    table: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table or a view."""

    name: str
    columns: tuple[Column, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    kind: str = "table"
    comment: str = ""

    def text(self) -> str:
        """Returns the table as a planner reads it, one column per line."""
        comment = f" -- {json.dumps(self.comment, ensure_ascii=False)}" if self.comment else ""
        head = f"{self.kind} {named(self.name)}{comment}"
        return "\n".join([head, *(column.line() for column in self.columns), *self.relations()])

    def relations(self) -> Iterator[str]:
        """Returns the foreign keys, one per line."""
        for key in self.foreign_keys:
            ends = ", ".join(map(named, key.columns)), ", ".join(map(named, key.targets))
            target = f"({ends[1]})" if ends[1] else ""
            yield f"{named(self.name)}({ends[0]}) -> {named(key.table)}{target}"


def named(name: str) -> str:
    """Returns a plain name as it is; quotes any other so that it stays on one line."""
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def schema_blocks(
    tables: Sequence[Table],
    query: str,
    *,
    token_limit: int,
    source: str = "",
    count: Count = count_tokens,
    ranker: Ranker | None = None,
) -> list[ContextBlock]:
    """Returns one block per table, best fit first; lists the others by name."""
    order = relevant(tables, query, ranker or LexicalRanker())
    taken: list[Table] = []
    blocks: list[ContextBlock] = []
    for table in order:
        tried = [*blocks, ContextBlock(f"database {table.kind}", table.text(), source)]
        others = _others(tables, [*taken, table], source)
        if sum(count(block.text) for block in [*tried, *others]) > token_limit:
            break
        taken, blocks = [*taken, table], tried
    others = _others(tables, taken, source)
    if not blocks and order:
        text = clipped(order[0].text(), tokens=token_limit * 2 // 3, count=count)
        blocks = [ContextBlock(f"database {order[0].kind}", text, source)] if text else []
    left = token_limit - sum(count(block.text) for block in blocks)
    texts = (clipped(block.text, tokens=left, count=count) for block in others)
    return blocks + [ContextBlock(OTHERS, text, source) for text in texts if text]


def relevant(tables: Sequence[Table], query: str, ranker: Ranker) -> list[Table]:
    """Returns the tables that fit a query, best first, and those they refer to; else all."""
    texts = tuple(f"{table.name} {table.name} {table.comment}\n{table.text()}" for table in tables)
    scores = ranker.scores(query, texts)
    order = sorted(range(len(tables)), key=lambda at: (-scores[at], at))
    fitting = [tables[at] for at in order if scores[at] > 0]
    targets = {key.table.casefold() for table in fitting for key in table.foreign_keys}
    near = [table for table in tables if table.name.casefold() in targets]
    rest = [] if fitting else [tables[at] for at in order]
    return list({table.name: table for table in [*fitting, *near, *rest]}.values())


def _others(tables: Iterable[Table], taken: Sequence[Table], source: str) -> list[ContextBlock]:
    """Lists the tables that are not shown, with their relations."""
    shown = {table.name for table in taken}
    rest = [table for table in tables if table.name not in shown]
    if not rest:
        return []
    names = [named(table.name) for table in rest[:_MOST_NAMED]]
    more = f" and {len(rest) - _MOST_NAMED} more" if len(rest) > _MOST_NAMED else ""
    lines = [f"tables that are not shown: {', '.join(names)}{more}"]
    lines += [line for table in rest[:_MOST_NAMED] for line in table.relations()]
    return [ContextBlock(OTHERS, "\n".join(lines), source)]


_LONGEST_SAMPLE: Final = 41
_ROWS: Final = 50
_STEPS: Final = (10_000, 2_000)  # a look that takes more instructions than the product is ended
_TABLES: Final = """
    SELECT name, type FROM sqlite_master
    WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name
"""
_COLUMNS: Final = 'SELECT name, type, pk, "notnull" FROM pragma_table_xinfo(?) WHERE hidden <> 1'
_KEYS: Final = 'SELECT id, "from", "table", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq'


def read_schema(
    path: Path, *, samples: int = 3, tell: Callable[[str], None] = lambda _: None
) -> list[Table]:
    """Reads the tables and views of a database; reports and skips unreadable ones."""
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
        hint = Sentence("give the path of an SQLite database that can be read")
        raise Misconfigured(
            Sentence("cannot read the database {name}: {error}", name=path.name, error=error),
            hint=hint,
        ) from None
    return tables


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _limit(database: sqlite3.Connection) -> None:
    """Limits the time of each query, since a view may hide anything."""
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
    """Returns a few different values per column, from the first rows."""
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
    return clip(str(value), _LONGEST_SAMPLE)


def _keys(database: sqlite3.Connection, table: str) -> Iterator[ForeignKey]:
    keys: dict[int, tuple[str, list[str], list[str]]] = {}
    for number, column, target, to in database.execute(_KEYS, (table,)):
        _, columns, targets = keys.setdefault(number, (str(target), [], []))
        columns.append(str(column))
        targets += [str(to)] if to is not None else []
    for target, columns, targets in keys.values():
        yield ForeignKey(tuple(columns), target, tuple(targets))
