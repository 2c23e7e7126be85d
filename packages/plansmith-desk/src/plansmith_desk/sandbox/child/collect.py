"""Collects the regular files that code left behind, within limits, and notes what is left out."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

_MOST_ENTRIES: Final = 20_000
_MOST_NOTES: Final = 20


def collect(
    work: Path, given: Mapping[str, bytes], *, most_files: int, most_bytes: int
) -> tuple[list[dict[str, str]], list[str]]:
    """Returns new and changed files of a folder that nobody writes to, and notes on the others.

    Contents are in base64; hidden files are skipped.
    """
    files: list[dict[str, str]] = []
    notes: list[str] = []
    left = most_bytes
    names = _names(work, notes)
    for name in islice(names, _MOST_ENTRIES):
        try:
            name.encode()
            content = _content(work / name, left)
        except UnicodeEncodeError:
            notes.append(f"{name!a} is not kept: its name is not UTF-8")
            continue
        except OSError as error:
            notes.append(f"{name} is not kept: it cannot be read: {error.strerror}")
            continue
        if isinstance(content, str):
            notes.append(f"{name} is not kept: {content}")
        elif given.get(name) != content and len(files) >= most_files:
            notes.append(f"{name} is not kept: {most_files} files are kept at most")
        elif given.get(name) != content:
            left -= len(content)
            files.append({"path": name, "base64": base64.b64encode(content).decode()})
    more = len(notes) - _MOST_NOTES
    notes[_MOST_NOTES:] = [f"{more} more files are not kept"] if more > 0 else []
    if next(names, None) is not None:
        notes.append(f"only the first {_MOST_ENTRIES} entries were looked at")
    return files, notes


def _names(work: Path, notes: list[str]) -> Iterator[str]:
    """Yields the names of everything but folders."""

    def shut(error: OSError) -> None:
        name = ascii(os.path.relpath(error.filename, work))
        notes.append(f"{name} is not kept: the folder cannot be read: {error.strerror}")

    work.chmod(0o700)
    for place, folders, others in os.walk(work, onerror=shut):
        links = [each for each in folders if Path(place, each).is_symlink()]
        folders[:] = [each for each in folders if not each.startswith(".") and each not in links]
        for each in folders:
            Path(place, each).chmod(0o700)
        for each in sorted([*others, *links]):
            if not each.startswith("."):
                yield os.path.relpath(os.path.join(place, each), work)  # noqa: PTH118


def _content(path: Path, left: int) -> bytes | str:
    """Returns the content of a file, or why it is not kept."""
    if path.is_symlink():
        return "it is a link"
    path.chmod(0o600)
    # Not blocking: a pipe in the place of a file must not hold us.
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            return "it is not a regular file"
        if about.st_nlink > 1:
            return "it is a link"
        if about.st_size > left:
            return f"its {about.st_size:,} bytes do not fit into {left:,} bytes"
        return file.read(left)
