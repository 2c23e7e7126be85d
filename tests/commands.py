"""Commands as a person types them, without a process of their own: those cost a second each."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from plansmith_cli.main import main


class Told(NamedTuple):
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


def typed(
    *words: str, folder: Path, environment: Mapping[str, str], capsys: pytest.CaptureFixture[str]
) -> Told:
    """A command in a folder, with this environment alone and nobody before it."""
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch, Path(os.devnull).open() as nobody:
        for name in os.environ.keys() - environment.keys():
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdin", nobody)
        patch.chdir(folder)
        try:
            code = main(list(words))
        except SystemExit as stop:
            code = int(stop.code or 0)
    output = capsys.readouterr()
    return Told(code, output.out, output.err)
