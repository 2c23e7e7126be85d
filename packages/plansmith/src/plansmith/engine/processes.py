"""Names processes, and tells which of them live: by the system here, by their leases elsewhere."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias
from weakref import WeakValueDictionary

from plansmith.plan.sentence import Sentence
from plansmith.ports import Clock, Heartbeat, Store

_PROC: Final = Path("/proc")
_ZOMBIE: Final = "Z"
# Names the machine, for containers that share a host name, a boot and a process namespace.
_MACHINE: Final = "PLANSMITH_MACHINE"
# A silent process counts as dead only once its silence was timed here for this part of its lease:
# the times in the store may be wrong, since a clock can jump.
_WATCHED: Final = 0.3
ProcessState: TypeAlias = Literal["alive", "unsure", "dead"]
_named: tuple[int, str] = (0, "")
_numbers: Final = count()
_open: Final[WeakValueDictionary[int, ThisMachine]] = WeakValueDictionary()


class Machine(Protocol):
    """Names this process, and says which owners of runs are processes that live here."""

    def this_process(self) -> str: ...

    def is_elsewhere(self, owner: str) -> bool: ...

    def lives_here(self, owner: str) -> bool: ...

    def close(self) -> None: ...


def this_process() -> str:
    """Returns the name of this process: machine, process id and start time."""
    global _named  # noqa: PLW0603 - a fork has another name
    process = os.getpid()
    if _named[0] != process:
        _named = process, f"{_machine()} {process} {_stat(process)[1] or 0}"
    return _named[1]


def is_elsewhere(owner: str) -> bool:
    """Tells whether an owner is a process of another machine."""
    return bool(owner) and owner.rsplit(" ", 2)[0] != _machine()


def lives_here(owner: str) -> bool:
    """Tells whether an owner is a process of this machine that still exists."""
    machine, _, began = owner.rpartition(" ")
    machine, _, process = machine.rpartition(" ")
    if machine != _machine() or not process.isdigit():
        return False
    if _PROC.is_dir():
        state, found = _stat(int(process))
        return found == began and state != _ZOMBIE
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@lru_cache(maxsize=1)
def _machine() -> str:
    if named := "-".join(os.environ.get(_MACHINE, "").split()):
        return f"{named} - -"
    boot, space = "-", "-"
    with suppress(OSError):
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        space = str((_PROC / "self/ns/pid").readlink())
    return f"{socket.gethostname() or '-'} {boot} {space}"


def _stat(process: int) -> tuple[str, str]:
    """Returns a process's state and start time in ticks since the boot; empty if it is gone."""
    try:
        text = (_PROC / str(process) / "stat").read_text()
    except OSError:
        return "", ""
    # The name, in brackets, may contain brackets.
    fields = text.rpartition(")")[2].split()
    return fields[0], fields[19]


def described(owner: str) -> str:
    """Describes a process to a person: its number and its machine."""
    owner, _ = _opening(owner)
    machine, _, process = owner.rpartition(" ")[0].rpartition(" ")
    if is_elsewhere(owner):
        host = machine.split()[0] if machine else "?"
        return Sentence("process {process} on the machine {machine}", process=process, machine=host)
    return Sentence("process {process} on this machine", process=process)


class ThisMachine:
    """The real machine, as its kernel describes it.

    A program may open one store twice. Each opening has its own name, so that the two do not
    execute one run: the first in a process has the name of the process, others add a number.
    """

    is_elsewhere = staticmethod(is_elsewhere)

    def __init__(self) -> None:
        self._number = next(_numbers)
        _open[self._number] = self

    def this_process(self) -> str:
        """Returns the name of this process, with the number of this opening."""
        return f"{this_process()}.{self._number}" if self._number else this_process()

    def lives_here(self, owner: str) -> bool:
        """Tells whether an owner's process exists and, if it is this one, is still open."""
        process, number = _opening(owner)
        return lives_here(process) and (process != this_process() or number in _open)

    def close(self) -> None:
        """Lets the other openings of this process have what this one still owns."""
        _open.pop(self._number, None)


