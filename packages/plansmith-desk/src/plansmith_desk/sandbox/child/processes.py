"""Limits for all processes of the code together (cgroups); counts and kills them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_NAME: Final = "plansmith-box-"
# The watcher stops code that has too many; this is for what is started between two looks.
_SPARE: Final = 16
_PERIOD_US: Final = 100_000  # one processor: as much time as passes
_TREE: Final = Path("/proc/self")
_WANTED: Final = ("memory", "pids", "cpu")


@dataclass(slots=True)
class Group:
    """A cgroup: the limits it enforces, and handles with which a process joins it."""

    folders: list[Path] = field(default_factory=list[Path])
    enforced: list[str] = field(default_factory=list[str])
    handles: list[int] = field(default_factory=list[int])

    def join(self) -> None:
        """Moves this process, and all it will start, into the cgroup."""
        for handle in self.handles:
            os.write(handle, b"0")

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel killed a process of the cgroup for its memory."""
        files = ("memory.events", "memory.oom_control")
        lines = [line for each in self.folders for file in files for line in _lines(each / file)]
        return any(line.startswith("oom_kill ") and int(line.split()[1]) for line in lines)

    def remove(self) -> None:
        for handle in self.handles:
            os.close(handle)
        for folder in self.folders:
            with suppress(OSError):
                folder.rmdir()


def make(limits: Mapping[str, int]) -> Group:
    """Makes a cgroup with these limits as far as permitted; it may enforce none."""
    group = Group()
    for parents, version in places():
        any(_add(group, parent, version, limits) for parent in parents)
    return group


def _add(group: Group, parent: Path, version: int, limits: Mapping[str, int]) -> bool:
    """Makes the cgroup's folder in one hierarchy; returns whether it enforces a limit there."""
    for left in parent.glob(f"{_NAME}*"):  # by a launcher that was killed
        if not Path(f"/proc/{left.name.removeprefix(_NAME)}").exists():
            with suppress(OSError):
                left.rmdir()
    folder = parent / f"{_NAME}{os.getpid()}"
    with suppress(OSError):
        folder.mkdir()
        enforced = [name for name in _WANTED if _set_limit(folder, name, version, limits)]
        handle = os.open(folder / "cgroup.procs", os.O_WRONLY)
        # Whether a process may be moved there, only an attempt can tell.
        child = os.fork()
        if child == 0:
            try:
                os.write(handle, b"0")
                os._exit(0)
            finally:
                os._exit(1)
        if os.waitpid(child, 0)[1] == 0 and enforced:
            group.handles.append(handle)
            group.folders.append(folder)
            group.enforced += [each for each in enforced if each not in group.enforced]
            return True
        os.close(handle)
    with suppress(OSError):
        folder.rmdir()
    return False


def places() -> Iterator[tuple[list[Path], int]]:
    """Returns the cgroup folders of this process and the version of each hierarchy."""
    mounts: list[tuple[Path, str, set[str]]] = []
    for line in _lines(_TREE / "mountinfo"):
        left, _, right = line.partition(" - ")
        kind, _, listed = right.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):  # others may be out of reach, or not answer
            mounts.append((Path(left.split(" ")[4]), kind, set(listed.split(","))))
    for line in _lines(_TREE / "cgroup"):
        _, names, path = line.split(":", 2)
        for place, kind, options in mounts:
            inside = place / path.lstrip("/")
            inside = inside if inside.is_dir() else place
            if names == "" and kind == "cgroup2":
                # Where processes are, no limits can be given to others; beside them they can.
                yield [inside, *([inside.parent] if inside != place else [])], 2
            elif names and kind == "cgroup" and set(names.split(",")) & options & set(_WANTED):
                yield [inside], 1


def _lines(file: Path) -> list[str]:
    with suppress(OSError):
        return file.read_text(encoding="utf-8").splitlines()
    return []


def _set_limit(folder: Path, name: str, version: int, limits: Mapping[str, int]) -> bool:
    memory, pids = str(limits["memory_bytes"]), str(limits["processes"] + _SPARE)
    quota = {"cpu.cfs_period_us": str(_PERIOD_US), "cpu.cfs_quota_us": str(_PERIOD_US)}
    wanted = {
        "memory": {"memory.limit_in_bytes" if version == 1 else "memory.max": memory},
        "pids": {"pids.max": pids},
        "cpu": quota if version == 1 else {"cpu.max": f"{_PERIOD_US} {_PERIOD_US}"},
    }
    if not all(_write(folder / file, text) for file, text in wanted[name].items()):
        return False
    # Swap counts too, where the kernel supports it.
    _write(folder / "memory.memsw.limit_in_bytes", memory)
    _write(folder / "memory.swap.max", "0")
    return True


def _write(file: Path, text: str) -> bool:
    try:
        with file.open("r+") as limit:  # never made: only the kernel has them
            limit.write(text)
    except OSError:
        return False
    return True


_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def below(pid: int) -> list[int]:
    """Returns all descendants of a process."""
    found = _children(pid)
    for child in found:  # which grows meanwhile
        found += _children(child)
    return found


def memory_of(pids: Iterable[int], limit: int) -> int:
    """Returns the memory of processes in bytes; counts shared pages once if possible."""
    resident: dict[int, int] = {}
    for pid in pids:
        counts = [line.split() for line in _lines(Path(f"/proc/{pid}/statm"))]
        resident[pid] = int(counts[0][1]) * _PAGE if counts else 0
    # Telling shares apart is slow: only when the simple sum says that it is too much.
    if sum(resident.values()) > limit:
        for pid, own in resident.items():
            lines = _lines(Path(f"/proc/{pid}/smaps_rollup"))
            share = [line.split()[1] for line in lines if line.startswith("Pss:")]
            resident[pid] = int(share[0]) * 1024 if share else own
    return sum(resident.values())


def end_all(pid: int) -> bool:
    """Kills and reaps all descendants of a process; returns whether none is left."""
    for _ in range(1000):
        left = below(pid)
        # By group first: that takes all of one at once, and none can start another meanwhile.
        for each in left:
            with suppress(ProcessLookupError, PermissionError):
                group = os.getpgid(each)
                if group not in (os.getpgid(pid), 0):
                    os.killpg(group, signal.SIGKILL)
        for each in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(each, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        time.sleep(0.005)
    return False


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for line in _lines(thread / "children") for child in line.split()]
    return found
