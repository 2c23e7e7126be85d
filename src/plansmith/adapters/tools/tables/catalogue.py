"""Finds the tables of a folder by what people call them, and reads them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final, Self

from plansmith.adapters.tools.folder import Folder
from plansmith.adapters.tools.sql.rows import RowLimits
from plansmith.adapters.tools.tables.database import ENDINGS as DATABASES
from plansmith.adapters.tools.tables.database import DatabaseCopy
from plansmith.adapters.tools.tables.read import Data, TableLimits, read_table
from plansmith.adapters.tools.toolset import Arguments, Job
from plansmith.errors import ToolFailed
from plansmith.text import clip

FILES: Final = (".csv", ".tsv", ".json", ".jsonl")
_MOST_FILES: Final = 500
_MOST_DATABASES: Final = 10
_MOST_NAMED: Final = 12
_LOOSE: Final = re.compile(r"[\s_.-]+")


def loose(name: str) -> str:
    """Returns a name without letter case, spaces, underscores and hyphens."""
    return _LOOSE.sub("", name.casefold())


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is: a file, or a table of a SQLite file."""

    path: str
    table: str = ""

    def __str__(self) -> str:
        return f"{self.path}/{self.table}" if self.table else self.path

    @property
    def called(self) -> tuple[frozenset[str], ...]:
        """What it can be called, the surest names first."""
        whole, last = str(self).casefold(), self.path.casefold().rpartition("/")[2]
        stem, table = last.rpartition(".")[0], self.table.casefold()
        if not table:
            exact = {whole}, {last}, {stem}, {loose(stem), loose(last)}
        else:
            both = {table, f"{stem}.{table}", f"{stem}/{table}", f"{last}.{table}"}
            exact = {whole}, {f"{last}/{table}"}, both, {loose(each) for each in both}
        return tuple(map(frozenset, exact))

    @property
    def word(self) -> str:
        """The one word that people use for it."""
        return self.table or self.path.rpartition("/")[2].rpartition(".")[0]


class Catalogue:
    """The tables of one folder; SQLite files are copied at most once. Close it after use."""

    def __init__(self, folder: Folder, *, limits: TableLimits, rows: RowLimits, job: Job) -> None:
        self._folder = folder
        self._limits = limits
        self._rows = rows
        self._job = job
        self._stack = ExitStack()
        self._copies: dict[str, DatabaseCopy] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def places(self) -> list[Place]:
        """All tables, files first; a database that cannot be read has none."""
        files, databases = files_of(self._folder)
        found = [Place(path) for path in files]
        for path in databases:
            try:
                found += [Place(path, table) for table in self._copy(path).tables()]
            except ToolFailed:
                continue  # asked for by its name, it says why
        return found

    def find(self, name: str) -> Place | None:
        """Returns the one table that is called so; refuses a name that several have."""
        fitting = fitting_places(name, self.places)
        if len(fitting) > 1:
            listed = " or ".join(f'"{each}"' for each in fitting[:_MOST_NAMED])
            raise ToolFailed(f"{clip(name, 60)} could be {listed}", hint="say which one")
        return fitting[0] if fitting else None

    def table(self, name: str, given: Arguments) -> Data:
        """Reads the table of a name; a file of any extension counts if it is named exactly."""
        place = self.find(name) or self._inside(name)
        if place is not None:
            return self.read(place, given)
        try:
            return self.read(Place(name), given)
        except ToolFailed as error:
            if error.message.startswith("there is no "):
                raise self.unknown(name) from None
            raise

    def read(self, place: Place, given: Arguments) -> Data:
        """Reads one table."""
        if place.table:
            found = self._copy(place.path).read(place.table, limits=self._limits)
        else:
            found = read_table(
                self._folder.read(place.path, most=self._limits.bytes_each),
                place.path,
                limits=self._limits,
                encoding=given.get("encoding"),
                header=given.get("header", True),
            )
        found.source = str(place)
        return found

    def unknown(self, name: str) -> ToolFailed:
        """Returns the error for a table that is not there; it lists those that are."""
        places = self.places
        more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
        listed = ", ".join(map(str, places[:_MOST_NAMED])) or "no tables here"
        return ToolFailed(f"there is no table {clip(name, 60)}", hint=f"there are {listed}{more}")

    def _inside(self, name: str) -> Place | None:
        """Returns the only table of a SQLite file that is named alone, or of its missing table."""
        database = next((each for each in files_of(self._folder)[1] if _begins(name, each)), None)
        if database is None:
            return None
        tables = self._copy(database).tables()
        if len(tables) == 1 and name.casefold() == database.casefold():
            return Place(database, tables[0])
        listed = ", ".join(f"{database}/{each}" for each in tables[:_MOST_NAMED]) or "no tables"
        if name.casefold() == database.casefold():
            raise ToolFailed(f"{database} has {len(tables)} tables", hint=f"name one: {listed}")
        raise ToolFailed(f"there is no table {clip(name, 60)}", hint=f"there are {listed}")

    def _copy(self, path: str) -> DatabaseCopy:
        if path not in self._copies:
            made = DatabaseCopy(self._folder, path, limits=self._rows, job=self._job)
            self._copies[path] = self._stack.enter_context(made)
        return self._copies[path]


