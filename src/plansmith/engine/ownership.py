"""Keeps a run with the one process that runs it."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Final

from plansmith.errors import RunBusy, StoreAway
from plansmith.plan.run import Run
from plansmith.ports import OwnerStore, PlanStore

_PROC: Final = Path("/proc")
_ZOMBIE: Final = "Z"


class Owners:
    """The runs that this process has claimed, each as often as something here works on it."""

    def __init__(self, store: PlanStore) -> None:
        self._store = store if isinstance(store, OwnerStore) else None
        self._held: Counter[str] = Counter()
        # Let go while the store was away: told as soon as it answers.
        self._untold: set[str] = set()

    @asynccontextmanager
    async def owning(self, run: str) -> AsyncGenerator[None]:
        """Own a run for a while; `RunBusy` when another process that lives does."""
        await self.take(run)
        try:
            yield
        finally:
            await self.let_go(run)

    async def take(self, run: str) -> None:
        """Own a run that nobody owns, or whose owner is dead or on another machine."""
        # Counted first: whoever lets go of it meanwhile does not take it from us.
        self._held[run] += 1
        try:
            await self._claim(run)
        except BaseException:
            self._held[run] -= 1
            raise

    def hold(self, run: str) -> None:
        """Own a run that is owned here already once more."""
        self._held[run] += 1

    async def _claim(self, run: str) -> None:
        me, found = this_process(), ""
        while self._store is not None and found != me:
            found = await self._store.claim(run, me, instead_of=found)
            if found != me and lives_here(found):
                raise _busy(run, found)

    async def let_go(self, run: str) -> None:
        """Own it no more, once everything here that worked on it is done."""
        self._held[run] -= 1
        if self._held[run] > 0:
            return
        del self._held[run]
        self._untold.add(run)
        with suppress(StoreAway):
            while self._untold and self._store is not None:
                each = self._untold.pop()
                if not self._held[each]:
                    await self._tell(self._store, each)

    async def _tell(self, store: OwnerStore, run: str) -> None:
        try:
            await store.release(run, this_process())
        except StoreAway:
            self._untold.add(run)
            raise

    async def left_behind(self) -> Sequence[tuple[str, str]]:
        """The runs whose owner was a process of this machine and is dead, with that owner."""
        found = await self._store.owners() if self._store is not None else ()
        return [(run, owner) for run, owner in found if died_here(owner)]

    async def forget(self, run: str, dead: str) -> None:
        """The dead one owns the run no more; harmless when somebody else does by now."""
        if self._store is not None:
            await self._store.release(run, dead)

    async def need_writable(self) -> None:
        """Have the store write nothing: it says so when it cannot."""
        if self._store is not None:
            await self._store.release("", "")

    async def marked(self, run: Run) -> Run:
        """The run, marked `interrupted` where work on it was under way and its process is gone."""
        unplanned = run.plan is None and not run.questions and not run.paused
        if run.status.over or run.damage or not (run.calls_open or unplanned):
            return run
        return run if await self._is_owned(run.id) else replace(run, interrupted=True)

    async def _is_owned(self, run: str) -> bool:
        """Whether somebody may be at work on a run: this process, or one not known to be dead."""
        found = await self._store.owner(run) if self._store is not None else this_process()
        here = found.rpartition(" ")[0].rpartition(" ")[0] == _machine()
        return bool(found) and (not here or lives_here(found))

    async def need_free(self, run: str) -> None:
        """`RunBusy` when another process that lives is running it."""
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
    """Who owns what this process runs."""
    return _owner(os.getpid())


@lru_cache(maxsize=4)
def _owner(process: int) -> str:
    return f"{_machine()} {process} {_stat(process)[1] or 0}"


def lives_here(owner: str) -> bool:
    """Whether an owner is a process of this machine that is there, be it stopped."""
    machine, _, began = owner.rpartition(" ")
    machine, _, process = machine.rpartition(" ")
    if machine != _machine() or not process.isdigit():
        return False
    if not _PROC.is_dir():
        return _answers(int(process))
    state, found = _stat(int(process))
    return found == began and state != _ZOMBIE


def died_here(owner: str) -> bool:
    """Whether an owner was a process of this machine, and is no more."""
    return owner.rsplit(" ", 2)[0] == _machine() and not lives_here(owner)


def _answers(process: int) -> bool:
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
    """A process's state and when it began, in ticks since the boot; empty when there is none."""
    try:
        text = (_PROC / str(process) / "stat").read_text()
    except OSError:
        return "", ""
    # The name, in brackets, may hold anything, also brackets.
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
