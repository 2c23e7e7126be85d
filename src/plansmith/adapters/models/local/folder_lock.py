"""A lock on the folder of model files, held against other processes; a crash releases it."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path


class FolderBusy(Exception):
    """Another process holds the lock. Never leaves the models' folder."""


@contextmanager
def folder_lock(folder: Path, name: str, *, wait_s: float = 0.0) -> Generator[None]:
    """Holds a named lock; raises `FolderBusy`, or `OSError` where nothing can be written."""
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        try:
            # A database lock works on every system and ends with the process that holds it.
            lock = sqlite3.connect(folder / f"{name}.sqlite3", timeout=wait_s)
            held.callback(lock.close)
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise FolderBusy from None
            raise OSError(f"{folder} cannot be locked: {error}") from None
        yield
