"""What all databases share: rows as JSON within size limits, and what is wrong with a statement."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, cast

from plansmith.errors import ToolFailed
from plansmith.plan.data import MAX_INTEGER_BITS, Json, flaws, written_number
from plansmith.plan.sentence import Sentence
from plansmith.tools.toolset import NOTES, TEXT, items, noted
from plansmith_desk.tool_specs import COUNT, YES, record

Parameters = Sequence[Any] | Mapping[str, Any]
ONLY_READS: Final = Sentence("this tool only reads: give one SELECT over the tables")
_LONGEST_NAME: Final = 200
ROWS: Final[dict[str, Any]] = record(
    {
        "columns": items(record({"name": TEXT, "type": TEXT})),
        "rows": items({"type": "object"}),
        "count": {**COUNT, "description": "How many rows are given."},
        "more": {**YES, "description": "Whether there are more than are given."},
    },
    notes=NOTES,
)


@dataclass(frozen=True, slots=True)
class RowLimits:
    """Limits: rows, length of one value and of all, time and memory of a statement."""

    rows: int = 100
    most_rows: int = 1_000
    letters_each: int = 4_000
    letters_all: int = 400_000
    seconds: float = 20.0
    memory_bytes: int = 1 << 30


@dataclass(slots=True)
class Data:
    """A table in memory: columns with types, rows of plain values, and where it came from.

    `more` says that these are only the first of its rows.
    """

    columns: list[tuple[str, str]]
    rows: list[Any]
    notes: list[str] = field(default_factory=list[str])
    source: str = ""
    more: bool = False

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self.columns]


def as_result(found: Data, limits: RowLimits) -> dict[str, Json]:
    """Makes a tool result of rows: objects by column name; clips what is too long."""
    names = distinct([name[:_LONGEST_NAME] for name in found.names])
    notes = list(found.notes)
    if names != found.names:
        notes.append("columns without a name, with the same or a very long one were renamed")
    rows: list[Json] = []
    cut, left, most = 0, limits.letters_all, limits.letters_each
    for row in found.rows:
        made = {name: shortened(value, most) for name, value in zip(names, row, strict=True)}
        for name, value in made.items():
            if isinstance(value, str) and len(value) > most:
                made[name] = value[:most]
                cut += 1
            cell = made[name]
            left -= len(cell) if isinstance(cell, str) else max(8, len(json.dumps(cell)))
        if left < 0:
            notes.append(f"only {len(rows)} rows are given: all are too long together")
            break
        rows.append(made)
    if found.more and len(rows) == len(found.rows):
        notes.append(f"only the first {len(rows):,} rows are given: there are more")
    if cut:
        notes.append(f"{cut} values were cut to {most:,} letters")
    types = [kind for _, kind in found.columns]
    result: dict[str, Json] = {
        "columns": [{"name": n, "type": t} for n, t in zip(names, types, strict=True)],
        "rows": rows,
        "count": len(rows),
        "more": found.more or len(rows) < len(found.rows),
    }
    return noted(result, notes)


def shortened(value: Any, letters: int) -> Json:
    """Converts a value to JSON; clips it to one letter above the limit."""
    plain = plain_value(value)
    if isinstance(plain, dict | list):
        written = json.dumps(plain, ensure_ascii=False)
        return plain if len(written) <= letters else written[: letters + 1]
    return plain[: letters + 1] if isinstance(plain, str) else plain


def plain_value(value: Any) -> Json:
    """Converts a value to JSON; what has no JSON form becomes text."""
    match value:
        case None | bool():
            return value
        case int():
            return value if value.bit_length() <= MAX_INTEGER_BITS else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal():
            return _number(value)
        case bytes() | bytearray() | memoryview():
            return f"({len(cast('bytes', value)):,} bytes that are not text)"
        case dict() | list() if next(flaws(cast("object", value)), None) is None:
            return cast("Json", value)
        case _:
            return str(value).encode("utf-8", "replace").decode()


def _number(value: Decimal) -> Json:
    """Returns a decimal as number if that keeps every digit, else as text."""
    if not value.is_finite() or abs(value.adjusted()) > 300:
        return str(value)
    text = f"{value:f}"
    if "." not in text:
        return int(value)
    return written_number(text) if Decimal(repr(float(value))) == value else str(value)


def distinct(names: Iterable[str]) -> list[str]:
    """Makes column names unique and not empty."""
    found: dict[str, None] = {}
    for place, name in enumerate(names, start=1):
        wanted = name.strip() or f"column_{place}"
        number, chosen = 2, wanted
        while chosen in found:
            chosen, number = f"{wanted}_{number}", number + 1
        found[chosen] = None
    return list(found)


def parameters_of(given: Any) -> Parameters:
    """Returns the values for a statement's placeholders: a list, or an object by name."""
    values: Any = cast("dict[str, Any]", given).values() if isinstance(given, dict) else given
    for each in values:
        if isinstance(each, dict | list):
            raise ToolFailed(Sentence("a parameter is a list or an object"))
        if isinstance(each, int) and each.bit_length() > 63:
            raise ToolFailed(Sentence("a parameter has too many digits for a database"))
    return cast("Parameters", given)


class TookTooLong(ToolFailed):
    """A statement was ended, since its time was over."""


def too_long(seconds: float) -> TookTooLong:
    """Returns the error of a statement whose time was over."""
    return TookTooLong(
        Sentence("the statement took longer than {seconds} s", seconds=f"{seconds:g}"),
        hint=Sentence("ask for less: fewer rows, a filter, a LIMIT"),
    )


def database_says(why: str) -> ToolFailed:
    """Returns what a database finds wrong with a statement."""
    unknown = "no such" in why or "does not exist" in why
    names = Sentence("check the names of tables and columns") if unknown else ""
    return ToolFailed(Sentence("the database says: {why}", why=why), hint=names)
