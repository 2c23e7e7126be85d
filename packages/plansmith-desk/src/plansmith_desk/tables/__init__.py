"""Built-in tools for tables in CSV, JSON and SQLite files and in results of other steps."""

from __future__ import annotations

import asyncio
import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

from plansmith.errors import ToolBusy, ToolFailed
from plansmith.plan import refs
from plansmith.plan.capability import Effect
from plansmith.plan.data import Json, json_text
from plansmith.plan.sentence import Sentence, joined, read_sentence, stored_sentence
from plansmith.text import clip, is_formula
from plansmith_desk import toolset as ts
from plansmith_desk.folder import Folder
from plansmith_desk.sandbox.subprocesses import SUBPROCESSES, ProcessLimits
from plansmith_desk.sql import rows as sql_rows
from plansmith_desk.tables import query as queries
from plansmith_desk.tables.catalogue import Catalogue, Fits, TableUnclear, column_of
from plansmith_desk.tables.read import ENCODINGS, TableLimits, from_values, is_number
from plansmith_desk.tool_specs import COUNT, YES, record, spec
from plansmith_desk.toolset import whole

_TOP: Final = 3
_RETURN: Final = re.compile(r"\r\n?")
_ENDINGS: Final = (".csv", ".tsv", ".json", ".md")
Rows = Sequence[Sequence[Any]]


class TableTools(ts.ToolSet):
    """The tools for tables of one folder; `write=False` leaves out those that write.

    Reading happens in a child process, since a small file can need very much memory.
    """

    def __init__(
        self,
        root: Path | Folder,
        *,
        write: bool = True,
        limits: TableLimits | None = None,
        rows: sql_rows.RowLimits | None = None,
    ) -> None:
        self._folder = Folder.of(root)
        self._limits = limits or TableLimits()
        # A file that is written of rows must have them all: the usual table fits.
        self._rows = rows or sql_rows.RowLimits(rows=1_000, most_rows=10_000, letters_all=2_000_000)
        tools = [
            ts.BuiltIn(spec, partial(self._in_child, act))
            for act, spec in (("describe", DESCRIBE), ("sql", SQL), ("top", TOP), ("group", GROUP))
        ]
        writing = [ts.BuiltIn(WRITE, self._write), ts.BuiltIn(EXPORT, self._export)]
        super().__init__([*tools, *(writing if write else [])])

    async def rehearse(self, tool: str, inputs: Mapping[str, Json]) -> str:
        """Returns what is wrong with a call, in a sentence; empty if nothing is known to be.

        A query is prepared over the real files and its values are looked up; nothing is run.
        """
        if tool not in self._tools or tool == WRITE.name or refs.find_refs(dict(inputs)):
            return ""
        given = {"tool": tool.partition(".")[2], "inputs": dict(inputs)}
        try:
            self._check(tool, dict(inputs))
            found = await asyncio.to_thread(self._in_child, "rehearse", given, None)
            return read_sentence(found)
        except ToolFailed:
            return ""  # it takes too long, or other checks tell what is wrong

    def _in_child(self, act: str, given: ts.Arguments, job: ts.Job | None) -> Json:
        """Does the work in a child; without a job it is a rehearsal, which has little time."""
        rows, reading_s = self._rows, 10.0
        if job is None:
            rows, reading_s = replace(rows, seconds=min(4.0, rows.seconds)), 1.0
        chosen: dict[str, Json] = {}
        arguments = {
            "root": self._folder.root,
            "limits": self._limits,
            "rows": rows,
            "request": job.call.request if job else "",
            "chosen": chosen,
            "act": act,
            "given": given,
        }
        limits = ProcessLimits(seconds=rows.seconds + reading_s, memory_bytes=rows.memory_bytes)
        while True:
            found: Any = SUBPROCESSES.call(read_here, arguments, limits=limits, job=job)
            unclear = found.get("unclear")
            if unclear is None or job is None:
                return cast("Json", found["done"])
            question = Sentence(
                "There are several tables called {name}:\n{listed}\nWhich one is meant?",
                name=clip(unclear["name"], 60),
                listed=unclear["listed"],
            )
            chosen[unclear["name"]] = job.call.ask(question, options=unclear["options"])

    def _write(self, given: ts.Arguments, _: ts.Job) -> Json:
        if given["rows"] or "columns" not in given:
            data = from_values(given["rows"], "rows", limits=self._limits)
        else:
            data = sql_rows.Data([(name, "null") for name in given["columns"]], [])
        names = given.get("columns", data.names)
        for name in names:
            ts.known(name, data.names)
        places = [data.names.index(name) for name in names]
        rows = [[row[place] for place in places] for row in data.rows]
        return self._save(given, names, rows, [])

    def _export(self, given: ts.Arguments, job: ts.Job) -> Json:
        check_ending(given["path"])
        found = cast("dict[str, Any]", self._in_child("whole", given, job))
        return self._save(given, found["names"], found["rows"], found["notes"])

    def _save(
        self, given: ts.Arguments, names: Sequence[str], rows: Rows, notes: list[str]
    ) -> Json:
        path: str = given["path"]
        text = written(path, names, rows, notes)
        most, over = self._limits.bytes_each, given.get("overwrite", False)
        done = self._folder.write(path, text.encode(), overwrite=over, most=most)
        result: dict[str, Json] = {
            "path": self._folder.plain(path),
            "rows": len(rows),
            "created": done.created,
            "changed": done.changed,
        }
        return ts.noted(result, notes)


