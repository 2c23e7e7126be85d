"""The exit codes of all commands."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What a command's exit code means."""

    OK = 0
    FAILED = 1
    USAGE = 2
    INVALID = 3
    REFUSED = 4
    WAITING = 5
    BUDGET = 6
    PARTLY = 7
    INTERRUPTED = 130
