"""Readers: what reads a file that a request names is offered, whatever the words rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from plansmith_desk.builtin import builtin_sources
from plansmith_planner.ranking.pick import reader_picks


@pytest.mark.parametrize(
    ("request_text", "files", "wanted"),
    [
        ("When does the lease in contracts/lease.txt end?", [], {"files.read", "files.lookup"}),
        ("sum of sales.csv", [], {"tables.sql", "tables.describe"}),
        ("how did the sales go", ["old/sales.csv"], {"tables.sql"}),
        ("租约.txt 什么时候到期？", [], {"files.read", "files.lookup"}),
        ("compare a.txt with b.csv", [], {"files.read", "tables.sql"}),
        ("wholesales went well", ["sales.csv"], set()),
        ("write to bo@post.org about https://a.example/x.html", [], set()),
        ("what time is it", ["notes.md"], set()),
    ],
)
async def test_the_readers_of_a_named_file_are_offered(
    tmp_path: Path, request_text: str, files: list[str], wanted: set[str]
) -> None:
    tools = [spec for source in builtin_sources(tmp_path) for spec in await source.tools()]
    names = {pick.name for pick in reader_picks(request_text, files, tools)}
    assert wanted <= names
    assert bool(names) == bool(wanted)
    assert not names & {"files.write", "files.delete", "tables.export", "charts.draw"}
