"""Reads tables from CSV, JSON, values and copies of SQLite files; notes every guess."""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, cast

from plansmith.errors import ToolBusy, ToolFailed
from plansmith.plan.data import written_number
from plansmith.plan.sentence import Sentence
from plansmith.text import clip
from plansmith_desk.encodings import decoded
from plansmith_desk.folder import FileTooLarge, Folder, NoSuchFile
from plansmith_desk.sql.rows import Data as Data  # noqa: PLC0414 - others import it here
from plansmith_desk.sql.rows import (
    RowLimits,
    converting_errors,
    distinct,
    guard,
    opened,
    plain_value,
)
from plansmith_desk.toolset import Job

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME: Final = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"
)
ENCODINGS: Final = (
    *("utf-8", "utf-16", "windows-1252", "iso-8859-1", "iso-8859-2", "iso-8859-15"),
    *("windows-1250", "windows-1251", "koi8-r", "gb18030", "big5", "shift_jis", "euc-kr"),
)
_SAMPLE: Final = 20_000
_OBJECTS: Final = Sentence("every row has to be an object of columns")
_parsed: Final = partial(json.loads, parse_float=written_number)


@dataclass(frozen=True, slots=True)
class TableLimits:
    """Limits of the size of files and tables."""

    bytes_each: int = 20_000_000
    rows: int = 200_000
    columns: int = 300
    cells: int = 2_000_000
    letters_each: int = 100_000


def read_table(
    data: bytes, name: str, *, limits: TableLimits, encoding: str | None, header: bool
) -> Data:
    """Reads the table of a file: JSON and JSON lines by extension, anything else as CSV."""
    notes: list[str] = []
    text = _text(data, name, encoding, notes)
    if name.lower().endswith((".json", ".jsonl", ".ndjson")):
        found = from_values(_json(text, name), name, limits=limits)
    else:
        found = _csv(text, name, limits=limits, header=header)
    found.notes[:0] = notes
    return found


def _text(data: bytes, name: str, encoding: str | None, notes: list[str]) -> str:
    """Decodes a file: as it is said, or else as it seems to be, with a note on a guess."""
    if encoding is not None:
        try:
            return data.decode(encoding)
        except UnicodeDecodeError:
            message = Sentence("{name} is not a text in {encoding}", name=name, encoding=encoding)
            raise ToolFailed(message, hint=Sentence("name another encoding")) from None
    text, guess = decoded(data)
    if guess and b"\0" in data:
        raise ToolFailed(Sentence("{name} is not a text file", name=name))
    if guess:
        notes.append(f"{name} is not in UTF-8: read as {guess}; set encoding if that is wrong")
    return text


def _json(text: str, name: str) -> Any:
    try:
        if name.lower().endswith(".json"):
            return _parsed(text)
        return [_parsed(line) for line in text.splitlines() if line.strip()]
    except (ValueError, RecursionError) as error:
        message = Sentence("{name} is not JSON: {error}", name=name, error=clip(str(error)))
        raise ToolFailed(message) from None


def from_values(value: Any, name: str, *, limits: TableLimits) -> Data:
    """Makes a table of a JSON value: a list of objects, an object with one such list, or a row."""
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        lists = [each for each in table.values() if _is_list_of(dict, each)]
        value = lists[0] if len(lists) == 1 else [table]
    if not isinstance(value, list):
        raise ToolFailed(Sentence("{name} is not a list of rows", name=name), hint=_OBJECTS)
    listed: Sequence[Any] = cast("Sequence[Any]", value)
    if listed and _is_list_of(list, listed):
        width = max(map(len, listed))
        check_size(width, len(listed), limits)
        rows = [[*each, *[None] * (width - len(each))] for each in listed]
        return typed([f"column_{place + 1}" for place in range(width)], rows, limits)
    strange = next((each for each in listed if not isinstance(each, dict)), None)
    if strange is not None:
        excerpt = clip(json.dumps(strange), 40)
        raise ToolFailed(
            Sentence("{name} has a row that is {row}", name=name, row=excerpt), hint=_OBJECTS
        )
    names = list(dict.fromkeys(str(key) for each in listed for key in each))
    check_size(len(names), len(listed), limits)
    return typed(names, [[each.get(key) for key in names] for each in listed], limits)


def _is_list_of(kind: type, value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, kind) for each in cast("list[object]", value)
    )


