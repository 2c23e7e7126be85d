"""Knows the database files that SQLite has open in this process: nobody else may open them."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final

SUFFIXES: Final = ("", "-wal", "-shm")
# Of the process and not of an object, because the locks are.
_held: Final[Counter[Path]] = Counter()


def hold(path: Path) -> None:
    """Marks a database as open; call `release` as often."""
    _held[path.absolute()] += 1


def release(path: Path) -> None:
    """Marks a database as closed."""
    _held[path.absolute()] -= 1
    if _held[path.absolute()] <= 0:
        del _held[path.absolute()]


def is_held(state: os.stat_result) -> bool:
    """Whether a file, by its `stat` result, belongs to a database that is open here."""
    for path in list(_held):
        for suffix in SUFFIXES:
            try:
                found = Path(f"{path}{suffix}").stat()
            except OSError:
                continue
            if os.path.samestat(found, state):
                return True
    return False


def is_held_below(state: os.stat_result) -> bool:
    """Whether a database that is open here lies in a folder, given by its `stat` result."""
    for path in list(_held):
        for folder in path.parents:
            try:
                found = folder.stat()
            except OSError:
                continue
            if os.path.samestat(found, state):
                return True
    return False
