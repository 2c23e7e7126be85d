"""What all databases share: rows as JSON within size limits, and the guards of SQLite."""

from __future__ import annotations

import json
import math
import re
import sqlite3
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

from plansmith.errors import ToolBusy, ToolFailed
from plansmith.plan.data import MAX_INTEGER_BITS, Json, flaws, written_number
from plansmith.plan.sentence import Sentence
from plansmith_desk.tool_specs import COUNT, YES, record
from plansmith_desk.toolset import NOTES, TEXT, Job, items, noted

Parameters = Sequence[Any] | Mapping[str, Any]
ONLY_READS: Final = Sentence("this tool only reads: give one SELECT over the tables")
ROWS: Final[dict[str, Any]] = record(
    {
        "columns": items(record({"name": TEXT, "type": TEXT})),
        "rows": items({"type": "object"}),
        "count": {**COUNT, "description": "How many rows are given."},
        "more": {**YES, "description": "Whether there are more than are given."},
    },
    notes=NOTES,
)


_PREVIEWED: Final = 50


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
        return [name for name, _ in self.columns]


def as_result(found: Data, limits: RowLimits) -> dict[str, Json]:
    """Makes a tool result of rows: objects by column name; clips what is too long."""
    names = distinct([name[:200] for name in found.names])
    notes = list(found.notes)
    if names != found.names:
        notes.append("columns without a name, with the same or a very long one were renamed")
    rows: list[Json] = []
    cut, left, most = 0, limits.letters_all, limits.letters_each
    for row in found.rows:
        cells = {name: shortened(value, most) for name, value in zip(names, row, strict=True)}
        for name, value in cells.items():
            if isinstance(value, str) and len(value) > most:
                cells[name] = value[:most]
                cut += 1
            cell = cells[name]
            left -= len(cell) if isinstance(cell, str) else max(8, len(json.dumps(cell)))
        if left < 0:
            notes.append(f"only {len(rows)} rows are given: all are too long together")
            break
        rows.append(cells)
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


def returning(sql: str) -> str:
    """Returns a statement that gives the rows it changes, if it can and does not do so already."""
    return f"{sql.strip().removesuffix(';')}\nRETURNING *"


def as_changes(cursor: Any, rows: Iterable[Sequence[Any]], limits: RowLimits) -> dict[str, Json]:
    """Returns the first rows that a statement has changed, and how many they are."""
    numbered = iter(rows)
    first = [*islice(numbered, _PREVIEWED)]
    count = len(first) + sum(1 for _ in numbered)
    names = [(str(each[0]), "") for each in cursor.description or ()] if first else []
    rows_shown = as_result(Data(names, first), limits)["rows"]
    return {"rows": rows_shown, "count": max(count, int(cursor.rowcount))}


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


_TICK: Final = 2_000  # instructions between two looks at the time
_READS: Final = frozenset(
    {
        *(sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE),
        *(sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_PRAGMA),
    }
)
_WRITES: Final = frozenset(
    {
        *(sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE),
        *(sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_ALTER_TABLE),
        *(sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_DROP_INDEX, sqlite3.SQLITE_REINDEX),
        *(sqlite3.SQLITE_CREATE_VIEW, sqlite3.SQLITE_DROP_VIEW, sqlite3.SQLITE_TRANSACTION),
    }
)
# Pragmas that only tell of a schema; all others may change how the file is used.
_TELLING: Final = frozenset(
    {
        *("table_info", "table_xinfo", "table_list", "index_list", "index_info", "index_xinfo"),
        "foreign_key_list",
    }
)
_REACHING_OUT: Final = frozenset(
    {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "sqlite_dbpage"}
)
_MAX_LENGTH: Final = 250_000
_LIMITS: Final = {
    # Functions such as instr and trim look at the time only when they are done, and take the
    # product of two lengths: at four million letters ten minutes, at this two seconds.
    sqlite3.SQLITE_LIMIT_LENGTH: _MAX_LENGTH,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    # A long pattern of LIKE works for minutes without a look at the time.
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 100,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 10,
}


