"""Finds what other packages bring by entry point: a planner, models, tools, stores, and so on.

A package names what it brings in its pyproject.toml, such as

    [project.entry-points."plansmith.stores"]
    postgresql = "plansmith_postgres.plugin"

and the kernel loads it when it is first asked for. The groups are in `GROUPS`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pkgutil import resolve_name
from typing import Any, Final

from plansmith.errors import Misconfigured

PREFIX: Final = "plansmith."
# What can be brought, and the extra of ours that brings it.
GROUPS: Final[Mapping[str, str]] = {
    "planners": "planner",
    # Conversations: `service` leads them, `memory` finds the results of their earlier runs.
    "threads": "planner",
    # `answers` reads a yes or a no, `reads` tells from a tool's name whether it only reads.
    "language": "planner",
    "models": "desk",
    "shelves": "desk",
    "tools": "desk",
    "agents": "desk",
    "files": "desk",
    "mcp": "compat",
    "stores": "postgres",
    "dialects": "compat",
    "commands": "cli",
    "catalogues": "cli",
    # `smith` makes a Plansmith as the settings of this machine say.
    "settings": "cli",
}


def names(group: str) -> list[str]:
    """Returns the names of what is installed in a group, such as `stores`."""
    return sorted(_found().get(group, {}))


def load(group: str, name: str) -> Any:
    """Returns the object that an installed package brings under a name.

    Raises:
        Misconfigured: No installed package brings it; the hint says what to install.
    """
    place = _found().get(group, {}).get(name)
    if place is None:
        raise Misconfigured(
            f"no installed package brings {name!r} (group {PREFIX}{group})",
            hint=f"pip install packages/* 'plansmith[{GROUPS[group]}]'",
        )
    return resolve_name(place)


@cache
def _found() -> Mapping[str, Mapping[str, str]]:
    """Returns the places of all entry points of ours, by group and name.

    Read here and not by `importlib.metadata`, which takes 60 ms of processor time and this 2.
    """
    found: dict[str, dict[str, str]] = {}
    for text in _entry_point_files():
        group = ""
        for line in map(str.strip, text.splitlines()):
            if line.startswith("["):
                group = line.strip("[]")
            elif group.startswith(PREFIX) and "=" in line:
                name, _, place = line.partition("=")
                found.setdefault(group.removeprefix(PREFIX), {}).setdefault(
                    name.strip(), place.partition("[")[0].strip()
                )
    return found


def _entry_point_files() -> Iterator[str]:
    """Yields the entry points of every installed package that has some of ours.

    The working folder is left out: a folder that somebody sent brings no code.
    """
    for folder in dict.fromkeys(sys.path):
        if not folder or folder == os.getcwd():  # noqa: PTH109 - as `sys.path` spells it
            continue
        try:
            inside = sorted(os.listdir(folder))  # noqa: PTH208 - three times as fast
        except OSError:
            continue
        for name in inside:
            if not name.endswith((".dist-info", ".egg-info")):
                continue
            try:
                with open(f"{folder}/{name}/entry_points.txt", encoding="utf-8") as file:  # noqa: PTH123
                    text = file.read()
            except OSError:
                continue
            if f"[{PREFIX}" in text:
                yield text
