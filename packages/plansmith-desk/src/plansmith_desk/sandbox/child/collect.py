"""Collects the regular files that code left behind, within limits, and notes what is left out."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_MOST_ENTRIES: Final = 20_000
_MOST_NOTES: Final = 20


@dataclass(slots=True)
class Collected:
    """The kept files (names to contents in base64), and notes on the others."""

    files: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    notes: list[str] = field(default_factory=list[str])
    left_out: int = 0

    def leave(self, name: str, why: str) -> None:
        """Notes that a file is not kept."""
        if len(self.notes) < _MOST_NOTES:
            self.notes.append(f"{name} is not kept: {why}")
        else:
            self.left_out += 1


def collect(
    work: Path, given: Mapping[str, bytes], *, most_files: int, most_bytes: int
) -> Collected:
    """Collects new and changed files of a folder that nobody writes to; skips hidden ones."""
    collected = Collected()
    left = most_bytes
    for name in _names(work, collected):
        try:
            name.encode()
        except UnicodeEncodeError:
            collected.leave(ascii(name), "its name is not UTF-8")
            continue
        content = _content(work / name, name, left, collected)
        if content is None or given.get(name) == content:
            continue
        if len(collected.files) >= most_files:
            collected.leave(name, f"{most_files} files are kept at most")
            continue
        left -= len(content)
        collected.files.append({"path": name, "base64": base64.b64encode(content).decode()})
    if collected.left_out:
        collected.notes.append(f"{collected.left_out} more files are not kept")
    return collected


def _names(work: Path, collected: Collected) -> Iterator[str]:
    """Returns the names of everything but folders, in order."""
    open_ones = [""]
    seen = 0
    while open_ones:
        folder = open_ones.pop()
        for entry in _entries(work / folder, folder, collected):
            seen += 1
            if seen > _MOST_ENTRIES:
                collected.notes.append(f"only the first {_MOST_ENTRIES} entries were looked at")
                return
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir(follow_symlinks=False):
                open_ones.append(name)
            else:
                yield name


def _entries(path: Path, name: str, collected: Collected) -> list[os.DirEntry[str]]:
    try:
        path.chmod(0o700)
        with os.scandir(path) as entries:
            shown = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        collected.leave(ascii(name), f"the folder cannot be read: {error.strerror}")
        return []
    return sorted(shown, key=lambda entry: entry.name)


def _content(path: Path, name: str, left: int, collected: Collected) -> bytes | None:
    try:
        if stat.S_ISLNK(path.lstat().st_mode):
            collected.leave(name, "it is a link")
            return None
        path.chmod(0o600)
        # Not blocking: a pipe in the place of a file must not hold us.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        collected.leave(name, f"it cannot be read: {error.strerror}")
        return None
    with os.fdopen(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            collected.leave(name, "it is not a regular file")
        elif about.st_nlink > 1:
            collected.leave(name, "it is a link")
        elif about.st_size > left:
            collected.leave(name, f"its {about.st_size:,} bytes do not fit into {left:,} bytes")
        else:
            return file.read(left)
    return None
