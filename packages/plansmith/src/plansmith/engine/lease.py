"""The lease of this process on the runs that it executes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from plansmith.errors import PlansmithError, RunTakenOver
from plansmith.lazy import lazy_modules
from plansmith.plan.sentence import Sentence
from plansmith.ports import Heartbeat, Store
from plansmith.store_ports import ProcessInfo

if TYPE_CHECKING:
    from importlib import metadata
else:
    lazy_modules(globals(), metadata="importlib.metadata")

LEASE_S: Final = 20.0
# How often a lease is renewed before it would be over.
_RENEWALS: Final = 4
# If an operation of the store took longer than this, the process may have been stopped meanwhile.
_STOPPED_S: Final = 1.0


@lru_cache(maxsize=1)
def _version() -> str:
    """Returns the version of Plansmith, which takes milliseconds to find; of a source tree none."""
    try:
        return metadata.version("plansmith")
    except metadata.PackageNotFoundError:
        return "source"


class HeldClaim:
    """The claim under which this process executes a run; every append is made under its `term`.

    `term` is 0 once nobody here uses the claim. Once `lost`, nothing more is written or called.
    """

    __slots__ = ("_tell_lost", "lease", "lost", "run", "term", "uses")

    def __init__(self, run: str, lease: Lease, tell_lost: Callable[[str], None]) -> None:
        self.run, self.lease, self._tell_lost = run, lease, tell_lost
        self.term = self.uses = 0
        self.lost = False

    async def confirm(self) -> None:
        """Renews the lease, and raises `RunTakenOver` if another process has the run now."""
        await self.lease.renew()
        if self.lost:
            raise RunTakenOver(
                Sentence("run {run} was taken over by another process", run=self.run)
            )

    def lose(self) -> None:
        """Records that another process has the run now."""
        if not self.lost:
            self.lost = True
            self._tell_lost(self.run)


class Lease:
    """Renews the row of this process in the store while it executes runs.

    Other machines leave its runs alone until the row was not renewed for `seconds`. A process that
    was stopped finds by its own clock that the lease may be over, and looks before it calls.
    """

    def __init__(
        self,
        store: Store,
        *,
        now: Callable[[], float],
        me: Callable[[], str],
        claims: Mapping[str, HeldClaim],
        seconds: float = LEASE_S,
    ) -> None:
        self._store, self.now, self._me, self.seconds = store, now, me, seconds
        self.about = ProcessInfo()
        self._claims = claims  # by run; they change as runs are claimed and released
        self.always = False  # renewed also while it executes nothing
        self._renewed = float("-inf")
        self._must_recheck = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None  # a renewal that has not begun

    def may_be_over(self, since: float) -> bool:
        """Tells whether the lease may be over, so that others may have taken the runs.

        It may be if it was not renewed in time, or if this process was stopped since then.
        """
        now = self.now()
        return now - since > _STOPPED_S or now - self._renewed > self.seconds

    async def begin(self) -> None:
        """Renews the lease if that was long ago, and keeps it renewed from now on."""
        if self.now() - self._renewed > self.seconds / 2:
            await self.renew()
        self._schedule_renewal()

    async def renew(self) -> None:
        """Renews the lease, and looks which claims of this process still hold.

        Of many runs that ask at once, one does it for all: it reads all their claims.
        """
        loop, task = asyncio.get_running_loop(), self._next
        if task is None or task.done() or task.get_loop() is not loop:
            task = self._next = loop.create_task(self._renew())
        await asyncio.shield(task)

    async def _renew(self) -> None:
        self._next = None  # whoever asks from now on wants a later look
        at, me = self.now(), self._me()
        await self._store.renew_lease(Heartbeat(me, self.about, _version(), self.seconds))
        self._renewed = at
        held = [(claim, claim.term) for claim in self._claims.values() if claim.term]
        if not held and not self._must_recheck:
            return
        recheck, self._must_recheck = self._must_recheck, False
        try:
            terms = {run: found.term for run, found in await self._store.claims(owner=me)}
            for claim, term in held:
                if claim.term == term != terms.get(claim.run):
                    claim.lose()
            # Claims that nobody here uses are released: else no other process gets these runs.
            unused = [run for run in terms if recheck and run not in self._claims]
            for run in unused:
                await self._store.release(run, terms[run], unfinished=True)
        except PlansmithError:
            self._must_recheck = recheck
            raise

    def recheck_claims(self) -> None:
        """Looks soon for claims that nobody here uses: the answer of the store was lost."""
        self._must_recheck = True
        self._schedule_renewal()

    async def end(self) -> None:
        """Tells the others at once that the lease is over."""
        self.close()
        if self._renewed > float("-inf") and not self._claims:
            with suppress(PlansmithError):  # the store is away: they wait until the lease ends
                await self._store.renew_lease(Heartbeat(self._me(), self.about, _version(), 0.0))

    def close(self) -> None:
        """Renews it no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._renewing is not None and self._loop is not None and not self._loop.is_closed():
            self._renewing.cancel()

    def _schedule_renewal(self) -> None:
        loop = asyncio.get_running_loop()
        if self._timer is None or self._loop is not loop:
            self._loop = loop
            self._timer = loop.call_later(self.seconds / _RENEWALS, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if (self._claims or self.always or self._must_recheck) and self._loop is not None:
            self._renewing = self._loop.create_task(self._renew_and_schedule())

    async def _renew_and_schedule(self) -> None:
        try:
            await self._renew()
        except PlansmithError:
            pass  # the store is away: the next renewal, or whoever makes a call, looks again
        finally:
            self._schedule_renewal()
