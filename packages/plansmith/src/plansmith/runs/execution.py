"""Executes runs in this process, each once, until it ends or waits for a person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from plansmith.engine.executor import Executor
from plansmith.engine.journal import Journal, load_replies, load_values
from plansmith.engine.recover import unended_reads
from plansmith.engine.units import named_unit
from plansmith.errors import RunTakenOver, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.next_move import UNDER_WAY, AwaitAnswer, Conclude, Execute, next_move
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.second_person import why_not as why_alone
from plansmith.review.coverage import redefined
from plansmith.runs.conclude import conclude
from plansmith.templates.template import runs_templates

if TYPE_CHECKING:
    from plansmith.engine.budget import RunBudgets
    from plansmith.engine.executor import Pacing
    from plansmith.engine.lease import Fence
    from plansmith.runs.revising import PlanReviser


@dataclass(slots=True, eq=False)
class _Active:
    """A run that this process executes; `interrupted` when its task was cancelled on purpose."""

    executor: Executor
    future: asyncio.Future[Run] = field(init=False)
    interrupted: bool = False


class RunExecution:
    """Executes plans until they are over or wait for a person; each run by one process."""

    def __init__(self, *, reviser: PlanReviser, budgets: RunBudgets) -> None:
        self.limits = reviser.limits
        self._reviser, self._planning, self._budgets = reviser, reviser.planning, budgets
        self._journals, self._intake = reviser.journals, reviser.intake
        self._active: dict[str, _Active] = {}
        self._leaving = False
        self._beginning: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._journals.owners.on_lost(self._stop_lost)

    def future_of(self, run_id: str) -> asyncio.Future[Run] | None:
        """Returns the task that executes a run in this process, if any."""
        active = self._active.get(run_id)
        return active.future if active else None

    async def close(self) -> None:
        """Stops executing; every run can be resumed later."""
        futures = [active.future for active in self._active.values()]
        for future in futures:
            future.cancel()
        await asyncio.gather(*futures, return_exceptions=True)
        await self._journals.owners.end()

    async def begin(self, journal: Journal) -> asyncio.Future[Run] | None:
        """Claims a run and starts to execute it; None if it cannot go on any more."""
        # Of several calls at once, one begins, and the others find what it has begun.
        lock = self._beginning.setdefault(journal.id, asyncio.Lock())
        async with lock, self._journals.owners.owning(journal.id) as fence:
            journal.fence = fence
            if await journal.catch_up() and not may_execute(journal.run):
                return None
            return await self._begin(journal, fence)

    async def begin_new(self, run_id: str) -> bool:
        """Begins a run just created here, unless something is to be asked before.

        What others wrote meanwhile is read once it is owned.
        """
        journal = self._journals.pop_new(run_id)
        if journal is None or journal.damage is not None or not may_execute(journal.run):
            return False
        if journal.run.phase is not RunStatus.PLANNING or journal.run.questions:
            return False
        self._journals.require_ours(journal.run)
        return await self.begin(journal) is not None

    async def _begin(self, journal: Journal, fence: Fence) -> asyncio.Future[Run] | None:
        """Starts to execute a run that this process owns; None if another writer was first."""
        if journal.id in self._active:
            return self.future_of(journal.id)
        if self._leaving:
            return None
        if journal.run.cancel_asked and journal.run.phase not in UNDER_WAY:
            await self.replan_or_conclude(journal)
            return None
        try:
            if await self._asks_again(journal):
                return None
            active = _Active(await self._executor_for(journal))
        except (StaleWriter, RunTakenOver):
            return None
        journal.retry = self._journals.store_retry
        self._journals.owners.hold(fence)
        active.future = asyncio.create_task(self._execute_and_conclude(journal, active, fence))
        self._active[journal.id] = active
        active.future.add_done_callback(lambda _: self._active.pop(journal.id, None))
        return active.future

    async def _asks_again(self, journal: Journal) -> bool:
        """Asks for a review if nobody approved the plan, or if a tool or agent has changed since.

        A revision of a plan under way was compared with what is approved when it was written.
        """
        run = journal.run
        if run.plan is None:
            return False
        revised = bool(run.approved_tools) and run.phase in UNDER_WAY
        if not run.approved and not revised:
            asked = await self._intake.review(run.plan, run, templates=run.templates)
        else:
            now = await self._intake.definitions(run.plan, run.templates)
            why = redefined(run.approved_tools, now)
            by = run.approved_by or e.Actor(kind="person")
            if alone := why_alone(run, by, self._intake.policy.second_person):
                why = (*why, alone)
            again = e.ReviewAsked(hash=run.plan.hash, reasons=why, drops=run.dropped)
            asked = [again] if why else []
        if asked:
            await journal.append(*asked)
        return bool(asked)

    async def _executor_for(self, journal: Journal, pacing: Pacing | None = None) -> Executor:
        run, store = journal.run, self._journals.store
        starts = run.plan is not None and run.phase not in UNDER_WAY
        await self._budgets.count()
        measured = run.estimate.measured if run.estimate else {}
        if runs_templates(run.plan):
            await self._intake.load_templates()
        return Executor(
            journal,
            callees=self._planning.equip(await self._intake.callees(), run),
            results=await load_values(store, run),
            replies=await load_replies(store, run),
            templates={**self._intake.templates, **run.templates},
            limits=self.limits,
            most_items=self._intake.policy.most_items,
            durations={name: each.seconds for name, each in measured.items()},
            budget=self._budgets.of(run),
            pacing=pacing or self._reviser.pacing(journal),
            opening=[e.RunStarted(hash=journal.plan_hash)] if starts else (),
            end=partial(self._plain_end, journal),
        )

    def _plain_end(self, journal: Journal) -> e.RunFinished | None:
        """Returns the end of a run whose steps are all done; None if more is to be decided.

        It spares most runs an append: whatever ends here, `conclude` would end as done too.
        """
        run = journal.run
        is_plain = run.phase is RunStatus.RUNNING and not (run.questions or run.cancel_asked)
        if not is_plain or run.dropped or run.advice or run.paused:
            return None
        return e.RunFinished(status="done") if self._reviser.ends_when_done else None

    async def _execute_and_conclude(self, journal: Journal, active: _Active, fence: Fence) -> Run:
        unfinished = False
        try:
            unfinished = await self._execute_through_changes(journal, active, fence)
        except (StaleWriter, RunTakenOver):
            return await self._as_it_is(journal, active)
        except asyncio.CancelledError:
            if not active.interrupted:
                unfinished = True  # a server that runs may go on with it
                raise
            return await self._as_it_is(journal, active)
        finally:
            await self._journals.owners.release(fence, unfinished=unfinished)
        whole = partial(self._journals.whole, journal, active.executor.results)
        return await self._journals.store_retry.until_done(whole)

    async def _execute_through_changes(
        self, journal: Journal, active: _Active, fence: Fence
    ) -> bool:
        """Executes a run until it rests, whatever others decide in between.

        Returns whether the rest is left to another process.
        """
        while True:
            try:
                return await self._execute_until_rest(journal, active)
            except StaleWriter:
                if fence.lost or not fence.term:
                    raise  # others may be executing it
                await journal.catch_up()
                if not may_execute(journal.run):
                    raise
                await self._renew(journal, active)

    async def _execute_until_rest(self, journal: Journal, active: _Active) -> bool:
        idle = False
        while True:
            wakes_at = active.executor.wakes_at if idle else None
            runs = not idle and journal.run.phase is not RunStatus.REPLANNING
            match next_move(journal.run, idle=idle, wakes_at=wakes_at):
                case Execute() | AwaitAnswer(begun=True) if runs:
                    past = await self._intake.past()
                    await active.executor.execute()
                    if journal.run.phase.over and journal.summary is not None:
                        past.learn(journal.summary.calls)
                    if active.executor.leaves and not journal.run.paused:
                        return True
                    idle = True
                case Conclude():
                    end = partial(self.replan_or_conclude, journal)
                    if not await self._journals.store_retry.until_done(end):
                        return False
                    await self._renew(journal, active)
                    idle = False
                case _:
                    return False

    async def _renew(self, journal: Journal, active: _Active) -> None:
        """Makes an executor for the run as it is now; the one before is not used any more."""
        again = partial(self._executor_for, journal)
        active.executor = await self._journals.store_retry.until_done(again)
        active.executor.leaves = self._leaving

    async def _as_it_is(self, journal: Journal, active: _Active) -> Run:
        try:
            await journal.catch_up()
            return await self._journals.whole(journal)
        except asyncio.CancelledError:
            if not active.interrupted:
                raise
            # Both ways told at once that it was taken over.
            active.interrupted = False
            return await self._as_it_is(journal, active)

    async def wait_for_time(self, run: Run) -> bool:
        """Waits for the time for which a run waits, or until somebody writes to it.

        False at once if it waits for something else. Nothing but this call is held meanwhile.
        """
        at = run.wakes_at
        if at is None or run.status is not RunStatus.RUNNING:
            return False
        clock, store = self._journals.clock, self._journals.store
        left = max(0.0, (at - clock.now()).total_seconds())
        number = run.last.number if run.last else 0
        await first_of(clock.sleep(left), store.wait(run.id, after=number))
        return True

    async def replan_or_conclude(self, journal: Journal) -> bool:
        """Ends a run that is not over, unless it needs a new plan; true if it goes on with one."""
        if journal.run.status.over:
            return False
        if left := unended_reads(journal.run):
            await journal.append(*left)
        outcome = await self._reviser.at_rest(journal)
        if not outcome.ends_run:
            return outcome.goes_on
        pacing, active = self._reviser.last_replies(journal.run), self._active.get(journal.id)
        if pacing is not None and active is not None:  # replies that were held back
            active.executor = await self._executor_for(journal, pacing)
            await active.executor.execute()
            if journal.run.paused:
                return False
        past, run, intake = await self._intake.past(), journal.run, self._intake
        # What steps would have changed matters only if the goal was met early, or one failed.
        matters = run.advice or any(step.rule == "error" for step in run.steps.values())
        acting = await intake.acting(run.plan, run.templates) if run.plan and matters else ()
        callees, templates = await intake.callees(), {**intake.templates, **run.templates}

        def is_read(name: str) -> bool:
            unit = named_unit(run.plan, name, templates) if run.plan else None
            return unit is not None and callees.is_read(unit)

        await conclude(journal, is_read=is_read, acting=acting, reason=outcome.reason)
        if journal.summary is not None:
            past.learn(journal.summary.calls)
        return False

    def leave_all(self) -> None:
        """Starts no more steps in this process; each run is let go when its calls have ended."""
        self._leaving = True
        for active in self._active.values():
            active.executor.leave()

    def _stop_lost(self, run_id: str) -> None:
        active = self._active.get(run_id)
        if active is not None and active.future is not asyncio.current_task():
            active.interrupted = True
            active.future.cancel()

    def wake(self, run_id: str) -> None:
        """Has the executor of a run in this process read at once what others have written."""
        active = self._active.get(run_id)
        if active is not None and active.executor.is_executing:
            active.executor.wakeups.others_wrote()

    async def stopped(self, run_id: str) -> bool:
        """Waits until this process obeys what was written; false if it does not execute the run."""
        active = self._active.get(run_id)
        if active is None:
            return False
        if not active.executor.is_executing:  # a new plan is being made: not worth waiting for
            active.interrupted = True
            active.future.cancel()
        await asyncio.gather(asyncio.shield(active.future), return_exceptions=True)
        return True


async def first_of(*waits: Awaitable[object]) -> None:
    """Waits until one of these is over, and cancels the others."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def may_execute(run: Run) -> bool:
    """Tells whether a run can be executed now, also one that waits for an answer to one step."""
    match next_move(run):
        case Execute() | Conclude() | AwaitAnswer(begun=True):
            return True
        case _:
            return False
