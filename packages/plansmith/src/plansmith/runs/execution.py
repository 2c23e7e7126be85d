"""Executes runs, each in one process, until they end or wait for a person; how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from plansmith.clock import first_of
from plansmith.engine.executor import Executor, ExecutorOptions, Pacing
from plansmith.engine.journal import Journal, load_call_answers, load_preview, load_values
from plansmith.engine.preview import PreviewExecutor
from plansmith.engine.units import Unit, named_unit
from plansmith.errors import RunTakenOver, StaleWriter, StoreAway
from plansmith.lazy import lazy_modules
from plansmith.plan import events as e
from plansmith.plan.fold import fold
from plansmith.plan.ids import parent_of, root_of
from plansmith.plan.next_move import UNDER_WAY, AwaitAnswer, EndOrReplan, Execute, next_move
from plansmith.plan.refs import escape_text, with_words
from plansmith.plan.run import (
    STARTABLE_OR_RUNNING,
    UNFINISHED,
    Run,
    RunStatus,
    StepStatus,
    was_refused,
)
from plansmith.plan.second_person import why_cannot_approve
from plansmith.plan.sentence import Sentence, in_language, joined
from plansmith.plan.steps import ReplyStep
from plansmith.review.coverage import redefined
from plansmith.runs import replan

if TYPE_CHECKING:
    from plansmith.engine.budget import RunBudgets
    from plansmith.engine.call import Callees
    from plansmith.ports import ReplyWriter
    from plansmith.runs import replies
    from plansmith.runs.planning import RunPlanning
else:
    lazy_modules(globals(), replies="plansmith.runs.replies")

_SHOWN: Final = 5


@dataclass(slots=True, eq=False)
class _Active:
    """A run that this process owns or is about to own.

    `is_released`: this process is done with it: it is to stop at once, another process has it, or
    it has come to rest.
    """

    future: asyncio.Future[Run] = field(init=False)
    executor: Executor | None = None
    is_released: bool = False
    previews: bool = False  # it only makes a preview of its plan
    only: Collection[str] = ()  # the steps that the preview executes, if not all

    def interrupt(self) -> None:
        if not self.is_released:
            self.is_released = True
            self.future.cancel()


class RunExecution:
    """Executes plans until they are over or wait for a person; each run by one process.

    `begin` starts a task of four layers: `_execute` returns the run, also one that another process
    took over; `_execute_under_claim` owns it; `_through_changes` goes on after others wrote; and
    `_until_rest` does what `next_move` says.
    """

    def __init__(
        self, *, planning: RunPlanning, budgets: RunBudgets, writer: ReplyWriter | None
    ) -> None:
        self.limits = planning.limits
        self._planning, self._budgets, self._writer = planning, budgets, writer
        self._journals, self._intake = planning.journals, planning.intake
        self._registry = planning.registry
        self._active: dict[str, _Active] = {}
        self._hands_over = False
        self._journals.ownership.on_lost(self._stop_lost)

    def future_of(self, run_id: str) -> asyncio.Future[Run] | None:
        """Returns the task that executes a run in this process, if any."""
        active = self._active.get(run_id)
        return active.future if active and not active.future.done() else None

    async def close(self) -> None:
        """Stops executing; every run can be resumed later."""
        futures = [active.future for active in self._active.values()]
        for future in futures:
            future.cancel()
        await asyncio.gather(*futures, return_exceptions=True)
        await self._journals.ownership.end()

    def is_previewing(self, run_id: str) -> bool:
        """Tells whether this process only makes a preview of a run's plan."""
        return run_id in self._active and self._active[run_id].previews

    def begin(
        self, journal: Journal, *, previews: bool = False, only: Collection[str] = ()
    ) -> asyncio.Future[Run]:
        """Starts to execute a run, or finds that this process does; the task returns the run.

        The run is as it was if it cannot go on any more once it is owned. If it `previews`, only
        what reads is executed; of that, perhaps `only` some steps.
        """
        if (executing := self.future_of(journal.id)) is not None:
            return executing
        active = self._active[journal.id] = _Active(previews=previews, only=only)
        active.future = asyncio.create_task(self._execute(journal, active))
        active.future.add_done_callback(partial(self._forget, journal.id))
        return active.future

    def _forget(self, run_id: str, ended: asyncio.Future[Run]) -> None:
        if (active := self._active.get(run_id)) is not None and active.future is ended:
            del self._active[run_id]

    async def _execute(self, journal: Journal, active: _Active) -> Run:
        try:
            await self._execute_under_claim(journal, active)
        except (StaleWriter, RunTakenOver):
            active.is_released = True
        except asyncio.CancelledError:
            if not active.is_released:
                raise
        if active.is_released:
            await journal.catch_up()
            return await self._journals.whole(journal)
        active.is_released = True
        results = active.executor.results if active.executor is not None else None
        whole = partial(self._journals.whole, journal, results)
        return await self._journals.store_retry.until_done(whole)

    async def _execute_under_claim(self, journal: Journal, active: _Active) -> None:
        """Executes a run until it rests, under a claim that ends with it."""
        ownership, unfinished = self._journals.ownership, False
        claim, last = await ownership.claim(journal.id)
        journal.claim = claim
        try:
            if active.previews:
                await self._preview(journal, active)
            elif await self._may_begin(journal, last):
                unfinished = await self._through_changes(journal, active)
        except (asyncio.CancelledError, StoreAway):
            unfinished = not active.is_released  # a server that runs may go on with it
            raise
        finally:
            await ownership.release(claim, unfinished=unfinished)
            journal.drop_claim()

    async def _preview(self, journal: Journal, active: _Active) -> None:
        """Executes what only reads, and writes what the changes would be."""
        await journal.catch_up()
        if not journal.run.previewing:
            return
        journal.retry = self._journals.store_retry
        options = await self._options_for(journal, last_replies={}, previews=True)
        executor = active.executor = PreviewExecutor(journal, **options)
        executor.only = active.only
        await executor.preview()

    async def _may_begin(self, journal: Journal, last: int) -> bool:
        """Tells whether a run that is owned now can go on; if it needs a review, asks for it.

        `last` is the number of its last event in the store; 0 if that is not known.
        """
        is_old = last != len(journal.events) and bool(await journal.catch_up())
        if is_old and not may_execute(journal.run):
            return False
        if self._hands_over:
            return False
        if requests := await self._review_requests(journal.run):
            await journal.append(*requests)
        return not requests

    async def _through_changes(self, journal: Journal, active: _Active) -> bool:
        """Executes a run until it rests, whatever others decide in between.

        Returns whether the rest is left to another process.
        """
        journal.retry = self._journals.store_retry
        while True:
            try:
                return await self._until_rest(journal, active)
            except StaleWriter:
                if journal.claim is None or journal.claim.lost or not journal.claim.term:
                    raise  # others may be executing it
                active.executor = None  # it has not read what they wrote
                await journal.catch_up()
                if not may_execute(journal.run):
                    raise

    async def _review_requests(self, run: Run) -> list[e.ReviewAsked]:
        """Returns a request if nobody approved the plan, or a tool or agent has changed since.

        A revision of a plan under way was compared with what is approved when it was written.
        """
        if run.plan is None or run.cancel_asked:
            return []
        revised = bool(run.approved_tools) and run.phase in UNDER_WAY
        if not run.approved and not revised:
            return await self._intake.review(run.plan, run, templates=run.templates)
        defined = await self._registry.definitions(run.plan, run.templates)
        why = redefined(run.approved_tools, defined)
        by = run.approved_by or e.Actor(kind="person")
        if refusal := why_cannot_approve(run, by, self._intake.policy.second_person):
            why = (*why, refusal)
        review = e.ReviewAsked(hash=run.plan.hash, reasons=why, drops=run.drops_approved)
        return [review] if why else []

    async def _until_rest(self, journal: Journal, active: _Active) -> bool:
        """Does what comes next until the run rests; true if another process has to go on."""
        wakes_at, idle = None, False
        while True:
            runs = not idle and journal.run.phase is not RunStatus.REPLANNING
            match next_move(journal.run, idle=idle, wakes_at=wakes_at):
                case Execute() | AwaitAnswer(begun=True) if runs:
                    past = await self._intake.timings()
                    executor = await self._execute_steps(journal, active, {})
                    if journal.run.phase.over and journal.summary is not None:
                        past.learn(journal.summary.calls)
                    if executor.hands_over and not journal.run.paused:
                        return True
                    wakes_at, idle = executor.wakes_at, True
                case EndOrReplan():
                    end = partial(self.end_or_replan, journal)
                    await self._journals.store_retry.until_done(end)
                    if not isinstance(next_move(journal.run), Execute):
                        return False
                    wakes_at, idle = None, False
                case _:
                    return False

    async def _execute_steps(
        self, journal: Journal, active: _Active, last_replies: Mapping[str, Unit]
    ) -> Executor:
        """Executes what can run now; if there are `last_replies`, only these."""
        made = partial(self._options_for, journal, last_replies)
        options = await self._journals.store_retry.until_done(made)
        executor = active.executor = Executor(journal, **options)
        executor.hands_over = self._hands_over
        await executor.execute()
        return executor

    async def _options_for(
        self, journal: Journal, last_replies: Mapping[str, Unit], *, previews: bool = False
    ) -> ExecutorOptions:
        store, run = self._journals.store, journal.run
        starts = run.plan is not None and run.phase not in UNDER_WAY and not previews
        if starts and any(each.looked_at for each in run.steps.values()):
            # Some of what ran for a preview waits again.
            await journal.append(e.RunStarted(hash=journal.plan_hash))
            starts, run = False, journal.run
        await self._budgets.count()
        measured = run.estimate.measured if run.estimate else {}
        shown = await load_preview(store, run) if run.permits else None
        return ExecutorOptions(
            callees=self._equipped(await self._registry.callees(), run),
            results=await load_values(store, run),
            call_answers=await load_call_answers(store, run),
            templates=run.templates,
            limits=self.limits,
            most_items=self._intake.policy.most_items,
            durations={name: each.seconds for name, each in measured.items()},
            budget=self._budgets.of(run),
            pacing=None if last_replies else self._pacing(journal),
            last_replies=last_replies,
            seen={each.step: each for each in shown.calls} if shown is not None else {},
            opening=[e.RunStarted(hash=journal.plan_hash)] if starts else (),
            end=partial(self._end_if_all_done, journal),
        )

    def _equipped(self, callees: Callees, run: Run) -> Callees:
        """Adds what a run needs to call its steps: the writer of replies."""
        steps = run.plan.steps if run.plan else ()
        shows_results = any(step.kind == "reply" and step.style == "results" for step in steps)
        # Without a writer, a reply shows its instruction, or results as tables.
        if self._writer is None and not shows_results:
            return callees
        talk, options, history = self._registry.conversations, run.options, replies.no_history
        if talk is not None and options.thread:
            history = partial(talk.before, options.thread, options.message)
        return replace(callees, compose=replies.Replies(run, self._writer, history))

    def _end_if_all_done(self, journal: Journal) -> e.RunFinished | None:
        """Returns the end of a run whose steps are all done; None if more is to be decided.

        It spares most runs an append: whatever ends here, `conclude` would end as done too.
        """
        run = journal.run
        is_plain = run.phase is RunStatus.RUNNING and not (run.questions or run.cancel_asked)
        if not is_plain or run.drops_approved or run.advice or run.paused:
            return None
        if self._planning.planner is not None and self.limits.max_iterations > 1:
            return None  # all steps have run: another plan may follow
        return e.RunFinished(status="done")

    async def wait_for_time(self, run: Run) -> bool:
        """Waits for the time for which a run waits, or until somebody writes to it.

        False at once if it waits for something else. Nothing but this call is held meanwhile.
        """
        at = run.wakes_at
        if at is None or run.status is not RunStatus.RUNNING:
            return False
        clock, store = self._journals.clock, self._journals.store
        seconds = max(0.0, (at - clock.now()).total_seconds())
        number = run.last.number if run.last else 0
        await first_of(clock.sleep(seconds), store.wait(run.id, after=number))
        return True

    async def end_or_replan(self, journal: Journal) -> None:
        """Ends a run that is not over, unless it needs a new plan."""
        if journal.run.status.over:
            return
        reason = await self._planning.replan_if_needed(journal)
        if reason is None:
            return
        replies_left, active = self._last_replies(journal.run), self._active.get(journal.id)
        if replies_left and active is not None:  # replies that were held back
            await self._execute_steps(journal, active, replies_left)
            if journal.run.paused:
                return
        past = await self._intake.timings()
        run = journal.run
        # What steps would have changed matters only if the goal was met early, or one failed.
        matters = run.advice or any(step.rule == "error" for step in run.steps.values())
        acting = (
            await self._registry.acting(run.plan, run.templates) if run.plan and matters else ()
        )
        callees = await self._registry.callees()

        def is_read(name: str) -> bool:
            unit = named_unit(run.plan, name, run.templates) if run.plan else None
            return unit is not None and callees.is_read(unit)

        await conclude(journal, is_read=is_read, acting=acting, reason=reason.text)
        if journal.summary is not None:
            past.learn(journal.summary.calls)

    def _pacing(self, journal: Journal) -> Pacing | None:
        """Returns what an executor waits with: later steps, the last replies; None if nothing."""
        run = journal.run
        if self._planning.planner is None:
            return None
        ended = replan.ended_since(run, self.limits, journal.events)
        iterates = replan.may_iterate(run, self.limits, self._planning.iterations)
        held = _open_replies(run) if iterates else {}
        if ended is None and not held:
            return None
        return Pacing(after_step=ended is not None, due=bool(ended), held_back=frozenset(held))

    def _last_replies(self, run: Run) -> dict[str, Unit]:
        """Returns the last replies of a run that ends, which are still to be written.

        Where a step failed, they are written from what there is, if `partial_reply` says so.
        """
        done = {name for name, state in run.steps.items() if state.status is StepStatus.DONE}
        off = {step.id for step in run.plan.steps if step.disabled} if run.plan else set[str]()
        written: dict[str, Unit] = {}
        for name, step in _open_replies(run).items():
            missing = sorted(step.needed - done - off)
            if not missing:
                written[name] = Unit(name, step)
            elif done and self._planning.iterations.partial_reply:
                written[name] = Unit(name, _from_part(step, missing, run.locale))
        return {} if run.cancel_asked else written

    def hand_over_all(self) -> None:
        """Starts no more steps in this process; each run is let go when its calls have ended."""
        self._hands_over = True
        for active in self._active.values():
            if active.executor is not None:
                active.executor.hand_over()

    def _stop_lost(self, run_id: str) -> None:
        if (active := self._active.get(run_id)) is not None:
            active.interrupt()

    def wake(self, run_id: str) -> None:
        """Has the executor of a run in this process read at once what others have written."""
        active = self._active.get(run_id)
        executor = active.executor if active is not None else None
        if executor is not None and executor.is_executing:
            executor.wakeups.read_others_now()

    async def until_stopped(self, run_id: str) -> bool:
        """Waits until this process obeys what was written; false if it does not execute the run."""
        active = self._active.get(run_id)
        if active is None:
            return False
        if active.executor is not None and not active.executor.is_executing:
            active.interrupt()  # a new plan is being made: not worth waiting for
        await asyncio.gather(asyncio.shield(active.future), return_exceptions=True)
        return True


