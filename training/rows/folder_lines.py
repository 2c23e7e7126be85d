"""Writes the folder of a made-up world as the product tells it to the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from plansmith.adapters.tools.folder_brief.details import Entry
from plansmith.adapters.tools.folder_brief.layout import brief_lines
from training.rows.tables import Table

_LONGEST: Final = 40
_MOST: Final = 10_000


def folder_lines(entries: Sequence[Entry], request: str) -> tuple[str, ...]:
    """Returns the lines that the product would show for a request."""
    return tuple(brief_lines(entries, request, tokens=_MOST))


def table_entry(table: Table) -> Entry:
    """Returns the entry of a table: its columns, with all values or two examples."""
    columns = ", ".join(
        f"{each.name} ({_values(table, place)})" for place, each in enumerate(table.columns)
    )
    return Entry(table.path, f"{len(table.rows)} rows: {columns}")


def _values(table: Table, place: int) -> str:
    listed = table.listed(table.columns[place])
    if listed:
        return "/".join(listed)
    seen = dict.fromkeys(row[place] for row in table.rows if row[place] is not None)
    return ", ".join(_short(each) for each in list(seen)[:2])


def _short(value: Any) -> str:
    return f"{value:.12g}" if isinstance(value, float) else str(value)[:_LONGEST]
