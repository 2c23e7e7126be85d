"""Makes tables with values from a domain, as files of many habits, and runs SQL on them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from random import Random
from statistics import median
from typing import Any, Final

from lab.training.rows.domains import CHOICES, ColumnKind, Domain, extra_column
from lab.training.rows.naming import cities, column_names, file_name, people
from lab.training.rows.row import Lang

_PLAIN: Final = re.compile(r"[^\W\d]\w*")
_RESERVED: Final = frozenset(
    [
        "order",
        "group",
        "index",
        "to",
        "from",
        "values",
        "table",
        "check",
        "default",
        "select",
        "where",
        "case",
        "when",
        "then",
        "else",
        "end",
        "limit",
        "in",
        "is",
        "as",
        "by",
        "and",
        "or",
        "not",
        "on",
        "join",
        "set",
        "all",
        "distinct",
        "having",
        "union",
        "add",
        "primary",
        "unique",
    ]
)
_MAX_LIST: Final = 80
# Columns that nobody asks about: key, kind and what they are called.
_EXTRA: Final = (
    extra_column("ref/参考号", "code", "RF", ("reference",), ("参考号",)),
    extra_column("remark/备注", "text", "", ("remark",), ("备注",)),
    extra_column("currency/币种", "type", "EUR=人民币", ("currency",), ("币种",)),
    extra_column("source/来源", "type", "web=网站, import=导入", ("source",), ("来源",)),
    extra_column("version/版本", "int", "1..4", ("version",), ("版本",)),
    extra_column("contact/联系电话", "phone", "", ("contact number",), ("联系电话",)),
)
LISTED: Final = 6  # a text column with at most so many values is shown with all of them


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its kind and the name it has in this file."""

    of: ColumnKind
    name: str

    @property
    def sql(self) -> str:
        """The name as a query writes it."""
        return identifier(self.name)

    def words(self, lang: Lang) -> tuple[str, ...]:
        """What people call the column."""
        return self.of.words_en if lang == "en" else self.of.words_zh


@dataclass(slots=True)
class Table:
    """A table that is a file, or a table of a database file."""

    domain: Domain
    path: str
    columns: list[Column]
    rows: list[list[Any]]
    value_lang: Lang
    dates: str = "-"
    source: str = ""  # the name in FROM

    def values(self, column: Column) -> list[Any]:
        """Returns the values of a column that are there."""
        place = self.columns.index(column)
        return [row[place] for row in self.rows if row[place] is not None]

    def listed(self, column: Column) -> list[str]:
        """Returns all values of a text column if the folder lines show all of them."""
        found = list(dict.fromkeys(self.values(column)))
        few = all(isinstance(each, str) for each in found) and len(found) <= LISTED
        dated = column.of.kind == "datetime" or (column.of.kind == "date" and self.dates == "-")
        short = len("/".join(map(str, found))) <= _MAX_LIST and len(self.rows) > len(found)
        return found if few and short and not dated else []

    def of_kind(self, *kinds: str) -> list[Column]:
        return [each for each in self.columns if each.of.kind in kinds]

    @property
    def numbers(self) -> list[Column]:
        return [each for each in self.columns if each.of.is_number]

    @property
    def sums(self) -> list[Column]:
        """The columns whose values can be added up."""
        return [each for each in self.numbers if each.of.adds_up]

    @property
    def groups(self) -> list[Column]:
        """The columns whose values make groups."""
        return [
            each
            for each in self.columns
            if each.of.kind in ("place", "status", "type", "name")
            or (each.of.kind == "person" and not each.of.may_miss)
            if len(set(self.values(each))) < len(self.rows) * 0.8
        ]

    @property
    def label(self) -> Column | None:
        """The column that names a row."""
        kinds = ("name", "person", "code", "id")
        first = self.columns[0]
        if first.of.kind in kinds:
            return first
        return next((each for kind in kinds for each in self.of_kind(kind)), None)


def identifier(name: str) -> str:
    """Writes a name for SQL, in quotes only where it needs them."""
    plain = _PLAIN.fullmatch(name) and name.casefold() not in _RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


