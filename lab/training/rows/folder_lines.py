"""Writes the folder of a made-up world as the product tells it to the model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lab.training.rows.tables import Table
from plansmith_desk.folder_brief import BriefLines, Entry, brief_lines, examples

_MOST: Final = 10_000


def folder_lines(entries: Sequence[Entry], request: str) -> BriefLines:
    """Returns the lines that the product would show for a request."""
    return brief_lines(entries, request, tokens=_MOST)


def table_entry(table: Table) -> Entry:
    """Returns the entry of a table: its columns, with all values or examples."""
    columns = ", ".join(
        f"{each.name} ({_values(table, place)})" for place, each in enumerate(table.columns)
    )
    return Entry(table.path, columns)


def _values(table: Table, place: int) -> str:
    listed = table.listed(table.columns[place])
    if listed:
        return "/".join(listed)
    seen = dict.fromkeys(row[place] for row in table.rows if row[place] is not None)
    return examples(list(seen))
