"""Tables held in an in-memory SQLite database that a statement can only read."""

from __future__ import annotations

import difflib
import math
import sqlite3
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from plansmith.adapters.tools.sql_guard import guard, said
from plansmith.adapters.tools.sql_rows import RowLimits
from plansmith.adapters.tools.sql_sums import exact_aggregates, exact_mean
from plansmith.adapters.tools.tables_read import Data
from plansmith.adapters.tools.toolset import Job, clip
from plansmith.errors import ToolFailed

_AFFINITY: Final = {"integer": "INTEGER", "number": "REAL", "boolean": "INTEGER"}


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
            exact_aggregates(database)
            for name, made in (("median", _Median), ("stdev", _Stdev)):
                database.create_aggregate(name, 1, made)
            guard(database, job, limits)
            yield database
        except sqlite3.OperationalError as error:
            _, _, missing = str(error).partition("no such column: ")
            if missing:
                known(
                    missing.rpartition(".")[2],
                    [column for data in tables.values() for column in data.names],
                )
            raise
        finally:
            database.close()


def _fill(database: sqlite3.Connection, name: str, data: Data) -> None:
    columns = ", ".join(
        f"{_quoted(each)} {_AFFINITY.get(kind, 'TEXT')}" for each, kind in data.columns
    )
    database.execute(f"CREATE TABLE {_quoted(name)} ({columns})")
    places = ", ".join("?" * len(data.columns))
    # Names are quoted by the rules of SQL, and values never part of the statement.
    database.executemany(f"INSERT INTO {_quoted(name)} VALUES ({places})", data.rows)  # noqa: S608


def _quoted(name: str) -> str:
    """A name as SQL takes any."""
    if "\0" in name:
        raise ToolFailed("a column's name has a zero byte", hint="rename it")
    return '"' + name.replace('"', '""') + '"'


def known(name: str, names: Sequence[str]) -> None:
    """Refuse a column that is not there, with the one that may be meant."""
    if name in names:
        return
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {clip(', '.join(names))}"
    raise ToolFailed(f"there is no column {clip(name, 60)!r}", hint=hint)
