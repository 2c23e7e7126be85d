"""What persons do with the plan of a run: edit, undo, redo, ask for changes, run it again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from plansmith.engine.budget import limit_question
from plansmith.engine.call import settle_after_crash
from plansmith.errors import Refused, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.next_move import sees_first
from plansmith.plan.plan import Plan
from plansmith.plan.run_options import Origin
from plansmith.plan.sentence import Sentence
from plansmith.runs import revision
from plansmith.runs.intake import NewRun
from plansmith.runs.journals import wrong_status
from plansmith.runs.planning import READ_RESULTS

if TYPE_CHECKING:
    from plansmith.engine.journal import Journal
    from plansmith.plan.planning import PlanOrigin
    from plansmith.plan.problem import Problem
    from plansmith.plan.run import Run
    from plansmith.runs.execution import RunExecution
    from plansmith.runs.planning import RunPlanning


class PlanEditing:
    """Changes the plan of a run that is not over, as a person wants; repeats one that is over.

    Args of methods:
        run_id: The id of the run.
        by: Who acts.
    """

    def __init__(
        self, planning: RunPlanning, execution: RunExecution, pause: Callable[..., Awaitable[Run]]
    ) -> None:
        self._planning, self._execution, self._pause = planning, execution, pause
        self._journals, self._intake = planning.journals, planning.intake
        self._registry = planning.registry

    async def edit(
        self,
        run_id: str,
        plan: Plan,
        *,
        by: e.Who = "",
        notes: Sequence[Problem] = (),
        why: str = "",
        restores: int = 0,
    ) -> Run:
        """Replaces the plan by a person's version; it is checked and reviewed like any other.

        `notes` are about how the plan was read; with `why`, it is reviewed in any case. `restores`
        is the event of the earlier plan that it is.
        """
        journal, who = await self._journals.load_to_write(run_id), e.actor(by)
        run = journal.run
        busy = not run.paused and run.calls_open
        if self._execution.future_of(run_id) is not None or busy or run.status.over:
            raise wrong_status(run, Sentence("pause it first, or retry it with your plan"))
        late = StaleDecision(Sentence("someone else changed run {run} first", run=run_id))
        if run.calls_open:  # of a process that died: a person says first what became of changes
            lost = settle_after_crash(run, run.templates, await self._registry.callees())
            try:
                async with self._journals.ownership.writing(journal):
                    await journal.append(*lost)
            except StaleWriter:
                raise late from None
            run = journal.run
        origin: PlanOrigin = "person" if who.kind == "person" else "program"
        made = e.PlanProposed(plan=plan, problems=tuple(notes), origin=origin, restores=restores)
        taken = await self._intake.take_in(made, run.options, run.pins)
        edited = taken.body.plan.replace(revision=(run.plan.revision if run.plan else 0) + 1)
        revision.require_known_outcomes(run, edited)
        more: tuple[str, ...] = (why,) if why else ()
        more += await revision.repeat_reasons(self._registry, journal, edited, only_new_places=True)
        more += await revision.repeat_reasons_of_origin(self._registry, run, edited)
        proposal = replace(
            taken,
            body=taken.body.replace(plan=edited),
            then=[*revision.resets(run, edited, by_person=True)],
            reasons=more,
            by=who,
        )
        try:
            await self._intake.propose(journal, proposal)
        except StaleWriter:
            raise late from None
        return await self._journals.whole(journal)

    async def undo(self, run_id: str, *, by: e.Who = "") -> Run:
        """Goes back to the previous plan; called again, to the one before that.

        Raises:
            Refused: There is no such plan.
        """
        version = versions(await self._journals.store.events(run_id)).before
        return await self._restore(run_id, version, Sentence("review.went_back"), by=by)

    async def redo(self, run_id: str, *, by: e.Who = "") -> Run:
        """Goes forward again to the plan that was undone last.

        Raises:
            Refused: There is no such plan.
        """
        version = versions(await self._journals.store.events(run_id)).after
        return await self._restore(run_id, version, Sentence("review.went_forward"), by=by)

    async def _restore(self, run_id: str, version: Version | None, why: str, *, by: e.Who) -> Run:
        if version is None:
            raise Refused(Sentence("run {run} has no other plan to go to", run=run_id))
        return await self.edit(run_id, version.plan, by=by, restores=version.number, why=why)

    async def request_changes(self, run_id: str, text: str, *, by: e.Who = "") -> Run:
        """Asks the planner to change the plan as `text` says.

        A run that is executing is paused first; finished steps are kept.
        """
        self._planning.require_planner()
        await self._journals.load_to_write(run_id)
        if self._execution.future_of(run_id) is not None:
            await self._pause(run_id, by=by, reason=text)
        journal = await self._journals.load_verified(run_id)
        run = journal.run
        if run.plan is None or run.status.over:
            raise wrong_status(run, Sentence("it has no plan to change"))
        most = self._planning.limits.max_rejections + run.grants.get("rejections", 0)
        if run.rejections >= most:
            if not any(each.limit == "rejections" for each in run.questions.values()):
                question = Sentence(
                    "{count} plans were sent back. Make another one?", count=run.rejections
                )
                await journal.append(limit_question(run, "rejections", question))
            return await self._journals.whole(journal)
        async with self._journals.ownership.writing(journal):
            await journal.append(e.ChangesAsked(text=text), by=e.actor(by))
            await self._planning.make_next_plan(journal)
        return await self._journals.whole(journal)

    async def rerun(self, run_id: str, *, by: e.Who = "") -> Run:
        """Runs the same plan again as a new run, from the start, without earlier results."""
        journal = await self._finished(run_id)
        return await self._repeat(journal, journal.run.plan, by=by, from_start=True)

    async def retry(
        self, run_id: str, *, from_step: str | None = None, plan: Plan | None = None, by: e.Who = ""
    ) -> Run:
        """Creates a new run that keeps finished results and runs only the other or changed steps.

        `from_step` repeats this step and all steps after it; `plan` is a changed plan to use. A
        run that never had a plan is planned again.
        """
        journal = await self._finished(run_id)
        old = journal.run
        new_plan = plan or old.plan
        if new_plan is None:
            return await self._repeat(journal, None, by=by)
        if from_step is not None and from_step not in old.steps:
            why = Sentence("run {run} has no step '{step}'", run=run_id, step=from_step)
            raise Refused(why, hint=Sentence("its steps: {names}", names=[*old.steps]))
        reused = revision.results_to_reuse(old, new_plan, again=[from_step] if from_step else [])
        if revision.everything_done(new_plan, reused):
            hint = Sentence("plansmith runs rerun {run} runs it again", run=run_id)
            raise Refused(Sentence("every step is done: there is nothing to continue"), hint=hint)
        return await self._repeat(journal, new_plan, reused, by=by)

    async def ask_again(self, old: Run, *, by: e.Who) -> Journal:
        """Creates a run with the same request, options and limits, which is planned later."""
        return await self._create(_again(old, by))

    async def _create(self, new: NewRun) -> Journal:
        journal = await self._planning.create(new)
        if new.options.thread and self._registry.conversations is not None:
            await self._registry.conversations.join(journal.id, new.options)
        return journal

    async def _finished(self, run_id: str) -> Journal:
        journal = await self._journals.load_verified(run_id)
        self._journals.require_ours(journal.run)
        if not journal.run.status.over:
            hint = Sentence("only a run that is over can be repeated")
            raise wrong_status(journal.run, hint)
        return journal

    async def _repeat(
        self,
        journal: Journal,
        plan: Plan | None,
        reused: Sequence[e.StepReused] = (),
        *,
        by: e.Who,
        from_start: bool = False,
    ) -> Run:
        """Creates a new run of an earlier plan; its review says which changes it would repeat.

        Without a plan, the request is planned again.
        """
        new = replace(_again(journal.run, by), reused=reused)
        if plan is None:
            again = await self._create(new)
            await self._planning.make_next_plan(again)
            return await self._journals.whole(again)
        plan = await self._registry.with_fixed_templates(plan)
        reviews = [each.body for each in journal.events if isinstance(each.body, e.ReviewAsked)]
        has_read = any(READ_RESULTS in each.reasons for each in reviews)
        reasons: list[str] = [READ_RESULTS] if has_read else []
        is_seen = has_read or sees_first(journal.run) or await self._intake.review(plan)
        if is_seen or not from_start:  # a retry repeats nothing unasked
            reasons += await revision.repeat_reasons_of_run(self._registry, journal, plan, reused)
        again = await self._create(replace(new, plan=plan, reasons=reasons))
        return await self._journals.whole(again)


def _again(old: Run, by: e.Who) -> NewRun:
    """Returns a run with the same request, options and limits."""
    return NewRun(
        old.request,
        by=by,
        locale=old.locale,
        options=old.options,
        origin=Origin(kind="run", id=old.id),
        folder=old.folder,
        pins=old.pins,
    )


class Version(NamedTuple):
    """A plan of a run, and the number of the event that proposed it."""

    number: int
    plan: Plan


class Versions(NamedTuple):
    """The plans that undo and redo lead to, if any; `current` is the event of the one now."""

    before: Version | None
    after: Version | None
    current: int = 0


def versions(events: Iterable[e.Event]) -> Versions:
    """Returns the plans that undo and redo lead to; after a new plan there is nothing to redo."""
    past, undone = list[Version](), list[Version]()
    for event in events:
        match event.body:
            case e.PlanProposed(restores=0, plan=plan):
                past, undone = [*past, Version(event.number, plan)], []
            case e.PlanProposed(restores=number) if len(past) > 1 and past[-2].number == number:
                undone.append(past.pop())
            case e.PlanProposed() if undone:
                past.append(undone.pop())
            case _:
                pass
    before, after = past[-2] if len(past) > 1 else None, undone[-1] if undone else None
    return Versions(before, after, past[-1].number if past else 0)
