"""Plans and runs requests in background tasks, or sends them to workers, clients or no clients."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

from plansmith import errors as err
from plansmith.app import Plansmith
from plansmith.engine.journal import Journal
from plansmith.engine.ownership import Ownership
from plansmith.plan.events import SYSTEM
from plansmith.plan.next_move import UNDER_WAY, Execute, MakePlan, goes_on, next_move
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.sentence import Sentence
from plansmith.ports import Clock
from plansmith.run_queue import QueueLimits, RunQueue
from plansmith_server.news import Drafts
from plansmith_server.ops.logs import Log
from plansmith_server.ops.tasks import end
from plansmith_server.ports import Teams

_AT_ONCE: Final = 50
_LOOK_S: Final = 2.0
_FIRST_WAIT_S: Final = 0.05
_MAX_WAIT_S: Final = 2.0
_TIDY_S: Final = 600.0
_T = TypeVar("_T")


class RunCarrier:
    """Puts each run that is to go on on the queue, again and again until it waits there.

    A worker that has the run just now may have looked at it already: then the run is sent when
    that worker has ended with it. A run that parks is on no queue.
    """

    def __init__(self, queue: RunQueue, *, clock: Clock, log: Log) -> None:
        self.queue, self._clock, self._log = queue, clock, log
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._tidied = float("-inf")

    async def open(self, limits: QueueLimits | None = None) -> None:
        """Opens the queue, waiting for a database that is away."""
        await self._until(lambda: self.queue.open(limits), "queue_away")

    async def _until(self, work: Callable[[], Awaitable[object]], away: str, **about: str) -> None:
        """Tries until it works and is not False, ever more seldom; logs an error as `away`."""
        wait = _FIRST_WAIT_S
        while True:
            try:
                if await work() is not False:
                    return
            except err.PlansmithError as error:
                self._log.warning(away, error=str(error), **about)
            await self._clock.sleep(wait)
            wait = min(wait * 2, _MAX_WAIT_S)

    def send(self, run_id: str) -> None:
        """Has a worker go on with a run soon; harmless if one is about to."""
        if run_id in self._sending:
            self._again.add(run_id)
        else:
            self._sending[run_id] = asyncio.create_task(self._send(run_id))

    def has(self, run_id: str) -> bool:
        return run_id in self._sending

    async def _send(self, run_id: str) -> None:
        async def sent() -> bool:
            self._again.discard(run_id)
            return await self.queue.add(run_id) and run_id not in self._again

        try:
            await self._until(sent, "run_not_sent", run=run_id)
        finally:
            del self._sending[run_id]

    async def hand_on(self, ownership: Ownership) -> None:
        """Puts what dead workers had taken back on the queue; removes what is long over."""
        taken = await self.queue.taken()
        dead = await ownership.liveness.dead({each.worker for each in taken})
        left = [each for each in taken if each.worker in dead]
        if left:
            await self.queue.hand_on(left)
            self._log.info("runs_handed_on", runs=len(left), workers=len(dead))
        now = self._clock.monotonic()
        if now - self._tidied > _TIDY_S:
            self._tidied = now
            await self.queue.tidy()

    async def flush(self, seconds: float) -> None:
        """Waits until all runs have been sent, for so many seconds at most."""
        if self._sending:
            await asyncio.wait([*self._sending.values()], timeout=seconds)

    async def close(self) -> None:
        await end(self._sending.values())
        await self.queue.close()


class BackgroundRuns:
    """Keeps one task for each run that can continue; a run that waits for a person has none.

    A run goes on when it is told to (`go_on`). When it rests, a timer looks at it again if it
    waits for a time; if it was wanted meanwhile, it goes on as soon as it is free, here or at the
    process that has it. What others decided or left is looked at by `adopt`.

    With a `carrier`, runs that can continue go to the workers, one of which calls `advance`.
    """

    def __init__(
        self,
        smith: Plansmith,
        *,
        teams: Teams,
        drafts: Drafts,
        log: Log,
        carrier: RunCarrier | None = None,
    ) -> None:
        self._smith, self._journals = smith, smith.runs.journals
        self._teams, self._drafts, self._log, self._carrier = teams, drafts, log, carrier
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # The runs to go on with once they are free, and whether somebody is to start them.
        self._wanted: dict[str, bool] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._other_tasks: set[asyncio.Task[Any]] = set()
        self._known: set[str] = set()
        # Runs of other folders.
        self._not_here: set[str] = set()
        # The terms of claims that were left, and whose runs this server began to continue.
        self._adopted: dict[str, int] = {}
        # The servers that had ended when this one last looked for the runs they left.
        self._dead_servers: set[str] = set()

    def knows(self, run_id: str) -> bool:
        """Whether this server created the run or found it open, and so has to continue it."""
        return run_id in self._known

    @property
    def busy(self) -> int:
        return len(self._tasks)

    def has(self, run_id: str) -> bool:
        """Whether a run goes on here now, or is being sent to the workers."""
        return run_id in self._tasks or (self._carrier is not None and self._carrier.has(run_id))

    def go_on(self, run_id: str, *, starts: bool = True) -> None:
        """Continues a run as far as it goes without a person; harmless if that is under way.

        Without `starts`, a plan that waits for somebody to start it goes on waiting.
        """
        self._known.add(run_id)
        if self._carrier is not None:
            self._carrier.send(run_id)
        else:
            self._begin(run_id, starts=starts)

    def _begin(self, run_id: str, *, starts: bool) -> None:
        if run_id in self._tasks:  # it may have found nothing to do just before this
            self._want(run_id, starts=starts)
        else:
            work = self._advance(run_id, starts=starts)
            self._tasks[run_id] = asyncio.create_task(work, name=run_id)

    def _want(self, run_id: str, *, starts: bool) -> None:
        self._wanted[run_id] = starts or self._wanted.get(run_id, False)

    async def advance(self, run_id: str) -> None:
        """Continues a run in this process, and returns when it ends or waits."""
        self._begin(run_id, starts=True)
        while (task := self._tasks.get(run_id)) is not None:
            await asyncio.wait([task])

    async def _advance(self, run_id: str, *, starts: bool) -> None:
        is_free = True
        try:
            with self._drafts.of(run_id):
                advance = partial(self._plan_or_execute, run_id, starts=starts)
                self._continue_at_expiry(await self._journals.store_retry.until_done(advance))
        except err.StaleWriter:
            self._log.info("run_changed_meanwhile", run=run_id)
            self._want(run_id, starts=starts)  # by a person, or a process that has it now
        except err.RunBusy as error:
            self._log.info("run_elsewhere", run=run_id, why=str(error))
            self._want(run_id, starts=starts)
            is_free = False
        except asyncio.CancelledError:
            self._wanted.pop(run_id, None)
            raise
        except Exception as error:  # noqa: BLE001 - one broken run must not take the server down
            await self._give_up(run_id, error)
        finally:
            del self._tasks[run_id]
            if is_free and run_id in self._wanted:
                self._begin(run_id, starts=self._wanted.pop(run_id))

    async def _plan_or_execute(self, run_id: str, *, starts: bool) -> Run:
        """Plans or executes a run; a run without a mode is planned only."""
        journal = await self._journals.load_verified(run_id)
        run = journal.run
        try:
            smith = self._teams.of(run)
        except err.OtherTeam:
            await self._journals.ownership.require_free(run.id)
            raise
        move = next_move(run)
        if isinstance(move, Execute) and move.needs_start and not starts:
            return run
        if run.options.thread and isinstance(move, MakePlan):
            await smith.threads.shorten(run.options.thread, upto=run.options.message or 1)
        if move == MakePlan() and not run.options.mode:
            return await smith.runs.plan_if_next(run)
        smith.runs.journals.keep_new(journal)
        return await smith.runs.run(run_id, parks=True)

    async def _give_up(self, run_id: str, error: Exception) -> None:
        """Ends a run that could not be planned, or pauses it: nobody waits for it for ever."""
        must_end, why = False, str(error)
        if isinstance(error, err.EventMisfit) or not isinstance(error, err.PlansmithError):
            self._log.failure("run_broke", run=run_id, error=repr(error))
            why = Sentence("an error occurred: {error}", error=repr(error))
        else:
            self._log.warning("run_stopped", run=run_id, error=why)
            if isinstance(error, err.JournalError | err.OtherFolder):
                return
            must_end = not isinstance(error, err.OtherTeam)
        try:
            if must_end:
                await self._smith.runs.give_up(run_id, reason=why)
            else:
                await self._smith.pause(run_id, by=SYSTEM, reason=why)
        except err.PlansmithError as more:
            event = "run_not_ended" if must_end else "run_not_paused"
            self._log.warning(event, run=run_id, error=str(more))

    async def until_rest(self, run_id: str) -> Run:
        """Continues a run; returns it when it is over or waits for a person."""
        self.go_on(run_id)
        return await self._journals.whole(await self.at_rest(run_id))

    async def at_rest(self, run_id: str) -> Journal:
        """Waits until a run is over or needs a person; returns its journal."""
        while goes_on((journal := await self._journals.load_verified(run_id)).run):
            await self._smith.store.wait(run_id, after=journal.last)
        return journal

    def _continue_at_expiry(self, run: Run) -> None:
        """Continues a run when one of its questions expires, or a step has waited long enough."""
        times = [each.expires_at for each in run.questions.values() if each.expires_at]
        now = self._journals.clock.now()
        # It has just been run: what could not start then is not tried again at once.
        soon = now + timedelta(seconds=_LOOK_S)
        if run.wakes_at is not None and run.status is RunStatus.RUNNING:
            times.append(max(run.wakes_at, soon))
        elif goes_on(run):
            times.append(soon)  # whoever had it let go of it, or lost the store's answer
        if run.status.over:
            self._known.discard(run.id)
            if run.id in self._timers:
                self._timers.pop(run.id).cancel()
        elif times:
            self.continue_later(run.id, max(0.0, (min(times) - now).total_seconds()) + 0.01)

    def continue_later(self, run_id: str, wait: float) -> None:
        """Looks at a run again after a while, unless a look is planned for sooner."""

        def wake() -> None:
            self._timers.pop(run_id, None)
            self.go_on(run_id, starts=False)

        loop, old = asyncio.get_running_loop(), self._timers.get(run_id)
        if old is None or old.when() > loop.time() + wait:
            if old is not None:
                old.cancel()
            self._timers[run_id] = loop.call_later(wait, wake)

    async def halt_planning(self, run_id: str) -> None:
        """Stops the planning of a run; does not stop its execution."""
        task = self._tasks.get(run_id)
        if task is None or (await self._journals.load_verified(run_id)).run.phase in UNDER_WAY:
            return
        await end([task])

    async def until_journaled(self, run_id: str, work: Coroutine[Any, Any, _T]) -> None:
        """Starts long work and returns at its first journal event; raises if it fails before."""

        def log_failure(ended: asyncio.Task[Any]) -> None:
            error = None if ended.cancelled() else ended.exception()
            if error is not None:
                self._log.warning("background_work_failed", run=run_id, error=str(error))

        after = (await self._journals.load_verified(run_id)).last
        task = asyncio.create_task(self.do_and_continue(run_id, work))
        self._other_tasks.add(task)
        task.add_done_callback(self._other_tasks.discard)
        news = asyncio.ensure_future(self._smith.store.wait(run_id, after=after))
        await asyncio.wait([task, news], return_when=asyncio.FIRST_COMPLETED)
        is_done = task.done()
        await end([news])  # the next read tells of trouble
        if is_done:
            task.result()
        else:
            task.add_done_callback(log_failure)

    async def do_and_continue(self, run_id: str, work: Coroutine[Any, Any, _T]) -> _T:
        """Does work about a run, and continues the run if it can go on then."""
        with self._drafts.of(run_id):
            done = await work
        if goes_on((await self._journals.load_verified(run_id)).run):
            self.go_on(run_id)
        return done

    async def resume_open(self) -> int:
        """Continues the runs that were open when the server started; returns how many."""
        ownership = self._journals.ownership
        # Before the runs are read: what a server made that ends later is not among them.
        dead = await ownership.liveness.dead_or_silent_servers()
        ids = await self._smith.store.open_runs()
        # Before their journals are read: what is decided from here on is followed.
        self._known.update(ids)
        await ownership.refresh()
        if self._carrier is not None:  # what workers execute is not to be sent to another one
            busy = await ownership.in_use({*ids})
            ids = [each for each in ids if each not in busy]
        count = 0
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            count += sum(await asyncio.gather(*map(self.adopt, some)))
        self._dead_servers = dead
        return count

    async def keep_looking(self, *, released: bool = False) -> None:
        """Keeps looking for runs whose process died or let go, and continues them.

        If `released`, only for those that were wanted here and that another process has let go.
        """
        while True:
            await self._journals.clock.sleep(_LOOK_S)
            work = self._continue_released if released else self._adopt_orphans
            try:
                await self._journals.store_retry.until_done(work)
            except err.PlansmithError as error:
                self._log.warning("orphans_not_adopted", error=str(error))

    async def _adopt_orphans(self) -> None:
        ownership = self._journals.ownership
        for run_id, (claim, state) in (await ownership.states()).items():
            if state != "dead" or run_id in self._not_here:
                continue
            if await self.adopt(run_id) and self._adopted.get(run_id) != claim.term:
                self._adopted[run_id] = claim.term  # whoever executes it claims it
            elif run_id not in self._not_here:  # nothing is to be continued
                await ownership.forget(run_id)
                self._adopted.pop(run_id, None)
        if self._carrier is not None:
            await self._carrier.hand_on(ownership)
        dead = await ownership.liveness.dead_or_silent_servers()
        if dead - self._dead_servers:
            # What waited there for an answer or a time is this server's to continue now.
            await self.resume_open()
        self._dead_servers = dead  # one that was only silent may end another time

    async def _continue_released(self) -> None:
        wanted = self._wanted.keys() - self._tasks.keys()
        for run_id in wanted - await self._journals.ownership.in_use(wanted):
            if run_id in self._wanted:
                self.go_on(run_id, starts=self._wanted.pop(run_id))

    async def adopt(self, run_id: str) -> bool:
        """Continues a run of this folder from now on; tells whether there is something to do."""
        try:
            journal = await self._journals.load_verified(run_id)
            journal.require_sound()
        except err.NotFound:
            self._known.discard(run_id)  # deleted since it was listed
            return False
        except err.JournalDamaged as error:
            self._log.failure("run_damaged", run=run_id, error=str(error))
            return False
        run = journal.run
        if not self._journals.is_here(run.folder):
            self._not_here.add(run_id)
            self._known.discard(run_id)
            return False
        self._known.add(run_id)
        if not goes_on(run):
            if run_id not in self._tasks:
                self._continue_at_expiry(run)
            return False
        self._journals.keep_new(journal)
        self.go_on(run_id, starts=False)
        return True

    async def settle(self, seconds: float, hurry: asyncio.Event) -> list[str]:
        """Waits for the tasks, for so many seconds or until `hurry`; returns the runs of others."""
        hurrying = asyncio.create_task(hurry.wait())
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._tasks and not hurry.is_set():
                    waits = [*self._tasks.values(), hurrying]
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        hurrying.cancel()
        return [*self._tasks]

    async def close(self) -> None:
        """Stops all tasks; every run can be resumed later."""
        for timer in self._timers.values():
            timer.cancel()
        await end([*self._tasks.values(), *self._other_tasks])