def may_execute(run: Run) -> bool:
    """Tells whether a run can be executed now, also one that waits for an answer to one step."""
    move = next_move(run)
    return isinstance(move, Execute | EndOrReplan) or (isinstance(move, AwaitAnswer) and move.begun)


def _open_replies(run: Run) -> dict[str, ReplyStep]:
    """Returns the replies of a plan that no other step uses and that are not written yet."""
    if run.plan is None:
        return {}
    replies = [step for step in run.plan.steps if step.kind == "reply" and not step.disabled]
    return {
        step.id: step
        for step in replies
        if run.steps[step.id].status in STARTABLE_OR_RUNNING and not run.plan.needed_by[step.id]
    }


def _from_part(step: ReplyStep, missing: list[str], locale: str) -> ReplyStep:
    """Returns a reply that says which steps did not finish, in place of what they would give."""
    nothing = [Sentence("(nothing: the step '{step}' did not finish)", step=n) for n in missing]
    words = {name: in_language(each, locale) for name, each in zip(missing, nothing, strict=True)}
    rest = Sentence(
        "These steps did not finish: {steps}. Answer from what there is, and say what is missing.",
        steps=missing,
    )
    text, end = with_words(step.instruction, words), escape_text(in_language(rest, locale))
    return step.replace(instruction=f"{text}\n\n{end}", after=())


