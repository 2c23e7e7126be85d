"""What the tools that read documents take and give."""

from __future__ import annotations

from typing import Any, Final

from plansmith.plan.capability import Effect, ToolSpec
from plansmith.tools.toolset import NOTES, TEXT, fields, items, string

_COUNT: Final = {"type": "integer", "minimum": 0}
_WHERE: Final = "A file, a folder or a pattern such as notes/*.md"


def _spec(name: str, description: str, given: dict[str, Any], result: dict[str, Any]) -> ToolSpec:
    return ToolSpec(
        name=name,
        description=description,
        input_schema=given,
        output_schema=result,
        effect=Effect.READ,
        open_world=False,
        idempotent=True,
        timeout_s=60,
    )


READ_ALL: Final = _spec(
    "files.read_all",
    "Read the texts of several files at once, to summarise or compare what they say "
    "(读取、汇总多个文件的内容).",
    fields({"pattern": string(f"{_WHERE}.", minLength=1, maxLength=300)}, "pattern"),
    fields(
        {
            "files": items(fields({"path": TEXT, "text": TEXT}, "path", "text")),
            "left_out": _COUNT,
            "notes": NOTES,
        },
        *("files", "left_out"),
    ),
)
LOOKUP: Final = _spec(
    "files.lookup",
    "Answer a question from what documents say (notes, contracts, PDF, logs): who, when, how much "
    "(根据文档、笔记、合同回答问题).",
    fields(
        {
            "question": string("The question in its own words.", minLength=1, maxLength=2_000),
            "path": string(f"{_WHERE}; all documents if left out.", maxLength=300),
        },
        "question",
    ),
    fields(
        {
            "passages": items(
                fields({"path": TEXT, "line": _COUNT, "text": TEXT}, "path", "line", "text")
            ),
            "searched": _COUNT,
            "notes": NOTES,
        },
        *("passages", "searched"),
    ),
)
COUNT: Final = _spec(
    "files.count",
    "Count the lines of a file or log, all or those that contain a text such as ERROR; words too "
    "(统计行数、字数、出现多少行).",
    fields(
        {
            "path": string(f"{_WHERE}.", minLength=1, maxLength=300),
            "text": string("Count only lines with this text, in any letter case.", maxLength=500),
        },
        "path",
    ),
    fields(
        {
            "count": _COUNT,
            "unit": TEXT,
            "files": items(fields({"path": TEXT, "count": _COUNT}, "path", "count")),
            "words": _COUNT,
            "characters": _COUNT,
            "notes": NOTES,
        },
        *("count", "unit", "files"),
    ),
)
COMPARE: Final = _spec(
    "files.compare",
    "Compare two files or two folders: what is different, added, removed or changed "
    "(比较两个文件或文件夹的差异).",
    fields(
        {
            "first": string("The older or first file or folder.", minLength=1),
            "second": string("The newer or second one.", minLength=1),
        },
        *("first", "second"),
    ),
    fields(
        {
            "same": {"type": "boolean"},
            "added": items(TEXT, "Lines or files only in the second."),
            "removed": items(TEXT, "Lines or files only in the first."),
            "changed": items(fields({"before": TEXT, "after": TEXT}, "before", "after")),
            "summary": TEXT,
            "notes": NOTES,
        },
        *("same", "added", "removed", "changed", "summary"),
    ),
)
DUPLICATES: Final = _spec(
    "files.duplicates",
    "Find duplicate files: the same content under several names (查找重复的文件).",
    fields({"folder": string("Where to look; the working folder if left out.")}),
    fields(
        {
            "groups": items(fields({"size": _COUNT, "paths": items(TEXT)}, "size", "paths")),
            "count": _COUNT,
            "notes": NOTES,
        },
        *("groups", "count"),
    ),
)
