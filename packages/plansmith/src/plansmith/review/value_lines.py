"""Shows a JSON value as lines that are safe for a terminal: texts as lines, rows as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from plansmith.plan.data import Json, json_text
from plansmith.plan.sentence import Sentence, in_language
from plansmith.text import clip, padded, safe, text_width

BAR: Final = "│ "  # before every line of a value: none can pass for one of ours
_LONGEST: Final = 1000
_MOST_LINES: Final = 20
_MOST_COLUMNS: Final = 8
_TABLE_WIDTH: Final = 88


def named_lines(name: str, value: Json, locale: str, *, whole: bool = False) -> Iterator[str]:
    """Yields a name and its value, both behind a bar; what is left out is counted without one."""
    lines = value_lines(value)
    if len(lines) > 1:
        yield f"{BAR}{safe(name)} ="
    for line in lines if whole else lines[:_MOST_LINES]:
        lead = "  " if len(lines) > 1 else f"{safe(name)} = "
        yield f"{BAR}{lead}{line if whole else line[:_LONGEST]}".rstrip()
        if len(line) > _LONGEST and not whole:
            yield _left_out("show.more_letters", len(line) - _LONGEST, locale)
    if len(lines) > _MOST_LINES and not whole:
        yield _left_out("show.more_lines", len(lines) - _MOST_LINES, locale)


def _left_out(code: str, count: int, locale: str) -> str:
    return in_language(Sentence(code, count=f"{count:,}"), locale)


def value_lines(value: Json) -> list[str]:
    """Returns a text line by line, rows as a table, and anything else as JSON."""
    if isinstance(value, list) and (rows := [each for each in value if isinstance(each, dict)]):
        columns = list(dict.fromkeys(name for row in rows for name in row))
        if len(rows) == len(value) and len(columns) <= _MOST_COLUMNS:
            return table_lines(
                columns, [[value_cell(row.get(each)) for each in columns] for row in rows]
            )
    text = value if isinstance(value, str) else json_text(value)
    if not isinstance(value, str) and len(text) > _TABLE_WIDTH:
        text = json_text(value, 1)
    return text_lines(text)


def text_lines(text: str) -> list[str]:
    """Returns the lines of a text, each without control or hidden characters."""
    return [safe(line) for line in text.replace("\r\n", "\n").removesuffix("\n").split("\n")]


def value_cell(value: Json) -> str:
    """Returns a value on one line, as it stands in a table."""
    if value is None:
        return ""
    return safe(value if isinstance(value, str) else json_text(value))


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Returns a table as lines; a column of numbers is aligned at its right, a long cell is cut."""
    most = max(_TABLE_WIDTH // max(len(columns), 1) - 2, 8)
    shown = [[clip(safe(cell), most) for cell in row] for row in (columns, *rows)]
    widths = [max(map(text_width, column)) for column in zip(*shown, strict=True)]
    is_number = [
        all(cell.strip("-").replace(".", "").isdecimal() for cell in column if cell)
        for column in zip(*shown[1:], strict=True)
    ]
    shown.insert(1, ["─" * width for width in widths])
    return ["  ".join(map(_aligned, row, widths, is_number)).rstrip() for row in shown]


def _aligned(cell: str, width: int, is_number: bool) -> str:  # noqa: FBT001 - of `map`
    return cell.rjust(width) if is_number else padded(cell, width)