async def conclude(
    journal: Journal,
    *,
    is_read: Callable[[str], bool],
    acting: Collection[str] = (),
    reason: str = "",
) -> None:
    """Ends a run that has nothing left to do: closes open steps and writes the end.

    `is_read` tells by a step's name whether its call changes nothing; `acting` are the steps that
    change something by the tools of now, which those of the proposal may not know yet.
    """
    run, over = journal.run, Sentence("the run is over")
    acting = {*acting, *run.acts}
    rest: list[e.AnyBody] = [
        e.QuestionWithdrawn(question=name, reason=over) for name in run.questions
    ]
    rest += _close_open_steps(run, is_read)
    if rest:
        run = fold(journal.following(*rest), run)
    # Changes that the plan passed over because something failed.
    passed_over = [
        name for name, step in run.steps.items() if step.rule == "error" and root_of(name) in acting
    ]
    status = _verdict(run, acting, passed_over)
    if not reason and (status is RunStatus.CANCELLED or not _all_done(run)):
        reason = joined([*_reasons(run, status, journal, passed_over)])
    # In one append: after a crash in between, nobody would be asked about the unknown steps.
    end = e.RunFinished(status=status.value, reason=reason)  # type: ignore[arg-type]
    await journal.append(*rest, end)


def _verdict(run: Run, acting: Collection[str], passed_over: list[str]) -> RunStatus:
    """Returns the final status of a run: `done` if every approved change was made.

    What the plan itself skips is not missing, unless something failed before.
    """
    if run.cancel_asked:
        return RunStatus.CANCELLED
    if _all_done(run):
        return RunStatus.DONE
    if passed_over:
        return RunStatus.PARTLY_DONE
    active = {step.id for step in run.plan.steps if not step.disabled} if run.plan else set[str]()
    missing = {name for name in active if not run.steps[name].counts_as_done}
    any_done = any(step.status is StepStatus.DONE for step in run.steps.values())
    skipped = {name for name in missing if run.steps[name].status is StepStatus.SKIPPED}
    met = _is_met(run) and any_done and missing == skipped and not missing & {*acting}
    if not run.drops_approved and (met or not missing):
        return RunStatus.DONE
    if any_done:
        return RunStatus.PARTLY_DONE
    by_person = {name for name in missing if run.steps[name].error_kind == "person"}
    return RunStatus.CANCELLED if missing and missing == skipped & by_person else RunStatus.FAILED


