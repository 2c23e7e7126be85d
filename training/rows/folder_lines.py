"""Writes the folder of a made-up world as the product tells it to the model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from training.rows.tables import Table

_BUDGET: Final = 350  # tokens, about
_LETTERS: Final = 3.5
_LONGEST: Final = 40
_WORD: Final = re.compile(r"[a-z]{3,}|\d{2,}|[\u3400-\u9fff]{2}")
_HAN_RUN: Final = re.compile(r"[\u3400-\u9fff]+")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder: its path, and what is told about it."""

    path: str
    detail: str = ""

    @property
    def line(self) -> str:
        return f"{self.path}: {self.detail}" if self.detail else self.path


def folder_lines(entries: Sequence[Entry], request: str, needed: Iterable[str]) -> tuple[str, ...]:
    """Returns the lines: what the request shares words with first, then names only."""
    must = set(needed)
    asked = words(request)
    ranked = sorted(
        entries,
        key=lambda each: (each.path not in must, -len(words(each.line) & asked), each.path),
    )
    order = [each for each in ranked if each.path in must or words(each.line) & asked]
    order = sorted(order, key=lambda each: (-len(words(each.line) & asked), each.path))
    order += sorted((each for each in ranked if each not in order), key=lambda each: each.path)
    left, lines = _BUDGET - sum(cost(each.path) for each in order), dict[str, str]()
    for each in (*(e for e in order if e.path in must), *order):
        extra = cost(each.line) - cost(each.path)
        if each.path not in lines and (left >= extra or each.path in must):
            lines[each.path] = each.line
            left -= extra
    return tuple(lines.get(each.path, each.path) for each in order)


def words(text: str) -> set[str]:
    """Returns what texts are compared by: words, and pairs of Chinese letters."""
    low = text.casefold()
    found = set(re.findall(r"[a-z]{3,}|\d{2,}", low))
    for run in _HAN_RUN.findall(low):
        found |= {run[place : place + 2] for place in range(len(run) - 1)}
    return found


def cost(text: str) -> float:
    """Returns about how many tokens a text takes."""
    wide = sum(letter > "\u2fff" for letter in text)
    return wide + (len(text) - wide) / _LETTERS


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
    if isinstance(value, float):
        return f"{value:g}" if abs(value) < 1e6 else str(value)
    return str(value)[:_LONGEST]