def read_here(job: ts.Job, *, act: str, given: ts.Arguments, **reading: Any) -> Json:
    """Does the reading work of `TableTools`; called in the child."""
    with _Reader(job=job, **reading) as reader:
        try:
            return {"done": cast("Json", getattr(reader, act)(given))}
        except TableUnclear as error:
            choice: dict[str, Json] = {"options": [*error.options], "listed": error.listed}
            return {"done": "", "unclear": {"name": error.name, **choice}}


class _Reader(Catalogue):
    """What each tool does with the tables of a folder, in this process."""

    def _data(
        self, table: Any, given: ts.Arguments, name: str = "table", fits: Fits = lambda _: None
    ) -> sql_rows.Data:
        if not isinstance(table, str):
            return from_values(table, name, limits=self.limits)
        return self.table(table, given, fits)

    def describe(self, given: ts.Arguments) -> Json:
        data = self._data(given["table"], given)
        columns: list[Json] = [
            _column(name, kind, [row[place] for row in data.rows])
            for place, (name, kind) in enumerate(data.columns)
        ]
        return ts.noted({"rows": len(data.rows), "columns": columns}, data.notes)

    def whole(self, given: ts.Arguments) -> Json:
        data = self._data(given["table"], given)
        return cast("Json", {"names": data.names, "rows": data.rows, "notes": data.notes})

    def sql(self, given: ts.Arguments) -> Json:
        return self._query(*self._prepared(given), given.get("limit", self.rows.rows))

    def _prepared(self, given: ts.Arguments) -> tuple[str, dict[str, sql_rows.Data]]:
        """Returns the query as SQLite understands it, and the tables it names."""
        named: dict[str, Any] = given.get("tables") or {}
        tables = {name: self._data(each, given, name) for name, each in named.items()}
        query = self._mended(given["query"], tables, given)
        if not tables:
            hint = self.unknown("").hint
            raise ToolFailed(Sentence("the query names no table of this folder"), hint=hint)
        return query, tables

    def _mended(self, query: str, tables: dict[str, sql_rows.Data], given: ts.Arguments) -> str:
        """Returns a query whose tables and columns are there; adds the tables."""

        def load(name: str) -> sql_rows.Data:
            def fits(data: sql_rows.Data) -> None:
                with suppress(TableUnclear):
                    self._mended(query, {**tables, name: data}, given)

            return self._data(name, given, fits=fits)

        return queries.prepared(query, tables, load, self.job, self.rows)

    def _query(self, query: str, tables: Mapping[str, sql_rows.Data], limit: int) -> Json:
        with queries.memory(tables, self.job, self.rows) as database:
            found = sql_rows.select(database, query, [], limit)
        if all(
            sql_rows.is_decimal(value)
            for data in tables.values()
            for row in data.rows
            for value in row
        ):
            # Arithmetic on decimals gives decimals.
            found.rows = [[sql_rows.exact_cell(value) for value in row] for row in found.rows]
        queries.keep_digits(found, tables.values())
        found.notes += [note for each in tables.values() for note in each.notes]
        return sql_rows.as_result(found, self.rows)

    def top(self, given: ts.Arguments) -> Json:
        data = self._data(given["table"], given, fits=partial(column_of, given["column"]))
        column = column_of(given["column"], data)
        count = int(given.get("count", 10))
        found = queries.top_rows(data, column, count, lowest=given.get("lowest", False))
        return sql_rows.as_result(found, self.rows)

    def group(self, given: ts.Arguments) -> Json:
        query_of = partial(
            queries.grouped, by=given["by"], value=given.get("value"), how=given.get("how")
        )
        data = self._data(given["table"], given, fits=query_of)
        return self._query(query_of(data), {"rows": data}, self.rows.most_rows)

    def rehearse(self, given: ts.Arguments) -> Json:
        inputs: dict[str, Any] = given["inputs"]
        try:
            if given["tool"] == "sql":
                return queries.flaw_of_values(*self._prepared(inputs))
            check_ending(inputs.get("path", ".csv"))
            data = self._data(inputs["table"], inputs)
            if "column" in inputs:
                column_of(inputs["column"], data)
            if "by" in inputs:
                queries.grouped(data, inputs["by"], inputs.get("value"), inputs.get("how"))
        except (sql_rows.TookTooLong, ToolBusy):
            pass  # nobody knows yet
        except ToolFailed as error:
            return cast("Json", stored_sentence(joined([error.message, error.hint])))
        return ""


