"""A worker: takes runs from the queue and executes them, as a server does but without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final, NamedTuple

from plansmith.errors import PlansmithError
from plansmith.plan.events import SYSTEM
from plansmith.plan.next_move import goes_on
from plansmith.plan.sentence import Sentence
from plansmith.run_queue import QueueLimits
from plansmith_server.state import ServerState

# A run that this worker cannot take now waits so long before it is offered again.
_OFFER_S: Final = 1.0
# So often a worker that lacks a tool leaves a run to others before it pauses the run. Each time
# another worker may be slower than this one, so with others it has to be more often.
_OFFERS: Final = 3
_OFFERS_TO_OTHERS: Final = 12
_LAST_S: Final = 5.0
# Of all workers together: some worker looks soon enough, and the database has other work.
_POLLS_A_SECOND: Final = 100


class Left(NamedTuple):
    """How a worker ended: the runs that others go on with, and those whose calls were cut off."""

    handed_over: int
    cut_off: int


class Worker:
    """Executes up to `most` runs at a time until it is told to stop.

    Then it takes no more, starts no more steps, waits for the running calls for up to `drain_s`
    seconds, and gives the runs that are not over back to the queue.
    """

    def __init__(self, state: ServerState, *, most: int) -> None:
        assert state.carrier is not None  # noqa: S101 - a worker is made with an engine
        self._state = state
        self.carrier = state.carrier
        self._most = most
        self._journals = state.smith.runs.journals
        self._advancing: set[str] = set()
        self._offered: dict[str, int] = {}
        self._draining = False
        self._given_back: set[str] = set()
        self._name = self._journals.ownership.me()
        self._taker = self.carrier.queue.taker(name=self._name, advance=self._advance)

    async def start(self, limits: QueueLimits) -> None:
        """Tells the others that this worker lives, and begins to take runs."""
        retry, ownership = self._journals.store_retry, self._journals.ownership
        await retry.until_done(lambda: ownership.announce(self._state.about))
        # What suits all living workers: the queue knows one number for all of them.
        takes = [*(await retry.until_done(self._workers)).values()]
        poll_s = max(0.2, len(takes) / _POLLS_A_SECOND)
        most = max([self._most, *takes])
        await self.carrier.open(limits._replace(per_worker=most, poll_s=poll_s))
        await self._taker.start()
        self._state.ready = True

    async def _workers(self) -> dict[str, int]:
        """Returns the living processes that take runs, and how many each takes at once."""
        heartbeats = [
            each.heartbeat for each in await self._journals.ownership.processes() if each.lives
        ]
        takes = {each.process: each.about.runs for each in heartbeats}
        return {process: runs for process, runs in takes.items() if runs}

    async def _advance(self, run_id: str) -> None:
        """Goes on with a run that this worker took from the queue, or leaves it to others."""
        if self._draining:
            self._given_back.add(run_id)  # sent again once the queue knows that it is not here
            return
        if len(self._advancing) >= self._most:
            self._state.background.continue_later(run_id, _OFFER_S)
            return
        self._advancing.add(run_id)
        try:
            if not await self._is_left_to_others(run_id):
                await self._state.background.advance(run_id)
        finally:
            self._advancing.discard(run_id)

    async def _is_left_to_others(self, run_id: str) -> bool:
        """Tells whether this worker lacks a tool of the run; others then get it for a while."""
        try:
            run, lacking = (await self._journals.load_verified(run_id)).run, list[str]()
            if run.plan is not None and run.approved_tools:
                registry = self._state.teams.of(run).runs.registry
                known = await registry.definitions(run.plan, run.templates)
                lacking = sorted({*run.approved_tools} - {*known})
            others = {*await self._workers()} - {self._name} if lacking else set[str]()
        except PlansmithError:
            return False  # told by whoever goes on with it
        if not lacking:
            self._offered.pop(run_id, None)
            return False
        self._offered[run_id] = times = self._offered.get(run_id, 0) + 1
        self._state.log.warning("tool_lacking", run=run_id, tools=[*lacking], times=times)
        if times < (_OFFERS_TO_OTHERS if others else _OFFERS):
            wait_s = min(_OFFER_S * times, 3.0)
            self._state.background.continue_later(run_id, wait_s)
        else:
            del self._offered[run_id]  # a person who resumes it has others try again
            reason = Sentence(
                "no worker that took the run has {names}: start one that has it, then resume",
                names=", ".join(lacking),
            )
            await self._state.smith.pause(run_id, by=SYSTEM, reason=reason)
        return True

    async def drain(self, seconds: float, hurry: asyncio.Event) -> Left:
        """Takes no more runs, lets running calls end, and gives back what is not over."""
        self._draining = True
        background, log = self._state.background, self._state.log
        try:  # the others learn that this worker takes no more runs
            await self._journals.ownership.announce(replace(self._state.about, draining=True))
        except PlansmithError as error:
            log.warning("store_away", error=str(error))
        stopping = asyncio.create_task(self._taker.stop(seconds + _LAST_S))
        running = [*self._advancing]
        log.info("draining", runs=len(running), seconds=seconds)
        for smith in self._state.teams.all():
            smith.runs.execution.hand_over_all()
        cut_off = await background.settle(seconds, hurry)
        await background.close()
        await stopping
        handed_over = self._given_back
        for run in running:
            with suppress(PlansmithError):  # else whoever takes it looks again
                if not goes_on((await self._journals.load_verified(run)).run):
                    continue
            handed_over.add(run)
        for run in handed_over:
            self.carrier.send(run)
        await self.carrier.flush(_LAST_S)
        return Left(len(handed_over), len(cut_off))


@asynccontextmanager
async def executing_runs(state: ServerState, most: int) -> AsyncGenerator[None]:
    """Has a server execute runs too while it serves; at the end they are left to others."""
    worker = Worker(state, most=most)
    await worker.start(state.settings.workers.limits())
    yield
    await worker.drain(_LAST_S, asyncio.Event())
