"""Finds the tables of a folder by what people call them, and reads them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final, Self

from plansmith.errors import ToolFailed
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.text import clip
from plansmith.tools.toolset import Arguments, Job
from plansmith_desk.folder import Folder, NoSuchFile
from plansmith_desk.sql.rows import RowLimits
from plansmith_desk.tables.database import ENDINGS as DATABASES
from plansmith_desk.tables.database import DatabaseCopy
from plansmith_desk.tables.read import Data, TableLimits, read_table

FILES: Final = (".csv", ".tsv", ".json", ".jsonl")
_MOST_FILES: Final = 500
_MOST_DATABASES: Final = 20
_MOST_BYTES: Final = 50_000_000  # of databases that are opened only to see what they have
_MOST_NAMED: Final = 12
_ROWS_SHOWN: Final = 2
_LOOSE: Final = re.compile(r"[\s_.-]+")


def loose(name: str) -> str:
    """Returns a name without letter case, spaces, underscores and hyphens."""
    return _LOOSE.sub("", name.casefold())


Fits = Callable[[Data], object]  # fails with `ToolFailed` if a table is not meant


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is: a file, or a table of a SQLite file, which may be its only one."""

    path: str
    table: str = ""
    alone: bool = False

    def __str__(self) -> str:
        return f"{self.path}/{self.table}" if self.table else self.path

    @property
    def called(self) -> tuple[frozenset[str], ...]:
        """What it can be called, the surest names first."""
        whole, last = str(self).casefold(), self.path.casefold().rpartition("/")[2]
        stem, table = last.rpartition(".")[0], self.table.casefold()
        file = {self.path.casefold()}, {last}, {stem}, {loose(stem), loose(last)}
        if not table:
            return tuple(map(frozenset, file))
        both = {table, f"{stem}.{table}", f"{stem}/{table}", f"{last}.{table}"}
        inner = {whole}, {f"{last}/{table}"}, both, {loose(each) for each in both}
        pairs = zip(inner, file, strict=True)
        return tuple(frozenset(names | (more if self.alone else set())) for names, more in pairs)

    @property
    def word(self) -> str:
        """The one word that people use for it."""
        return self.table or self.path.rpartition("/")[2].rpartition(".")[0]


class TableUnclear(Exception):
    """A name that several tables have, all of which fit."""

    def __init__(self, name: str, tables: Sequence[Data]) -> None:
        super().__init__(name)
        self.name = name
        self.tables = tables

    def to_json(self) -> Json:
        """Returns what a person needs to choose: the columns and the first rows of each."""
        return {
            "name": self.name,
            "options": [each.source for each in self.tables],
            "listed": "\n".join(_beginning(each) for each in self.tables),
        }


def _beginning(data: Data) -> str:
    rows = [data.names, *data.rows[:_ROWS_SHOWN]]
    lines = [
        f"  {clip(', '.join('' if cell is None else str(cell) for cell in row))}" for row in rows
    ]
    return "\n".join([f"{data.source}:", *lines])


