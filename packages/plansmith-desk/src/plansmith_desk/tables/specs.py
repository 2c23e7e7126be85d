"""What the tools for tables take and give."""

from __future__ import annotations

from typing import Any, Final

from plansmith.plan.capability import Effect, ToolSpec
from plansmith.tools.toolset import NOTES, TEXT, fields, flag, items, string, whole
from plansmith_desk.sql.rows import ROWS
from plansmith_desk.tables.read import ENCODINGS

_TABLE: Final[dict[str, Any]] = {
    "type": ["string", "array"],
    "description": "Path or name of a CSV, TSV or JSON file, a table of a SQLite file such as "
    "shop.db/orders, or rows of another step.",
}
_HOW: Final[dict[str, Any]] = {
    "encoding": string("Encoding of the file, if it is not found out right.", enum=list(ENCODINGS)),
    "header": {
        "type": "boolean",
        "default": True,
        "description": "Whether the first line of a CSV file names the columns.",
    },
}
_COLUMN: Final = string("A column of the table.", minLength=1)
_NAMES: Final = items(string("A column.", minLength=1), most=300)
_COUNT: Final = {"type": "integer", "minimum": 0}
_ANY: Final[dict[str, Any]] = {"type": ["string", "number", "boolean", "null"]}
_OVERWRITE: Final = flag("Replace a file that is there.")
WAYS: Final = ("sum", "average", "count", "min", "max")


def _spec(
    name: str,
    description: str,
    takes: dict[str, Any],
    needs: tuple[str, ...],
    gives: dict[str, Any],
    effect: Effect = Effect.READ,
) -> ToolSpec:
    return ToolSpec(
        name=f"tables.{name}",
        description=description,
        input_schema=fields(takes, *needs),
        output_schema=gives,
        effect=effect,
        open_world=False,
        idempotent=True,
        timeout_s=60,
    )


_DESCRIBED: Final = fields(
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
)
_WRITTEN: Final = fields(
    {
        "path": TEXT,
        "rows": _COUNT,
        "created": {"type": "boolean"},
        "changed": {"type": "boolean"},
        "notes": NOTES,
    },
    *("path", "rows", "created", "changed"),
)

DESCRIBE: Final = _spec(
    "describe",
    "Describe a table: how many rows, which columns, types, least, greatest, mean, missing values "
    "(表格有多少行、哪些列).",
    {"table": _TABLE, **_HOW},
    ("table",),
    _DESCRIBED,
)
SQL: Final = _spec(
    "sql",
    "Answer a question about tables with one SQL SELECT: totals, averages, counts, filters, joins "
    "(统计表格：总额、平均、数量、筛选).",
    {
        "query": string(
            "One SELECT; sales.csv is the table sales. Also median(x), stdev(x), exact_sum(x).",
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
        "limit": whole("Most rows given; 1,000 if left out.", 1, 10_000),
        **_HOW,
    },
    ("query",),
    ROWS,
)
TOP: Final = _spec(
    "top",
    "Rows of a table with the greatest or lowest values of a column: top 5, best, most expensive, "
    "cheapest (排名、最高、最低、前几名).",
    {
        "table": _TABLE,
        "column": {**_COLUMN, "description": "The column that orders the rows."},
        "count": whole("How many rows; 10 if left out.", 1, 1_000),
        "lowest": flag("The lowest values instead of the greatest."),
    },
    ("table", "column"),
    ROWS,
)
GROUP: Final = _spec(
    "group",
    "Total, average or number per group of a table: sales per region, orders by status "
    "(按…分组统计、每个…的合计、各…的数量).",
    {
        "table": _TABLE,
        "by": {
            **_COLUMN,
            "description": "The column that makes the groups; month, year or "
            "weekday for those of the one column of dates.",
        },
        "value": {**_COLUMN, "description": "The column computed; left out: rows are counted."},
        "how": {"enum": list(WAYS), "description": "sum if a value is given, else count."},
    },
    ("table", "by"),
    ROWS,
)
WRITE: Final = _spec(
    "write",
    "Save rows of a step as a CSV, TSV, JSON or Markdown file (把行保存为表格文件).",
    {
        "path": string("Path of the file, ending in .csv, .tsv, .json or .md.", minLength=1),
        "rows": items({"type": "object"}, "The rows, such as those of tables.sql."),
        "columns": {**_NAMES, "description": "Columns in their order; all if left out."},
        "overwrite": _OVERWRITE,
    },
    ("path", "rows"),
    _WRITTEN,
    Effect.WRITE,
)
EXPORT: Final = _spec(
    "export",
    "Save a whole table as a CSV, TSV, JSON or Markdown file: convert, export "
    "(把整个表格导出、转换格式).",
    {
        "table": _TABLE,
        "path": string("Path of the file, ending in .csv, .tsv, .json or .md.", minLength=1),
        "overwrite": _OVERWRITE,
    },
    ("table", "path"),
    _WRITTEN,
    Effect.WRITE,
)
