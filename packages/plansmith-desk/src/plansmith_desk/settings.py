"""Settings of the built-in tools, and the command that printed hints name."""

from __future__ import annotations

import os

from plansmith.plan.data import Flag, Record


class BuiltinSettings(Record):
    """The built-in tools: whether they are on, may write, and which hosts they may reach.

    Attributes:
        enabled: Whether there are built-in tools, and a planner is told the names of files.
        write: Whether they may change files.
        hosts: Hosts that may be fetched from, by name or pattern.
        private: Addresses of your own network that may be fetched from.
        databases: Databases for SQL, by name.
        writable: Databases of these that may be changed.
    """

    enabled: Flag = True
    write: Flag = True
    hosts: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    databases: dict[str, str] = {}
    writable: tuple[str, ...] = ()


def program() -> str:
    """Returns the command that Plansmith was started by, so that printed ones can be copied."""
    return os.environ.get("PLANSMITH_PROGRAM") or "plansmith"
