"""Writes rows as the text of a file: CSV, TSV, JSON or Markdown."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Any, Final

from plansmith.errors import ToolFailed
from plansmith.plan.data import json_text
from plansmith.plan.sentence import Sentence
from plansmith.text import is_formula
from plansmith_desk.tables.read import is_number

_RETURN: Final = re.compile(r"\r\n?")
_ENDINGS: Final = (".csv", ".tsv", ".json", ".md")
Rows = Sequence[Sequence[Any]]


def check_ending(path: str) -> None:
    """Refuses a file of a kind that cannot be written."""
    if not path.lower().endswith(_ENDINGS):
        hint = Sentence("end it with .csv, .tsv, .json or .md")
        raise ToolFailed(Sentence("{name} has no known extension", name=path), hint=hint)


def written(path: str, names: Sequence[str], rows: Rows, notes: list[str]) -> str:
    """Returns the text of a file by its extension."""
    check_ending(path)
    ending = path.lower().rpartition(".")[2]
    if ending == "json":
        objects = [dict(zip(names, row, strict=True)) for row in rows]
        return json_text(objects, indent=1) + "\n"
    if ending == "md":
        return _markdown(names, rows)
    return _csv(names, rows, "\t" if ending == "tsv" else ",", notes)


def _csv(names: Sequence[str], rows: Rows, mark: str, notes: list[str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=mark, lineterminator="\n")
    guarded = 0
    all_rows: list[Sequence[Any]] = [names, *rows]
    for row in all_rows:
        safe = [_safe(each) for each in row]
        guarded += sum(new == f"'{old}" for new, old in zip(safe, row, strict=True))
        writer.writerow(safe)
    if guarded:
        notes.append(f"{guarded} texts that a spreadsheet would run begin with ' now")
    return out.getvalue()


def _safe(value: Any) -> Any:
    """Escapes a text that a spreadsheet would take for a formula."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return value
    value = _RETURN.sub("\n", value)  # alone, it would begin a row, and it is not quoted
    return f"'{value}" if is_formula(value) and not is_number(value) else value


def _markdown(names: Sequence[str], rows: Rows) -> str:
    def is_numeric(place: int) -> bool:
        cells = [row[place] for row in rows]
        return bool(rows) and all(
            type(each) is not bool and isinstance(each, int | float | None) for each in cells
        )

    marks = ["---:" if is_numeric(place) else "---" for place in range(len(names))]
    lines = [map(_cell, names), marks, *(map(_cell, row) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: Any) -> str:
    """Writes a value on one line; marks that would end the cell or become HTML are escaped."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = " ".join(str(value).split())
    for mark, instead in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;")):
        text = text.replace(mark, instead)
    return text
