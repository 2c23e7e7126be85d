"""Built-in tools for tables in CSV and JSON files and in results of other steps."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, cast

from plansmith.adapters.tools.folder import Folder
from plansmith.adapters.tools.sql_guard import select
from plansmith.adapters.tools.sql_rows import Found, RowLimits, told
from plansmith.adapters.tools.sql_sums import exact_cell, exact_mean, is_decimal
from plansmith.adapters.tools.subprocesses import SUBPROCESSES, ProcessLimits
from plansmith.adapters.tools.tables_names import ENDINGS, meant_files, named_files
from plansmith.adapters.tools.tables_query import known, memory
from plansmith.adapters.tools.tables_read import (
    Data,
    TableLimits,
    from_values,
    is_number,
    read_table,
)
from plansmith.adapters.tools.tables_specs import DESCRIBE, SQL, WRITE
from plansmith.adapters.tools.toolset import Arguments, BuiltIn, Job, ToolSet, noted
from plansmith.errors import ToolFailed
from plansmith.plan.data import Json
from plansmith.ports import ContextBlock

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_TOP: Final = 3
_MOST_FILES: Final = 500
_MOST_TOLD: Final = 4
_MOST_COLUMNS: Final = 40
_LOOKED_AT: Final = 500
_FEW: Final = 8
_READING_S: Final = 10.0
_HERE: Final = "plansmith.adapters.tools.tables:read_here"


class TableTools(ToolSet):
    """The tools for tables of one folder; `write=False` leaves out the one that writes.

    What reads does so in a child process, since a small file can need very much memory.
    """

    def __init__(
        self,
        root: Path,
        *,
        write: bool = True,
        limits: TableLimits | None = None,
        rows: RowLimits | None = None,
    ) -> None:
        self._folder = Folder(root)
        self._limits = limits or TableLimits()
        self._rows = rows or RowLimits()
        tools = [
            BuiltIn(DESCRIBE, partial(self._in_child, "describe")),
            BuiltIn(SQL, partial(self._in_child, "sql")),
        ]
        super().__init__([*tools, *([BuiltIn(WRITE, self._write)] if write else [])])

    def files(self) -> list[str]:
        """The tables that lie in the folder, by path; only so many are looked for."""
        found = (path for path, _ in self._folder.walk(".") if path.lower().endswith(ENDINGS))
        return sorted(islice(found, _MOST_FILES))

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        """The columns of the tables that a request names, as context for a planner."""
        del token_limit  # a few lines
        return await asyncio.to_thread(self._known, query)

    def _known(self, query: str) -> list[ContextBlock]:
        lines: list[str] = []
        for path in meant_files(query, self.files())[:_MOST_TOLD]:
            try:
                columns = self._in_child("columns", {"table": path}, None)
            except ToolFailed:
                continue  # a table that cannot be read says so when it is asked
            lines.append(f"{path}: {columns}")
        return [ContextBlock("columns of files", "\n".join(lines), "tables")] if lines else []

    def _in_child(self, act: str, given: Arguments, job: Job | None) -> Json:
        place = {
            "root": str(self._folder.root),
            "limits": asdict(self._limits),
            "rows": asdict(self._rows),
        }
        limits = ProcessLimits(
            seconds=self._rows.seconds + _READING_S, memory_bytes=self._rows.memory_bytes
        )
        arguments = {"place": place, "act": act, "given": given}
        return SUBPROCESSES.call(_HERE, arguments, limits=limits, job=job)

    def here(self, act: str, given: Arguments, job: Job) -> Json:
        """Read tables in this process; the child calls it."""
        acts = {"describe": self._describe, "sql": self._sql, "columns": self._columns}
        return acts[act](given, job)

    def _columns(self, given: Arguments, job: Job) -> Json:
        del job
        return ", ".join(_told_columns(self._read(given["table"], given)))

    def _read(self, table: Any, given: Arguments, name: str = "table") -> Data:
        if not isinstance(table, str):
            return from_values(table, name, limits=self._limits)
        data = self._folder.read(table, most=self._limits.bytes_each)
        return read_table(
            data,
            table,
            limits=self._limits,
            encoding=given.get("encoding"),
            header=given.get("header", True),
        )

    def _describe(self, given: Arguments, job: Job) -> Json:
        del job
        data = self._read(given["table"], given)
        columns: list[Json] = [
            _column(name, kind, [row[place] for row in data.rows])
            for place, (name, kind) in enumerate(data.columns)
        ]
        return noted({"rows": len(data.rows), "columns": columns}, data.notes)

    def _sql(self, given: Arguments, job: Job) -> Json:
        named = cast("dict[str, Any]", given.get("tables") or {})
        query, files = named_files(given["query"], self.files(), known=named)
        tables = {name: self._read(each, given, name) for name, each in (files | named).items()}
        if not tables:
            hint = f"there are {', '.join(self.files()[:10]) or 'no CSV or JSON files here'}"
            raise ToolFailed("the query names no file of this folder", hint=hint)
        with memory(tables, job, self._rows) as database:
            found = select(database, query, [], given.get("limit", self._rows.rows))
        _without_dust(found, tables)
        found.notes += [note for each in tables.values() for note in each.notes]
        return told(found, self._rows)

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
        notes: list[str] = []
        path: str = given["path"]
        if path.lower().endswith(".json"):
            objects = [dict(zip(names, row, strict=True)) for row in rows]
            text = json.dumps(objects, ensure_ascii=False, indent=1) + "\n"
        elif path.lower().endswith((".csv", ".tsv")):
            text = _csv(names, rows, "\t" if path.lower().endswith(".tsv") else ",", notes)
        else:
            raise ToolFailed(
                f"{path} does not say its kind", hint="end it with .csv, .tsv or .json"
            )
        most, over = self._limits.bytes_each, given.get("overwrite", False)
        done = self._folder.write(path, text.encode(), overwrite=over, most=most)
        result: dict[str, Json] = {
            "path": "/".join(self._folder.parts(path)),
            "rows": len(rows),
            "created": done.created,
            "changed": done.changed,
        }
        return noted(result, notes)


def read_here(job: Job, *, place: Mapping[str, Any], act: str, given: Arguments) -> Json:
    """What a child does of the work of `TableTools`."""
    limits, rows = TableLimits(**place["limits"]), RowLimits(**place["rows"])
    return TableTools(Path(place["root"]), write=False, limits=limits, rows=rows).here(
        act, given, job
    )


def _without_dust(found: Found, tables: Mapping[str, Data]) -> None:
    """Arithmetic on columns of written decimals gives decimals; other numbers stay as they are."""
    if all(is_decimal(value) for row in found.rows for value in row):
        return
    if all(is_decimal(value) for data in tables.values() for row in data.rows for value in row):
        found.rows = [[exact_cell(value) for value in row] for row in found.rows]


def _told_columns(data: Data) -> Iterator[str]:
    """Columns with their types, and the values of those that hold a few words again and again."""
    for place, (name, kind) in enumerate(data.columns[:_MOST_COLUMNS]):
        values = dict.fromkeys(row[place] for row in data.rows[:_LOOKED_AT] if row[place])
        plain = all(len(str(each)) < 25 and str(each).isprintable() for each in values)
        few = kind == "text" and len(values) <= _FEW and plain
        yield f"{name} ({kind}: {', '.join(map(str, values))})" if few else f"{name} ({kind})"


def _csv(names: Sequence[str], rows: Sequence[Sequence[Any]], mark: str, notes: list[str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=mark, lineterminator="\n")
    guarded = 0
    all_rows: list[Sequence[Any]] = [names, *rows]
    for row in all_rows:
        safe = [_safe(each) for each in row]
        guarded += sum(new == f"'{old}" for new, old in zip(safe, row, strict=True))
        writer.writerow(safe)
    if guarded:
        notes.append(f"{guarded} texts that a spreadsheet would run begin with ' now")
    return out.getvalue()


def _safe(value: Any) -> Any:
    """A text that a spreadsheet takes for a formula, made a text for it too."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str) or not value.startswith(_FORMULA) or is_number(value):
        return value
    return f"'{value}"


def _column(name: str, kind: str, values: Sequence[Any]) -> Json:
    """What is worth knowing of a column before anything is asked of it."""
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
    top = [[_short(value), count] for value, count in counts.most_common(_TOP)]
    return found | {"top": cast("Json", [{"value": v, "count": n} for v, n in top])}


def _short(value: Any) -> Any:
    return value[:80] if isinstance(value, str) else value
