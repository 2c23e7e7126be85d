"""Describes the tables of databases that fit a request, and reads the schema of SQLite files."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from plansmith.errors import ToolFailed
from plansmith.plan.sentence import Sentence
from plansmith.ports import ContextBlock
from plansmith.text import clip
from plansmith_desk.sql.rows import opened
from plansmith_planner.context.documents import LexicalRanker
from plansmith_planner.context.token_budget import clipped
from plansmith_planner.models.tokens import count_tokens

OTHERS: Final = "other database tables"
_PLAIN: Final = re.compile(r"[^\W\d][\w$]{0,127}")
_MAX_NAMED: Final = 40


@dataclass(frozen=True, slots=True)
class Column:
    """A column, with a few of its values."""

    name: str
    type: str = ""
    primary: bool = False
    required: bool = False
    comment: str = ""
    samples: list[str] = field(default_factory=list[str])

    def line(self) -> str:
        facts = [" ".join(self.type.split())] if self.type else []
        facts += ["primary key"] * self.primary + ["not null"] * self.required
        line = f"- {_named(self.name)} {', '.join(facts)}".rstrip() + _remark(self.comment)
        values = ", ".join(json.dumps(value, ensure_ascii=False) for value in self.samples)
        return f"{line}; such as {values}" if values else line


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns that refer to columns of another table."""

    columns: list[str]
    table: str
    targets: list[str]


@dataclass(frozen=True, slots=True)
class Table:
    """A table or a view."""

    name: str
    columns: list[Column] = field(default_factory=list[Column])
    foreign_keys: list[ForeignKey] = field(default_factory=list[ForeignKey])
    kind: str = "table"
    comment: str = ""

    def text(self) -> str:
        """Returns the table as a planner reads it, one column per line."""
        head = f"{self.kind} {_named(self.name)}{_remark(self.comment)}"
        return "\n".join([head, *(column.line() for column in self.columns), *self.relations()])

    def relations(self) -> Iterator[str]:
        for key in self.foreign_keys:
            own, targets = (", ".join(map(_named, names)) for names in (key.columns, key.targets))
            target = f"({targets})" if targets else ""
            yield f"{_named(self.name)}({own}) -> {_named(key.table)}{target}"


def _named(name: str) -> str:
    """Returns a plain name as it is; quotes any other so that it stays on one line."""
    return name if _PLAIN.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _remark(comment: str) -> str:
    return f" -- {json.dumps(comment, ensure_ascii=False)}" if comment else ""


def schema_blocks(
    tables: Sequence[Table], query: str, *, token_limit: int, source: str = ""
) -> list[ContextBlock]:
    """Returns one block per table, best fit first; lists the others by name."""
    order = _relevant(tables, query)
    blocks: list[ContextBlock] = []
    for at, table in enumerate(order):
        tried = [*blocks, ContextBlock(f"database {table.kind}", table.text(), source)]
        others = _others(tables, order[: at + 1], source)
        if sum(count_tokens(block.text) for block in [*tried, *others]) > token_limit:
            break
        blocks = tried
    others = _others(tables, order[: len(blocks)], source)
    if not blocks and order:
        text = clipped(order[0].text(), tokens=token_limit * 2 // 3, count=count_tokens)
        blocks = [ContextBlock(f"database {order[0].kind}", text, source)] if text else []
    left = token_limit - sum(count_tokens(block.text) for block in blocks)
    texts = (clipped(block.text, tokens=left, count=count_tokens) for block in others)
    return blocks + [ContextBlock(OTHERS, text, source) for text in texts if text]


def _relevant(tables: Sequence[Table], query: str) -> list[Table]:
    """Returns the tables that fit a query, best first, and those they refer to; else all."""
    texts = tuple(f"{table.name} {table.name} {table.comment}\n{table.text()}" for table in tables)
    scores = LexicalRanker().scores(query, texts)
    order = sorted(range(len(tables)), key=lambda at: (-scores[at], at))
    fitting = [tables[at] for at in order if scores[at] > 0]
    targets = {key.table.casefold() for table in fitting for key in table.foreign_keys}
    near = [table for table in tables if table.name.casefold() in targets]
    rest = [] if fitting else [tables[at] for at in order]
    return list({table.name: table for table in [*fitting, *near, *rest]}.values())


def _others(tables: Sequence[Table], taken: Sequence[Table], source: str) -> list[ContextBlock]:
    names_taken = {table.name for table in taken}
    rest = [table for table in tables if table.name not in names_taken]
    if not rest:
        return []
    names = [_named(table.name) for table in rest[:_MAX_NAMED]]
    more = f" and {len(rest) - _MAX_NAMED} more" if len(rest) > _MAX_NAMED else ""
    lines = [f"tables that are not shown: {', '.join(names)}{more}"]
    lines += [line for table in rest[:_MAX_NAMED] for line in table.relations()]
    return [ContextBlock(OTHERS, "\n".join(lines), source)]


_MAX_SAMPLE: Final = 41
_SAMPLES: Final = 3
_ROWS: Final = 50
_STEPS: Final = (10_000, 2_000)  # a look that takes more instructions than the product is ended
_TABLES: Final = """
    SELECT name, type FROM sqlite_master
    WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name
"""
_COLUMNS: Final = 'SELECT name, type, pk, "notnull" FROM pragma_table_xinfo(?) WHERE hidden <> 1'
_KEYS: Final = 'SELECT id, "from", "table", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq'


def read_schema(path: Path) -> list[Table]:
    """Reads the tables and views of a SQLite file; skips unreadable ones."""
    tables: list[Table] = []
    try:
        with opened(path) as database:
            for name, kind in database.execute(_TABLES).fetchall():
                calls = iter(range(_STEPS[1]))

                def is_late(left: Iterator[int] = calls) -> bool:
                    return next(left, None) is None

                # A view may hide anything: the time of a look is limited.
                database.set_progress_handler(is_late, _STEPS[0])
                with suppress(sqlite3.Error):
                    tables.append(_table(database, str(name), str(kind)))
    except sqlite3.Error as error:
        message = Sentence("cannot read the database {name}: {error}", name=path.name, error=error)
        raise ToolFailed(message) from None
    return tables


def _table(database: sqlite3.Connection, name: str, kind: str) -> Table:
    columns = [
        Column(str(column), str(type_ or ""), primary=bool(primary), required=bool(required))
        for column, type_, primary, required in database.execute(_COLUMNS, (name,))
    ]
    # A view is a query of someone else's: it is described and never run.
    if kind == "table":
        _add_samples(database, name, columns)
    keys: dict[int, ForeignKey] = {}
    for number, column, target, to in database.execute(_KEYS, (name,)):
        key = keys.setdefault(number, ForeignKey([], str(target), []))
        key.columns.append(str(column))
        if to is not None:
            key.targets.append(str(to))
    return Table(name, columns, list(keys.values()), kind)


def _add_samples(database: sqlite3.Connection, table: str, columns: Sequence[Column]) -> None:
    quoted = '"' + table.replace('"', '""') + '"'
    # The name is one the database itself gave, quoted by the rules of SQL.
    cursor = database.execute(f"SELECT * FROM {quoted} LIMIT {_ROWS}")  # noqa: S608
    names = [str(column[0]) for column in cursor.description]
    samples = {column.name: column.samples for column in columns}
    for row in cursor:
        for name, value in zip(names, row, strict=True):
            text = "" if value is None or isinstance(value, bytes) else str(value)
            known, sample = samples.get(name, []), clip(text, _MAX_SAMPLE)
            if sample and sample not in known and len(known) < _SAMPLES:
                known.append(sample)