def _all_done(run: Run) -> bool:
    """Tells whether every step is done and no approved call was dropped, as in most runs."""
    return not run.drops_approved and all(
        step.status is StepStatus.DONE or step.rule in ("when", "need", "left_out")
        for step in run.steps.values()
    )


def _is_met(run: Run) -> bool:
    """Tells whether a step reported that the goal is met, so that the rest need not run."""
    return run.advice is not None and run.advice.advice == "finish"


def _close_open_steps(run: Run, is_read: Callable[[str], bool]) -> Iterator[e.AnyBody]:
    """Yields the event that ends each step that is still open, with the reason.

    A call that was made and did not end may have taken effect: its step becomes unknown.
    """
    left = [name for name, step in run.steps.items() if step.status in UNFINISHED]
    if not left:
        return
    disabled = {step.id for step in run.plan.steps if step.disabled} if run.plan else set[str]()
    calls = set(run.calls_open)
    for name in left:
        if run.steps[name].unsure or (name in calls and not is_read(name)):
            why = Sentence("nobody saw how the call ended: it may have taken effect")
            yield e.StepUnknown(step=name, reason=why)
            continue
        if run.cancel_asked:
            yield e.StepCancelled(step=name, reason=Sentence("the run was cancelled"))
            continue
        whole = run.steps.get(parent_of(name))
        if name in disabled:
            why = Sentence("switched off")
        elif _is_met(run):
            why = Sentence("the goal is met already")
        elif whole is not None and whole.status is StepStatus.DONE:
            why = Sentence("the plan was revised, and no longer has it")
        else:
            why = Sentence("a step it needs did not finish")
        yield e.StepSkipped(step=name, reason=why)


