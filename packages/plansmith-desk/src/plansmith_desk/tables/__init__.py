"""Built-in tools for tables in CSV, JSON and SQLite files and in results of other steps."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from plansmith.errors import ToolBusy, ToolFailed
from plansmith.plan import refs
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence, joined, read_sentence, stored_sentence
from plansmith.text import clip
from plansmith.tools.toolset import Arguments, BuiltIn, Job, ToolSet, known, noted
from plansmith_desk.folder import Folder
from plansmith_desk.sandbox.subprocesses import SUBPROCESSES, ProcessLimits
from plansmith_desk.sql.guard import exact_cell, exact_mean, is_decimal, select
from plansmith_desk.sql.rows import Data, RowLimits, as_result
from plansmith_desk.sql.wording import TookTooLong
from plansmith_desk.tables.catalogue import Catalogue, Fits, TableUnclear, column_of
from plansmith_desk.tables.query import grouped, keep_digits, memory, prepared, top_rows
from plansmith_desk.tables.read import TableLimits, from_values
from plansmith_desk.tables.rehearse import flaw_of_values
from plansmith_desk.tables.specs import DESCRIBE, EXPORT, GROUP, SQL, TOP, WRITE
from plansmith_desk.tables.write import check_ending, written

_TOP: Final = 3
_READING_S: Final = 10.0
_REHEARSAL_S: Final = 4.0


class TableTools(ToolSet):
    """The tools for tables of one folder; `write=False` leaves out those that write.

    Reading happens in a child process, since a small file can need very much memory.
    """

    def __init__(
        self,
        root: Path | Folder,
        *,
        write: bool = True,
        limits: TableLimits | None = None,
        rows: RowLimits | None = None,
    ) -> None:
        self._folder = Folder.of(root)
        self._limits = limits or TableLimits()
        # A file that is written of rows must have them all: the usual table fits.
        self._rows = rows or RowLimits(rows=1_000, most_rows=10_000, letters_all=2_000_000)
        tools = [
            BuiltIn(spec, partial(self._in_child, act))
            for act, spec in (("describe", DESCRIBE), ("sql", SQL), ("top", TOP), ("group", GROUP))
        ]
        writing = [BuiltIn(WRITE, self._write), BuiltIn(EXPORT, self._export)]
        super().__init__([*tools, *(writing if write else [])])

    async def rehearse(self, tool: str, inputs: Mapping[str, Json]) -> str:
        """Returns what is wrong with a call, in a sentence; empty if nothing is known to be.

        A query is prepared over the real files and its values are looked up; nothing is run.
        """
        if tool not in self._tools or tool == WRITE.name or next(refs.find(dict(inputs)), None):
            return ""
        given = {"tool": tool.partition(".")[2], "inputs": dict(inputs)}
        try:
            self._check(tool, dict(inputs))
            rows = replace(self._rows, seconds=min(_REHEARSAL_S, self._rows.seconds))
            work = partial(self._in_child, "rehearse", given, None, rows=rows, reading_s=1.0)
            return read_sentence(await asyncio.to_thread(work))
        except ToolFailed:
            return ""  # it takes too long, or other checks tell what is wrong

    def _in_child(
        self,
        act: str,
        given: Arguments,
        job: Job | None,
        *,
        rows: RowLimits | None = None,
        reading_s: float = _READING_S,
    ) -> Json:
        rows = rows or self._rows
        meant: dict[str, Json] = {}
        arguments = {
            "root": str(self._folder.root),
            "limits": asdict(self._limits),
            "rows": asdict(rows),
            "request": job.call.request if job else "",
            "meant": meant,
            "act": act,
            "given": given,
        }
        limits = ProcessLimits(seconds=rows.seconds + reading_s, memory_bytes=rows.memory_bytes)
        here = f"{__name__}:read_here"
        while True:
            found: Any = SUBPROCESSES.call(here, arguments, limits=limits, job=job)
            unclear = found.get("unclear")
            if unclear is None or job is None:
                return cast("Json", found["done"])
            question = Sentence(
                "There are several tables called {name}:\n{listed}\nWhich one is meant?",
                name=clip(unclear["name"], 60),
                listed=unclear["listed"],
            )
            meant[unclear["name"]] = job.call.ask(question, options=unclear["options"])

    def _write(self, given: Arguments, job: Job) -> Json:
        del job
        if given["rows"] or "columns" not in given:
            data = from_values(given["rows"], "rows", limits=self._limits)
        else:
            data = Data([(name, "null") for name in given["columns"]], [])
        names = given.get("columns", data.names)
        for name in names:
            known(name, data.names)
        places = [data.names.index(name) for name in names]
        rows = [[row[place] for place in places] for row in data.rows]
        return self._save(given, names, rows, [])

    def _export(self, given: Arguments, job: Job) -> Json:
        check_ending(given["path"])
        found = cast("dict[str, Any]", self._in_child("whole", given, job))
        return self._save(given, found["names"], found["rows"], found["notes"])

    def _save(
        self,
        given: Arguments,
        names: Sequence[str],
        rows: Sequence[Sequence[Any]],
        notes: list[str],
    ) -> Json:
        path: str = given["path"]
        text = written(path, names, rows, notes)
        most, over = self._limits.bytes_each, given.get("overwrite", False)
        done = self._folder.write(path, text.encode(), overwrite=over, most=most)
        result: dict[str, Json] = {
            "path": "/".join(self._folder.parts(path)),
            "rows": len(rows),
            "created": done.created,
            "changed": done.changed,
        }
        return noted(result, notes)


def read_here(
    job: Job,
    *,
    root: str,
    limits: Mapping[str, Any],
    rows: Mapping[str, Any],
    act: str,
    given: Arguments,
    **said: Any,
) -> Json:
    """Does the reading work of `TableTools`; called in the child."""
    bounds: dict[str, Any] = {"limits": TableLimits(**limits), "rows": RowLimits(**rows)}
    with _Reader(Folder(Path(root)), job=job, **bounds, **said) as reader:
        try:
            return {"done": cast("Json", getattr(reader, act)(given))}
        except TableUnclear as error:
            shown: dict[str, Json] = {"options": [*error.options], "listed": error.listed}
            return {"done": "", "unclear": {"name": error.name, **shown}}


class _Reader(Catalogue):
    """What each tool does with the tables of a folder, in this process."""

    def _data(
        self, table: Any, given: Arguments, name: str = "table", fits: Fits = lambda _: None
    ) -> Data:
        if not isinstance(table, str):
            return from_values(table, name, limits=self.limits)
        return self.table(table, given, fits)

    def describe(self, given: Arguments) -> Json:
        """Tells what is useful to know of a table before a query."""
        data = self._data(given["table"], given)
        columns: list[Json] = [
            _column(name, kind, [row[place] for row in data.rows])
            for place, (name, kind) in enumerate(data.columns)
        ]
        return noted({"rows": len(data.rows), "columns": columns}, data.notes)

    def whole(self, given: Arguments) -> Json:
        """Gives a whole table."""
        data = self._data(given["table"], given)
        return cast("Json", {"names": data.names, "rows": data.rows, "notes": data.notes})

    def sql(self, given: Arguments) -> Json:
        """Answers a query."""
        query, tables = self._prepared(given)
        return self._asked(query, tables, given.get("limit", self.rows.rows))

    def _prepared(self, given: Arguments) -> tuple[str, dict[str, Data]]:
        """Returns the query as SQLite understands it, and the tables it names."""
        named: dict[str, Any] = given.get("tables") or {}
        tables = {name: self._data(each, given, name) for name, each in named.items()}
        query = self._mended(given["query"], tables, given)
        if not tables:
            hint = self.unknown("").hint
            raise ToolFailed(Sentence("the query names no table of this folder"), hint=hint)
        return query, tables

    def _mended(self, query: str, tables: dict[str, Data], given: Arguments) -> str:
        """Returns a query whose tables and columns are there; adds the tables."""

        def load(name: str) -> Data:
            def fits(data: Data) -> None:
                with suppress(TableUnclear):
                    self._mended(query, {**tables, name: data}, given)

            return self._data(name, given, fits=fits)

        return prepared(query, tables, load, self.job, self.rows)

    def _asked(self, query: str, tables: Mapping[str, Data], limit: int) -> Json:
        with memory(tables, self.job, self.rows) as database:
            found = select(database, query, [], limit)
        _rounded_decimals(found, tables)
        keep_digits(found, tables.values())
        found.notes += [note for each in tables.values() for note in each.notes]
        return as_result(found, self.rows)

    def top(self, given: Arguments) -> Json:
        """Gives the rows with the greatest or lowest values."""
        data = self._data(given["table"], given, fits=partial(column_of, given["column"]))
        column = column_of(given["column"], data)
        count = int(given.get("count", 10))
        found = top_rows(data, column, count, lowest=given.get("lowest", False))
        return as_result(found, self.rows)

    def group(self, given: Arguments) -> Json:
        """Gives totals per group."""
        query_of = partial(grouped, by=given["by"], value=given.get("value"), how=given.get("how"))
        data = self._data(given["table"], given, fits=query_of)
        return self._asked(query_of(data), {"rows": data}, self.rows.most_rows)

    def rehearse(self, given: Arguments) -> Json:
        """Tells what is wrong with a call, without making it."""
        inputs: dict[str, Any] = given["inputs"]
        try:
            return self._problem(given["tool"], inputs)
        except (TookTooLong, ToolBusy):
            return ""  # nobody knows yet
        except ToolFailed as error:
            return cast("Json", stored_sentence(joined([error.message, error.hint])))

    def _problem(self, tool: str, inputs: dict[str, Any]) -> str:
        if tool == "sql":
            return flaw_of_values(*self._prepared(inputs))
        if tool == "export":
            check_ending(inputs["path"])
        data = self._data(inputs["table"], inputs)
        if tool == "top":
            column_of(inputs["column"], data)
        if tool == "group":
            grouped(data, inputs["by"], inputs.get("value"), inputs.get("how"))
        return ""


def _rounded_decimals(found: Data, tables: Mapping[str, Data]) -> None:
    """Rounds results of arithmetic on decimal columns to decimals."""
    if all(is_decimal(value) for row in found.rows for value in row):
        return
    if all(is_decimal(value) for data in tables.values() for row in data.rows for value in row):
        found.rows = [[exact_cell(value) for value in row] for row in found.rows]


def _column(name: str, kind: str, values: Sequence[Any]) -> Json:
    """Describes a column: what is useful to know before a query."""
    present = [each for each in values if each is not None]
    counts = Counter(present)
    found: dict[str, Json] = {
        "name": name,
        "type": kind,
        "missing": len(values) - len(present),
        "distinct": len(counts),
    }
    if present and kind in ("integer", "number", "date", "datetime"):
        found |= {"min": min(present), "max": max(present)}
    if present and kind in ("integer", "number"):
        found["mean"] = exact_mean(cast("list[float]", present))
    top: list[Json] = [
        {"value": value[:80] if isinstance(value, str) else value, "count": count}
        for value, count in counts.most_common(_TOP)
    ]
    found["top"] = top
    return found
