"""Files that mean harm among documents and tables: none holds a run up, fills memory or is read."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from plansmith.errors import PlansmithError, ToolFailed
from plansmith.ports import Call
from plansmith_desk.files.tools import FileTools
from plansmith_desk.folder_brief import FolderBrief
from plansmith_desk.sql import SqlTools
from plansmith_desk.sql.rows import RowLimits
from plansmith_desk.tables import TableTools
from plansmith_planner.context.documents import DocumentSource
from plansmith_planner.context.files import first_bytes


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe that nobody ever writes to, in the place of a file."""
    path = tmp_path / "sales.csv"
    os.mkfifo(path)
    return path


async def in_time(call: Any) -> Any:
    async with asyncio.timeout(30):
        return await call


async def test_a_pipe_given_as_a_document_is_left_out_and_not_waited_for(pipe: Path) -> None:
    (pipe.parent / "real.md").write_text("# Bolts")
    for paths in ([pipe, pipe.parent / "real.md"], [pipe.parent]):
        source = DocumentSource(paths)
        blocks = await in_time(source.gather("bolts", token_limit=500))
        assert "Bolts" in blocks[0].text


def test_a_pipe_and_a_device_are_no_files(pipe: Path) -> None:
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(OSError, match="not a file"):
            first_bytes(path, 10)


async def test_a_pipe_in_a_folder_of_tables_and_files_is_refused(pipe: Path) -> None:
    tables, files = TableTools(pipe.parent), FileTools(pipe.parent)
    for call in (
        tables.call("tables.describe", {"table": "sales.csv"}, Call(key="k")),
        tables.call(
            "tables.sql",
            {"query": "SELECT 1 FROM t", "tables": {"t": "sales.csv"}},
            Call(key="k"),
        ),
        files.call("files.read", {"path": "sales.csv"}, Call(key="k")),
    ):
        with pytest.raises(ToolFailed):
            await in_time(call)
    found = await in_time(files.call("files.search", {"text": "x"}, Call(key="k")))
    assert found["files"] == []
    brief = FolderBrief(pipe.parent)
    assert await in_time(brief.gather("what is in sales.csv", token_limit=500)) == []


async def test_a_pipe_in_the_place_of_a_database_is_refused_in_time(pipe: Path) -> None:
    limits = RowLimits(seconds=1)
    for scheme in ("sqlite", "duckdb"):
        tools = SqlTools({"shop": f"{scheme}:///{pipe}"}, limits=limits)
        with pytest.raises(PlansmithError):
            await in_time(tools.call("sql.query", {"query": "SELECT 1"}, Call(key="k")))


HOSTILE = {
    "wide.csv": "," * 1_000_000 + "\n" + "1\n" * 20_000,
    "ragged.csv": "a\n" + "1\n" * 100_000 + "," * 3_000_000,
    "deep.json": "[" * 5_000_000,
    "lists.json": "[" + "[]," * 800_000 + "[]]",
    "sparse.jsonl": "\n".join(f'{{"c{number}": 1}}' for number in range(30_000)),
    "digits.json": "[" + "9" * 4_000_000 + "]",
    "cell.csv": "a\n" + "x" * 5_000_000,
    "quote.csv": 'a\n"' + "x\n" * 2_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_table_is_refused_within_its_limits(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(HOSTILE[name])
    tools = TableTools(tmp_path, rows=RowLimits(memory_bytes=512 << 20))
    with pytest.raises(ToolFailed):
        await tools.call("tables.describe", {"table": name}, Call(key="k"))
    (tmp_path / "good.csv").write_text("a\n1\n")
    good = await tools.call("tables.describe", {"table": "good.csv"}, Call(key="k"))
    assert good["rows"] == 1  # type: ignore[index,call-overload]
    (block,) = await in_time(FolderBrief(tmp_path).gather(f"what is in {name}", token_limit=500))
    assert "good.csv: a (1)" in block.text.splitlines()
    assert name in block.text
    assert len(block.text) < 2_000
