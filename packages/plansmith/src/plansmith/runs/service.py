"""Everything that can be done with runs: create, plan, execute, decide, answer, resume."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Unpack

from plansmith.engine.budget import RunBudgets
from plansmith.engine.journal import Journal
from plansmith.engine.units import Unit, named_unit
from plansmith.errors import JournalDamaged, Refused, RunBusy, StaleWriter
from plansmith.lazy import gc_paused, lazy_modules
from plansmith.plan import events as e
from plansmith.plan.capability import Effect
from plansmith.plan.data import content_of
from plansmith.plan.graph import upstream
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import (
    AwaitReview,
    EndOrReplan,
    Execute,
    MakePlan,
    next_move,
    sees_first,
)
from plansmith.plan.preview import CallPreview
from plansmith.plan.question_options import GO_ON
from plansmith.plan.run import BEFORE_START, NOT_STARTED, Run, RunStatus, StepStatus
from plansmith.plan.run_options import OWN_REQUEST, Origin, RunOptions
from plansmith.plan.sentence import Sentence
from plansmith.review.policy import active_steps
from plansmith.runs.decisions import (
    ONLY_PERSONS,
    ApprovalDetails,
    decide,
    expired,
    take_answer,
    waiting_behind,
)
from plansmith.runs.execution import RunExecution, may_execute
from plansmith.runs.intake import NewRun
from plansmith.runs.journals import wrong_status
from plansmith.runs.lists import RunLists
from plansmith.runs.planning import RunPlanning
from plansmith.runs.replan import IterationRules

if TYPE_CHECKING:
    from plansmith.plan.data import Json
    from plansmith.plan.limits import BudgetLimits
    from plansmith.plan.plan import Plan
    from plansmith.ports import Clock, Planner, ReplyWriter, Store
    from plansmith.runs import editing as edits
    from plansmith.runs import undoing
    from plansmith.runs.intake import PlanIntake
    from plansmith.runs.journals import Journals
    from plansmith.runs.planning import StandingReview
else:
    lazy_modules(globals(), edits="plansmith.runs.editing", undoing="plansmith.runs.undoing")


_BATCH_SIZE: Final = 100
_SLOW_S: Final = 10.0  # a read that takes longer is announced, and not made unasked
_SKIPPED: Final = Sentence("a person left it out")


class SkippedSteps(NamedTuple):
    """A step that a person skipped, and those that cannot run without it."""

    step: str
    with_it: tuple[str, ...] = ()


class RunService:
    """Creates, plans, executes and resumes runs; `all` lists them."""

    def __init__(  # noqa: PLR0913 - all by name
        self,
        *,
        journals: Journals,
        intake: PlanIntake,
        planner: Planner | None = None,
        writer: ReplyWriter | None = None,
        limits: Limits | None = None,
        iterations: IterationRules | None = None,
        budget: BudgetLimits | None = None,
        shared_budget: BudgetLimits | None = None,
        standing: StandingReview | None = None,
    ) -> None:
        limits = limits or Limits()
        self.journals, self.intake, self.lists = journals, intake, RunLists(journals)
        self.registry = intake.registry
        self.budgets = RunBudgets(
            journals.store,
            journals.clock,
            price_per_million=intake.price_per_million,
            limits=budget,
            shared=shared_budget,
        )
        self.planning = RunPlanning(
            journals=journals,
            intake=intake,
            budgets=self.budgets,
            planner=planner,
            limits=limits,
            iterations=iterations or IterationRules(),
            standing=standing,
        )
        self.execution = RunExecution(planning=self.planning, budgets=self.budgets, writer=writer)
        self.create = self.planning.create

    @cached_property
    def editing(self) -> edits.PlanEditing:
        """Changes plans as persons ask, and repeats runs that are over."""
        return edits.PlanEditing(self.planning, self.execution, self.pause)

    async def undo_effects(self, run_id: str, *, by: e.Who = "") -> Run:
        """Creates a run that undoes what a run did, by `undo_with`; it waits for review.

        Args:
            run_id: The id of a run that is over.
            by: Who asks for it.
        """
        return await undoing.undo_effects(self.planning, run_id, by=by)

    async def all(self) -> list[Run]:
        """Returns all runs, oldest first, without their results."""
        return await self.journals.all()

    @property
    def store(self) -> Store:
        """Returns the store that keeps the runs."""
        return self.journals.store

    @property
    def clock(self) -> Clock:
        """Returns the clock."""
        return self.journals.clock

    async def close(self) -> None:
        """Stops executing; runs can be resumed later."""
        await self.execution.close()

    async def plan(self, request: str, options: RunOptions, *, by: e.Who = "") -> Run:
        """Creates a run and plans its request; the run then waits for review if required."""
        journal = await self.create(NewRun(request, options=options, by=by))
        await self._plan(journal)
        return await self.journals.whole(journal)

    async def submit(
        self, plan: Plan, *, request: str = "", origin: Origin = OWN_REQUEST, by: e.Who = ""
    ) -> Run:
        """Creates a run from a finished plan, checked and reviewed like any; needs no model."""
        journal = await self.create(NewRun(request, plan, origin=origin, by=by))
        return await self.journals.whole(journal)

    async def run(self, run_id: str, *, parks: bool = False) -> Run:
        """Executes a run until it is over or waits for a person; with `parks`, also for a time."""
        while True:
            executing = self.execution.future_of(run_id)
            if executing is not None:
                previews = self.execution.is_previewing(run_id)
                run = await asyncio.shield(executing)
                if previews:
                    continue
                if not parks and await self.execution.wait_for_time(run):
                    continue
                return run
            journal = self.journals.pop_new(run_id)
            if journal is None or journal.run.questions or not may_execute(journal.run):
                journal = await self.journals.load_verified(run_id)
                journal.require_sound()
            self.journals.require_ours(journal.run)
            await self._expire(journal)
            if isinstance(next_move(journal.run), MakePlan) and await self._make_plan(journal):
                continue
            if not may_execute(journal.run):
                return await self._at_rest(journal)
            self.execution.begin(journal)

    async def _at_rest(self, journal: Journal) -> Run:
        """Returns a run that waits for a person, once the preview that was begun is made."""
        if journal.run.previewing and isinstance(next_move(journal.run), AwaitReview):
            return await asyncio.shield(self.execution.begin(journal, previews=True))
        return await self.journals.whole(journal)

    async def _expire(self, journal: Journal) -> None:
        for bodies in expired(journal.run, self.clock.now()):
            await journal.append(*bodies)

    async def ask_for_review(self, run_id: str, reason: str) -> None:
        """Asks for review of a plan that would otherwise run without one."""
        journal = await self.journals.load_verified(run_id)
        run = journal.run
        if run.plan is None or run.phase is not RunStatus.PLANNING or run.questions or run.paused:
            return
        asked = await self.intake.review(run.plan, run, more=(reason,), templates=run.templates)
        with suppress(StaleWriter):  # the run went on meanwhile
            await journal.append(*asked)

    async def _make_plan(self, journal: Journal) -> bool:
        """Makes the plan that a run waits for; false if it is being made or there is no model."""
        if self.planning.planner is None or self.planning.is_planning(journal.id):
            return False
        await self._plan(journal)
        self.journals.keep_new(journal)
        return True

    async def _plan(self, journal: Journal, *, triaged: bool = False) -> None:
        """Makes the plan of a run, and its preview if that costs nothing."""
        await self.planning.make_next_plan(journal, triaged=triaged)
        waits = isinstance(next_move(journal.run), AwaitReview)
        if waits and self.execution.limits.preview and await self.reads_are_free(journal.run):
            await self.preview(journal.id, by=e.SYSTEM)
            await journal.catch_up()

    def _sees_first(self, run: Run) -> bool:
        return sees_first(run) or self.intake.policy.ask == "always"

    async def reads_are_free(self, run: Run) -> bool:
        """Tells whether a preview of a plan costs nothing and is quick, as far as is known.

        Where a person wants to see the plan first, every tool that reads has to say so itself.
        """
        if run.plan is None:
            return False
        callees = await self.registry.callees()
        for step in active_steps(run.plan, run.templates):
            spec = callees.specs.get(step.callee) if step.kind == "tool" else None
            measured = run.estimate.measured.get(step.callee) if run.estimate else None
            is_slow = measured is not None and measured.seconds > _SLOW_S
            if step.kind == "agent" and callees.is_read(Unit("", step)):
                return False
            if spec is None or spec.effect is not Effect.READ or spec.free:
                continue
            if spec.free is False or self._sees_first(run) or is_slow:
                return False
        return True

    async def plan_if_next(self, run: Run, *, triaged: bool = False) -> Run:
        """Makes the run's plan if that comes next; returns the run."""
        if next_move(run) != MakePlan():
            return run
        journal = await self.journals.load_cached(run.id)
        await self._plan(journal, triaged=triaged)
        return await self.journals.whole(journal)

    async def preview(
        self,
        run_id: str,
        *,
        given: Mapping[str, Json] | None = None,
        only: Collection[str] = (),
        fresh: bool = False,
        by: e.Who = "",
    ) -> Run:
        """Executes what only reads of a plan that waits for approval; `run.preview` shows the rest.

        `given` results stand in for those of steps that only read. `only` these steps are executed,
        and what they need. `fresh`: what was read, or given, before counts no more.
        """
        journal = await self.ask_for_preview(run_id, given=given, fresh=fresh, by=by)
        plan, needed = journal.run.plan, {*only}
        if plan is not None:
            needed |= upstream(plan.needs, needed & plan.by_id.keys())
        return await asyncio.shield(self.execution.begin(journal, previews=True, only=needed))

    async def ask_for_preview(
        self,
        run_id: str,
        *,
        given: Mapping[str, Json] | None = None,
        fresh: bool = False,
        by: e.Who = "",
    ) -> Journal:
        """Asks for a preview, which `run` makes then; returns the run's journal."""
        executing = self.execution.future_of(run_id)
        if executing is not None and self.execution.is_previewing(run_id):
            await asyncio.shield(executing)
        journal = await self.journals.load_verified(run_id)
        journal.require_sound()
        self.journals.require_ours(journal.run)
        await self._expire(journal)
        run, given = journal.run, given or {}
        if run.plan is None or run.phase not in BEFORE_START or run.is_approved:
            raise wrong_status(run, Sentence("only a plan that waits for approval has a preview"))
        _require_readers(run, given)
        if (who := e.actor(by)).kind == "program" and self._sees_first(run):
            raise Refused(Sentence("a person wants to see this plan first"), hint=ONLY_PERSONS)
        contents = {name: content_of(value) for name, value in given.items()}
        digests = {name: each.digest for name, each in contents.items()}
        begun = e.PreviewStarted(hash=run.plan.hash, given=digests, fresh=fresh)
        await journal.append(begun, by=who, values=[*contents.values()])
        return journal

    async def look(self, run_id: str, step: str, inputs: Mapping[str, Json]) -> CallPreview | None:
        """Returns what a call of a step or part would do with these inputs, as its tool says."""
        run = (await self.journals.load_cached(run_id)).run
        unit = named_unit(run.plan, step, run.templates) if run.plan is not None else None
        callees = await self.registry.callees()
        return await callees.preview(unit, inputs) if unit is not None else None

    async def shown_with(self, asked: e.QuestionAsked) -> CallPreview | None:
        """Returns what a call that asks for consent would do; None if its tool does not say."""
        if not asked.shown:
            return None
        return CallPreview.model_validate(await self.store.get(asked.shown))

    async def decide(
        self,
        run_id: str,
        *,
        approve: str | None = None,
        reject: bool = False,
        by: e.Who = "",
        **details: Unpack[ApprovalDetails],
    ) -> Run:
        """Approves the plan with this hash, or rejects the plan; a second decision is refused."""
        journal = await decide(
            self.journals, self.intake, run_id, approve=approve, reject=reject, given=details, by=by
        )
        return await self.journals.whole(journal)

    async def answer(
        self, run_id: str, question: str, value: Json, *, by: e.Who = "", of: str = ""
    ) -> Run:
        """Answers an open question; a second answer is refused.

        A program may answer what a plan or the planner asks, unless a step that changes something
        waits for the answer.
        """
        journal = await self.journals.load_to_write(run_id)
        await self._expire(journal)
        asked = await take_answer(journal, self.intake, question, value, by=e.actor(by), of=of)
        self.execution.wake(run_id)
        if asked.limit == "shared_budget" and value == GO_ON:
            await self.budgets.count()
        if journal.run.cancel_asked and self.execution.future_of(run_id) is None:
            await self.execution.end_or_replan(journal)
        return await self.journals.whole(journal)

    async def cancel(self, run_id: str, *, by: e.Who = "", reason: str = "") -> Run:
        """Stops a run for good: no step starts any more, running calls are cancelled.

        A cancelled call may have taken effect already: its step becomes `unknown`.
        """
        journal = await self.journals.load_cached(run_id)
        asked = await self._instruct(
            journal, e.CancelAsked(reason=reason), by, lambda run: not run.cancel_asked
        )
        if await self.execution.until_stopped(run_id):
            await journal.catch_up()
        elif asked:
            # Another process that makes calls for this run gets time to stop them.
            grace_s = self.execution.limits.grace_s if journal.run.calls_open else 0
            try:
                async with asyncio.timeout(grace_s):
                    while not journal.run.status.over:
                        await journal.wait()
                        await journal.catch_up()
            except TimeoutError:
                pass
        while not journal.run.status.over:
            try:
                await self.execution.end_or_replan(journal)
            except StaleWriter:
                await journal.catch_up()
        return await self.journals.whole(journal)

    async def pause(self, run_id: str, *, by: e.Who = "", reason: str = "") -> Run:
        """Pauses a run: no further step starts until `resume`; running steps finish."""
        journal = await self.journals.load_cached(run_id)
        await self._pause(journal, by, reason)
        if await self.execution.until_stopped(run_id):
            await journal.catch_up()
        return await self.journals.whole(journal)

    async def pause_at_once(self, run_id: str, *, by: e.Who = "", reason: str = "") -> None:
        """Pauses a run without waiting for running calls; the executing process obeys."""
        journal = await self.journals.load_cached(run_id)
        if not await self._pause(journal, by, reason):
            raise wrong_status(journal.run)

    async def _pause(self, journal: Journal, by: e.Who, reason: str) -> bool:
        paused = e.RunPaused(reason=reason)
        return await self._instruct(journal, paused, by, lambda run: not run.paused)

    async def resume(self, run_id: str, *, by: e.Who = "", force: bool = False) -> Run:
        """Ends the pause of a run; call `run` to execute it.

        By `force`, also takes it from a living process, which then writes and calls nothing more.
        """
        journal = await self.journals.load_to_write(run_id)
        if force:
            await self._take_over(journal, e.actor(by))
        resumed = await self._instruct(journal, e.RunResumed(), by, lambda run: run.paused)
        if not resumed and not force:
            status = Sentence(f"status.{journal.run.status.value}")
            why = Sentence("run {run} is not paused: it is {status}", run=run_id, status=status)
            raise Refused(why)
        return await self.journals.whole(journal)

    async def _take_over(self, journal: Journal, by: e.Actor) -> None:
        """Takes a run from the process that executes it, if one does, and records that."""
        if by.kind != "person":
            raise Refused(Sentence("run.kind_no_taking", kind=by.kind), hint=ONLY_PERSONS)
        ownership = self.journals.ownership
        if journal.run.status.over or not (process := await ownership.owner_elsewhere(journal.id)):
            return
        async with ownership.writing(journal, force=True):
            await journal.catch_up()
            reason = Sentence(
                "taken over from {process}: what it was calling may have taken effect",
                process=process,
            )
            await self._instruct(journal, e.RunResumed(reason=reason), by, lambda _: True)

    async def skip(self, run_id: str, step: str, *, by: e.Who = "") -> SkippedSteps:
        """Skips a step that has not started or that waits for an answer; the rest goes on.

        Args:
            run_id: The id of the run.
            step: The id of the step.
            by: Who acts.

        Returns:
            The step and those that cannot run without it.
        """
        journal = await self.journals.load_to_write(run_id)
        with_it: tuple[str, ...] = ()

        def left_out(run: Run) -> list[e.AnyBody]:
            nonlocal with_it
            _require_skippable(run, step)
            asked = [name for name, each in run.questions.items() if each.step == step]
            with_it = waiting_behind(run, step)
            why = Sentence("it needs {step}, which a person left out", step=step)
            return [
                *(e.QuestionWithdrawn(question=name, reason=_SKIPPED) for name in asked),
                e.StepSkipped(step=step, reason=_SKIPPED),
                *(e.StepSkipped(step=name, reason=why) for name in with_it),
            ]

        await self.journals.write(journal, left_out, by=e.actor(by))
        return SkippedSteps(step, with_it)

    async def _instruct(
        self, journal: Journal, body: e.AnyBody, by: e.Who, is_wanted: Callable[[Run], bool]
    ) -> bool:
        """Writes what the executing process obeys; false if the run is over or need not."""

        def wanted(run: Run) -> list[e.AnyBody]:
            return [] if run.status.over or not is_wanted(run) else [body]

        is_written = await self.journals.write(journal, wanted, by=e.actor(by))
        self.execution.wake(journal.id)
        return is_written

    async def give_up(self, run_id: str, *, reason: str) -> None:
        """Ends a run that could not be planned as failed."""
        journal = await self.journals.load_verified(run_id)
        if journal.run.plan is None and not journal.run.status.over:
            await journal.append(e.RunFinished(status="failed", reason=reason))

    async def resume_all(self, *, busy: Callable[[RunBusy], None] = lambda _: None) -> list[Run]:
        """Resumes all runs after a restart: makes missing plans, continues what was running.

        Args:
            busy: Gets an error for each run that another process of this machine executes.

        Raises:
            JournalDamaged: A run is damaged; the others were resumed all the same.
        """
        names = await self.store.open_runs()
        await self.journals.ownership.refresh()
        resumed: list[asyncio.Future[Run] | BaseException | None] = []
        unplanned: list[str] = []
        for start in range(0, len(names), _BATCH_SIZE):
            some = (self._resume(each, unplanned) for each in names[start : start + _BATCH_SIZE])
            with gc_paused():
                resumed += await asyncio.gather(*some, return_exceptions=True)
        for each in unplanned:  # one after the other: a model makes their plans
            resumed += await asyncio.gather(self._resume(each), return_exceptions=True)
        executing = [each for each in resumed if isinstance(each, asyncio.Future)]
        ended = await asyncio.gather(*executing, return_exceptions=True)
        wrong = [each for each in (*resumed, *ended) if isinstance(each, BaseException)]
        for error in sorted(wrong, key=lambda each: isinstance(each, JournalDamaged)):
            if not isinstance(error, RunBusy):
                raise error
            busy(error)
        return [each for each in ended if isinstance(each, Run)]

    async def _resume(
        self, run_id: str, unplanned: list[str] | None = None
    ) -> asyncio.Future[Run] | None:
        """Goes on with a run that had begun, and makes its plan first if it waits for one.

        With `unplanned`, one that waits for its plan is only put there.
        """
        journal = await self.journals.load_verified(run_id)
        journal.require_sound()
        if self.execution.future_of(run_id) is not None or not self.journals.may_resume(
            journal.run
        ):
            return None
        if isinstance(next_move(journal.run), MakePlan):
            if unplanned is not None:
                unplanned.append(run_id)
                return None
            await self._make_plan(journal)
        await self._expire(journal)
        match next_move(journal.run):
            case Execute(begun=True) | EndOrReplan():
                return self.execution.begin(journal)
            case AwaitReview() if journal.run.previewing:
                return self.execution.begin(journal, previews=True)
            case _:
                return None