def _begins(name: str, path: str) -> bool:
    return f"{name.removeprefix('./')}/".casefold().startswith(f"{path}/".casefold())


def files_of(folder: Folder) -> tuple[list[str], list[str]]:
    """Returns the paths of files with one table each, and of SQLite files; up to a limit."""
    paths = [path for path, _ in folder.walk(".")]
    files = sorted(islice((each for each in paths if each.lower().endswith(FILES)), _MOST_FILES))
    databases = sorted(each for each in paths if each.lower().endswith(DATABASES))
    return files, databases[:_MOST_DATABASES]


def fitting_places(name: str, places: Iterable[Place]) -> list[Place]:
    """Returns the tables that a name can mean: those that bear it most exactly."""
    wanted = name.strip().removeprefix("./").casefold()
    forms = (wanted, wanted, wanted, loose(wanted))
    called = [(place, place.called) for place in places]
    for stage, form in enumerate(forms):
        fitting = [place for place, names in called if form in names[stage]]
        if fitting:
            return fitting
    return []


_SOURCE: Final = re.compile(
    r"""\b(from|join)(\s+)("[^"]+"|'[^']+'|`[^`]+`|\[[^\]]+\]|[\w./-]*\w)""", re.IGNORECASE
)


def named_places(
    query: str, places: Sequence[Place], *, known: Container[str] = ()
) -> tuple[str, dict[str, Place]]:
    """Replaces the tables in a query by quoted names; returns query and tables by name.

    Names in `known` are already tables; a name that several tables have is left as it is.
    """
    found: dict[str, Place] = {}

    def put(match: re.Match[str]) -> str:
        name = match[3].strip("\"'`[]")
        fitting = [] if name in known else fitting_places(name, places)
        if len(fitting) != 1:
            return match[0]
        found[name] = fitting[0]
        return f'{match[1]}{match[2]}"{name}"'

    return _SOURCE.sub(put, query), found


def column_of(name: str, data: Data) -> str:
    """Returns the column that a name means, in any letter case, with or without underscores."""
    found = meant_columns(name, [data])
    if len(found) == 1:
        return found[0]
    raise no_column(name, {data.source or "the table": data})


def meant_columns(name: str, tables: Iterable[Data]) -> list[str]:
    """Returns the columns that a name can mean, each once."""
    names = list(dict.fromkeys(column for data in tables for column in data.names))
    for form in (str, str.casefold, loose):
        found = [each for each in names if form(each) == form(name)]
        if found:
            return found
    return []


def no_column(name: str, tables: Mapping[str, Data]) -> ToolFailed:
    """Returns the error for a column that is not there; it lists those that are."""
    shown = [f"{data.source or key} has {', '.join(data.names)}" for key, data in tables.items()]
    names = [column for data in tables.values() for column in data.names]
    near = difflib.get_close_matches(name.rpartition(".")[2], names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    hint += clip("; ".join(shown), 400)
    return ToolFailed(f"there is no column {clip(name, 60)}", hint=hint)
