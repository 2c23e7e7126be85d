"""Sends runs to workers by a queue, and hands on those that dead workers had taken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from plansmith.engine.ownership import Owners
from plansmith.engine.processes import read_kind
from plansmith.engine.run_queue import QueueLimits, RunQueue
from plansmith.errors import Misconfigured, PlansmithError
from plansmith.plan.sentence import Sentence
from plansmith.ports import Clock
from plansmith.store.urls import StoreKind, store_kind
from plansmith_server.ops.logs import Log
from plansmith_server.ops.tasks import end

_FIRST_WAIT_S: Final = 0.05
_LONGEST_WAIT_S: Final = 2.0
_TIDY_S: Final = 600.0
_TELL_S: Final = 60.0


class RunCarrier:
    """Puts each run that is to go on on the queue, again and again until it waits there.

    A worker that has the run just now may have looked at it already: then the run is sent when
    that worker has ended with it. A run that parks is on no queue.
    """

    def __init__(self, queue: RunQueue, *, clock: Clock, log: Log) -> None:
        self.queue = queue
        self._clock = clock
        self._log = log
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._tidied = self._told = float("-inf")

    async def open(self, limits: QueueLimits | None = None) -> None:
        """Opens the queue, waiting for a database that is away."""

        async def opened() -> bool:
            await self.queue.open(limits)
            return True

        await self._until(opened, "queue_away")

    async def _until(self, work: Callable[[], Awaitable[bool]], away: str, **about: str) -> None:
        """Tries until it works, ever more seldom; `away` is what the log is told of an error."""
        wait = _FIRST_WAIT_S
        while True:
            try:
                if await work():
                    return
            except PlansmithError as error:
                self._log.warning(away, error=str(error), **about)
            await self._clock.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT_S)

    def send(self, run_id: str) -> None:
        """Has a worker go on with a run soon; harmless if one is about to."""
        if run_id in self._sending:
            self._again.add(run_id)
        else:
            self._sending[run_id] = asyncio.create_task(self._send(run_id))

    async def _send(self, run_id: str) -> None:
        async def sent() -> bool:
            self._again.discard(run_id)
            return await self.queue.add(run_id) and run_id not in self._again

        try:
            await self._until(sent, "run_not_sent", run=run_id)
        finally:
            del self._sending[run_id]

    async def hand_on(self, owners: Owners) -> None:
        """Puts what dead workers had taken back on the queue; removes what is long over."""
        taken = await self.queue.taken()
        dead = await owners.dead({each.worker for each in taken})
        left = [each for each in taken if each.worker in dead]
        if left:
            await self.queue.hand_on(left)
            self._log.info("runs_handed_on", runs=len(left), workers=len(dead))
        now = self._clock.monotonic()
        if now - self._tidied > _TIDY_S:
            self._tidied = now
            await self.queue.tidy()
        if taken or now - self._told <= _TELL_S:
            return
        # Runs that wait while no worker lives look as if they ran for ever.
        waiting = await self.queue.waiting()
        takes = [read_kind(each.beat.kind).runs for each in await owners.processes() if each.lives]
        if waiting and not any(takes):
            self._told = now
            start = "plansmith serve worker --store URL"
            self._log.warning("no_worker", runs=len(waiting), start=start)

    async def flush(self, seconds: float) -> None:
        """Waits until all runs have been sent, for so many seconds at most."""
        if self._sending:
            await asyncio.wait([*self._sending.values()], timeout=seconds)

    async def close(self) -> None:
        """Sends no more; whoever watches the runs sends what was left."""
        await end(self._sending.values())
        await self.queue.close()


def need_server(url: str) -> StoreKind:
    """Returns what the package of a store brings that several machines share."""
    kind = store_kind(url)
    if kind is None:
        hint = Sentence("name a database that all of them reach: --store postgresql://…")
        raise Misconfigured(Sentence("workers need a store on PostgreSQL"), hint=hint)
    return kind
