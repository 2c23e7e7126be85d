"""Puts right the columns of joined tables that a small model took from another table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import SequenceMatcher
from typing import Final

Columns = frozenset[str]
_TEXTS: Final = re.compile(r"('(?:[^']|'')*')")
_SOURCE: Final = re.compile(
    r"\b(?:FROM|JOIN)\s+(?:\"([^\"]+)\"|([^\s(),;'\"]+))(?:\s+AS\b)?"
    r"(?:\s+(?!(?:ON|WHERE|JOIN|LEFT|RIGHT|INNER|OUTER|CROSS|GROUP|ORDER|LIMIT|USING|HAVING"
    r"|UNION)\b)(\w+))?",
    re.IGNORECASE,
)
_COLUMN: Final = r"(?<![\w.])(\w+)\.(\"[^\"]+\"|\w+)"
_ONE: Final = re.compile(_COLUMN)
_EQUAL: Final = re.compile(rf"{_COLUMN}\s*=\s*{_COLUMN}")
_ALIKE: Final = 0.5  # a key is taken for another one only if their names are near


def mended_columns(query: str, columns_of: Callable[[str], Columns | None]) -> str:
    """Returns a query whose joined columns are there, if it is clear which are meant.

    `columns_of` gives all columns of a table in small letters; None if they are not all known.
    """
    tables: dict[str, Columns] = {}
    for quoted, bare, alias in _SOURCE.findall(query):
        known = columns_of(quoted or bare)
        if known is None:
            return query
        tables[(alias or quoted or bare).casefold()] = known
    parts = _TEXTS.split(query)
    for place in range(0, len(parts), 2):
        keyed = _EQUAL.sub(lambda found: _keys(found, tables), parts[place])
        parts[place] = _ONE.sub(lambda found: _owned(found, tables), keyed)
    return "".join(parts)


def _keys(found: re.Match[str], tables: Mapping[str, Columns]) -> str:
    """Returns a comparison of two columns with a key that both tables have."""
    first, one, second, other = found.groups()
    mine, theirs = (tables.get(each.casefold()) for each in (first, second))
    if mine is None or theirs is None:
        return found[0]
    wrong = [name for name, there in ((one, mine), (other, theirs)) if not _has(there, name)]
    # A column that is there stays: only the other side can have been taken from another table.
    right = {_plain(each) for each in (one, other) if each not in wrong}
    shared = (right or mine) & mine & theirs
    keys = [name for name in shared if all(_near(name, each) >= _ALIKE for each in wrong)]
    if not wrong or len(keys) != 1:
        return found[0]
    return f"{first}.{_written(keys[0])} = {second}.{_written(keys[0])}"


def _owned(found: re.Match[str], tables: Mapping[str, Columns]) -> str:
    """Returns a column with the one table of the query that has it."""
    alias, column = found.groups()
    mine = tables.get(alias.casefold())
    if mine is None or _has(mine, column):
        return found[0]
    owners = [name for name, columns in tables.items() if _has(columns, column)]
    clear = len(owners) == 1 and re.fullmatch(r"\w+", owners[0])
    return f"{owners[0]}.{column}" if clear else found[0]


def _plain(column: str) -> str:
    return column.strip('"').casefold()


def _has(columns: Columns, column: str) -> bool:
    return _plain(column) in columns


def _written(column: str) -> str:
    return column if re.fullmatch(r"[^\W\d]\w*", column) else f'"{column}"'


def _near(name: str, column: str) -> float:
    return SequenceMatcher(None, name, _plain(column)).ratio()