def _column(name: str, kind: str, values: Sequence[Any]) -> Json:
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
        found["mean"] = sql_rows.exact_mean(cast("list[float]", present))
    found["top"] = [
        {"value": value[:80] if isinstance(value, str) else value, "count": count}
        for value, count in counts.most_common(_TOP)
    ]
    return found


def check_ending(path: str) -> None:
    """Refuses a file of a kind that cannot be written."""
    if not path.lower().endswith(_ENDINGS):
        hint = Sentence("end it with .csv, .tsv, .json or .md")
        raise ToolFailed(Sentence("{name} has no known extension", name=path), hint=hint)


def written(path: str, names: Sequence[str], rows: Rows, notes: list[str]) -> str:
    """Returns the text of a file by its extension."""
    check_ending(path)
    ending = path.lower().rpartition(".")[2]
    if ending == "json":
        objects = [dict(zip(names, row, strict=True)) for row in rows]
        return json_text(objects, indent=1) + "\n"
    if ending == "md":
        columns = [[row[place] for row in rows] for place in range(len(names))]
        marks = ["---:" if rows and all(map(_is_figure, each)) else "---" for each in columns]
        lines = [map(_cell, names), marks, *(map(_cell, row) for row in rows)]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)
    out = io.StringIO()
    writer = csv.writer(out, delimiter="\t" if ending == "tsv" else ",", lineterminator="\n")
    writer.writerows([*map(_safe, row)] for row in (names, *rows))
    if guarded := sum(map(_is_formula, chain(names, *rows))):
        notes.append(f"{guarded} texts that a spreadsheet would run begin with ' now")
    return out.getvalue()


def _is_figure(value: Any) -> bool:
    return type(value) is not bool and isinstance(value, int | float | None)


def _is_formula(value: Any) -> bool:
    return isinstance(value, str) and is_formula(value) and not is_number(value)


def _safe(value: Any) -> Any:
    """Escapes a text that a spreadsheet would take for a formula."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return value
    # A return alone would begin a row, and it is not quoted.
    return ("'" if _is_formula(value) else "") + _RETURN.sub("\n", value)


def _cell(value: Any) -> str:
    """Writes a value on one line; marks that would end the cell or become HTML are escaped."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = " ".join(str(value).split())
    for mark, instead in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;")):
        text = text.replace(mark, instead)
    return text