def _csv(text: str, name: str, *, limits: TableLimits, header: bool) -> Data:
    sample = text[:_SAMPLE]
    plain = re.sub(r'"[^"]*"', "", sample)
    lines = [line for line in plain.splitlines()[:-1] or plain.splitlines() if line.strip()][:50]

    def score(mark: str) -> tuple[float, int]:
        counts = [line.count(mark) for line in lines]
        first = counts[0] if counts else 0
        same = sum(count == first for count in counts) / max(1, len(counts))
        return (same if first else 0.0, first)

    delimiter = max(",;\t|", key=score)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        rows: list[list[Any]] = [*islice(filter(None, reader), limits.rows + 2)]
    except csv.Error as error:
        hint = Sentence("a quote may be missing before that line")
        raise ToolFailed(f"{name}, line {reader.line_num}: {error}", hint=hint) from None
    if len(rows) > limits.rows + 1:
        raise _too_large(limits)
    if not rows:
        raise ToolFailed(Sentence("{name} is empty", name=name))
    head = [str(each) for each in rows.pop(0)] if header else []
    width = max([len(head), *map(len, rows)])
    check_size(width, len(rows), limits)
    notes: list[str] = []
    if head and width > len(head):
        many = sum(len(row) > len(head) for row in rows)
        notes.append(f"{many} rows have more cells than the header: see the columns column_…")
    if short := sum(len(row) < (len(head) or width) for row in rows):
        notes.append(f"{short} rows have fewer cells than the header: what is missing is empty")
    names = distinct([*head, *[""] * (width - len(head))])
    if head and names[: len(head)] != [each.strip() for each in head]:
        notes.append("columns without a name or with the same one were renamed")
    filled = [[*row, *[""] * (width - len(row))] for row in rows]
    found = typed(names, filled, limits, texts=True, comma=delimiter == ";")
    found.notes[:0] = notes
    return found


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
        raise ToolFailed(Sentence("the table has no columns"))
    found = Data([], rows)
    for place, name in enumerate(names):
        cells = [row[place] for row in rows]
        kind, values, note = _from_texts(cells, comma=comma) if texts else _from_json(cells)
        if any(isinstance(each, str) and len(each) > limits.letters_each for each in values):
            most = f"{limits.letters_each:,} letters"
            short = clip(name, 40)
            raise ToolFailed(
                Sentence("a cell of '{name}' is longer than {most}", name=short, most=most)
            )
        for row, value in zip(rows, values, strict=True):
            row[place] = value
        found.columns.append((name, kind))
        found.notes += [f"{clip(name, 40)}: {note}"] if note else []
    return found


def check_size(columns: int, rows: int, limits: TableLimits) -> None:
    """Refuses a table that would become too large when its rows are filled up."""
    if rows > limits.rows or rows * max(1, columns) > limits.cells:
        raise _too_large(limits)
    if columns > limits.columns:
        raise ToolFailed(Sentence("a table has at most {most} columns", most=limits.columns))


def _too_large(limits: TableLimits) -> ToolFailed:
    most = f"{limits.rows:,} rows or {limits.cells:,} cells"
    return ToolFailed(Sentence("the table has more than {most}", most=most))


_Column = tuple[str, list[Any], str]  # its type, its values, and a note on what was guessed


def _from_json(cells: list[Any]) -> _Column:
    # As in a CSV file: whoever asks for empty cells finds all of them as NULL.
    values = [None if isinstance(each, str) and not each.strip() else each for each in cells]
    kinds = {_kind(each) for each in values if each is not None}
    if not kinds:
        return "null", values, ""
    if kinds == {"text"}:
        texts = [each for each in values if each is not None]
        forms = ("date", _DATE), ("datetime", _TIME)
        kind = next((kind for kind, form in forms if all(map(form.fullmatch, texts))), "text")
        return kind, values, ""
    if kinds in ({"integer"}, {"number"}, {"boolean"}, {"integer", "number"}):
        return kinds.pop() if len(kinds) == 1 else "number", values, ""
    written = [
        each if each is None or isinstance(each, str) else json.dumps(each, ensure_ascii=False)
        for each in values
    ]
    return ("json" if kinds == {"json"} else "text"), written, ""


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer" if value.bit_length() < 64 else "json"
    if isinstance(value, float):
        return "number"
    return "text" if isinstance(value, str) else "json"


def _from_texts(cells: list[str], *, comma: bool) -> _Column:
    """Reads a column of a file: text unless all cells fit a type; empty cells are null."""
    plain = [cell.strip() for cell in cells]
    present = list(dict.fromkeys(filter(None, plain)))
    if not present:
        return "null", [None] * len(cells), ""
    for kind, fits, convert in _FORMS:
        if all(map(fits, present)):
            return kind, [convert(cell) if cell else None for cell in plain], ""
    marked = _marked_numbers(present, comma=comma)
    if marked is not None:
        kind, values, note = marked
        return kind, [values.get(cell) for cell in plain], note
    return "text", [cell if cell.strip() else None for cell in cells], ""


