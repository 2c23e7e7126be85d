"""Finds the tables of a folder and their columns by what people call them, and reads them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, Self

from plansmith.errors import ToolFailed
from plansmith.plan.sentence import Sentence
from plansmith.text import clip
from plansmith_desk.folder import Folder, NoSuchFile
from plansmith_desk.sql.rows import Data, RowLimits
from plansmith_desk.tables.read import ENDINGS as DATABASES
from plansmith_desk.tables.read import DatabaseCopy, TableLimits, read_table
from plansmith_desk.toolset import Arguments, Job

FILES: Final = (".csv", ".tsv", ".json", ".jsonl")
_MAX_BYTES: Final = 50_000_000  # of databases that are opened only to see what they have
_MAX_NAMED: Final = 12
Fits = Callable[[Data], object]  # fails with `ToolFailed` if a table is not meant


def loose(name: str) -> str:
    """Returns a name without letter case, spaces, underscores and hyphens."""
    return re.sub(r"[\s_.-]+", "", name.casefold())


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table is: a file, or a table of a SQLite file, which may be its only one."""

    path: str
    table: str = ""
    alone: bool = False

    def __str__(self) -> str:
        return f"{self.path}/{self.table}" if self.table else self.path

    def called(self) -> list[set[str]]:
        path, table = self.path.casefold(), self.table.casefold()
        last = path.rpartition("/")[2]
        stem = last.rpartition(".")[0]
        file = [{path}, {last}, {stem}, {loose(stem), loose(last)}]
        if not table:
            return file
        both = {table, f"{stem}.{table}", f"{stem}/{table}", f"{last}.{table}"}
        inner = [{f"{path}/{table}"}, {f"{last}/{table}"}, both, {loose(each) for each in both}]
        if not self.alone:
            return inner
        return [names | more for names, more in zip(inner, file, strict=True)]


def _fitting(name: str, places: Iterable[Place]) -> list[Place]:
    """Returns the tables that a name can mean: those that bear it most exactly."""
    wanted = name.strip().removeprefix("./").casefold()
    called = [(place, place.called()) for place in places]
    for stage, form in enumerate((wanted, wanted, wanted, loose(wanted))):
        fitting = [place for place, names in called if form in names[stage]]
        if fitting:
            return fitting
    return []


class TableUnclear(Exception):
    """A name that several tables have, all of which fit."""

    def __init__(self, name: str, tables: Sequence[Data]) -> None:
        super().__init__(name)
        self.name = name
        self.options = [each.source for each in tables]
        lines: list[str] = []
        for each in tables:
            lines.append(f"{each.source}:")
            for row in (each.names, *each.rows[:2]):
                cells = ("" if cell is None else str(cell) for cell in row)
                lines.append(f"  {clip(', '.join(cells))}")
        self.listed = "\n".join(lines)