def _require_readers(run: Run, names: Collection[str]) -> None:
    """Refuses results for steps that are not there, or that change something."""
    for name in names:
        if run.plan is None or name not in run.plan.by_id:
            hint = Sentence("its steps: {names}", names=[*run.steps])
            why = Sentence("run {run} has no step '{step}'", run=run.id, step=name)
            raise Refused(why, hint=hint)
        if name in run.acts:
            why = Sentence("step '{step}' changes something: nobody can tell its result", step=name)
            raise Refused(why, hint=Sentence("give results only for steps that read"))
        state = run.steps[name]
        if state.status not in NOT_STARTED and not state.looked_at:
            status = Sentence(f"status.{state.status.value}")
            raise Refused(Sentence("step '{step}' is {status}", step=name, status=status))


def _require_skippable(run: Run, step: str) -> None:
    state = run.steps.get(step)
    if state is None:
        hint = Sentence("its steps: {names}", names=[*run.steps])
        raise Refused(Sentence("run {run} has no step '{step}'", run=run.id, step=step), hint=hint)
    if run.status.over:
        raise wrong_status(run)
    if state.status is StepStatus.UNKNOWN or state.unsure:
        why = Sentence("it is not known whether '{step}' took effect", step=step)
        raise Refused(why, hint=Sentence("answer its question: done, not_done or retry"))
    if state.status not in (*NOT_STARTED, StepStatus.ASKING):
        status = Sentence(f"status.{state.status.value}")
        hint = Sentence(
            "only a step that has not started, or that waits for an answer, can be skipped"
        )
        raise Refused(Sentence("step '{step}' is {status}", step=step, status=status), hint=hint)
