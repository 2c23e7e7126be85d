"""What the tools for tables take and give."""

from __future__ import annotations

from typing import Any, Final

from plansmith.plan.capability import Effect
from plansmith.tools.toolset import NOTES, TEXT, flag, items, string, whole
from plansmith_desk.sql.rows import ROWS
from plansmith_desk.tables.read import ENCODINGS
from plansmith_desk.tool_specs import COUNT, YES, record, spec

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
_PATH: Final = string("Path of the file, ending in .csv, .tsv, .json or .md.", minLength=1)
_ANY: Final[dict[str, Any]] = {"type": ["string", "number", "boolean", "null"]}
_OVERWRITE: Final = flag("Replace a file that is there.")
WAYS: Final = ("sum", "average", "count", "min", "max")
_COLUMN: Final = record(
    {
        "name": TEXT,
        "type": TEXT,
        "missing": COUNT,
        "distinct": COUNT,
        "top": items(record({"value": _ANY, "count": COUNT})),
    },
    min=_ANY,
    max=_ANY,
    mean={"type": "number"},
)
_WRITTEN: Final = record({"path": TEXT, "rows": COUNT, "created": YES, "changed": YES}, notes=NOTES)

DESCRIBE: Final = spec(
    "tables.describe",
    "Describe a table: how many rows, which columns, types, least, greatest, mean, missing values "
    "(表格有多少行、哪些列).",
    record({"table": _TABLE}, **_HOW),
    record({"rows": COUNT, "columns": items(_COLUMN)}, notes=NOTES),
)
SQL: Final = spec(
    "tables.sql",
    "Answer a question about tables with one SQL SELECT: totals, averages, counts, filters, joins "
    "(统计表格：总额、平均、数量、筛选).",
    record(
        {
            "query": string(
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
    ROWS,
)
TOP: Final = spec(
    "tables.top",
    "Rows of a table with the greatest or lowest values of a column: top 5, best, most expensive, "
    "cheapest (排名、最高、最低、前几名).",
    record(
        {"table": _TABLE, "column": string("The column that orders the rows.", minLength=1)},
        count=whole("How many rows; 10 if left out.", 1, 1_000),
        lowest=flag("The lowest values instead of the greatest."),
    ),
    ROWS,
)
GROUP: Final = spec(
    "tables.group",
    "Total, average or number per group of a table: sales per region, orders by status "
    "(按…分组统计、每个…的合计、各…的数量).",
    record(
        {
            "table": _TABLE,
            "by": string(
                "The column that makes the groups; month, year or weekday for those of the one "
                "column of dates.",
                minLength=1,
            ),
        },
        value=string("The column computed; left out: rows are counted.", minLength=1),
        how={"enum": list(WAYS), "description": "sum if a value is given, else count."},
    ),
    ROWS,
)
WRITE: Final = spec(
    "tables.write",
    "Save rows of a step as a CSV, TSV, JSON or Markdown file (把行保存为表格文件).",
    record(
        {
            "path": _PATH,
            "rows": items({"type": "object"}, "The rows, such as those of tables.sql."),
        },
        columns=items(
            string("A column.", minLength=1), "Columns in their order; all if left out.", most=300
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
