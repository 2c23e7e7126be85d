"""Commands as a person types them, without a process of their own: those cost a second each."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from plansmith_cli.main import main


class Told(NamedTuple):
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


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
        read = self._capsys.readouterr()
        told = Told(ended, read.out, read.err)
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


def typed(
    *words: str,
    folder: Path,
    environment: Mapping[str, str],
    capsys: pytest.CaptureFixture[str],
    **expected: Any,
) -> Told:
    """A command in a folder, with this environment alone and nobody before it."""
    with pytest.MonkeyPatch.context() as patch, Path(os.devnull).open() as nobody:
        for name in os.environ.keys() - environment.keys():
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdin", nobody)
        patch.chdir(folder)
        return Cli(capsys, folder)(*words, **expected)