class Catalogue:
    """The tables of one folder; SQLite files are copied at most once. Close it after use."""

    def __init__(
        self,
        folder: Folder,
        *,
        limits: TableLimits,
        rows: RowLimits,
        job: Job,
        request: str = "",
        meant: Mapping[str, str] | None = None,
    ) -> None:
        self._request = request.casefold()
        self._meant = meant or {}
        self._folder = folder
        self._limits = limits
        self._rows = rows
        self._job = job
        self._stack = ExitStack()
        self._copies: dict[str, DatabaseCopy] = {}
        self._skipped: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def places(self) -> list[Place]:
        """All tables, files first; not those of databases that are broken or too large to try."""
        files, databases = files_of(self._folder)
        found = [Place(path) for path in files]
        left = _MOST_BYTES
        for path, size in databases.items():
            if size > left:
                self._skipped.append(path)
                continue
            left -= size
            try:
                tables = self._copy(path).tables()
            except ToolFailed:
                continue  # asked for by its name, it says why
            found += [Place(path, table, alone=len(tables) == 1) for table in tables]
        return found

    def table(self, name: str, given: Arguments, fits: Fits = lambda _: None) -> Data:
        """Reads the table of a name; a file of any extension counts if it is named exactly.

        Of several the one counts whose file the request names, else the one that `fits`.
        """
        places = fitting_places(name, self.places)
        if len(places) > 1:
            return self._one_of(name, places, given, fits)
        place = places[0] if places else self._inside(name)
        if place is not None:
            return self.read(place, given)
        try:
            return self.read(Place(name), given)
        except NoSuchFile:
            raise self.unknown(name) from None

    def _one_of(self, name: str, places: list[Place], given: Arguments, fits: Fits) -> Data:
        said = [place for place in places if str(place) == self._meant.get(name)]
        said = said or [place for place in places if _is_named(place, self._request)]
        failed: ToolFailed | None = None
        fitting: list[Data] = []
        for place in said if len(said) == 1 else places[:_MOST_NAMED]:
            data = self.read(place, given)
            try:
                fits(data)
            except ToolFailed as error:
                failed = failed or error
            else:
                fitting.append(data)
        if not fitting and failed is not None:
            raise failed
        if len(fitting) > 1:
            raise TableUnclear(name, fitting)
        chosen = Sentence("{name} is {place}", name=clip(name, 60), place=fitting[0].source)
        fitting[0].notes.append(str(chosen))
        return fitting[0]

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
        more += (
            f"; name tables of {', '.join(self._skipped)} with the file" if self._skipped else ""
        )
        listed = ", ".join(map(str, places[:_MOST_NAMED])) or "no tables here"
        return ToolFailed(
            Sentence("there is no table {name}", name=clip(name, 60)),
            hint=f"there are {listed}{more}",
        )

    def _inside(self, name: str) -> Place | None:
        """Returns a table of the SQLite file that a name begins with; refuses one it has not."""
        path = next((each for each in files_of(self._folder)[1] if _begins(name, each)), None)
        if path is None:
            return None
        tables = self._copy(path).tables()
        places = [Place(path, table, alone=len(tables) == 1) for table in tables]
        fitting = fitting_places(name, places)
        if fitting:
            return fitting[0]
        listed = ", ".join(map(str, places[:_MOST_NAMED])) or "no tables"
        if name.casefold() == path.casefold():
            raise ToolFailed(
                f"{path} has {len(tables)} tables", hint=Sentence("name one: {names}", names=listed)
            )
        raise ToolFailed(
            Sentence("there is no table {name}", name=clip(name, 60)),
            hint=Sentence("there are {names}", names=listed),
        )

    def _copy(self, path: str) -> DatabaseCopy:
        if path not in self._copies:
            made = DatabaseCopy(self._folder, path, limits=self._rows, job=self._job)
            self._copies[path] = self._stack.enter_context(made)
        return self._copies[path]


def _is_named(place: Place, request: str) -> bool:
    """Whether a request names the file of a table."""
    file = place.path.casefold().rpartition("/")[2]
    return re.search(rf"(?<![\w.-]){re.escape(file)}(?![\w-])", request) is not None


def _begins(name: str, path: str) -> bool:
    return f"{name.removeprefix('./')}/".casefold().startswith(f"{path}/".casefold())


def files_of(folder: Folder) -> tuple[list[str], dict[str, int]]:
    """Returns the paths of files with one table each, and SQLite files with sizes."""
    sizes = {path: state.st_size for path, state in folder.walk(".")}
    files = sorted(islice((each for each in sizes if each.lower().endswith(FILES)), _MOST_FILES))
    databases = sorted(each for each in sizes if each.lower().endswith(DATABASES))
    return files, {path: sizes[path] for path in databases[:_MOST_DATABASES]}


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


# A text comes first, so that what it says is never taken for a part of the query.
_SOURCE: Final = re.compile(
    r"""'(?:[^']|'')*'|\b(from|join)(\s+)("[^"]+"|'[^']+'|`[^`]+`|\[[^\]]+\]|[\w./-]*\w)""",
    re.IGNORECASE,
)


def named_places(
    query: str, places: Sequence[Place], *, known: Container[str] = ()
) -> tuple[str, dict[str, Place]]:
    """Replaces the tables in a query by quoted names; returns query and tables by name.

    Names in `known` are already tables; a name that several tables have is left as it is.
    """
    found: dict[str, Place] = {}

    def put(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
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
    return ToolFailed(Sentence("there is no column {name}", name=clip(name, 60)), hint=hint)
