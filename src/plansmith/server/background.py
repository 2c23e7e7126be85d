"""Plans and runs requests in the background, whoever is looking."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine
from functools import partial
from typing import Any, Final, TypeVar

from plansmith.app import Plansmith
from plansmith.engine.journal import SYSTEM
from plansmith.errors import (
    EventMisfit,
    JournalDamaged,
    JournalError,
    OtherFolder,
    OtherTeam,
    PlansmithError,
    RunBusy,
    StaleWriter,
)
from plansmith.plan.next_move import UNDER_WAY, MakePlan, goes_on, next_move
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.server.drafts import Drafts
from plansmith.server.ops.logs import Log
from plansmith.wiring import TeamSmiths

_AT_ONCE: Final = 50
_LOOK_S: Final = 2.0
_T = TypeVar("_T")


class BackgroundRuns:
    """One background task a run that can go on; a run that waits for a person has none."""

    def __init__(self, smith: Plansmith, *, teams: TeamSmiths, drafts: Drafts, log: Log) -> None:
        self._smith = smith
        self._teams = teams
        self._drafts = drafts
        self._log = log
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._asides: set[asyncio.Task[Any]] = set()
        self._known: set[str] = set()

    def knows(self, run_id: str) -> bool:
        """Whether this server made a run, or found it open: it is the one to go on with it."""
        return run_id in self._known

    @property
    def busy(self) -> int:
        """How many runs are being planned or run now."""
        return len(self._tasks)

    def go_on(self, run_id: str) -> None:
        """Take a run as far as it goes without a person; harmless when that is under way."""
        self._known.add(run_id)
        if run_id in self._tasks:
            self._again.add(run_id)  # it may have looked already and found nothing to do
        else:
            self._tasks[run_id] = asyncio.create_task(self._conduct(run_id), name=run_id)

    async def _conduct(self, run_id: str) -> None:
        try:
            with self._drafts.of(run_id):
                carry = partial(self._carry, run_id)
                self._watch_time(await self._smith.runs.journals.patience.until_done(carry))
        except StaleWriter:
            self._log.info("run_taken_over", run=run_id)
        except RunBusy as error:
            self._log.info("run_elsewhere", run=run_id, why=str(error))
            self._look_again(run_id, _LOOK_S)
        except EventMisfit as error:
            self._log.failure("run_broke", run=run_id, error=str(error))
            await self._hold(run_id, Sentence("pause.broke", error=repr(error)))
        except PlansmithError as error:
            self._log.warning("run_stopped", run=run_id, error=str(error))
            await self._give_up(run_id, error)
        except asyncio.CancelledError:
            self._again.discard(run_id)
            raise
        except Exception as error:  # noqa: BLE001 - one broken run must not take the server down
            self._log.failure("run_broke", run=run_id, error=repr(error))
            await self._hold(run_id, Sentence("pause.broke", error=repr(error)))
        finally:
            del self._tasks[run_id]
            if run_id in self._again:
                self._again.discard(run_id)
                self.go_on(run_id)

    async def _carry(self, run_id: str) -> Run:
        """Plan, and run; a request that was only to be planned is not run by itself."""
        smith = await self._smith_of(run_id)
        journal = await smith.runs.journals.load(run_id)
        run = journal.run
        if next_move(run) == MakePlan() and not run.options.mode:
            await smith.runs.planner.plan(journal)
            return journal.run
        return await smith.run(run_id)

    async def _smith_of(self, run_id: str) -> Plansmith:
        """The Plansmith with the agents of a run; another process may well have them."""
        try:
            return await self._teams.of_id(run_id)
        except OtherTeam:
            await self._smith.runs.journals.owners.need_free(run_id)
            raise

    async def _give_up(self, run_id: str, error: PlansmithError) -> None:
        """End a run that could not even be planned, so that nobody waits for it for ever."""
        if isinstance(error, OtherTeam):
            await self._hold(run_id, str(error))
        if isinstance(error, JournalError | OtherFolder | OtherTeam):
            return
        try:
            await self._smith.runs.give_up(run_id, reason=str(error))
        except PlansmithError as more:
            self._log.warning("run_not_ended", run=run_id, error=str(more))

    async def _hold(self, run_id: str, reason: str) -> None:
        """Pause a run that cannot go on here, with the reason: nobody must take it for running."""
        try:
            await self._smith.pause(run_id, by=SYSTEM, reason=reason)
        except PlansmithError as more:
            self._log.warning("run_not_paused", run=run_id, error=str(more))

    def _watch_time(self, run: Run) -> None:
        """Look at a run again when the time of one of its questions is up."""
        times = [each.expires_at for each in run.questions.values() if each.expires_at]
        if run.status.over:
            self._known.discard(run.id)
        old = self._timers.pop(run.id, None)
        if old is not None:
            old.cancel()
        if times:
            wait = (
                max(0.0, (min(times) - self._smith.runs.journals.clock.now()).total_seconds())
                + 0.01
            )
            self._look_again(run.id, wait)

    def _look_again(self, run_id: str, wait: float) -> None:
        loop = asyncio.get_running_loop()
        self._timers[run_id] = loop.call_later(wait, self.go_on, run_id)

    async def halt_planning(self, run_id: str) -> None:
        """Stop making a plan nobody wants any more; a run with a plan is left as it is."""
        task = self._tasks.get(run_id)
        if task is None or (await self._smith.runs.journals.load(run_id)).run.phase in UNDER_WAY:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def until_journaled(self, run_id: str, deed: Coroutine[Any, Any, _T]) -> None:
        """Start something long; return when it has been written down, or raise why it was not."""
        after = (await self._smith.runs.journals.load(run_id)).run.last
        task = asyncio.create_task(self._aside(run_id, deed))
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)
        news = asyncio.create_task(
            _quietly(self._smith.store.wait(run_id, after=after.number if after else 0))
        )
        await asyncio.wait([task, news], return_when=asyncio.FIRST_COMPLETED)
        news.cancel()
        if task.done():
            task.result()
        else:
            task.add_done_callback(self._told(run_id))

    async def _aside(self, run_id: str, deed: Coroutine[Any, Any, _T]) -> _T:
        with self._drafts.of(run_id):
            done = await deed
        if goes_on((await self._smith.runs.journals.load(run_id)).run):
            self.go_on(run_id)
        return done

    def _told(self, run_id: str) -> Any:
        def tell(task: asyncio.Task[Any]) -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self._log.warning("deed_failed", run=run_id, error=str(error))

        return tell

    async def take_up(self) -> int:
        """After a start: go on with whatever was being planned or run; returns how many runs."""
        ids = await self._smith.store.open_runs()
        count = 0
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            found = await asyncio.gather(*map(self._take_up, some), return_exceptions=True)
            for run_id, each in zip(some, found, strict=True):
                if isinstance(each, JournalDamaged):
                    self._log.failure("run_damaged", run=run_id, error=str(each))
                elif isinstance(each, BaseException):
                    raise each
                else:
                    count += each
        return count

    async def take_over(self) -> None:
        """Go on with runs whose processes died on this machine meanwhile, for as long as it is."""
        while True:
            await self._smith.runs.journals.clock.sleep(_LOOK_S)
            try:
                await self._smith.runs.journals.patience.until_done(self._take_over)
            except PlansmithError as error:
                self._log.warning("not_taken_over", error=str(error))

    async def _take_over(self) -> None:
        for run_id, dead in await self._smith.runs.journals.owners.left_behind():
            try:
                await self._take_up(run_id)
            except JournalDamaged as error:
                self._log.failure("run_damaged", run=run_id, error=str(error))
            await self._smith.runs.journals.owners.forget(run_id, dead)

    async def _take_up(self, run_id: str) -> int:
        journal = await self._smith.runs.journals.load(run_id)
        journal.need_sound()
        run = journal.run
        if not self._smith.runs.journals.is_here(run.folder):
            return 0
        self._known.add(run_id)
        if goes_on(run):
            self.go_on(run_id)
            return 1
        self._watch_time(run)
        return 0

    async def close(self) -> None:
        """Stop; every run can be taken up again."""
        for timer in self._timers.values():
            timer.cancel()
        tasks = [*self._tasks.values(), *self._asides]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _quietly(wait: Awaitable[None]) -> None:
    """Wait for news; trouble with the store is told by whoever reads next."""
    try:
        await wait
    except PlansmithError:
        return
