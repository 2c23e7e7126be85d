"""The built-in tools as rows name them: their order, their arguments, and what they do in words."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

from lab.training.rows.row import Call
from plansmith.plan.capability import ToolSpec
from plansmith_desk.builtin import builtin_sources

WORDS: Final = "words.make"
_NEVER: Final = "note.tell"
# What cannot be done without some tools: English, Chinese, and all that would do it.
DEEDS: Final = (
    (
        *("answer questions about documents", "回答文档问题"),
        ("files.lookup", "files.read", "files.read_all", "files.search", "files.count"),
    ),
    ("find duplicates", "查找重复文件", ("files.duplicates", "files.compare")),
    ("move files", "移动文件", ("files.move",)),
    ("copy files", "复制文件", ("files.copy",)),
    ("delete files", "删除文件", ("files.delete",)),
    (
        *("write files", "写入文件"),
        ("files.write", "files.append", "files.replace", "tables.write", "tables.export"),
    ),
    ("draw charts", "画图表", ("charts.draw",)),
    ("convert units", "换算单位", ("calculator.convert", "calculator.compute")),
)


@cache
def builtin_tools() -> Mapping[str, ToolSpec]:
    """Returns the product's own tools by name, in their order."""
    return {spec.name: spec for spec in asyncio.run(_specs()) if spec.name != _NEVER}


async def _specs() -> list[ToolSpec]:
    with tempfile.TemporaryDirectory() as folder:
        return [spec for source in builtin_sources(Path(folder)) for spec in await source.tools()]


def in_order(made: Call) -> Call:
    """Returns a call with its arguments in the order of the tool's schema."""
    spec = builtin_tools().get(made["tool"])
    if spec is None:
        return made
    fields: dict[str, Any] = spec.input_schema["properties"]
    places = {name: place for place, name in enumerate(fields)}
    args = sorted(made["args"].items(), key=lambda each: places.get(each[0], len(places)))
    return {"tool": made["tool"], "args": dict(args)}
