"""Watch: the processes below this one, what memory they take together, and their end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_ROUNDS: Final = 1000
_PAUSE_S: Final = 0.005


def below(pid: int) -> list[int]:
    """Every process that descends from one."""
    found: list[int] = []
    open_ones = [pid]
    while open_ones:
        for child in _children(open_ones.pop()):
            found.append(child)
            open_ones.append(child)
    return found


def memory_of(pids: Iterable[int], limit: int) -> int:
    """The bytes that processes hold; shared ones count once where that can be told."""
    each = list(pids)
    resident = sum(_resident(pid) for pid in each)
    # Telling shares apart is slow: only when the simple sum says that it is too much.
    return resident if resident <= limit else sum(_share(pid) for pid in each)


def end_all(pid: int) -> bool:
    """Kill and reap everything below a process; whether nothing is left."""
    for _ in range(_ROUNDS):
        left = below(pid)
        # By group first: that takes all of one at once, and none can start another meanwhile.
        for group in {_group(each) for each in left} - {os.getpgid(pid), 0}:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        for each in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        if not _reap():
            return True
        time.sleep(_PAUSE_S)
    return False


def _reap() -> bool:
    """Take leave of the children that ended; whether any are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        threads = [each.name for each in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return found
    for thread in threads:
        with suppress(OSError):
            text = Path(f"/proc/{pid}/task/{thread}/children").read_text()
            found += map(int, text.split())
    return found


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError):
        return 0


def _share(pid: int) -> int:
    """What a process holds, with its part of what it shares."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return _resident(pid)
    told = next((line for line in lines if line.startswith("Pss:")), "")
    return int(told.split()[1]) * 1024 if told else _resident(pid)
