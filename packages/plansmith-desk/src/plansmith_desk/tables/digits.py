"""Gives the numbers of a query's result the digits with which their tables write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from plansmith.plan.data import WrittenNumber, written_number
from plansmith_desk.sql.rows import Found
from plansmith_desk.tables.read import Data


def keep_digits(found: Found, tables: Iterable[Data]) -> None:
    """Writes a number as its table does: SQLite has 55.0 where a file has 55.00.

    A sum has as many decimals as all numbers of the tables, if those have equally many.
    """
    by_column: dict[str, dict[float, float]] = {}
    decimals: set[int] = set()
    for data in tables:
        for place, (name, kind) in enumerate(data.columns):
            if kind == "number":
                cells = [row[place] for row in data.rows if isinstance(row[place], float)]
                by_column.setdefault(name, {}).update((each, each) for each in cells)
                decimals |= {len(repr(each).partition(".")[2]) for each in cells}
    every = {each: each for column in by_column.values() for each in column.values()}
    digits = decimals.pop() if len(decimals) == 1 else 0
    names = [name for name, _ in found.columns]
    found.rows = [
        [
            _as_written(value, by_column.get(name, every), digits)
            for name, value in zip(names, row, strict=True)
        ]
        for row in found.rows
    ]


def _as_written(value: Any, known: Mapping[float, float], digits: int) -> Any:
    if not isinstance(value, float) or isinstance(value, WrittenNumber):
        return value
    written = f"{value:.{digits}f}"
    padded = written_number(written) if digits and float(written) == value else value
    return known.get(value, padded)
