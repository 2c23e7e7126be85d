"""Asks tables with SQL: in memory and read-only; mends queries, and says what is wrong with one."""

from __future__ import annotations

import difflib
import re
import sqlite3
import statistics
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from plansmith.errors import ToolFailed
from plansmith.plan.data import WrittenNumber, written_number
from plansmith.plan.sentence import Sentence
from plansmith.text import clip
from plansmith_desk.sql import rows
from plansmith_desk.tables.catalogue import column_of, loose, matching_columns, no_column
from plansmith_desk.tables.read import is_number, quoted
from plansmith_desk.toolset import Job

_AFFINITY: Final = {"integer": "INTEGER", "number": "REAL", "boolean": "INTEGER"}


class _Median:
    """Collects the numbers of a group; ignores texts."""

    def __init__(self) -> None:
        self._values: list[int | float] = []

    def step(self, value: Any) -> None:
        if isinstance(value, int | float):
            self._values.append(value)

    def finalize(self) -> Any:
        ordered = sorted(self._values)
        start = (len(ordered) - 1) // 2
        return rows.exact_mean(ordered[start : len(ordered) // 2 + 1]) if ordered else None


class _Stdev(_Median):
    def finalize(self) -> Any:
        return statistics.stdev(map(float, self._values)) if len(self._values) > 1 else None


def _part(value: Any, *, place: slice) -> int | None:
    text = str(value)
    return int(text[place]) if re.match(r"\d{4}-\d{2}-\d{2}", text) else None


# What other databases have and SQLite has not; parts of a date by their place in its text.
_FUNCTIONS: Final[tuple[tuple[str, int, Callable[..., Any]], ...]] = (
    ("year", 1, partial(_part, place=slice(0, 4))),
    ("month", 1, partial(_part, place=slice(5, 7))),
    ("day", 1, partial(_part, place=slice(8, 10))),
    ("concat", -1, lambda *values: "".join(str(each) for each in values if each is not None)),
)


@contextmanager
def memory(
    tables: Mapping[str, rows.Data], job: Job, limits: rows.RowLimits, *, filled: bool = True
) -> Generator[sqlite3.Connection]:
    """Returns a read-only database in memory with these tables; without rows unless `filled`."""
    with rows.converting_errors(limits):
        database = sqlite3.connect(":memory:", check_same_thread=False)
        database.text_factory = rows.replaced_text
        try:
            for name, data in tables.items():
                columns: list[str] = []
                for place, (column, kind) in enumerate(data.columns):
                    declared = _AFFINITY.get(kind, "TEXT")
                    # Texts are compared in any letter case where that is safe.
                    if kind in ("text", "null") and filled and not in_several_cases(data, place):
                        declared = "TEXT COLLATE NOCASE"
                    columns.append(f"{quoted(column)} {declared if filled else ''}")
                database.execute(f"CREATE TABLE {quoted(name)} ({', '.join(columns)})")
                marks = ", ".join("?" * len(data.columns))
                # Names are quoted by the rules of SQL, and values never part of the statement.
                inserted = f"INSERT INTO {quoted(name)} VALUES ({marks})"  # noqa: S608
                database.executemany(inserted, data.rows if filled else [])
            database.commit()
            rows.exact_aggregates(database)
            for name, made in (("median", _Median), ("stdev", _Stdev)):
                database.create_aggregate(name, 1, made)
            for name, count, work in _FUNCTIONS:
                database.create_function(name, count, work, deterministic=True)
            rows.guard(database, job, limits)
            yield database
        finally:
            database.close()


def in_several_cases(data: rows.Data, place: int) -> bool:
    """Whether a column has texts that differ in nothing but letter case, which then counts."""
    texts = {row[place] for row in data.rows if isinstance(row[place], str)}
    return len({text.translate(_LOWER) for text in texts}) < len(texts)


# As SQLite's own NOCASE does: the letters of ASCII alone.
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
TEXT: Final = r"'(?:[^']|'')*'"
NAME: Final = r"""(?:(?<!")"(?:[^"]|"")*+"|`[^`]*`|\[[^\[\]]*\]|(?<!\w)[^\W\d]\w*+)"""
_WORD: Final = re.compile(rf"{TEXT}|{NAME}", re.DOTALL)
_COLUMN: Final = rf"{NAME}(?:\s*\.\s*{NAME})?"
# A text is stepped over; a name that is compared with the empty text is kept.
_EMPTY: Final = re.compile(
    rf"(trim\s*\(\s*{_COLUMN}\s*\)|{_COLUMN})\s*(?:==?|\bIS(\s+NOT)?)\s*''(?!')|{TEXT}",
    re.IGNORECASE,
)
# The path of a file that a query reads from; texts and comparisons are stepped over.
_SOURCE: Final = re.compile(
    rf"""{TEXT}|"[^"]*"|\bdistinct\s+from\b|\b((?:from|join)\s+)([\w./-]*[./-][\w./-]*\w)""",
    re.IGNORECASE,
)
Load = Callable[[str], rows.Data]


def prepared(
    query: str, tables: dict[str, rows.Data], load: Load, job: Job, limits: rows.RowLimits
) -> str:
    """Returns a query that SQLite understands: tables are loaded and columns meant are named.

    It is only prepared: no row is read. What cannot be mended is refused with the names there are.
    """
    query = _SOURCE.sub(lambda path: f'{path[1]}"{path[2]}"' if path[1] else path[0], query)
    # Empty cells are NULL in every table: `x = ''` finds them too.
    query = _EMPTY.sub(
        lambda found: (
            f"coalesce({found[1]}, '') {'<>' if found[2] else '='} ''" if found[1] else found[0]
        ),
        query,
    )
    for _ in range(40):
        what, name, before = "", "", query
        with memory(tables, job, limits, filled=False) as database:
            try:
                database.execute(f"EXPLAIN {query}").close()
            except sqlite3.OperationalError as error:
                lacking = re.search("no such (table|column): (.*)", str(error), re.DOTALL)
                if lacking is None:
                    raise
                what, name = lacking.groups()
        if what == "column":
            query = _with_column(query, name, tables)
        elif what == "table":
            tables[name] = load(name)
            if not name.isidentifier():
                query = _replaced(query, rf"{re.escape(name)}(?![\w.])", quoted(name))
        else:
            query = _with_quoted_columns(query, tables)
            if query == before:
                break
    return query


def _with_column(query: str, missing: str, tables: Mapping[str, rows.Data]) -> str:
    """Returns a query with a column's real name instead of one that is not there."""
    prefix, _, name = missing.rpartition(".")
    matching = matching_columns(name, tables.values())
    changed = query
    if prefix and name in matching:
        # The column is there, and its table has another name in the query: sales.x of "sales.csv".
        last = {each: each.casefold().rpartition("/")[2] for each in tables}
        wanted = prefix.casefold()
        same = [each for each, file in last.items() if wanted in (file, file.rpartition(".")[0])]
        if len(same) == 1:
            pattern = rf"{re.escape(prefix)}\s*\.(?=\s*[\"\w])"
            changed = _replaced(query, pattern, f"{quoted(same[0])}.")
    if changed == query and len(matching) == 1:
        is_it = re.compile(rf'["`\[]?{re.escape(name)}["`\]]?', re.IGNORECASE).fullmatch
        changed = _WORD.sub(lambda word: quoted(matching[0]) if is_it(word[0]) else word[0], query)
    if changed == query:
        raise no_column(missing, tables)
    return changed


def _replaced(query: str, pattern: str, instead: str) -> str:
    """Replaces a bare name; one in quotes is left as it is."""
    found = re.compile(rf"""{TEXT}|"(?:[^"]|"")*"|(?<![\w.]){pattern}""", re.IGNORECASE)
    return found.sub(lambda match: match[0] if match[0][0] in "'\"" else instead, query)


def _with_quoted_columns(query: str, tables: Mapping[str, rows.Data]) -> str:
    """Corrects quoted names: SQLite takes one that is no column for a text, without a word."""
    known = {each.casefold() for each in tables}
    known |= {name.casefold() for data in tables.values() for name in data.names}

    def put(match: re.Match[str]) -> str:
        name = bare(match[0])
        if not match[0].startswith('"') or name.casefold() in known or not loose(name):
            return match[0]
        matching = matching_columns(name, tables.values())
        return quoted(matching[0]) if len(matching) == 1 else match[0]

    return _WORD.sub(put, query)


def bare(word: str) -> str:
    """Returns a word of a query without its quotes."""
    if word[:1] == '"':
        return word[1:-1].replace('""', '"')
    return word[1:-1] if word[:1] in "`[" else word


def keep_digits(found: rows.Data, tables: Iterable[rows.Data]) -> None:
    """Writes a number as its table does: SQLite has 55.0 where a file has 55.00.

    A sum has as many decimals as all numbers of the tables, if those have equally many.
    """
    by_column: dict[str, dict[float, float]] = {}
    decimals: set[int] = set()
    for data in tables:
        for place, (name, kind) in enumerate(data.columns):
            if kind == "number":
                cells = [row[place] for row in data.rows if isinstance(row[place], float)]
                by_column.setdefault(name, {}).update((each, each) for each in cells)
                decimals |= {len(repr(each).partition(".")[2]) for each in cells}
    every = {each: each for column in by_column.values() for each in column.values()}
    digits = decimals.pop() if len(decimals) == 1 else 0
    known = [by_column.get(name, every) for name in found.names]

    def as_written(value: Any, cells: Mapping[float, float]) -> Any:
        if not isinstance(value, float) or isinstance(value, WrittenNumber):
            return value
        text = f"{value:.{digits}f}"
        return cells.get(value, written_number(text) if digits and float(text) == value else value)

    found.rows = [list(map(as_written, row, known)) for row in found.rows]


_NUMBERS: Final = ("integer", "number", "boolean", "null")
_DATES: Final = ("date", "datetime")
# Parts of a date by their place in its text, so that no zone is converted.
_MONTH: Final = "substr({0}, 1, 7)"
_YEAR: Final = "substr({0}, 1, 4)"
_QUARTER: Final = "substr({0}, 1, 4) || '-Q' || ((substr({0}, 6, 2) + 2) / 3)"
_DAY: Final = "substr({0}, 1, 10)"
_WEEKDAY: Final = (
    "CASE strftime('%w', substr({0}, 1, 10)) WHEN '1' THEN 'Monday' WHEN '2' THEN 'Tuesday' "
    "WHEN '3' THEN 'Wednesday' WHEN '4' THEN 'Thursday' WHEN '5' THEN 'Friday' "
    "WHEN '6' THEN 'Saturday' WHEN '0' THEN 'Sunday' END"
)
# Monday first; every other part of time sorts by its text.
_ORDERS: Final = {_WEEKDAY: "(strftime('%w', substr({0}, 1, 10)) + 6) % 7"}
_TIMES: Final = {
    **dict.fromkeys(("month", "months", "月", "月份", "每月"), _MONTH),
    **dict.fromkeys(("year", "years", "年", "年份", "每年"), _YEAR),
    **dict.fromkeys(("quarter", "quarters", "季度"), _QUARTER),
    **dict.fromkeys(("day", "days", "date", "日", "天", "日期", "每天"), _DAY),
    **dict.fromkeys(("weekday", "weekdays", "星期", "周几"), _WEEKDAY),
}


def top_rows(data: rows.Data, column: str, count: int, *, lowest: bool) -> rows.Data:
    """Returns the rows with the greatest or lowest values; notes missing values and ties."""
    place = data.names.index(column)
    there = [row for row in data.rows if row[place] is not None]
    missing = len(data.rows) - len(there)
    notes = [f"left out: {_rows(missing)} without {column}"] if missing else []
    if data.columns[place][1] == "text":
        notes.append(f"{column} holds texts: they are in the order of the alphabet")

    def order(row: Sequence[Any]) -> tuple[bool, Any]:
        value = row[place]
        return (True, value.casefold()) if isinstance(value, str) else (False, value)

    there.sort(key=order, reverse=not lowest)
    if len(there) > count and there[count][place] == there[count - 1][place]:
        value = there[count][place]
        same = sum(row[place] == value for row in there[count:])
        notes.append(f"left out: {_rows(same)} with the same {column} as the last one, {value}")
    return rows.Data(data.columns, there[:count], [*notes, *data.notes])


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count:,} rows"


def grouped(data: rows.Data, by: str, value: str | None, how: str | None) -> str:
    """Returns the query of totals per group over the table called rows."""
    groups, part = _groups(data, by)
    how = how or ("sum" if value else "count")
    numbers = ", ".join(name for name, kind in data.columns if kind in _NUMBERS)
    if value is None and how != "count":
        hint = Sentence("give value: one of {names}", names=numbers)
        raise ToolFailed(Sentence("{how} of which column?", how=how), hint=hint)
    column = column_of(value, data) if value else ""
    kind = dict(data.columns).get(column, "")
    if how in ("sum", "average") and kind not in _NUMBERS:
        message = Sentence("{column} holds {kind}, not numbers", column=column, kind=kind)
        raise ToolFailed(message, hint=Sentence("columns of numbers: {names}", names=numbers))
    total = f"{how.replace('average', 'avg')}({quoted(column) if column else '*'})"
    title = quoted(f"{how}_{column}" if column else "count")
    chosen = ", ".join(f"{each} AS {quoted(name)}" for name, each in groups)
    places = ", ".join(str(place + 1) for place in range(len(groups)))
    order = _ORDERS.get(part, "1").format(quoted(_dates(data)[0])) if part else f"{total} DESC"
    return (
        f"SELECT {chosen}, {total} AS {title} FROM rows "  # noqa: S608
        f"GROUP BY {places} ORDER BY {order}, {places}"
    )


def _groups(data: rows.Data, by: str) -> tuple[list[tuple[str, str]], str]:
    """Returns names and expressions of the groups, and the part of time if they are such."""
    if len(matching_columns(by, [data])) == 1:
        column = column_of(by, data)
        if in_several_cases(data, data.names.index(column)):
            data.notes.append(f"some groups of {column} differ in letter case alone")
        return [(column, quoted(column))], ""
    part = _TIMES.get(by.strip().casefold(), "")
    dates = _dates(data)
    if part and len(dates) == 1:
        return [(by.strip(), part.format(quoted(dates[0])))], part
    several = [each.strip() for each in by.replace("，", ",").split(",") if each.strip()]
    if len(several) > 1:
        names = [column_of(each, data) for each in several]
        return [(name, quoted(name)) for name in names], ""
    raise no_column(by, {data.source or "the table": data})


def _dates(data: rows.Data) -> list[str]:
    return [name for name, kind in data.columns if kind in _DATES]


_COMPARED: Final = re.compile(
    rf"(?P<column>{NAME})\s*(?:"
    rf"(?P<sign>==?|<>|!=|<=?|>=?)\s*(?P<value>{TEXT})(?!\s*(?:\|\||collate))"
    rf"|(?:\bnot\s+)?\bin\s*\(\s*(?P<values>{TEXT}(?:\s*,\s*{TEXT})*)\s*\))",
    re.IGNORECASE,
)
_ADDED: Final = re.compile(
    rf"\b(?P<function>sum|avg|total|median|stdev|exact_sum)\s*\(\s*(?:distinct\s+)?"
    rf"(?:{NAME}\s*\.\s*)?(?P<column>{NAME})\s*\)",
    re.IGNORECASE,
)
_CASED: Final = re.compile(r"\b(?:lower|upper|trim|collate)\b", re.IGNORECASE)
_MAX_VALUES: Final = 20_000
_MAX_COMPARED: Final = 40
_NEAR: Final = 0.8


def flaw_of_values(query: str, tables: Mapping[str, rows.Data]) -> str:
    """Returns what is surely wrong with a value that a query names; empty if nothing is."""
    flaws: list[str] = []
    for found in [*_ADDED.finditer(query)][:_MAX_COMPARED]:
        for data, place in _owner(found["column"], query, tables):
            flaws.append(_flaw_of_sum(data, place, found["function"].lower()))
    # A query that changes the case of texts looks after its spelling.
    compared = [] if _CASED.search(query) else [*_COMPARED.finditer(query)][:_MAX_COMPARED]
    for found in compared:
        for data, place in _owner(found["column"], query, tables):
            for text in re.findall(TEXT, found["value"] or found["values"]):
                value = text[1:-1].replace("''", "'")
                flaws.append(_flaw(data, place, found["sign"] or "=", value))
    return next(filter(None, flaws), "")


def _owner(column: str, query: str, tables: Mapping[str, rows.Data]) -> list[tuple[rows.Data, int]]:
    """Returns the one table that has a column, and its place there."""
    name = bare(column).casefold()
    found = [
        (data, place)
        for data in tables.values()
        for place, each in enumerate(data.names)
        if each.casefold() == name
    ]
    # A column of several tables, or of none: an alias, whose values nobody knows yet.
    is_alias = re.search(rf"\bas\s+[\"`\[]?{re.escape(name)}\b", query, re.IGNORECASE)
    return found if len(found) == 1 and not is_alias else []


def _flaw_of_sum(data: rows.Data, place: int, function: str) -> str:
    """Says where SQLite would count texts as numbers by how they begin, without a word."""
    name, kind = data.columns[place]
    is_text = kind in ("text", "date", "datetime", "json")
    if not is_text or all(is_number(each.strip()) for each in _texts(data, place)):
        return ""
    numbers = [each for each, kind in data.columns if kind in ("integer", "number")]
    hint = f": columns of numbers are {', '.join(numbers)}" if numbers else ""
    return f"{name} holds texts, and {function}() needs numbers{clip(hint, 200)}"


def _flaw(data: rows.Data, place: int, sign: str, value: str) -> str:
    name, kind = data.columns[place]
    if kind in ("date", "datetime"):
        if re.match(r"\d{4}-\d{2}|\d{4}$", value) or not re.search(r"\d", value):
            return ""
        first = next((str(row[place]) for row in data.rows if row[place] is not None), "2026-01-31")
        return f"{name} holds dates as {first}: write {value!r} that way"
    if kind in ("integer", "number"):
        return "" if is_number(value.strip()) else f"{name} holds numbers, and {value!r} is none"
    if kind != "text" or sign not in ("=", "=="):
        return ""
    values = _texts(data, place)
    same = [each for each in values if each.casefold() == value.casefold()]
    if len(same) > 1 and in_several_cases(data, place):
        listed = " and ".join(map(repr, same))
        return f"{name} has {listed}: write lower({name}) = {value.lower()!r} for all of them"
    return "" if same or not values else _flaw_of_spelling(data, place, value, values)


def _flaw_of_spelling(data: rows.Data, place: int, value: str, values: Sequence[str]) -> str:
    absent = f"{data.names[place]} never is {clip(value, 60)!r}"
    for other, (column, kind) in enumerate(data.columns):
        there = _texts(data, other) if kind == "text" and other != place else []
        for each in there:
            if each.casefold() == value.casefold():
                return f"{absent}, but {column} is: compare {column} with {clip(each, 60)!r}"
    near = [each for each in values if loose(each) == loose(value)]
    if not near:
        folded = {each.casefold(): each for each in values}
        close = difflib.get_close_matches(value.casefold(), folded, n=2, cutoff=_NEAR)
        near = [folded[each] for each in close]
    return f"{absent}: did you mean {clip(near[0], 60)!r}?" if len(near) == 1 else ""


def _texts(data: rows.Data, place: int) -> list[str]:
    """Returns the different texts of a column; none if they are too many to be sure."""
    found = dict.fromkeys(row[place] for row in data.rows if isinstance(row[place], str))
    return list(found) if len(found) <= _MAX_VALUES else []
