"""Tables in memory asked with SQL: a question in parts made a statement, run by SQLite."""

from __future__ import annotations

import difflib
import math
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

from plansmith.adapters.tools.sql_guard import guard, said, select
from plansmith.adapters.tools.sql_rows import Found, RowLimits, distinct
from plansmith.adapters.tools.sql_sums import exact_aggregates, exact_mean
from plansmith.adapters.tools.tables_read import Data
from plansmith.adapters.tools.toolset import Job, clip
from plansmith.errors import ToolFailed

_AFFINITY: Final = {"integer": "INTEGER", "number": "REAL", "boolean": "INTEGER"}
_COMPARE: Final = {"=": "=", "!=": "IS NOT", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
CONDITIONS: Final = (
    *_COMPARE,
    *("contains", "starts_with", "ends_with", "in", "not_in", "missing", "present"),
)
AGGREGATES: Final = {
    "count": "count({})",
    "distinct": "count(DISTINCT {})",
    "sum": "sum({})",
    "mean": "avg({})",
    "median": "median({})",
    "stdev": "stdev({})",
    "min": "min({})",
    "max": "max({})",
}


class _Numbers:
    """Collects the numbers of a group; texts among them are left out as SQL does."""

    def __init__(self) -> None:
        self._values: list[int | float] = []

    def step(self, value: Any) -> None:
        if isinstance(value, int | float):
            self._values.append(value)


class _Median(_Numbers):
    def finalize(self) -> Any:
        ordered = sorted(self._values)
        middle = len(ordered) // 2
        if not ordered:
            return None
        if len(ordered) % 2:
            return ordered[middle]
        return exact_mean(ordered[middle - 1 : middle + 1])


class _Stdev(_Numbers):
    def finalize(self) -> Any:
        count = len(self._values)
        if count < 2:
            return None
        mean = math.fsum(self._values) / count
        return math.sqrt(math.fsum((each - mean) ** 2 for each in self._values) / (count - 1))


@contextmanager
def memory(
    tables: Mapping[str, Data], job: Job, limits: RowLimits
) -> Generator[sqlite3.Connection]:
    """A database in memory with these tables, that can only be read."""
    with said(limits):
        database = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            for name, data in tables.items():
                _fill(database, name, data)
            database.commit()
            database.create_function("folded", 1, _folded, deterministic=True)
            exact_aggregates(database)
            for name, made in (("median", _Median), ("stdev", _Stdev)):
                database.create_aggregate(name, 1, made)
            guard(database, job, limits)
            yield database
        finally:
            database.close()


def _fill(database: sqlite3.Connection, name: str, data: Data) -> None:
    columns = ", ".join(
        f"{quoted(each)} {_AFFINITY.get(kind, 'TEXT')}" for each, kind in data.columns
    )
    database.execute(f"CREATE TABLE {quoted(name)} ({columns})")
    places = ", ".join("?" * len(data.columns))
    # Names are quoted by the rules of SQL, and values never part of the statement.
    database.executemany(f"INSERT INTO {quoted(name)} VALUES ({places})", data.rows)  # noqa: S608


def _folded(value: object) -> str | None:
    return None if value is None else str(value).casefold()


def quoted(name: str) -> str:
    """A name as SQL takes any."""
    if "\0" in name:
        raise ToolFailed("a column's name has a zero byte", hint="rename it")
    return '"' + name.replace('"', '""') + '"'


class Question:
    """What is asked of one table, or of two joined, as a statement with its values."""

    def __init__(self, given: Mapping[str, Any], left: Data, right: Data | None) -> None:
        self._given = given
        self._values: list[Any] = []
        self.types = dict(left.columns)
        self._source = "left_table"
        if right is not None:
            self._source = self._joined(given["join"], left, right)

    def statement(self) -> tuple[str, list[Any]]:
        """The statement and the values of its placeholders."""
        given = self._given
        where = " AND ".join(self._condition(each) for each in given.get("where", []))
        groups = [self._column(name) for name in given.get("group_by", [])]
        chosen = self._chosen()
        text = f"SELECT {'DISTINCT ' if given.get('distinct') else ''}{', '.join(chosen)}"
        text += f" FROM {self._source}"
        text += f" WHERE {where}" if where else ""
        text += f" GROUP BY {', '.join(groups)}" if groups else ""
        order = [self._order(each) for each in given.get("sort", [])]
        text += f" ORDER BY {', '.join(order)}" if order else ""
        return text, self._values

    def _chosen(self) -> list[str]:
        given = self._given
        aggregates: list[Mapping[str, Any]] = given.get("aggregate", [])
        groups: list[str] = given.get("group_by", [])
        plain: list[str] = given.get("columns", groups)
        if aggregates or groups:
            strays = [name for name in plain if name not in groups]
            told = {each.get("column") for each in aggregates}
            if not told.issuperset(strays):
                hint = "group by it, or leave it out"
                raise ToolFailed(f"{strays[0]!r} is neither grouped by nor aggregated", hint=hint)
            plain = [name for name in plain if name in groups]
        if not plain and not aggregates:
            plain = list(self.types)
        named = [f"{self._column(name)} AS {quoted(name)}" for name in plain]
        self._named: set[str] = set(plain)
        return named + [self._aggregate(each) for each in aggregates]

    def _aggregate(self, given: Mapping[str, Any]) -> str:
        function, column = given["function"], given.get("column")
        if column is None and function != "count":
            raise ToolFailed(f"{function} needs a column", hint="say of which column")
        inner = "*" if column is None else self._column(column)
        name = given.get("as") or (function if column is None else f"{function}_{column}")
        if name in self._named:
            raise ToolFailed(f"two columns would be called {name!r}", hint="give one another `as`")
        self._named.add(name)
        return f"{AGGREGATES[function].format(inner)} AS {quoted(name)}"

    def _order(self, given: Mapping[str, Any]) -> str:
        name = given["column"]
        text = quoted(name) if name in self._named else self._column(name)
        return f"{text} {'DESC' if given.get('descending') else 'ASC'} NULLS LAST"

    def _condition(self, given: Mapping[str, Any]) -> str:
        column, test = self._column(given["column"]), given["is"]
        if test in ("missing", "present"):
            return f"{column} IS {'NOT ' if test == 'present' else ''}NULL"
        if "value" not in given:
            raise ToolFailed(f"{test!r} needs a value", hint="compare with something")
        value = given["value"]
        if test in ("in", "not_in"):
            several = cast("list[object]", value) if isinstance(value, list) else [value]
            self._values += [_bound(each) for each in several]
            inside = f"{column} IN ({', '.join('?' * len(several))})"
            # What is missing is not in any list.
            return inside if test == "in" else f"({column} IS NULL OR NOT {inside})"
        if test in _COMPARE:
            self._values.append(_bound(value))
            return f"{column} {_COMPARE[test]} ?"
        text = str(value).casefold()
        if test == "contains":
            self._values.append(text)
            return f"instr(folded({column}), ?) > 0"
        if not text:
            return f"{column} IS NOT NULL"
        self._values += [len(text), text]
        part = "1, ?" if test == "starts_with" else "-?"
        return f"substr(folded({column}), {part}) = ?"

    def _joined(self, given: Mapping[str, Any], left: Data, right: Data) -> str:
        """Both tables as one; a column of the second that both have gets a number."""
        pairs = [(each["left"], each.get("right", each["left"])) for each in given["on"]]
        for one, other in pairs:
            known(one, left.names)
            known(other, right.names)
        keys = {other for _, other in pairs}
        extra = [name for name in right.names if name not in keys]
        names = distinct([*left.names, *extra])
        self.types = dict(zip(names, [*dict(left.columns).values()], strict=False))
        kinds = dict(right.columns)
        new = names[len(left.names) :]
        self.types |= {name: kinds[old] for name, old in zip(new, extra, strict=True)}
        shown = [f"l.{quoted(name)} AS {quoted(name)}" for name in left.names]
        shown += [
            f"r.{quoted(old)} AS {quoted(name)}" for name, old in zip(new, extra, strict=True)
        ]
        same = " AND ".join(f"l.{quoted(one)} = r.{quoted(other)}" for one, other in pairs)
        kind = "LEFT JOIN" if given.get("keep_all") else "JOIN"
        return f"(SELECT {', '.join(shown)} FROM left_table l {kind} right_table r ON {same})"  # noqa: S608

    def _column(self, name: str) -> str:
        known(name, list(self.types))
        return quoted(name)


def known(name: str, names: Sequence[str]) -> None:
    """Refuse a column that is not there, with the one that may be meant."""
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {clip(', '.join(names))}"
    raise ToolFailed(f"there is no column {clip(name, 60)!r}", hint=hint)


def ask(
    database: sqlite3.Connection, question: Question, rows: int, offset: int
) -> tuple[Found, int]:
    """The rows of an answer, and how many there are in all."""
    text, values = question.statement()
    total = database.execute(f"SELECT count(*) FROM ({text})", values).fetchone()[0]  # noqa: S608
    found = select(database, f"{text} LIMIT {rows + 1:d} OFFSET {offset:d}", values, rows)
    kinds = {"date", "datetime", "boolean"}
    found.columns = [
        (name, question.types[name] if question.types.get(name) in kinds else kind)
        for name, kind in found.columns
    ]
    _restore(found)
    return found, int(total)


def _restore(found: Found) -> None:
    """SQLite keeps true and false as 1 and 0."""
    flags = [place for place, (_, kind) in enumerate(found.columns) if kind == "boolean"]
    if flags:
        found.rows = [
            [
                bool(each) if place in flags and each is not None else each
                for place, each in enumerate(row)
            ]
            for row in found.rows
        ]


def _bound(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise ToolFailed("a column is compared with a list or an object", hint="use `in`")
    if isinstance(value, int) and value.bit_length() > 63:
        return str(value)
    return value
