"""Elects the one server on a store that resumes its open runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from plansmith.ports import Clock

if sys.platform != "win32":
    import fcntl

_LOOK_S: Final = 2.0


class Leader:
    """Holds a lock file beside the store; the system frees it when the process ends."""

    def __init__(self, path: Path | None, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._handle: int | None = None

    async def wait(self) -> None:
        """Waits until this server is the leader."""
        while not self.take():
            await self._clock.sleep(_LOOK_S)

    def take(self) -> bool:
        """Tries to become the leader; returns True also where nothing can be locked."""
        if self._path is None or self._handle is not None or sys.platform == "win32":
            return True
        try:
            handle = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600)
        except OSError:
            return True  # a folder that cannot be written: the store itself will say so
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            return False
        self._handle = handle
        return True

    def close(self) -> None:
        """Frees the lock; harmless when done twice."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
