"""Makes sure that only one process at a time executes a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from plansmith.engine.lease import LEASE_S, HeldClaim, Lease
from plansmith.engine.processes import (
    Liveness,
    Machine,
    ProcessState,
    ThisMachine,
    described,
    is_this_process,
)
from plansmith.errors import RunBusy, StoreAway
from plansmith.plan.ids import NOT_A_RUN
from plansmith.plan.sentence import Sentence
from plansmith.ports import BootClock, Claim, Clock, Heartbeat, Store
from plansmith.store_ports import ProcessInfo

if TYPE_CHECKING:
    from plansmith.engine.journal import Journal
    from plansmith.plan.run import Run

_LOOK_S: Final = 2.0
_FEW: Final = 50  # so many processes wait for a role without looking less often


class KnownProcess(NamedTuple):
    """A process, what it said about itself, whether it lives, and the runs it executes."""

    heartbeat: Heartbeat
    lives: bool
    runs: tuple[str, ...]


class Ownership:
    """The runs that this process owns; counts how many tasks here use each."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        lease_s: float = LEASE_S,
        machine: Machine | None = None,
    ) -> None:
        self._store, self._clock, self._machine = store, clock, machine or ThisMachine()
        self.me = self._machine.this_process
        now = clock.since_boot if isinstance(clock, BootClock) else clock.monotonic
        self._claims: dict[str, HeldClaim] = {}
        self.lease = Lease(store, now=now, seconds=lease_s, me=self.me, claims=self._claims)
        self.liveness = Liveness(store, clock, self._machine, now=now)
        # Of runs with dead owners: the term of their claim, and how often its owner had renewed.
        self._dead_claims: dict[str, tuple[int, int]] = {}
        self._roles: dict[str, asyncio.Event] = {}
        self._on_lost: list[Callable[[str], None]] = []

    def on_lost(self, tell: Callable[[str], None]) -> None:
        """Calls `tell` with each run that another process takes over."""
        self._on_lost.append(tell)

    # Owning.

    @asynccontextmanager
    async def owning(self, run: str, *, force: bool = False) -> AsyncGenerator[HeldClaim]:
        """Owns a run inside the block; raises `RunBusy` if another living process owns it."""
        claim, _ = await self.claim(run, force=force)
        unfinished = True  # left in the middle: whoever looks for such runs may go on with it
        try:
            yield claim
            unfinished = False
        except Exception as error:
            unfinished = isinstance(error, StoreAway)
            raise
        finally:
            await self.release(claim, unfinished=unfinished)

    @asynccontextmanager
    async def writing(self, journal: Journal, *, force: bool = False) -> AsyncGenerator[None]:
        """Owns a run inside the block, and has its journal written under the claim."""
        try:
            async with self.owning(journal.id, force=force) as journal.claim:
                yield
        finally:
            journal.drop_claim()

    async def claim(self, run: str, *, force: bool = False) -> tuple[HeldClaim, int]:
        """Claims a run that nobody owns or whose owner is dead; by `force`, even from a living one.

        Returns also the number of the run's last event; 0 if a task of this process had the claim,
        which several of them share.
        """
        claim, last = self._claims.get(run), 0
        if claim is None or claim.lost:
            claim = self._claims[run] = HeldClaim(run, self.lease, self._lost)
        # Counted first, so that another task here that lets go meanwhile does not release it.
        claim.uses += 1
        if not claim.term:
            try:
                _, claim.term, last = await self._claim_in_store(run, force=force)
            except BaseException as error:
                self._end_use(claim)
                if not isinstance(error, RunBusy):
                    self.lease.recheck_claims()  # the store may have claimed it
                raise
        return claim, last

    async def release(self, claim: HeldClaim, *, unfinished: bool = False) -> None:
        """Ends one use of a run; the last one releases it, or leaves it `unfinished` to others."""
        term = self._end_use(claim)
        try:
            if term:
                await self._store.release(claim.run, term, unfinished=unfinished)
        except StoreAway:
            self.lease.recheck_claims()

    def _end_use(self, claim: HeldClaim) -> int:
        """Counts one task less; returns the term to release, or 0."""
        claim.uses -= 1
        if claim.uses > 0:
            return 0
        if self._claims.get(claim.run) is claim:
            del self._claims[claim.run]
        if claim.lost:  # it keeps its term: the store refuses what is still written
            return 0
        term, claim.term = claim.term, 0
        return term

    def _lost(self, run: str) -> None:
        if run in self._roles:
            self._roles[run].set()
        for tell in self._on_lost:
            tell(run)

    async def _claim_in_store(self, run: str, *, force: bool) -> Claim:
        """Claims a run, and returns the claim."""
        await self.lease.begin()
        me, (instead_of, renewals) = self.me(), self._dead_claims.pop(run, (0, -1))
        while True:
            found = await self._store.claim(run, me, instead_of=instead_of, renewals=renewals)
            if found.owner == me:
                return found
            if not force and not await self.liveness.is_dead(found.owner):
                raise _busy(run, found.owner)
            instead_of, renewals = (
                found.term,
                -1 if force else self.liveness.renewals_of(found.owner),
            )

    async def forget(self, run: str) -> None:
        """Removes the claim of a dead owner; one that has renewed its lease meanwhile keeps it."""
        with suppress(RunBusy):
            async with self.owning(run):
                pass

    async def require_writable(self) -> None:
        """Writes an empty change to the store, which fails if the store is read-only."""
        await self._store.release("", 0)

    async def end(self) -> None:
        """Owns nothing from now on, and lets the other processes know."""
        self.close()
        await self.lease.end()

    def close(self) -> None:
        """Renews the lease no more."""
        self._machine.close()
        self.lease.close()

    # Who owns a run.

    async def states(self) -> dict[str, tuple[Claim, ProcessState]]:
        """Returns the claim of every claimed run, and whether its owner lives."""
        found = await self._store.claims()
        owners = {claim.owner for _, claim in found}
        await self.liveness.look_at(owners)
        known: dict[str, ProcessState] = {each: self.liveness.state(each) for each in owners}
        runs = (each for each in found if not each[0].startswith(NOT_A_RUN))
        return {run: (claim, known[claim.owner]) for run, claim in runs}

    async def refresh(self) -> None:
        """Finds which runs have dead owners, so that each can be claimed without asking first."""
        found = (await self.states()).items()
        left = {run: claim for run, (claim, state) in found if state == "dead"}
        # Of each owner once: a process that died may have left thousands of runs.
        owners = {each.owner for each in left.values()}
        renewals = {owner: self.liveness.renewals_of(owner) for owner in owners}
        self._dead_claims = {
            run: (claim.term, renewals[claim.owner]) for run, claim in left.items()
        }

    async def processes(self) -> list[KnownProcess]:
        """Returns the processes of the store that live, and the dead ones that left runs."""
        await self.liveness.refresh()
        runs: dict[str, list[str]] = {}
        for run, (claim, _) in (await self.states()).items():
            runs.setdefault(claim.owner, []).append(run)
        found = [
            KnownProcess(heartbeat, self.liveness.state(name) == "alive", tuple(runs.get(name, ())))
            for name, heartbeat in self.liveness.heartbeats.items()
        ]
        return [each for each in found if each.lives or each.runs]

    async def _claimant(self, run: str) -> str:
        """Returns the process that has claimed a run, after a look at its machine."""
        found = await self._store.claim_of(run)
        if found is None:
            return ""
        await self.liveness.look_at([found.owner])
        return found.owner

    async def _owner_of(self, run: str) -> str:
        """Returns the process that owns a run, unless it seems dead."""
        owner = await self._claimant(run)
        return owner if self.liveness.state(owner) == "alive" else ""

    async def in_use(self, runs: Collection[str]) -> set[str]:
        """Returns those of the runs whose owner lives, by one look at all claims."""
        if not runs:
            return set()
        claims = await self.states()
        return {run for run in runs if run in claims and claims[run][1] == "alive"}

    async def mark_interrupted(self, run: Run) -> Run:
        """Returns the run, marked `interrupted` if it was running and its process is gone."""
        unplanned = run.plan is None and not run.questions and not run.paused
        if run.status.over or run.damage or not (run.calls_open or unplanned):
            return run
        return run if await self._owner_of(run.id) else run.replace(interrupted=True)

    async def require_free(self, run: str) -> None:
        """Raises `RunBusy` if another living process executes the run."""
        owner = await self._owner_of(run)
        if owner not in ("", self.me()):
            raise _busy(run, owner)

    async def require_released(self, run: str) -> None:
        """Gives whoever executes a run a moment to let go; raises `RunBusy` if it does not."""
        until = self._clock.monotonic() + _LOOK_S
        while owner := await self._owner_of(run):
            if self._clock.monotonic() >= until:
                raise _busy(run, owner)
            await self._clock.sleep(_LOOK_S / 40)

    async def owner_elsewhere(self, run: str) -> str:
        """Describes the other process that owns a run and is not known to be dead, if any."""
        owner = await self._claimant(run)
        is_other = owner != self.me() and self.liveness.state(owner) != "dead"
        return described(owner) if is_other else ""

    # What only one process does at a time.

    @asynccontextmanager
    async def role(self, name: str) -> AsyncGenerator[asyncio.Event]:
        """Waits until this process has a role that only one of all processes has at a time.

        The event is set if the role is lost to another one.
        """
        role, claim = f"{NOT_A_RUN}{name}", None
        while claim is None:
            try:
                claim, _ = await self.claim(role)
            except (RunBusy, StoreAway):
                # Of many that wait, each looks less often: one of them looks soon enough.
                await self._clock.sleep(_LOOK_S * max(1.0, self.liveness.live_count() / _FEW))
        lost = self._roles[role] = asyncio.Event()
        try:
            yield lost
        finally:
            del self._roles[role]
            await self.release(claim)

    async def announce(self, about: ProcessInfo) -> None:
        """Keeps the lease renewed from now on, so that others see that this server lives."""
        self.lease.about, self.lease.always = about, True
        await self.lease.renew()
        await self.lease.begin()


def _busy(run: str, owner: str) -> RunBusy:
    return RunBusy(
        Sentence("run.busy", run=run, owner=described(owner)),
        hint=Sentence("run.busy_here" if is_this_process(owner) else "run.busy_hint", run=run),
    )
