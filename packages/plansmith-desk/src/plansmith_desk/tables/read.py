"""Reads tables from CSV, JSON and values; detects types and notes every guess."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from plansmith.errors import ToolFailed
from plansmith.plan.data import written_number
from plansmith.plan.sentence import Sentence
from plansmith.text import clip
from plansmith_desk.sql.rows import distinct
from plansmith_desk.tables.numbers import is_number, is_whole, marked_numbers, number_of

_BOOLEAN: Final = re.compile(r"true|false", re.IGNORECASE)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"
)
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
ENCODINGS: Final = (
    *("utf-8", "utf-16", "windows-1252", "iso-8859-1", "iso-8859-2", "iso-8859-15"),
    *("windows-1250", "windows-1251", "koi8-r", "gb18030", "big5", "shift_jis", "euc-kr"),
)
_DELIMITERS: Final = ",;\t|"
_SAMPLE: Final = 20_000


@dataclass(frozen=True, slots=True)
class TableLimits:
    """Limits of the size of files and tables."""

    bytes_each: int = 20_000_000
    rows: int = 200_000
    columns: int = 300
    cells: int = 2_000_000
    letters_each: int = 100_000


@dataclass(slots=True)
class Data:
    """A table in memory: columns with types, rows of plain values, and where it came from."""

    columns: list[tuple[str, str]]
    rows: list[list[Any]]
    notes: list[str] = field(default_factory=list[str])
    source: str = ""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self.columns]


def read_table(
    data: bytes, name: str, *, limits: TableLimits, encoding: str | None, header: bool
) -> Data:
    """Reads the table of a file: JSON and JSON lines by extension, anything else as CSV."""
    notes: list[str] = []
    text = decoded(data, name, encoding, notes)
    if name.lower().endswith((".json", ".jsonl", ".ndjson")):
        found = from_values(_json(text, name), name, limits=limits)
    else:
        found = _csv(text, name, limits=limits, header=header)
    found.notes[:0] = notes
    return found


def decoded(data: bytes, name: str, encoding: str | None, notes: list[str]) -> str:
    """Decodes a file: by its byte order mark, as UTF-8, or as Windows-1252 with a note."""
    marked = next((known for mark, known in _BOMS if data.startswith(mark)), None)
    chosen = encoding or marked or "utf-8"
    try:
        return data.decode(chosen)
    except UnicodeDecodeError:
        if encoding is not None:
            raise ToolFailed(
                Sentence("{name} is not a text in {encoding}", name=name, encoding=encoding),
                hint=Sentence("name another encoding"),
            ) from None
    if b"\0" in data:
        raise ToolFailed(
            Sentence("{name} is not a text file", name=name),
            hint=Sentence("give a CSV or JSON file"),
        )
    notes.append(f"{name} is not in UTF-8: read as Windows-1252; set encoding if that is wrong")
    return data.decode("windows-1252", "replace")


def _json(text: str, name: str) -> Any:
    try:
        if not name.lower().endswith(".json"):
            return [_parsed(line) for line in text.splitlines() if line.strip()]
        return _parsed(text)
    except (ValueError, RecursionError) as error:
        raise ToolFailed(
            Sentence("{name} is not JSON: {error}", name=name, error=clip(str(error)))
        ) from None


_parsed: Final = partial(json.loads, parse_float=written_number)


def from_values(value: Any, name: str, *, limits: TableLimits) -> Data:
    """Makes a table of a JSON value: a list of objects, an object with one such list, or a row."""
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        lists = [each for each in table.values() if _is_list_of_rows(each)]
        return from_values(lists[0] if len(lists) == 1 else [table], name, limits=limits)
    if not isinstance(value, list):
        raise ToolFailed(
            Sentence("{name} is not a list of rows", name=name),
            hint=Sentence("give a list of objects"),
        )
    listed: list[Any] = [*cast("list[object]", value)]
    if listed and all(isinstance(each, list) for each in listed):
        width = max(len(each) for each in listed)
        check_size(width, len(listed), limits)
        rows = [[*each, *[None] * (width - len(each))] for each in listed]
        return typed([f"column_{place + 1}" for place in range(width)], rows, limits)
    strange = next((each for each in listed if not isinstance(each, dict)), None)
    if strange is not None:
        hint = Sentence("every row has to be an object of columns")
        raise ToolFailed(
            Sentence(
                "{name} has a row that is {row}", name=name, row=clip(json.dumps(strange), 40)
            ),
            hint=hint,
        )
    names = list(dict.fromkeys(str(key) for each in listed for key in each))
    check_size(len(names), len(listed), limits)
    return typed(names, [[each.get(key) for key in names] for each in listed], limits)


def _is_list_of_rows(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, dict) for each in cast("list[object]", value)
    )


def _csv(text: str, name: str, *, limits: TableLimits, header: bool) -> Data:
    delimiter = delimiter_of(text[:_SAMPLE])
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    rows: list[list[Any]] = []
    try:
        for row in reader:
            if row:
                rows.append([*row])
            if len(rows) > limits.rows + 1:
                raise _too_large(limits)
    except csv.Error as error:
        hint = Sentence("a quote may be missing before that line")
        raise ToolFailed(f"{name}, line {reader.line_num}: {error}", hint=hint) from None
    if not rows:
        raise ToolFailed(
            Sentence("{name} is empty", name=name),
            hint=Sentence("give a file with a header and rows"),
        )
    notes: list[str] = []
    head = [str(each) for each in rows.pop(0)] if header else []
    check_size(max([len(head), *map(len, rows)]), len(rows), limits)
    names, rows = _padded(head, rows, notes)
    found = typed(names, rows, limits, texts=True, comma=delimiter == ";")
    found.notes[:0] = notes
    return found


def delimiter_of(sample: str) -> str:
    """Returns the delimiter: the most frequent mark that is equally often in every line."""
    plain = re.sub(r'"[^"]*"', "", sample)
    lines = [line for line in plain.splitlines()[:-1] or plain.splitlines() if line.strip()][:50]

    def score(mark: str) -> tuple[float, int]:
        counts = [line.count(mark) for line in lines]
        first = counts[0] if counts else 0
        same = sum(count == first for count in counts) / max(1, len(counts))
        return (same if first else 0.0, first)

    return max(_DELIMITERS, key=score)


def _padded(
    head: list[str], rows: list[list[Any]], notes: list[str]
) -> tuple[list[str], list[list[Any]]]:
    """Makes all rows equally wide; surplus cells get columns of their own."""
    width = max([len(head), *map(len, rows)])
    if head and width > len(head):
        many = sum(len(row) > len(head) for row in rows)
        notes.append(f"{many} rows have more cells than the header: see the columns column_…")
    short = sum(len(row) < (len(head) or width) for row in rows)
    if short:
        notes.append(f"{short} rows have fewer cells than the header: what is missing is empty")
    names = distinct([*head, *[""] * (width - len(head))])
    if head and names[: len(head)] != [each.strip() for each in head]:
        notes.append("columns without a name or with the same one were renamed")
    return names, [[*row, *[""] * (width - len(row))] for row in rows]


def typed(
    names: Sequence[str],
    rows: list[list[Any]],
    limits: TableLimits,
    *,
    texts: bool = False,
    comma: bool = False,
) -> Data:
    """Makes a table of rows: finds out the type of each column and converts its cells.

    With `texts` all cells are texts of a file; with `comma` their decimals may have a comma.
    """
    if not names:
        raise ToolFailed(
            Sentence("the table has no columns"), hint=Sentence("give rows with columns")
        )
    columns: list[tuple[str, str]] = []
    notes: list[str] = []
    for place, name in enumerate(names):
        if not texts:
            # As in a CSV file: whoever asks for empty cells finds all of them as NULL.
            for row in rows:
                row[place] = None if _is_blank(row[place]) else row[place]
        kind, convert = _kind_of_texts(rows, place) if texts else _kind_of_values(rows, place)
        marked = (
            marked_numbers(_cells(rows, place), comma=comma) if texts and kind == "text" else None
        )
        if marked is not None:
            kind, convert = marked.kind, marked.convert
            notes.append(f"{clip(name, 40)}: {marked.note}")
        for row in rows:
            row[place] = convert(row[place])
            if isinstance(row[place], str) and len(row[place]) > limits.letters_each:
                most = f"{limits.letters_each:,} letters"
                raise ToolFailed(
                    Sentence(
                        "a cell of '{name}' is longer than {most}", name=clip(name, 40), most=most
                    )
                )
        columns.append((name, kind))
    return Data(columns, rows, notes)


def check_size(columns: int, rows: int, limits: TableLimits) -> None:
    """Refuses a table that would become too large when its rows are filled up."""
    if rows > limits.rows or rows * max(1, columns) > limits.cells:
        raise _too_large(limits)
    if columns > limits.columns:
        raise ToolFailed(
            Sentence("a table has at most {most} columns", most=limits.columns),
            hint=Sentence("choose some"),
        )


def _too_large(limits: TableLimits) -> ToolFailed:
    most = f"{limits.rows:,} rows or {limits.cells:,} cells"
    return ToolFailed(
        Sentence("the table has more than {most}", most=most), hint=Sentence("use a smaller one")
    )


Convert = Callable[[Any], Any]


_FORMS: Final[tuple[tuple[str, Callable[[str], object], Convert], ...]] = (
    ("integer", is_whole, int),
    ("number", is_number, number_of),
    ("boolean", _BOOLEAN.fullmatch, lambda text: text.lower() == "true"),
    ("date", _DATE.fullmatch, str),
    ("datetime", _TIME.fullmatch, str),
)


def _kind_of_texts(rows: list[list[Any]], place: int) -> tuple[str, Convert]:
    """Returns the type of a column: text unless all cells fit; empty cells are null."""
    for kind, form, convert in _FORMS:
        if all(form(cell) for cell in _cells(rows, place)):
            empty = not any(_cells(rows, place))
            return ("null" if empty else kind), _unless_empty(convert)
    return "text", lambda cell: cell if cell.strip() else None


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _cells(rows: list[list[Any]], place: int) -> Iterator[str]:
    return (cell for row in rows if (cell := row[place].strip()))


def _unless_empty(convert: Convert) -> Convert:
    return lambda cell: convert(cell.strip()) if cell.strip() else None


def _kind_of_values(rows: list[list[Any]], place: int) -> tuple[str, Convert]:
    kinds = {_name(row[place]) for row in rows if row[place] is not None}
    if not kinds:
        return "null", lambda value: value
    if kinds <= {"integer", "number"}:
        return ("integer" if kinds == {"integer"} else "number"), lambda value: value
    if kinds == {"text"}:
        return _kind_of_dates(rows, place), lambda value: value
    if len(kinds) == 1 and "json" not in kinds:
        return kinds.pop(), lambda value: value
    kind = "json" if kinds == {"json"} else "text"
    return kind, lambda value: value if value is None or isinstance(value, str) else _dumped(value)


def _kind_of_dates(rows: list[list[Any]], place: int) -> str:
    texts = [row[place] for row in rows if row[place] is not None]
    forms = ("date", _DATE), ("datetime", _TIME)
    return next((kind for kind, form in forms if all(map(form.fullmatch, texts))), "text")


def _name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer" if value.bit_length() < 64 else "json"
    if isinstance(value, float):
        return "number"
    return "text" if isinstance(value, str) else "json"


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