# Numbers as files write them: plain, with thousands, a currency or percent, or as missing.
_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})")
_NUMBER: Final = re.compile(r"[+-]?(?:(?:0|[1-9]\d{0,300})(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,2})?")
_JSON: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_SURE_DIGITS: Final = 15
_MISSING: Final = frozenset(
    {
        *("n/a", "na", "#n/a", "nan", "null", "none"),
        *("-", "--", "\u2013", "\u2014", "无", "缺失", "暂无"),
    }
)
_UNIT: Final = r"[$€£¥￥%]|元|usd|eur|gbp|cny|rmb"
_MARKED: Final = (
    r"(?P<sign>[+-]?)(?P<front>(?:{unit})?)\s?(?P<figures>{figures})\s?(?P<back>(?:{unit})?)"
)


def _form(figures: str) -> re.Pattern[str]:
    return re.compile(_MARKED.format(unit=_UNIT, figures=figures), re.IGNORECASE)


_POINT: Final = _form(r"(?:\d{1,3}(?:,\d{3})+|0|[1-9]\d*)(?:\.\d+)?")
# Where a semicolon separates the cells, a comma is that of decimals.
_COMMA: Final = _form(r"(?:\d{1,3}(?:\.\d{3})+|0|[1-9]\d*)(?:,\d+)?")