class Catalogue:
    """The tables of one folder; SQLite files are copied at most once. Close it after use.

    Where several tables have a name, `chosen` says which one a person chose, and `request` may.
    """

    def __init__(
        self,
        *,
        root: Path,
        limits: TableLimits,
        rows: RowLimits,
        job: Job,
        request: str,
        chosen: Mapping[str, str],
    ) -> None:
        self.limits, self.rows, self.job = limits, rows, job
        self._folder = folder = Folder(root)
        self._request = request.casefold()
        self._chosen = chosen
        self._stack = ExitStack()
        self._copies: dict[str, DatabaseCopy] = {}
        self._skipped: list[str] = []
        sizes = {path: state.st_size for path, state in folder.walk(".")}
        self._files = sorted(each for each in sizes if each.lower().endswith(FILES))[:500]
        databases = sorted(each for each in sizes if each.lower().endswith(DATABASES))
        self._databases = {path: sizes[path] for path in databases[:20]}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def _places(self) -> list[Place]:
        """All tables, files first; not those of databases that are broken or too large to try."""
        found = [Place(path) for path in self._files]
        left = _MAX_BYTES
        for path, size in self._databases.items():
            if size > left:
                self._skipped.append(path)
                continue
            left -= size
            try:
                found += self._inside(path)
            except ToolFailed:
                continue  # asked for by its name, it says why
        return found

    def _inside(self, path: str) -> list[Place]:
        tables = self._copy(path).tables()
        return [Place(path, table, alone=len(tables) == 1) for table in tables]

    def _copy(self, path: str) -> DatabaseCopy:
        if path not in self._copies:
            made = DatabaseCopy(self._folder, path, limits=self.rows, job=self.job)
            self._copies[path] = self._stack.enter_context(made)
        return self._copies[path]

    def table(self, name: str, given: Arguments, fits: Fits = lambda _: None) -> Data:
        """Reads the table of a name; a file of any extension counts if it is named exactly.

        Of several the one counts whose file the request names, else the one that `fits`.
        """
        places = _fitting(name, self._places) or self._begun_by(name) or [Place(name)]
        if len(places) > 1:
            chosen = [place for place in places if str(place) == self._chosen.get(name)]
            chosen = chosen or [place for place in places if self._is_requested(place)]
            failed: ToolFailed | None = None
            fitting: list[Data] = []
            for place in chosen if len(chosen) == 1 else places[:_MAX_NAMED]:
                data = self._read(place, given)
                try:
                    fits(data)
                    fitting.append(data)
                except ToolFailed as error:
                    failed = failed or error
            if not fitting and failed is not None:
                raise failed
            if len(fitting) > 1:
                raise TableUnclear(name, fitting)
            fitting[0].notes.append(f"{clip(name, 60)} is {fitting[0].source}")
            return fitting[0]
        try:
            return self._read(places[0], given)
        except NoSuchFile:
            raise self.unknown(name) from None

    def _begun_by(self, name: str) -> list[Place]:
        """Returns a table of the SQLite file that a name begins with; refuses one it has not."""
        wanted = f"{name.removeprefix('./')}/".casefold()
        paths = [each for each in self._databases if wanted.startswith(f"{each}/".casefold())]
        if not paths:
            return []
        path = paths[0]
        places = self._inside(path)
        fitting = _fitting(name, places)
        if fitting:
            return fitting[:1]
        hint = f"there are {', '.join(map(str, places[:_MAX_NAMED])) or 'no tables'}"
        if name.casefold() == path.casefold():
            raise ToolFailed(f"{path} has {len(places)} tables", hint=hint)
        raise ToolFailed(Sentence("there is no table {name}", name=clip(name, 60)), hint=hint)

    def _is_requested(self, place: Place) -> bool:
        file = re.escape(place.path.casefold().rpartition("/")[2])
        return re.search(rf"(?<![\w.-]){file}(?![\w-])", self._request) is not None

    def _read(self, place: Place, given: Arguments) -> Data:
        if place.table:
            found = self._copy(place.path).read(place.table, limits=self.limits)
        else:
            found = read_table(
                self._folder.read(place.path, most=self.limits.bytes_each),
                place.path,
                limits=self.limits,
                encoding=given.get("encoding"),
                header=given.get("header", True),
            )
        found.source = str(place)
        return found

    def unknown(self, name: str) -> ToolFailed:
        listed = ", ".join(map(str, self._places[:_MAX_NAMED])) or "no tables here"
        left = len(self._places) - _MAX_NAMED
        more = f" and {left} more" if left > 0 else ""
        if self._skipped:
            more += f"; name tables of {', '.join(self._skipped)} with the file"
        message = Sentence("there is no table {name}", name=clip(name, 60))
        return ToolFailed(message, hint=f"there are {listed}{more}")


def column_of(name: str, data: Data) -> str:
    """Returns the column that a name means, in any letter case, with or without underscores."""
    found = matching_names(name, data.names)
    if len(found) == 1:
        return found[0]
    raise no_column(name, {data.source or "the table": data})


def matching_columns(name: str, tables: Iterable[Data]) -> list[str]:
    """Returns the columns that a name can mean, each once."""
    return matching_names(name, dict.fromkeys(column for data in tables for column in data.names))


def matching_names(name: str, names: Iterable[str]) -> list[str]:
    """Returns those that a name can mean: itself, in any letter case, or loosely."""
    for form in (str, str.casefold, loose):
        found = [each for each in names if form(each) == form(name)]
        if found:
            return found
    return []


def no_column(name: str, tables: Mapping[str, Data]) -> ToolFailed:
    """Returns the error for a column that is not there; it lists those that are."""
    columns = [f"{data.source or key} has {', '.join(data.names)}" for key, data in tables.items()]
    names = [column for data in tables.values() for column in data.names]
    near = difflib.get_close_matches(name.rpartition(".")[2], names, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    hint += clip("; ".join(columns), 400)
    return ToolFailed(Sentence("there is no column {name}", name=clip(name, 60)), hint=hint)