def literal(value: Any) -> str:
    """Writes a value for SQL."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return f"{value:g}" if isinstance(value, float) and value == int(value) else str(value)


def stem(path: str) -> str:
    """Returns the last name of a path without its ending."""
    last = path.rpartition("/")[2]
    return last.rpartition(".")[0] or last


def name_sources(tables: Sequence[Table]) -> None:
    """Gives each table its name in FROM: its stem where that is plain and unique."""
    stems = [stem(each.path).casefold() for each in tables]
    for table in tables:
        own = stem(table.path)
        unique = stems.count(own.casefold()) == 1
        table.source = own if unique and identifier(own) == own else identifier(table.path)


def database(tables: Iterable[Table]) -> sqlite3.Connection:
    """Returns a database in memory with the tables, named as queries name them."""
    found = sqlite3.connect(":memory:")
    aggregate: Any = _Median  # the checker wants whole numbers
    found.create_aggregate("median", 1, aggregate)
    for table in tables:
        columns = ", ".join(each.sql for each in table.columns)
        found.execute(f"CREATE TABLE {table.source} ({columns})")
        places = ", ".join("?" * len(table.columns))
        found.executemany(f"INSERT INTO {table.source} VALUES ({places})", table.rows)
    return found


class _Median:
    def __init__(self) -> None:
        self._values: list[float] = []

    def step(self, value: float | None) -> None:
        self._values += [] if value is None else [value]

    def finalize(self) -> float | None:
        return median(self._values) if self._values else None


def make_table(rng: Random, domain: Domain, lang: Lang, now: datetime) -> Table:
    """Makes a table of a domain; the path still lacks its ending and folder."""
    value_lang: Lang = lang if rng.random() < 0.92 else ("zh" if lang == "en" else "en")
    kept = list(domain.columns)
    for _ in range(rng.choice((0, 0, 1, 2))):
        if len(kept) > 4:
            kept.remove(rng.choice(kept[1:]))
    style = rng.choices(("snake", "title", "space", "camel", "upper"), (70, 10, 8, 7, 5))[0]
    kept += rng.sample(_EXTRA, rng.choice((0, 0, 1, 1, 2)))
    names = column_names(rng, domain, kept, lang)
    columns = [Column(each, _named(name, style)) for each, name in zip(kept, names, strict=True)]
    dates = rng.choices(("-", "/", "."), (90, 7, 3))[0]
    count = rng.choice((8, 10, 12, 15, 18, 20, 24, 30, 36, 48, 60))
    maker = _Values(rng, value_lang, now, dates, count)
    made = [maker.column(each.of) for each in columns]
    rows = [[values[place] for values in made] for place in range(count)]
    path = file_name(rng, domain, lang)
    return Table(domain, path, columns, rows, value_lang, dates)


def _named(name: str, style: str) -> str:
    words = name.split("_")
    match style:
        case "title":
            return " ".join(each.capitalize() if each.islower() else each for each in words)
        case "space":
            return " ".join(words)
        case "camel":
            return words[0] + "".join(each.capitalize() for each in words[1:])
        case "upper":
            return name.upper()
        case _:
            return name


class _Values:
    """Makes the values of columns."""

    def __init__(self, rng: Random, lang: Lang, now: datetime, dates: str, count: int) -> None:
        self._rng, self._now, self._dates = rng, now, dates
        self._lang: Lang = lang
        self._count = count
        self._people = people(rng, lang, rng.choice((5, 8, 14, 30)))

    def column(self, of: ColumnKind) -> list[Any]:
        """Returns the values of a whole column."""
        found = self._all(of)
        if of.may_miss:
            found = [None if self._rng.random() < 0.35 else each for each in found]
            found[self._rng.randrange(1, len(found))] = None
        return found

    def _all(self, of: ColumnKind) -> list[Any]:
        rng, count = self._rng, self._count
        if of.kind in CHOICES:
            values = self._choices(of)
            return [rng.choice(values) for _ in range(count)]
        if of.kind in ("date", "datetime"):
            return self._times(of)
        match of.kind:
            case "id":
                return [int(of.values) + place for place in range(count)]
            case "code":
                numbers = rng.sample(range(100, 1000), count)
                return [f"{of.values}-{each}" for each in numbers]
            case "month":
                return self._months()
            case "person":
                return self._persons()
            case "year" | "int" | "int0" | "money" | "float" | "float0":
                return [self._number(of) for _ in range(count)]
            case _:
                return [self._text(of.kind) for _ in range(count)]

    def _choices(self, of: ColumnKind) -> list[str]:
        """Returns the values of a column of choices; places that mean nothing else vary."""
        values = [each[self._lang == "zh"] for each in of.pairs]
        varies = of.kind == "place" and "~" in of.values
        return cities(self._rng, self._lang, len(values)) if varies else values

    def _persons(self) -> list[str]:
        if self._rng.random() < 0.5:
            return people(self._rng, self._lang, self._count)
        return [self._rng.choice(self._people) for _ in range(self._count)]

    def _text(self, kind: str) -> str:
        rng = self._rng
        if kind == "phone":
            return (
                f"+{rng.randrange(31, 99)} {rng.randrange(100, 999)} {rng.randrange(10**6, 10**7)}"
            )
        if kind == "email":
            first = rng.choice(("anna", "tom", "lucia", "david", "info", "sara", "peter", "kofi"))
            return (
                f"{first}{rng.randrange(90)}@{rng.choice(('example.org', 'post.net', 'mail.com'))}"
            )
        said = ("Very helpful", "Too slow", "Good prices", "Friendly staff", "Hard to find")
        said_zh = ("很好", "太慢了", "价格合理", "服务热情", "不好找")
        return rng.choice(said if self._lang == "en" else said_zh)

    def _number(self, of: ColumnKind) -> int | float:
        low, high = (float(each) for each in of.values.split(".."))
        rng = self._rng
        if of.kind in ("int0", "float0") and rng.random() < 0.15:
            return 0
        if of.kind in ("int", "int0", "year"):
            return rng.randint(int(low), int(high))
        return round(rng.uniform(low, high), 2 if of.kind == "money" else 1)

    def _months(self) -> list[str]:
        back = [(self._now.year * 12 + self._now.month - 1 - place) for place in range(14)]
        found = sorted(f"{each // 12}-{each % 12 + 1:02}" for each in back)
        return sorted(self._rng.choice(found) for _ in range(self._count))

    def _times(self, of: ColumnKind) -> list[str]:
        span = int(of.values or 0)
        days = (span * 365, 0) if span < 0 else (-30 * span, 30 * span) if span else (-425, -1)
        chosen = sorted(self._rng.randint(*days) for _ in range(self._count))
        found: list[str] = []
        for each in chosen:
            day = (self._now + timedelta(days=each)).date()
            clock = f" {self._rng.randrange(24):02}:{self._rng.randrange(60):02}"
            if of.kind == "datetime":
                found.append(day.isoformat() + clock)
            else:
                found.append(written(day, self._dates))
        return found


def written(day: date, dates: str) -> str:
    """Writes a day as the table's dates are written."""
    if dates == ".":
        return day.strftime("%d.%m.%Y")
    return day.isoformat().replace("-", dates)
