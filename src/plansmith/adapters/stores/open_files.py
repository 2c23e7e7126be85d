"""Database files that SQLite holds open in this process: nobody else may open them."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Final

SUFFIXES: Final = ("", "-wal", "-shm")
# Of the process and not of an object, because the locks are.
_held: Final[Counter[Path]] = Counter()


def hold(path: Path) -> None:
    """SQLite opens this database; `let_go` as often when it is closed."""
    _held[path.absolute()] += 1


def release(path: Path) -> None:
    """SQLite has closed this database."""
    _held[path.absolute()] -= 1
    if _held[path.absolute()] <= 0:
        del _held[path.absolute()]


def is_held(state: os.stat_result) -> bool:
    """Whether a file, by what `stat` says of it, is a database in use here or belongs to one."""
    for path in list(_held):
        for suffix in SUFFIXES:
            try:
                found = Path(f"{path}{suffix}").stat()
            except OSError:
                continue
            if os.path.samestat(found, state):
                return True
    return False