_TABLE: Final[dict[str, Any]] = {
    "type": ["string", "array"],
    "description": "Path or name of a CSV, TSV or JSON file, a table of a SQLite file such as "
    "shop.db/orders, or rows of another step.",
}
_HOW: Final[dict[str, Any]] = {
    "encoding": ts.string(
        "Encoding of the file, if it is not found out right.", enum=list(ENCODINGS)
    ),
    "header": {
        "type": "boolean",
        "default": True,
        "description": "Whether the first line of a CSV file names the columns.",
    },
}
_PATH: Final = ts.string("Path of the file, ending in .csv, .tsv, .json or .md.", minLength=1)
_ANY: Final[dict[str, Any]] = {"type": ["string", "number", "boolean", "null"]}
_OVERWRITE: Final = ts.flag("Replace a file that is there.")
WAYS: Final = ("sum", "average", "count", "min", "max")
_COLUMN: Final = record(
    {
        "name": ts.TEXT,
        "type": ts.TEXT,
        "missing": COUNT,
        "distinct": COUNT,
        "top": ts.items(record({"value": _ANY, "count": COUNT})),
    },
    min=_ANY,
    max=_ANY,
    mean={"type": "number"},
)
_WRITTEN: Final = record(
    {"path": ts.TEXT, "rows": COUNT, "created": YES, "changed": YES}, notes=ts.NOTES
)

DESCRIBE: Final = spec(
    "tables.describe",
    "Describe a table: how many rows, which columns, types, least, greatest, mean, missing values "
    "(表格有多少行、哪些列).",
    record({"table": _TABLE}, **_HOW),
    record({"rows": COUNT, "columns": ts.items(_COLUMN)}, notes=ts.NOTES),
)
SQL: Final = spec(
    "tables.sql",
    "Answer a question about tables with one SQL SELECT: totals, averages, counts, filters, joins "
    "(统计表格：总额、平均、数量、筛选).",
    record(
        {
            "query": ts.string(
                "One SELECT; sales.csv is the table sales. Also median(x), stdev(x), exact_sum(x).",
                minLength=1,
                maxLength=100_000,
                format="sql",
            )
        },
        tables={
            "type": "object",
            "description": "Rows or paths by the names the query uses; a file needs none.",
            "additionalProperties": _TABLE,
            "minProperties": 1,
            "maxProperties": 10,
        },
        limit=whole("Most rows given; 1,000 if left out.", 1, 10_000),
        **_HOW,
    ),
    sql_rows.ROWS,
)
TOP: Final = spec(
    "tables.top",
    "Rows of a table with the greatest or lowest values of a column: top 5, best, most expensive, "
    "cheapest (排名、最高、最低、前几名).",
    record(
        {"table": _TABLE, "column": ts.string("The column that orders the rows.", minLength=1)},
        count=whole("How many rows; 10 if left out.", 1, 1_000),
        lowest=ts.flag("The lowest values instead of the greatest."),
    ),
    sql_rows.ROWS,
)
GROUP: Final = spec(
    "tables.group",
    "Total, average or number per group of a table: sales per region, orders by status "
    "(按…分组统计、每个…的合计、各…的数量).",
    record(
        {
            "table": _TABLE,
            "by": ts.string(
                "The column that makes the groups; month, year or weekday for those of the one "
                "column of dates.",
                minLength=1,
            ),
        },
        value=ts.string("The column computed; left out: rows are counted.", minLength=1),
        how={"enum": list(WAYS), "description": "sum if a value is given, else count."},
    ),
    sql_rows.ROWS,
)
WRITE: Final = spec(
    "tables.write",
    "Save rows of a step as a CSV, TSV, JSON or Markdown file (把行保存为表格文件).",
    record(
        {
            "path": _PATH,
            "rows": ts.items({"type": "object"}, "The rows, such as those of tables.sql."),
        },
        columns=ts.items(
            ts.string("A column.", minLength=1),
            "Columns in their order; all if left out.",
            most=300,
        ),
        overwrite=_OVERWRITE,
    ),
    _WRITTEN,
    Effect.WRITE,
)
EXPORT: Final = spec(
    "tables.export",
    "Save a whole table as a CSV, TSV, JSON or Markdown file: convert, export "
    "(把整个表格导出、转换格式).",
    record({"table": _TABLE, "path": _PATH}, overwrite=_OVERWRITE),
    _WRITTEN,
    Effect.WRITE,
)