def _is_whole(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None


def is_number(text: str) -> bool:
    """Whether a text is a plain number that loses no digit."""
    if _NUMBER.fullmatch(text) is None:
        return False
    return len(text) <= _SURE_DIGITS or Decimal(repr(float(text))) == Decimal(text)


def _number(text: str) -> float:
    return written_number(text) if _JSON.fullmatch(text) else float(text)


_FORMS: Final[tuple[tuple[str, Callable[[str], object], Callable[[str], Any]], ...]] = (
    ("integer", _is_whole, int),
    ("number", is_number, _number),
    ("boolean", re.compile("true|false", re.IGNORECASE).fullmatch, lambda t: t.lower() == "true"),
    ("date", _DATE.fullmatch, str),
    ("datetime", _TIME.fullmatch, str),
)


def _marked_numbers(
    cells: Sequence[str], *, comma: bool
) -> tuple[str, dict[str, float], str] | None:
    """Returns type, values by cell and a note of a column of numbers with marks, if it is such."""
    missing = [cell for cell in cells if cell.casefold() in _MISSING]
    numbers = [cell for cell in cells if cell.casefold() not in _MISSING]
    texts = _without_marks(numbers, comma=comma)
    if not numbers or texts is None or not all(map(is_number, texts)):
        return None
    whole = all(map(_is_whole, texts))
    convert = int if whole else _number
    values = {cell: convert(text) for cell, text in zip(numbers, texts, strict=True)}
    example = next((cell for cell in numbers if cell not in texts), "")
    notes = [f"{example} is read as {values[example]}"] if example else []
    notes += [f"{' and '.join(map(repr, missing))} is read as missing"] if missing else []
    return "integer" if whole else "number", values, ", ".join(notes)


def _without_marks(cells: Sequence[str], *, comma: bool) -> list[str] | None:
    """Returns numbers without marks; None if one is no number, or their units differ."""
    if all(map(is_number, cells)):
        return list(cells)
    form = _COMMA if comma else _POINT
    found = [match for cell in cells if (match := form.fullmatch(cell)) is not None]
    units = {(match["front"] or match["back"]).casefold() for match in found}
    if len(found) < len(cells) or len(units) > 1:
        return None
    figures = [match["sign"] + match["figures"] for match in found]
    if not comma:
        return [text.replace(",", "") for text in figures]
    marked = [text for text in figures if "," in text or "." in text]
    if marked and all(re.fullmatch(r"[+-]?\d{1,3}[.,]\d{3}", text) for text in marked):
        return None  # every mark has three digits after it: nobody knows what it means
    return [text.replace(".", "").replace(",", ".") for text in figures]


ENDINGS: Final = (".db", ".sqlite", ".sqlite3", ".db3")
_MAX_BYTES: Final = 200_000_000
_LOOK_S: Final = 1.0  # to see what a database has: it must not hold up other tables
_HEAD: Final = b"SQLite format 3\0"
_JOURNAL: Final = bytes.fromhex("d9d505f920a163d7")
# Not virtual tables, whose code is not ours to trust, nor those in which they keep their data.
_TABLES: Final = r"""
    SELECT name FROM sqlite_master AS this
    WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
      AND (type = 'view' OR rootpage > 0)
      AND NOT EXISTS (
        SELECT 1 FROM sqlite_master AS other
        WHERE other.type = 'table' AND other.rootpage = 0
          AND substr(this.name, 1, length(other.name) + 1) = other.name || '_')
    ORDER BY name LIMIT 200
"""


class DatabaseCopy:
    """A private copy of one SQLite file: nothing done with it can reach the file itself.

    The copy has the changes that still wait in the write-ahead log. A rollback journal is never
    copied: it can name other files, and SQLite would delete them.
    """

    def __init__(self, folder: Folder, path: str, *, limits: RowLimits, job: Job) -> None:
        self._folder = folder
        self._path = path
        self._limits = limits
        self._brief = replace(limits, seconds=_LOOK_S)
        self._job = job

    def __enter__(self) -> Self:
        data, log = self._bytes()
        with converting_errors(self._limits), tempfile.TemporaryDirectory() as place:
            Path(place, "copy").write_bytes(data)
            if log:
                Path(place, "copy-wal").write_bytes(log)
            with ExitStack() as held:
                self._database = held.enter_context(opened(Path(place, "copy")))
                guard(self._database, self._job, self._brief)
                # Opens the log too: from here on the names of the copies are not needed.
                self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()
                self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def _bytes(self) -> tuple[bytes, bytes]:
        log, journal = self._beside("-wal"), self._beside("-journal")
        if journal.startswith(_JOURNAL):
            hint = Sentence("close the program that changes it, or open it there once")
            raise ToolBusy(Sentence("{name} has an unfinished change", name=self._path), hint=hint)
        try:
            data = self._folder.read(self._path, most=_MAX_BYTES)
        except FileTooLarge as error:
            hint = Sentence("name it under databases in the settings and ask it with sql.query")
            raise ToolFailed(error.message, hint=hint) from None
        if not data.startswith(_HEAD):
            raise ToolFailed(Sentence("{name} is not a SQLite file", name=self._path))
        if log != self._beside("-wal"):
            raise ToolBusy(Sentence("{name} is being changed", name=self._path))
        return data, log

    def _beside(self, ending: str) -> bytes:
        try:
            return self._folder.read(self._path + ending, most=_MAX_BYTES)
        except NoSuchFile:
            return b""

    def tables(self) -> list[str]:
        with converting_errors(self._brief):
            guard(self._database, self._job, self._brief)
            return [str(row[0]) for row in self._database.execute(_TABLES)]

    def read(self, table: str, *, limits: TableLimits) -> Data:
        with converting_errors(self._limits):
            guard(self._database, self._job, self._limits)
            names = self._names(table, limits)
            most = min(limits.rows, limits.cells // max(1, len(names))) + 1
            rows = self._rows(table, names, most)
        check_size(len(names), len(rows), limits)
        return typed(names, rows, limits)

    def head(self, table: str, *, rows: int) -> tuple[Data, int]:
        limits = TableLimits()
        with converting_errors(self._limits):
            guard(self._database, self._job, self._limits)
            names = self._names(table, limits)
            found = self._rows(table, names, rows)
            counted = f"SELECT count(*) FROM {quoted(table)}"  # noqa: S608
            count = int(self._database.execute(counted).fetchone()[0])
        return typed(names, found, limits), count

    def _names(self, table: str, limits: TableLimits) -> list[str]:
        cursor = self._database.execute(f"SELECT * FROM {quoted(table)} LIMIT 0")  # noqa: S608
        names = [str(column[0]) for column in cursor.description]
        check_size(len(names), 0, limits)
        return names

    def _rows(self, table: str, names: Sequence[str], most: int) -> list[list[Any]]:
        # A picture is told by its size: nobody computes with it.
        chosen = ", ".join(
            f"iif(typeof({each}) = 'blob', '(' || length({each}) || ' bytes)', {each})"
            for each in map(quoted, names)
        )
        cursor = self._database.execute(f"SELECT {chosen} FROM {quoted(table)} LIMIT {most}")  # noqa: S608
        return [[plain_value(value) for value in row] for row in cursor]


def quoted(name: str) -> str:
    """Quotes any name for SQL."""
    if "\0" in name:
        raise ToolFailed(Sentence("a column's name has a zero byte"))
    return '"' + name.replace('"', '""') + '"'