@contextmanager
def opened(path: Path, *, mode: str = "ro") -> Generator[sqlite3.Connection]:
    """Opens a SQLite file that may hold anything, for reading only unless the mode is `rw`."""
    address = f"file:{quote(str(path.resolve()))}?mode={mode}"
    database = sqlite3.connect(address, uri=True, timeout=2.0, check_same_thread=False)
    with closing(database):
        database.execute(f"PRAGMA query_only = {'OFF' if mode == 'rw' else 'ON'}")
        database.execute("PRAGMA trusted_schema = OFF")
        database.text_factory = replaced_text
        yield database


def replaced_text(data: bytes) -> str:
    """Decodes a text of a database that may hold anything."""
    return data.decode("utf-8", "replace")


def guard(
    database: sqlite3.Connection, job: Job, limits: RowLimits, *, writing: bool = False
) -> None:
    """Restricts a connection: allowed actions, memory and time."""
    for limit, most in _LIMITS.items():
        database.setlimit(limit, most)
    allowed = _READS | _WRITES if writing else _READS

    def may(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        # SQLite names a pragma and the altered table first, a function second.
        name = first if action == sqlite3.SQLITE_PRAGMA else second
        word = (name or "").lower()
        is_allowed = action in allowed
        is_allowed &= action != sqlite3.SQLITE_PRAGMA or word in _TELLING
        is_allowed &= action != sqlite3.SQLITE_FUNCTION or word not in _REACHING_OUT
        return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY

    database.set_authorizer(may)
    end = time.monotonic() + limits.seconds
    database.set_progress_handler(lambda: job.given_up or time.monotonic() > end, _TICK)


def select(database: sqlite3.Connection, sql: str, parameters: Parameters, rows: int) -> Data:
    """Returns rows of a statement, with the types of their values."""
    if "printf" in sql.lower() or "format" in sql.lower():
        # SQLite's own writes a billion letters before it looks at the limit or the time.
        own = partial(_format, sqlite3.connect(":memory:"))
        for name in ("printf", "format"):
            database.create_function(name, -1, own, deterministic=True)
    cursor = database.execute(sql, parameters)
    if cursor.description is None:
        raise ToolFailed(Sentence("the statement gives no rows"), hint="give a SELECT")
    fetched = cursor.fetchmany(rows + 1)
    names = [str(column[0]) for column in cursor.description]
    kinds = [_kind([row[place] for row in fetched[:rows]]) for place in range(len(names))]
    found = Data(list(zip(names, kinds, strict=True)), fetched[:rows], more=len(fetched) > rows)
    if _hides_tie(database, sql, parameters, found):
        found.notes.append(TIE)
    return found


TIE: Final = "left out: rows that tie with the last one, by the limit of the query"
_LIMIT: Final = re.compile(r"\bLIMIT\s++(\d+)\s*+;?\s*+$", re.IGNORECASE)


def _hides_tie(database: sqlite3.Connection, sql: str, parameters: Parameters, found: Data) -> bool:
    """Whether a query that ends with a limit gives other rows if ties come in another order."""
    limit = _LIMIT.search(sql)
    is_chance = "random" in sql.casefold()  # each time other rows
    if limit is None or is_chance or len(found.rows) != int(limit[1]):
        return False
    given: list[list[Any]] = []
    for way in ("ASC", "DESC"):
        ties = "".join(f", {place} {way}" for place in range(1, len(found.columns) + 1))
        try:
            cursor = database.execute(f"{sql[: limit.start()]}{ties} {limit[0]}", parameters)
            given.append(sorted(cursor.fetchall(), key=repr))
        except sqlite3.Error:  # its rows have no order
            return False
    return given[0] != given[1]


def _format(printer: sqlite3.Connection, pattern: Any = None, *values: Any) -> Any:
    """Does what printf does for widths below 1000; None for others."""
    if pattern is None or _TOO_WIDE.search(str(pattern)):
        return None
    marks = ", ?" * len(values)
    return printer.execute(f"SELECT printf(?{marks})", (pattern, *values)).fetchone()[0]


_TOO_WIDE: Final = re.compile(r"%[^a-zA-Z%]*(?:\*|\d{4})")


def _kind(values: Sequence[Any]) -> str:
    """Returns the common type of a column's values: SQLite has types by value."""
    kinds = {_NAMES[type(value).__name__] for value in values if value is not None}
    if kinds == {"integer", "number"}:
        return "number"
    return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "null"


_NAMES: Final = {"int": "integer", "float": "number", "str": "text", "bytes": "binary"}


@contextmanager
def converting_errors(limits: RowLimits, *, writing: bool = False) -> Generator[None]:
    """Converts SQLite's errors to ours."""
    try:
        yield
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise _worded(str(error), limits, writing=writing) from None
    except (OverflowError, ValueError) as error:
        raise database_says(str(error)) from None


def _worded(text: str, limits: RowLimits, *, writing: bool) -> ToolFailed:
    if "interrupted" in text:
        return too_long(limits.seconds)
    if any(each in text for each in ("not authorized", "denied", "prohibited", "readonly")):
        hint = Sentence("this tool changes tables and rows, and nothing else")
        message = Sentence("the statement is not allowed: {why}", why=text)
        return ToolFailed(message, hint=hint if writing else ONLY_READS)
    if "one statement" in text:
        hint = Sentence("give one at a time")
        return ToolFailed(Sentence("there is more than one statement"), hint=hint)
    if "locked" in text or "busy" in text:
        return ToolBusy(Sentence("the database is in use: {why}", why=text))
    if "too big" in text:
        hint = Sentence("leave its column out, or take its length()")
        return ToolFailed(
            Sentence("a value is larger than {most} bytes", most=_MAX_LENGTH), hint=hint
        )
    return database_says(text)


_SURE_DIGITS: Final = 15  # that a binary number keeps of a decimal
_SHORT_DIGITS: Final = 13  # a result that is so short by chance is one in a hundred
_WHOLE: Final = 2**63
_NUMBER: Final = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def exact_aggregates(database: sqlite3.Connection) -> None:
    """Replaces SQLite's sum, total and avg, also as window functions."""
    named = ("sum", _Sum), ("exact_sum", _Sum), ("total", _Total), ("avg", _Mean)
    for name, made in named:
        database.create_window_function(name, 1, made)


def exact(value: float) -> Fraction:
    """Returns a number as the decimal it was written as, or else its exact value."""
    whole = Decimal(repr(value))
    if len(whole.as_tuple().digits) <= _SURE_DIGITS:
        return Fraction(whole)
    near = Decimal(f"{value:.{_SURE_DIGITS}g}").normalize()
    return Fraction(near if len(near.as_tuple().digits) <= _SHORT_DIGITS else value)


def exact_cell(value: Any) -> Any:
    """Rounds away binary residue of decimal arithmetic."""
    return float(exact(value)) if isinstance(value, float) and math.isfinite(value) else value


def is_decimal(value: Any) -> bool:
    """Whether a value has no more digits than a written decimal has."""
    if not isinstance(value, float) or not math.isfinite(value):
        return True
    return len(Decimal(repr(value)).as_tuple().digits) <= _SURE_DIGITS


def exact_mean(values: Sequence[float]) -> float:
    """Returns the mean of at least one number."""
    found = _Mean()
    for value in values:
        found.step(value)
    return found.finalize() or 0.0


class _Sum:
    """Sums the numbers of a group; a moving window also subtracts them."""

    def __init__(self) -> None:
        self._total = Fraction(0)
        self._count = self._broken = 0
        self._special: list[float] = []

    def step(self, value: Any) -> None:
        self._add(value, 1)

    def inverse(self, value: Any) -> None:
        self._add(value, -1)

    def _add(self, value: Any, sign: int) -> None:
        if value is None:
            return
        self._count += sign
        number = value
        if not isinstance(value, int | float):
            # A text is a number as SQLite takes it: by how it begins.
            text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
            found = _NUMBER.match(text)
            number = float(found[0]) if found else 0.0
        self._broken += sign * isinstance(number, float)
        if math.isfinite(number):
            self._total += sign * (exact(number) if isinstance(number, float) else number)
        else:
            self._special = [*self._special, number] if sign > 0 else self._special[1:]

    def value(self) -> int | float | None:
        if not self._count:
            return None
        if not self._broken and -_WHOLE <= self._total < _WHOLE:
            return int(self._total)
        return math.fsum(self._special) if self._special else _nearest(self._total)

    def finalize(self) -> int | float | None:
        return self.value()


class _Total(_Sum):
    def value(self) -> float:
        return float(super().value() or 0.0)


class _Mean(_Sum):
    def value(self) -> float | None:
        if not self._count:
            return None
        if self._special:
            return math.fsum(self._special)
        return _nearest(self._total / self._count)


def _nearest(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf
