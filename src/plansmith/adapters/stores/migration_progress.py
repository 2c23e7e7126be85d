"""Tells how far the migration of a store is, if it takes long."""

from __future__ import annotations

import logging
import time
from typing import Final

_QUIET_S: Final = 2.0
_log: Final = logging.getLogger("plansmith")


class Progress:
    """Reports how many rows are moved, if it takes long."""

    def __init__(self, name: str, total: int) -> None:
        self._name, self._total, self._done = name, total, 0
        self._reported_at = time.monotonic()

    def add(self, count: int) -> None:
        """Adds a number of moved rows."""
        self._done += count
        if time.monotonic() - self._reported_at > _QUIET_S:
            self._reported_at = time.monotonic()
            rows = f"{self._done:,} of {self._total:,} rows"
            _log.warning("%s is migrated to the newest format: %s", self._name, rows)
