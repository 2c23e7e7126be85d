"""A folder, a store and tools of their own for every test of the command line."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Told

from plansmith_cli.main import main
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
def intake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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


class Cli:
    """Somebody in a folder who types commands.

    What is named of exit code, stdout and stderr is expected. The first word may be a whole line.
    """

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path = Path()) -> None:
        self._capsys, self.folder = capsys, folder

    def __call__(
        self,
        *words: str,
        code: int | None = None,
        out: str | tuple[str, ...] = (),
        err: str | tuple[str, ...] = (),
    ) -> Told:
        self._capsys.readouterr()
        try:
            ended = main([*shlex.split(words[0]), *words[1:]])
        except SystemExit as stop:
            ended = int(stop.code or 0)
        told = Told(ended, *self._capsys.readouterr())
        assert code in (None, told.code), told
        for text, expected in ((told.out, out), (told.err, err)):
            for each in (expected,) if isinstance(expected, str) else expected:
                assert each in text, told
        return told

    def json(self, *words: str, code: int | None = 0) -> Any:
        """Types a command, and reads the JSON that it prints."""
        return json.loads(self(*words, "--json", code=code).out)

    def write(self, *steps: dict[str, Any], name: str = "plan.json", **fields: Any) -> str:
        """Writes a plan into the folder; gives its name."""
        plan = {"goal": "test", "steps": list(steps)} | fields
        (self.folder / name).write_text(json.dumps(plan), encoding="utf-8")
        return name


@pytest.fixture
def cli(intake: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys, intake)
