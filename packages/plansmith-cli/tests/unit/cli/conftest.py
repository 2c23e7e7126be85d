"""A folder, a store and tools of their own for every test of the command line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.commands import Cli

from plansmith_planner.models.choose import KEYS

TOOLS = '''
from pathlib import Path

from plansmith import tool


@tool(effect="read")
def look(name: str) -> dict:
    """Look at something."""
    return {"name": name}


@tool(effect="read")
def broken(name: str) -> dict:
    """Never works."""
    raise ValueError("boom")


@tool(effect="write")
def note(text: str) -> dict:
    """Write a line down."""
    with Path("notes.txt").open("a", encoding="utf-8") as file:
        file.write(text + "\\n")
    return {"written": text}
'''


@pytest.fixture(autouse=True)
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder: nothing of the person at the machine is read or written."""
    keys = [key.variable for key in KEYS]
    for name in [*os.environ]:
        if name in keys or name.startswith(("PLANSMITH_", "LC_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PLANSMITH_OFFLINE", "1")
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    monkeypatch.setenv("PLANSMITH_STORE", f"sqlite:///{tmp_path / 'store' / 'runs.db'}")
    folder = tmp_path / "desk"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    return folder


@pytest.fixture
def cli(desk: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys, desk)
