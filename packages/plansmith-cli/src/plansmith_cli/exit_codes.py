"""The exit codes of all commands, and those of errors."""

from __future__ import annotations

from enum import IntEnum

from plansmith.errors import (
    JournalError,
    ModelFailed,
    NotFound,
    PlanInvalid,
    PlansmithError,
    Refused,
    RunBusy,
    ToolFailed,
)


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


def exit_for(error: PlansmithError) -> Exit:
    """Returns the exit code of a command that ends with an error."""
    match error:
        case PlanInvalid():
            return Exit.INVALID
        case ModelFailed() | ToolFailed() | JournalError():
            return Exit.FAILED
        case NotFound():
            return Exit.USAGE
        case RunBusy():
            return Exit.WAITING
        case Refused():
            return Exit.REFUSED
        case _:
            return Exit.USAGE