def _reasons(
    run: Run, status: RunStatus, journal: Journal, passed_over: list[str]
) -> Iterator[str]:
    """Yields why a run ended as it did, the most important reason first."""
    asked = [event for event in journal.events if isinstance(event.body, e.CancelAsked)]
    if status is RunStatus.CANCELLED and asked:
        yield _cancelled_by(asked[-1])

    def named(status: StepStatus) -> list[str]:
        return [name for name, step in run.steps.items() if step.status is status]

    failed = [] if run.cancel_asked else named(StepStatus.FAILED)
    refused = [name for name in failed if was_refused(run, name)]
    skipped = named(StepStatus.SKIPPED)
    stopped = {
        "end.unknown": named(StepStatus.UNKNOWN),
        "end.failed": [name for name in failed if name not in refused],
        "end.refused": refused,
        "end.left_out": [name for name in skipped if run.steps[name].error_kind == "person"],
        "end.passed_over": passed_over,
    }
    for code, names in stopped.items():
        if len(names) > _SHOWN:
            yield Sentence(code, steps=Sentence("{names} and more", names=names[:_SHOWN]))
        elif names:
            yield Sentence(code, steps=names)
    by_person = asked and status is RunStatus.CANCELLED
    if run.drops_approved and not by_person and not any(stopped.values()):
        yield Sentence("not done: {calls}", calls=[*run.drops_approved])


def _cancelled_by(event: e.Event) -> str:
    whose = {"person": Sentence("a person"), "program": Sentence("a program")}
    name = event.by.name or whose.get(event.by.kind, "")
    text = Sentence("cancelled by {who}", who=name) if name else Sentence("cancelled")
    reason = event.body.reason if isinstance(event.body, e.CancelAsked) else ""
    return Sentence("{text}: {reason}", text=text, reason=reason) if reason else text
