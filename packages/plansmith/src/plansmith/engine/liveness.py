"""Tells which processes live: those of this machine, and by their leases those of others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Literal, TypeAlias

from plansmith.engine.processes import Machine
from plansmith.ports import Beat, Clock, Store

# A silent process counts as dead only once its silence was timed here for this part of its lease:
# the times in the store may be wrong, since a clock can jump.
_WATCHED: Final = 0.3
ProcessState: TypeAlias = Literal["alive", "unsure", "dead"]


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
        self.beats: Mapping[str, Beat] = {}
        self._since: dict[str, tuple[int, float]] = {}

    async def refresh(self) -> None:
        """Reads which processes have renewed their leases."""
        self.beats = {each.process: each for each in await self._store.beats()}
        for name, each in self.beats.items():
            if name not in self._since or self._since[name][0] != each.beats:
                self._since[name] = each.beats, self._now()

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
        beat = self.beats.get(owner)
        # Also one in the future: it was renewed before the clock went back.
        return beat is None or abs(beat.silent_s) > beat.lease_s

    def _watch_s(self, owner: str) -> float:
        """Returns for how many seconds a silent process is still to be watched."""
        if (beat := self.beats.get(owner)) is None:
            return 0.0
        return max(0.0, self._since[owner][1] + beat.lease_s * _WATCHED - self._now())

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
        names = [name for name, each in self.beats.items() if each.about.kind in kinds]
        return {each for each in names if each != me and self.state(each) != "alive"}

    def live_count(self) -> int:
        """Returns how many processes have renewed their leases."""
        return sum(not self.is_silent(name) for name in self.beats)

    def beats_of(self, owner: str) -> int:
        """Returns how often an owner on another machine has renewed its lease; of others -1."""
        if not self._machine.is_elsewhere(owner):
            return -1
        return self.beats[owner].beats if owner in self.beats else 0
