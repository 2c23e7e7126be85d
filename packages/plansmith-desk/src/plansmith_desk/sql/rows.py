"""Converts rows of any database to JSON within size limits, with unique column names."""

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
from plansmith.tools.toolset import NOTES, TEXT, fields, items, noted

Parameters = Sequence[Any] | Mapping[str, Any]
COLUMNS: Final = items(fields({"name": TEXT, "type": TEXT}, "name", "type"))
_LONGEST_NAME: Final = 200
ROWS: Final[dict[str, Any]] = fields(
    {
        "columns": COLUMNS,
        "rows": items({"type": "object"}),
        "count": {"type": "integer", "minimum": 0, "description": "How many rows are given."},
        "more": {"type": "boolean", "description": "Whether there are more than are given."},
        "notes": NOTES,
    },
    *("columns", "rows", "count", "more"),
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
class Found:
    """The result of a statement: columns with types, rows, and whether there are more."""

    columns: list[tuple[str, str]]
    rows: list[Sequence[Any]]
    more: bool = False
    notes: list[str] = field(default_factory=list[str])


def as_result(found: Found, limits: RowLimits) -> dict[str, Json]:
    """Makes a tool result of rows: objects by column name; clips what is too long."""
    names = distinct([name[:_LONGEST_NAME] for name, _ in found.columns])
    notes = list(found.notes)
    if names != [name for name, _ in found.columns]:
        notes.append("columns without a name, with the same or a very long one were renamed")
    rows: list[Json] = []
    clips = _Clips(limits)
    for row in found.rows:
        made = clips.row(names, row)
        if made is None:
            notes.append(f"only {len(rows)} rows are given: all are too long together")
            break
        rows.append(made)
    if found.more and len(rows) == len(found.rows):
        notes.append(f"only the first {len(rows):,} rows are given: there are more")
    if clips.cut:
        notes.append(f"{clips.cut} values were cut to {limits.letters_each:,} letters")
    types = [kind for _, kind in found.columns]
    result: dict[str, Json] = {
        "columns": [{"name": n, "type": t} for n, t in zip(names, types, strict=True)],
        "rows": rows,
        "count": len(rows),
        "more": found.more or len(rows) < len(found.rows),
    }
    return noted(result, notes)


class _Clips:
    """Counts characters over all rows, and clipped values."""

    def __init__(self, limits: RowLimits) -> None:
        self._limits = limits
        self._letters = 0
        self.cut = 0

    def row(self, names: Sequence[str], row: Sequence[Any]) -> dict[str, Json] | None:
        """Returns a row as an object; None if it exceeds the limit."""
        made: dict[str, Json] = {}
        for name, value in zip(names, row, strict=True):
            plain = shortened(value, self._limits.letters_each)
            if isinstance(plain, str) and len(plain) > self._limits.letters_each:
                plain = plain[: self._limits.letters_each]
                self.cut += 1
            elif isinstance(plain, dict | list):
                self._letters += len(json.dumps(plain, ensure_ascii=False))
            made[name] = plain
            self._letters += len(plain) if isinstance(plain, str) else 8
        return made if self._letters <= self._limits.letters_all else None


def shortened(value: Any, letters: int) -> Json:
    """Converts a value to JSON; clips it to one letter above the limit."""
    plain = plain_value(value)
    if isinstance(plain, dict | list):
        written = json.dumps(plain, ensure_ascii=False)
        return plain if len(written) <= letters else written[: letters + 1]
    return plain[: letters + 1] if isinstance(plain, str) else plain


def plain_value(value: Any) -> Json:
    """Converts a value to JSON; what has no JSON form becomes text."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if value.bit_length() <= MAX_INTEGER_BITS else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"({len(cast('bytes', value)):,} bytes that are not text)"
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    nested = cast("object", value) if isinstance(value, dict | list) else None
    if nested is not None and next(flaws(nested), None) is None:
        return cast("Json", nested)
    return str(cast("object", value)).encode("utf-8", "replace").decode()


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
    values = list(cast("dict[str, Any]", given).values()) if isinstance(given, dict) else given
    for each in cast("list[object]", values):
        if isinstance(each, dict | list):
            raise ToolFailed(
                Sentence("a parameter is a list or an object"), hint=Sentence("give single values")
            )
        if isinstance(each, int) and each.bit_length() > 63:
            raise ToolFailed(
                Sentence("a parameter has too many digits for a database"),
                hint=Sentence("as text?"),
            )
    return cast("Parameters", given)
