"""What the tools for tables take and give."""

from __future__ import annotations

from typing import Any, Final

from plansmith.adapters.tools.sql_rows import ROWS
from plansmith.adapters.tools.tables_read import ENCODINGS
from plansmith.adapters.tools.toolset import NOTES, TEXT, fields, flag, items, whole, words
from plansmith.plan.capability import Effect, ToolSpec

_TABLE: Final[dict[str, Any]] = {
    "type": ["string", "array"],
    "description": "Path of a CSV, TSV or JSON file in the working folder, or rows as a list of "
    "objects from another step.",
}
_HOW: Final[dict[str, Any]] = {
    "encoding": words("Encoding of the file, if it is not found out right.", enum=list(ENCODINGS)),
    "header": {
        "type": "boolean",
        "default": True,
        "description": "Whether the first line of a CSV file names the columns.",
    },
}
_NAMES: Final = items(words("A column.", minLength=1), most=300)
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
            "query": words(
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
            "path": words("Path of the file, ending in .csv, .tsv or .json.", minLength=1),
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
