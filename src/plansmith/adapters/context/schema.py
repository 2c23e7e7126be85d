"""Database schemas: the tables that fit a request, as text; any database, given its tables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from plansmith.adapters.context.lexical import LexicalRanker
from plansmith.adapters.models.tokens import count_tokens
from plansmith.planner.briefing.token_budget import Count, clipped
from plansmith.ports import ContextBlock, Ranker

OTHERS: Final = "other database tables"
_PLAIN: Final = re.compile(r"[^\W\d][\w$]{0,127}")
_MOST_NAMED: Final = 40


@dataclass(frozen=True, slots=True)
class Column:
    """A column, with a few of the values it holds."""

    name: str
    type: str = ""
    primary: bool = False
    required: bool = False
    comment: str = ""
    samples: tuple[str, ...] = ()

    def line(self) -> str:
        """The column as a planner reads it."""
        facts = [" ".join(self.type.split())] if self.type else []
        facts += ["primary key"] * self.primary + ["not null"] * self.required
        line = f"- {named(self.name)} {', '.join(facts)}".rstrip()
        line += f" -- {json.dumps(self.comment, ensure_ascii=False)}" if self.comment else ""
        values = ", ".join(json.dumps(value, ensure_ascii=False) for value in self.samples)
        return f"{line}; such as {values}" if values else line


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns that point at columns of another table."""

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
        """The table as a planner reads it, one column a line."""
        comment = f" -- {json.dumps(self.comment, ensure_ascii=False)}" if self.comment else ""
        head = f"{self.kind} {named(self.name)}{comment}"
        return "\n".join([head, *(column.line() for column in self.columns), *self.relations()])

    def relations(self) -> Iterator[str]:
        """Where its foreign keys point, one a line."""
        for key in self.foreign_keys:
            ends = ", ".join(map(named, key.columns)), ", ".join(map(named, key.targets))
            target = f"({ends[1]})" if ends[1] else ""
            yield f"{named(self.name)}({ends[0]}) -> {named(key.table)}{target}"


def named(name: str) -> str:
    """A name as it is when it is plain, else quoted so that it stays on its line."""
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
    """A block a table, those that fit the query first; others are at least named."""
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
    """The tables that fit a query, best first, with those they point at; all when none does."""
    texts = tuple(f"{table.name} {table.name} {table.comment}\n{table.text()}" for table in tables)
    scores = ranker.scores(query, texts)
    order = sorted(range(len(tables)), key=lambda at: (-scores[at], at))
    fitting = [tables[at] for at in order if scores[at] > 0]
    targets = {key.table.casefold() for table in fitting for key in table.foreign_keys}
    near = [table for table in tables if table.name.casefold() in targets]
    rest = [] if fitting else [tables[at] for at in order]
    return list({table.name: table for table in [*fitting, *near, *rest]}.values())


def _others(tables: Iterable[Table], taken: Sequence[Table], source: str) -> list[ContextBlock]:
    """The tables that are not shown, by their names and relations."""
    shown = {table.name for table in taken}
    rest = [table for table in tables if table.name not in shown]
    if not rest:
        return []
    names = [named(table.name) for table in rest[:_MOST_NAMED]]
    more = f" and {len(rest) - _MOST_NAMED} more" if len(rest) > _MOST_NAMED else ""
    lines = [f"tables that are not shown: {', '.join(names)}{more}"]
    lines += [line for table in rest[:_MOST_NAMED] for line in table.relations()]
    return [ContextBlock(OTHERS, "\n".join(lines), source)]
