"""Runs first in the confined Python: installs audit hooks, then runs `main.py`.

This file is read as text and runs inside the sandbox, where Plansmith is not installed: it imports
only the standard library. It stops accidents and explains them; malicious code can bypass it.
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from collections.abc import Callable
from typing import Any

NETWORK = "there is no network in the sandbox"
LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr")
TALKS = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg")
STARTS = ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen")
OWN = (1, -1)  # Unix sockets, and a handle whose kind is looked up
SIGNALS = ("os.kill", "os.killpg")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def refuse_network(event: str, given: tuple[Any, ...]) -> None:
    """Raises an explanation for network use; sockets between processes here are allowed."""
    if event == "socket.__new__" and given[1] not in OWN:
        raise PermissionError(NETWORK)
    if event in LOOKUPS or (event in TALKS and isinstance(given[-1], tuple)):
        raise PermissionError(NETWORK)


def refuse_outside(work: str, readable: tuple[str, ...]) -> Callable[[str, tuple[Any, ...]], None]:
    """Makes a hook that refuses files and processes outside, for when no wall does it."""

    def inside(path: str, places: tuple[str, ...]) -> bool:
        real = os.path.realpath(path)
        return any(real == each or real.startswith(each.rstrip("/") + "/") for each in places)

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event in STARTS or event in SIGNALS:
            raise PermissionError("other processes cannot be signalled from the sandbox")
        if event == "open" and isinstance(given[0], (str, bytes)):
            path, writes = os.fsdecode(given[0]), int(given[2] or 0) & WRITES
            if not inside(path, (work, "/dev/null") if writes else (work, *readable)):
                raise PermissionError(f"{path} is outside the sandbox")

    return hook


def begin() -> None:
    """Installs the hook and runs the code; a traceback starts at the code's own lines."""
    work, *readable = sys.argv[1:]
    sys.argv = ["main.py"]
    sys.path.insert(0, work)
    sys.addaudithook(refuse_network)
    if readable:
        real = tuple(map(os.path.realpath, readable))
        sys.addaudithook(refuse_outside(os.path.realpath(work), real))
    try:
        runpy.run_path("main.py", run_name="__main__")
    except Exception as error:  # noqa: BLE001 - any error of the code is shown
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != "main.py":
            frames = frames.tb_next
        traceback.print_exception(type(error), error, frames)
        sys.exit(1)


if __name__ == "__main__":
    begin()
