"""Retries, reruns and forks runs that are over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.plan.fold import fold
from plansmith.plan.next_move import sees_first
from plansmith.plan.run_options import Origin, RunOptions
from plansmith.plan.sentence import Sentence
from plansmith.runs.carry_over import carried_over, everything_done
from plansmith.runs.intake import NewRun, review_on_request
from plansmith.runs.planning import READ_RESULTS

if TYPE_CHECKING:
    from plansmith.engine.journal import Journal
    from plansmith.plan.plan import Plan
    from plansmith.plan.run import Run
    from plansmith.runs.revising import PlanReviser


# Adds a run to the thread that its options name.
Join = Callable[[str, RunOptions], Awaitable[None]]


class RunRepeating:
    """Repeats runs that are over."""

    def __init__(self, reviser: PlanReviser, join: Join | None) -> None:
        self._reviser, self._planning, self._join = reviser, reviser.planning, join
        self._journals, self._intake = reviser.journals, reviser.intake

    async def rerun(self, run_id: str, *, by: e.Who = "") -> Run:
        """Runs the same plan again as a new run, from the start, without earlier results."""
        old = await self._finished_run(run_id)
        if old.plan is None:
            return await self._plan_again(old, by)
        again = _again(old, by)
        return await self._repeat(old, replace(again, plan=old.plan), from_start=True)

    async def retry(
        self,
        run_id: str,
        *,
        from_step: str | None = None,
        plan: Plan | None = None,
        by: e.Who = "",
    ) -> Run:
        """Creates a new run that keeps finished results and runs only the other or changed steps.

        `from_step` repeats this step and all steps after it; `plan` is a changed plan to use. A
        run that never had a plan is planned again.
        """
        old = await self._finished_run(run_id)
        wanted = plan or old.plan
        if wanted is None:
            return await self._plan_again(old, by)
        if from_step is not None and from_step not in old.steps:
            why = Sentence("run {run} has no step '{step}'", run=run_id, step=from_step)
            raise Refused(why, hint=Sentence("its steps: {names}", names=[*old.steps]))
        kept = carried_over(old, wanted, again=[from_step] if from_step else [])
        if everything_done(wanted, kept):
            hint = Sentence("plansmith runs rerun {run} runs it again", run=run_id)
            raise Refused(Sentence("every step is done: there is nothing to continue"), hint=hint)
        return await self._repeat(old, replace(_again(old, by), plan=wanted, kept=kept))

    async def fork(self, run_id: str, *, at: int, plan: Plan | None = None, by: e.Who = "") -> Run:
        """Creates a run from the state of this one after event `at`, with its plan or `plan`."""
        events = [each for each in await self._journals.store.events(run_id) if each.number <= at]
        old = fold(events) if events else None
        wanted = plan or (old.plan if old else None)
        if old is None or wanted is None:
            hint = Sentence("run.give_event")
            raise Refused(Sentence("run.no_plan_at", run=run_id, number=at), hint=hint)
        self._journals.require_ours(old)
        origin = Origin(kind="run", id=run_id, event=at)
        again = replace(_again(old, by), plan=wanted, origin=origin)
        return await self._repeat(old, replace(again, kept=carried_over(old, wanted)))

    async def ask_again(self, old: Run, *, by: e.Who) -> Journal:
        """Creates a run with the same request, options and limits, which is planned later."""
        return await self._create(_again(old, by))

    async def _create(self, new: NewRun) -> Journal:
        journal = await self._planning.create(new)
        if new.options.thread and self._join is not None:
            await self._join(journal.id, new.options)
        return journal

    async def _plan_again(self, old: Run, by: e.Who) -> Run:
        """Plans the request of a run that got no plan again, as a new run."""
        journal = await self.ask_again(old, by=by)
        await self._planning.plan(journal)
        return await self._journals.whole(journal)

    async def _finished_run(self, run_id: str) -> Run:
        old = await self._journals.get(run_id)
        self._journals.require_ours(old)
        if not old.status.over:
            status = Sentence(f"status.{old.status.value}")
            hint = Sentence("only a run that is over can be repeated")
            raise Refused(Sentence("run {run} is {status}", run=run_id, status=status), hint=hint)
        return old

    async def _repeat(self, old: Run, new: NewRun, *, from_start: bool = False) -> Run:
        """Creates a new run of an earlier plan; its review says which changes it would repeat."""
        assert new.plan is not None  # noqa: S101
        plan = await self._intake.pinned(new.plan)
        reasons = await self._reviser.repeated_effects(old, plan, new.kept)
        journal = await self._journals.load(old.id)
        reasons += await self._reviser.repeated(journal, plan, names=True)
        asked = await self._review_remaining(plan, new.kept)
        if not asked and any(_for_reading(event.body) for event in journal.events):
            asked = await self._intake.review(plan, more=(READ_RESULTS,))
        if not asked and sees_first(old):
            asked = [review_on_request(plan)]
        if reasons and not asked and not from_start:  # a retry should repeat nothing unasked
            asked = [e.ReviewAsked(hash=plan.hash)]
        reviewed = [each.replace(reasons=(*each.reasons, *reasons)) for each in asked]
        return await self._journals.whole(
            await self._create(replace(new, plan=plan, reviewed=reviewed))
        )

    async def _review_remaining(
        self, plan: Plan, kept: Sequence[e.StepReused]
    ) -> list[e.ReviewAsked]:
        """Returns the review request of a plan, with reasons only for the steps still to run."""
        asked = await self._intake.review(plan)
        done = {each.step for each in kept}
        if not asked or not done:
            return asked
        steps = [each.replace(disabled=each.disabled or each.id in done) for each in plan.steps]
        left = await self._intake.review(plan.replace(steps=tuple(steps)))
        return [asked[0].replace(reasons=each.reasons) for each in left] or asked


def _again(old: Run, by: e.Who) -> NewRun:
    """Returns a run with the same request, options and limits."""
    return NewRun(
        old.request,
        by=by,
        locale=old.locale,
        options=old.options,
        origin=Origin(kind="run", id=old.id),
        folder=old.folder,
        pins=old.earlier,
    )


def _for_reading(body: e.AnyBody) -> bool:
    """Tells whether a review was asked for because the planner had read earlier results."""
    return isinstance(body, e.ReviewAsked) and READ_RESULTS in body.reasons