def is_this_process(owner: str) -> bool:
    """Tells whether an owner is an opening of a store by this process."""
    return _opening(owner)[0] == this_process()


def _opening(owner: str) -> tuple[str, int]:
    """Returns the process of an owner, and the number of its opening."""
    process, _, number = owner.rpartition(".")
    return (process, int(number)) if process and number.isdigit() else (owner, 0)


class Liveness:
    """Tells which owners of runs live.

    One on another machine is dead once the store says that its lease is over, and it stays silent
    while it is watched for a while: a clock that jumps makes nobody dead.
    """

    def __init__(
        self, store: Store, clock: Clock, machine: Machine, *, now: Callable[[], float]
    ) -> None:
        self._store, self._clock, self._machine, self._now = store, clock, machine, now
        # What every process of the store, also of this machine, has said at its last renewal.
        self.heartbeats: Mapping[str, Heartbeat] = {}
        # By name: the number of renewals seen last, and when it was first seen here.
        self._since: dict[str, tuple[int, float]] = {}

    async def refresh(self) -> None:
        """Reads which processes have renewed their leases."""
        self.heartbeats = {each.process: each for each in await self._store.processes()}
        for name, each in self.heartbeats.items():
            if name not in self._since or self._since[name][0] != each.renewals:
                self._since[name] = each.renewals, self._now()

    async def look_at(self, owners: Iterable[str]) -> None:
        """Reads the renewals, if one of these owners is on another machine."""
        if any(map(self._machine.is_elsewhere, owners)):
            await self.refresh()

    def state(self, owner: str) -> ProcessState:
        """Tells by the last renewals that were read whether an owner lives."""
        if not self._machine.is_elsewhere(owner):
            return "alive" if owner and self._machine.lives_here(owner) else "dead"
        if self.is_silent(owner):
            return "unsure" if self._watch_s(owner) else "dead"
        return "alive"

    def is_silent(self, owner: str) -> bool:
        """Tells whether the lease of a process is over by the time of the store."""
        heartbeat = self.heartbeats.get(owner)
        # Also one in the future: it was renewed before the clock went back.
        return heartbeat is None or abs(heartbeat.silent_s) > heartbeat.lease_s

    def _watch_s(self, owner: str) -> float:
        """Returns for how many seconds a silent process is still to be watched."""
        if (heartbeat := self.heartbeats.get(owner)) is None:
            return 0.0
        return max(0.0, self._since[owner][1] + heartbeat.lease_s * _WATCHED - self._now())

    async def is_dead(self, owner: str) -> bool:
        """Tells whether an owner is dead; watches a silent one until that is certain."""
        while True:
            await self.look_at([owner])
            if (state := self.state(owner)) != "unsure":
                return state == "dead"
            await self._clock.sleep(self._watch_s(owner))

    async def dead(self, processes: Collection[str]) -> set[str]:
        """Returns those of the processes that are dead for certain."""
        await self.look_at(processes)
        return {each for each in processes if self.state(each) == "dead"}

    async def dead_or_silent_servers(self) -> set[str]:
        """Returns the other servers and workers of this store that have ended or are silent."""
        await self.refresh()
        me, kinds = self._machine.this_process(), ("server", "worker")
        names = [name for name, each in self.heartbeats.items() if each.about.kind in kinds]
        return {each for each in names if each != me and self.state(each) != "alive"}

    def live_count(self) -> int:
        """Returns how many processes have renewed their leases."""
        return sum(not self.is_silent(name) for name in self.heartbeats)

    def renewals_of(self, owner: str) -> int:
        """Returns how often an owner on another machine has renewed its lease; of others -1."""
        if not self._machine.is_elsewhere(owner):
            return -1
        return self.heartbeats[owner].renewals if owner in self.heartbeats else 0
