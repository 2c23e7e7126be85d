"""Makes sure that only one process at a time executes a run."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plansmith.errors import RunBusy, StoreAway
from plansmith.ports import OwnerStore, PlanStore

if TYPE_CHECKING:
    from plansmith.plan.run import Run

_PROC: Final = Path("/proc")
_ZOMBIE: Final = "Z"


class _Owning:
    """A block in which a run is owned; far cheaper than a generator, for every run enters one."""

    def __init__(self, owners: Owners, run: str) -> None:
        self._owners, self._run = owners, run

    async def __aenter__(self) -> None:
        await self._owners.take(self._run)

    async def __aexit__(self, *_: object) -> None:
        await self._owners.let_go(self._run)


class Owners:
    """The runs that this process owns; counts how many tasks here use each."""

    def __init__(self, store: PlanStore) -> None:
        self._store = store if isinstance(store, OwnerStore) else None
        self._held: Counter[str] = Counter()
        self._left: dict[str, str] = {}
        # Released while the store was away: written as soon as it answers.
        self._to_release: set[str] = set()

    def owning(self, run: str) -> _Owning:
        """Owns a run inside the block; raises `RunBusy` if another living process owns it."""
        return _Owning(self, run)

    async def take(self, run: str) -> None:
        """Claims a run that nobody owns, or whose owner is dead or on another machine."""
        # Counted first, so that another task here that lets go meanwhile does not release it.
        self._held[run] += 1
        try:
            await self._claim(run)
        except BaseException:
            self._held[run] -= 1
            raise

    def hold(self, run: str) -> None:
        """Counts one more task for a run that this process owns already."""
        self._held[run] += 1

    async def look(self) -> None:
        """Notes which runs have dead owners, so that each can be claimed without asking first."""
        found = await self._store.owners() if self._store is not None else ()
        lives = {owner: lives_here(owner) for owner in {owner for _, owner in found}}
        self._left = {run: owner for run, owner in found if not lives[owner]}

    async def _claim(self, run: str) -> None:
        me, found = this_process(), self._left.pop(run, "")
        while self._store is not None and found != me:
            found = await self._store.claim(run, me, instead_of=found)
            if found != me and lives_here(found):
                raise _busy(run, found)

    async def let_go(self, run: str) -> None:
        """Ends one use of a run; the last one releases it."""
        self._held[run] -= 1
        if self._held[run] > 0:
            return
        del self._held[run]
        self._to_release.add(run)
        with suppress(StoreAway):
            while self._to_release and self._store is not None:
                each = self._to_release.pop()
                if not self._held[each]:
                    await self._release(self._store, each)

    async def _release(self, store: OwnerStore, run: str) -> None:
        try:
            await store.release(run, this_process())
        except StoreAway:
            self._to_release.add(run)
            raise

    async def left_behind(self) -> Sequence[tuple[str, str]]:
        """Returns the runs, with owner, whose owner was a process of this machine and is dead."""
        found = await self._store.owners() if self._store is not None else ()
        return [(run, owner) for run, owner in found if died_here(owner)]

    async def forget(self, run: str, dead: str) -> None:
        """Removes a dead owner of a run; does nothing if someone else owns it by now."""
        if self._store is not None:
            await self._store.release(run, dead)

    async def need_writable(self) -> None:
        """Writes an empty change to the store, which fails if the store is read-only."""
        if self._store is not None:
            await self._store.release("", "")

    async def marked(self, run: Run) -> Run:
        """Returns the run, marked `interrupted` if it was running and its process is gone."""
        unplanned = run.plan is None and not run.questions and not run.paused
        if run.status.over or run.damage or not (run.calls_open or unplanned):
            return run
        return run if await self._is_owned(run.id) else run.replace(interrupted=True)

    async def _is_owned(self, run: str) -> bool:
        """Tells whether this process, or one not known to be dead, owns a run."""
        found = await self._store.owner(run) if self._store is not None else this_process()
        return bool(found) and not died_here(found)

    async def owned(self, runs: Collection[str]) -> set[str]:
        """Returns those of the runs that this process, or one not known to be dead, owns."""
        if self._store is None or not runs:
            return set(runs)
        owners = dict(await self._store.owners())
        return {run for run in runs if run in owners and not died_here(owners[run])}

    async def need_free(self, run: str) -> None:
        """Raises `RunBusy` if another living process executes the run."""
        if self._store is None:
            return
        found = await self._store.owner(run)
        if found and found != this_process() and lives_here(found):
            raise _busy(run, found)


def _busy(run: str, owner: str) -> RunBusy:
    process = owner.split()[3]
    began = f" (started {_clock_time(owner)})" if _clock_time(owner) else ""
    return RunBusy(
        f"run {run} is being run by process {process}{began} on this machine",
        hint="wait for it, or stop that process",
    )


def this_process() -> str:
    """Returns the owner name of this process: machine, process id and start time."""
    return _owner(os.getpid())


@lru_cache(maxsize=4)
def _owner(process: int) -> str:
    return f"{_machine()} {process} {_stat(process)[1] or 0}"


def lives_here(owner: str) -> bool:
    """Tells whether an owner is a process of this machine that still exists."""
    machine, _, began = owner.rpartition(" ")
    machine, _, process = machine.rpartition(" ")
    if machine != _machine() or not process.isdigit():
        return False
    if not _PROC.is_dir():
        return _exists(int(process))
    state, found = _stat(int(process))
    return found == began and state != _ZOMBIE


def died_here(owner: str) -> bool:
    """Tells whether an owner was a process of this machine that is gone."""
    return owner.rsplit(" ", 2)[0] == _machine() and not lives_here(owner)


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@lru_cache(maxsize=1)
def _machine() -> str:
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


def _clock_time(owner: str) -> str:
    try:
        rows = (_PROC / "stat").read_text().splitlines()
        boot = next(int(row.split()[1]) for row in rows if row.startswith("btime "))
        ticks = int(owner.rpartition(" ")[2]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, StopIteration):
        return ""
    return f"{datetime.fromtimestamp(boot + ticks, tz=UTC).astimezone():%H:%M}"
