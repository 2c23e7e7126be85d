"""Copies the files of a folder's server right before it starts; the copy is what runs."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, Final

from plansmith.errors import Misconfigured, ToolFailed
from plansmith.plan.sentence import Sentence
from plansmith.text import safe

_PIECE: Final = 1 << 20


@contextmanager
def trusted_copy(folder: Path, files: Mapping[str, str]) -> Iterator[Path]:
    """Gives a new folder with copies of files whose hashes are as they were trusted.

    Files that are named by their whole path are compared and stay where they are.
    """
    with TemporaryDirectory(prefix="plansmith-server-", ignore_cleanup_errors=True) as made:
        for name, trusted in files.items():
            copy = None if name.startswith("/") else Path(made, name)
            if _copied(folder / name, copy) != trusted:
                hint = Sentence("mcp.trust_again", folder=safe(str(folder)))
                raise ToolFailed(Sentence("mcp.file_changed", name=safe(name)), hint=hint)
        yield Path(made)


def _copied(path: Path, copy: Path | None) -> str:
    """Copies a file, if it is to be copied; returns the hash of what was read; "" if it failed."""
    try:
        # Not blocking, so that a pipe in the place of a file cannot hold us.
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as source:
            state = os.fstat(source.fileno())
            if not stat.S_ISREG(state.st_mode):
                return ""
            if copy is None:
                return file_hash(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            with copy.open("wb") as target:
                copy.chmod(stat.S_IMODE(state.st_mode) & 0o500 | 0o200)
                return file_hash(source, target)
    except OSError:
        return ""


def file_hash(source: BinaryIO, copy: BinaryIO | None = None) -> str:
    """Returns the hash of a file, and writes what was read to a copy."""
    found = sha256()
    while piece := source.read(_PIECE):
        found.update(piece)
        if copy is not None:
            copy.write(piece)
    return found.hexdigest()


def word_forms(text: str) -> Iterator[str]:
    """Yields the parts of an argument or a variable that may be the name of a file."""
    for part in (text, text.partition("=")[2], *text.split(os.pathsep)):
        if part and "\0" not in part:
            yield part


def refuse_folder(folder: Path, texts: Iterable[str]) -> None:
    """Refuses texts that lead past the copy, into the folder itself or to what lies beside."""
    for text in texts:
        paths = [Path(each) for each in word_forms(text)]
        inside = any(each.is_absolute() and each.resolve().is_relative_to(folder) for each in paths)
        if inside or any(".." in each.parts for each in paths) or str(folder) in text:
            hint = Sentence("mcp.name_inside")
            raise Misconfigured(Sentence("mcp.names_folder", text=safe(text)), hint=hint)
