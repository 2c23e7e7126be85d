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
from plansmith.adapters.tools.sql.guard import exact_cell, exact_mean, is_decimal, select
from plansmith.adapters.tools.sql.rows import ROWS, Found, RowLimits, as_result
from plansmith.adapters.tools.subprocesses import SUBPROCESSES, ProcessLimits
from plansmith.adapters.tools.tables.memory import ENDINGS, meant_files, memory, named_files
from plansmith.adapters.tools.tables.read import (
    ENCODINGS,
    Data,
    TableLimits,
    from_values,
    is_number,
    read_table,
)
from plansmith.adapters.tools.toolset import (
    NOTES,
    TEXT,
    Arguments,
    BuiltIn,
    Job,
    ToolSet,
    fields,
    flag,
    items,
    known,
    noted,
    string,
    whole,
)
from plansmith.errors import ToolFailed
from plansmith.plan.capability import Effect, ToolSpec
from plansmith.plan.data import Json
from plansmith.ports import ContextBlock

_TABLE: Final[dict[str, Any]] = {
    "type": ["string", "array"],
    "description": "Path of a CSV, TSV or JSON file in the working folder, or rows as a list of "
    "objects from another step.",
}
_HOW: Final[dict[str, Any]] = {
    "encoding": string("Encoding of the file, if it is not found out right.", enum=list(ENCODINGS)),
    "header": {
        "type": "boolean",
        "default": True,
        "description": "Whether the first line of a CSV file names the columns.",
    },
}
_NAMES: Final = items(string("A column.", minLength=1), most=300)
_COUNT: Final = {"type": "integer", "minimum": 0}
_ANY: Final[dict[str, Any]] = {"type": ["string", "number", "boolean", "null"]}
_LIMIT: Final = whole("Most rows given; 100 if left out.", 1, 1_000)

DESCRIBE: Final = ToolSpec(
    name="tables.describe",
    description="Describe a CSV or JSON table: how many rows, which columns, their types, least, "
    "greatest, mean and missing values (表格有多少行、哪些列).",
    input_schema=fields({"table": _TABLE, **_HOW}, "table"),
    output_schema=fields(
        {
            "rows": _COUNT,
            "columns": items(
                fields(
                    {
                        "name": TEXT,
                        "type": TEXT,
                        "missing": _COUNT,
                        "distinct": _COUNT,
                        "min": _ANY,
                        "max": _ANY,
                        "mean": {"type": "number"},
                        "top": items(fields({"value": _ANY, "count": _COUNT}, "value", "count")),
                    },
                    *("name", "type", "missing", "distinct", "top"),
                )
            ),
            "notes": NOTES,
        },
        *("rows", "columns"),
    ),
    effect=Effect.READ,
    open_world=False,
    idempotent=True,
    timeout_s=60,
)
SQL: Final = ToolSpec(
    name="tables.sql",
    description="Answer a question about CSV or JSON files with one SQL SELECT: totals, averages, "
    "counts per group. sales.csv is the table sales (统计 CSV 表格：总额、平均、数量).",
    input_schema=fields(
        {
            "query": string(
                "One SELECT; also median(x), stdev(x), exact_sum(x).",
                minLength=1,
                maxLength=100_000,
                format="sql",
            ),
            "tables": {
                "type": "object",
                "description": "Rows or paths by the names the query uses; a file needs none.",
                "additionalProperties": _TABLE,
                "minProperties": 1,
                "maxProperties": 10,
            },
            "limit": _LIMIT,
            **_HOW,
        },
        "query",
    ),
    output_schema=ROWS,
    effect=Effect.READ,
    open_world=False,
    idempotent=True,
    timeout_s=60,
)
WRITE: Final = ToolSpec(
    name="tables.write",
    description="Write rows of a step as a CSV, TSV or JSON file; formulas are made harmless "
    "(把行保存为表格文件).",
    input_schema=fields(
        {
            "path": string("Path of the file, ending in .csv, .tsv or .json.", minLength=1),
            "rows": items({"type": "object"}, "The rows, such as those of tables.sql."),
            "columns": {**_NAMES, "description": "Columns in their order; all if left out."},
            "overwrite": flag("Replace a file that is there."),
        },
        *("path", "rows"),
    ),
    output_schema=fields(
        {
            "path": TEXT,
            "rows": _COUNT,
            "created": {"type": "boolean"},
            "changed": {"type": "boolean"},
            "notes": NOTES,
        },
        *("path", "rows", "created", "changed"),
    ),
    effect=Effect.WRITE,
    open_world=False,
    idempotent=True,
    timeout_s=60,
)


_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_TOP: Final = 3
_MOST_FILES: Final = 500
_MOST_VALUES: Final = 4
_MOST_COLUMNS: Final = 40
_LOOKED_AT: Final = 500
_FEW: Final = 8
_READING_S: Final = 10.0
_HERE: Final = "plansmith.adapters.tools.tables:read_here"


class TableTools(ToolSet):
    """The tools for tables of one folder; `write=False` leaves out the one that writes.

    Reading happens in a child process, since a small file can need very much memory.
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
        """Returns the tables in the folder by path, up to a limit."""
        found = (path for path, _ in self._folder.walk(".") if path.lower().endswith(ENDINGS))
        return sorted(islice(found, _MOST_FILES))

    async def gather(self, query: str, *, token_limit: int) -> Sequence[ContextBlock]:
        """Returns the columns of the tables that a request names, as context."""
        del token_limit  # a few lines
        return await asyncio.to_thread(self._known, query)

    def _known(self, query: str) -> list[ContextBlock]:
        lines: list[str] = []
        for path in meant_files(query, self.files())[:_MOST_VALUES]:
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
        """Reads tables in this process; called in the child."""
        acts = {"describe": self._describe, "sql": self._sql, "columns": self._columns}
        return acts[act](given, job)

    def _columns(self, given: Arguments, job: Job) -> Json:
        del job
        return ", ".join(_column_texts(self._read(given["table"], given)))

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
        _rounded_decimals(found, tables)
        found.notes += [note for each in tables.values() for note in each.notes]
        return as_result(found, self._rows)

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
                f"{path} has no known extension", hint="end it with .csv, .tsv or .json"
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
    """Does the reading work of `TableTools`; called in the child."""
    limits, rows = TableLimits(**place["limits"]), RowLimits(**place["rows"])
    return TableTools(Path(place["root"]), write=False, limits=limits, rows=rows).here(
        act, given, job
    )


def _rounded_decimals(found: Found, tables: Mapping[str, Data]) -> None:
    """Rounds results of arithmetic on decimal columns to decimals."""
    if all(is_decimal(value) for row in found.rows for value in row):
        return
    if all(is_decimal(value) for data in tables.values() for row in data.rows for value in row):
        found.rows = [[exact_cell(value) for value in row] for row in found.rows]


def _column_texts(data: Data) -> Iterator[str]:
    """Describes columns: types, and the values of those with only a few."""
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
    """Escapes a text that a spreadsheet would take for a formula."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str) or not value.startswith(_FORMULA) or is_number(value):
        return value
    return f"'{value}"


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
    top = [[_short(value), count] for value, count in counts.most_common(_TOP)]
    return found | {"top": cast("Json", [{"value": v, "count": n} for v, n in top])}


def _short(value: Any) -> Any:
    return value[:80] if isinstance(value, str) else value
