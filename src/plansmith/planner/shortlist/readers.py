"""Finds the tools that read a file which a request names: they are always offered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from plansmith.plan.capability import Effect, ToolSpec
from plansmith.planner.shortlist.pick import Pick

REASON: Final = "reads a file that the request names"
_FILE: Final = re.compile(r"[^\s\"'“”‘’《》()（）,，。:：;；]+\.[A-Za-z][A-Za-z0-9]{1,5}(?![\w.])")
_URL: Final = re.compile(r"\w+://\S+|\S+@\S+")
_TABLE: Final = re.compile(r"\.(?:csv|tsv|jsonl?|xlsx|db3?|sqlite3?)(?:/[^/]*)?$", re.IGNORECASE)
_SHORTEST: Final = 3


def reader_picks(query: str, files: Sequence[str], tools: Sequence[ToolSpec]) -> list[Pick]:
    """Returns the tools that read what a request names; `files` are those that are there."""
    named = [*_FILE.findall(_URL.sub(" ", query)), *_existing(query.casefold(), files)]
    if not named:
        return []
    tables = [bool(_TABLE.search(name)) for name in named]
    wanted = {"table" if each else "path" for each in tables}
    return [Pick(tool.name, 0.0, REASON, "tool") for tool in tools if wanted & {*_takes(tool)}]


def _existing(query: str, files: Sequence[str]) -> Iterator[str]:
    """Returns the files whose name, with or without its ending, the request contains."""
    for path in files:
        stem = path.casefold().rpartition("/")[2].partition(".")[0]
        word = rf"(?<![a-z0-9_]){re.escape(stem)}(?![a-z0-9_])"
        if len(stem) >= _SHORTEST and re.search(word, query):
            yield path


def _takes(tool: ToolSpec) -> Iterator[str]:
    """Returns what a tool reads: a table, or a file by its path; nothing if it is no reader."""
    if tool.effect is not Effect.READ or tool.open_world:
        return
    found: Any = tool.input_schema.get("properties")
    fields = cast("Mapping[str, Any]", found if isinstance(found, Mapping) else {})
    if "path" in fields:
        yield "path"
    if "table" in fields or any(_format(each) == "sql" for each in fields.values()):
        yield "table"


def _format(schema: Any) -> str:
    known = cast("Mapping[str, Any]", schema if isinstance(schema, Mapping) else {})
    return str(known.get("format"))
