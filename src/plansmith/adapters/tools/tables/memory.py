"""Loads tables into a read-only in-memory SQLite database; finds the files a query names."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Container, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from plansmith.adapters.tools.sql.guard import (
    converting_errors,
    exact_aggregates,
    exact_mean,
    guard,
)
from plansmith.adapters.tools.sql.rows import RowLimits
from plansmith.adapters.tools.tables.read import Data
from plansmith.adapters.tools.toolset import Job, known
from plansmith.errors import ToolFailed

_AFFINITY: Final = {"integer": "INTEGER", "number": "REAL", "boolean": "INTEGER"}


class _Numbers:
    """Collects the numbers of a group; ignores texts."""

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
    """Returns a read-only database in memory with these tables."""
    with converting_errors(limits):
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
    """Quotes any name for SQL."""
    if "\0" in name:
        raise ToolFailed("a column's name has a zero byte", hint="rename it")
    return '"' + name.replace('"', '""') + '"'


ENDINGS: Final = (".csv", ".tsv", ".json", ".jsonl")
_SOURCE: Final = re.compile(
    r"""\b(from|join)(\s+)("[^"]+"|'[^']+'|`[^`]+`|\[[^\]]+\]|[\w./-]*\w)""", re.IGNORECASE
)
_TABLE_WORDS: Final = re.compile(r"\b(?:csv|tsv|table|spreadsheet)\b|表格", re.IGNORECASE)
_SHORTEST: Final = 3


def named_files(
    query: str, files: Sequence[str], *, known: Container[str] = ()
) -> tuple[str, dict[str, str]]:
    """Replaces the files in a query by table names; returns query and files by name.

    A file can be named by its path or by its name without extension; names in `known` are already
    tables.
    """
    found: dict[str, str] = {}

    def put(match: re.Match[str]) -> str:
        name = match[3].strip("\"'`[]")
        path = None if name in known else _file(name, files)
        if path is None:
            return match[0]
        found[name] = path
        return f'{match[1]}{match[2]}"{name}"'

    return _SOURCE.sub(put, query), found


def _file(name: str, files: Sequence[str]) -> str | None:
    """Returns the one file of this name; None if it could be several."""
    wanted = name.removeprefix("./").casefold()
    for called in (_path, _last, _stem):
        fitting = [path for path in files if called(path) == wanted]
        if fitting:
            return fitting[0] if len(fitting) == 1 else None
    return None


def _path(path: str) -> str:
    return path.casefold()


def _last(path: str) -> str:
    return path.casefold().rpartition("/")[2]


def _stem(path: str) -> str:
    return _last(path).rpartition(".")[0]


def meant_files(request: str, files: Sequence[str]) -> list[str]:
    """Returns the files that a request names; all files if it only mentions tables."""
    text = request.casefold()
    named = [path for path in files if _last(path) in text]
    if not named:
        named = [path for path in files if len(_stem(path)) >= _SHORTEST and _is_word(path, text)]
    if not named and _TABLE_WORDS.search(request):
        named = [path for path in files if path.lower().endswith((".csv", ".tsv"))]
    return named


def _is_word(path: str, text: str) -> bool:
    return bool(re.search(rf"(?<![a-z0-9_]){re.escape(_stem(path))}(?![a-z0-9_])", text))
