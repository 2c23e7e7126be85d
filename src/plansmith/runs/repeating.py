"""Retries, reruns and forks runs that are over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from plansmith.engine.journal import Entry, Journal
from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.plan.fold import fold
from plansmith.plan.next_move import sees_first
from plansmith.plan.origin import Origin
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.run_options import RunOptions
from plansmith.runs.planning import shown_first
from plansmith.runs.rerun import carried_over, everything_done
from plansmith.runs.revising import PlanReviser


class Create(Protocol):
    """Creates a run, as the service for runs does."""

    async def __call__(  # noqa: PLR0913 - all by name
        self,
        request: str,
        *,
        by: e.Who,
        plan: Plan | None,
        locale: str,
        options: RunOptions,
        origin: Origin,
        folder: str,
        about: Mapping[str, Any] | None,
        kept: Sequence[e.StepReused],
        reviewed: Sequence[Entry] | None,
    ) -> Journal:
        """The journal of the new run."""
        ...


class RunRepeating:
    """Repeats runs that are over."""

    def __init__(self, *, reviser: PlanReviser, create: Create) -> None:
        self._reviser = reviser
        self._create = create
        self._journals = reviser.journals
        self._intake = reviser.intake

    async def rerun(self, run_id: str, *, by: e.Who = "") -> Run:
        """Run the same plan again from the start, as a new run: no result is taken over."""
        old = await self._over(run_id)
        if old.plan is None:
            return await self._plan_again(old, by=by)
        return await self._repeat(old, old.plan, kept=(), by=by, anew=True)

    async def retry(
        self,
        run_id: str,
        *,
        from_step: str | None = None,
        plan: Plan | None = None,
        by: e.Who = "",
    ) -> Run:
        """Continue from what is done, as a new run: only what is not done or has changed runs.

        `from_step` also repeats this step and all behind it; `plan` is your changed version. A run
        that never had a plan is planned anew.
        """
        old = await self._over(run_id)
        wanted = plan or old.plan
        if wanted is None:
            return await self._plan_again(old, by=by)
        if from_step is not None and from_step not in old.steps:
            raise Refused(f"run {run_id} has no step {from_step!r}")
        kept = carried_over(old, wanted, again=[from_step] if from_step else [])
        if everything_done(wanted, kept):
            hint = f"plansmith rerun {run_id} runs it again"
            raise Refused("everything is done: there is nothing to continue", hint=hint)
        return await self._repeat(old, wanted, kept=kept, by=by)

    async def fork(self, run_id: str, *, at: int, plan: Plan | None = None, by: e.Who = "") -> Run:
        """A new run that begins as this one stood after event `at`, with its plan or yours."""
        events = [
            event for event in await self._journals.store.events(run_id) if event.number <= at
        ]
        old = fold(events) if events else None
        wanted = plan or (old.plan if old else None)
        if old is None or wanted is None:
            hint = "take the number of an event behind plan_proposed"
            raise Refused(f"run {run_id} has no plan at event {at}", hint=hint)
        self._journals.require_ours(old)
        kept = carried_over(old, wanted)
        origin = Origin(kind="run", id=run_id, event=at)
        return await self._repeat(old, wanted, kept=kept, by=by, origin=origin)

    async def _plan_again(self, old: Run, *, by: e.Who) -> Run:
        """A new run of a request that came to no plan, planned at once."""
        journal = await self.ask_again(old, by=by)
        await self._reviser.planner.plan(journal)
        return await self._journals.whole(journal)

    async def ask_again(
        self,
        old: Run,
        *,
        by: e.Who,
        origin: Origin | None = None,
        plan: Plan | None = None,
        kept: Sequence[e.StepReused] = (),
        reviewed: Sequence[Entry] | None = None,
    ) -> Journal:
        """A new run with the same request, options and limits; without a plan it is planned."""
        return await self._create(
            old.request,
            plan=plan,
            locale=old.locale,
            options=old.options,
            origin=origin or Origin(kind="run", id=old.id),
            folder=old.folder,
            about={"origin": "rerun"},
            kept=kept,
            reviewed=reviewed,
            by=by,
        )

    async def _over(self, run_id: str) -> Run:
        old = await self._journals.get(run_id)
        self._journals.require_ours(old)
        if not old.status.over:
            hint = "only a run that is over is repeated"
            raise Refused(f"run {run_id} is {old.status}", hint=hint)
        return old

    async def _review_left(
        self, plan: Plan, kept: Sequence[e.StepReused]
    ) -> Sequence[e.ReviewAsked]:
        """The request for a review of a plan, with the reasons of what is left to do."""
        asked = await self._intake.review(plan)
        done = {each.step for each in kept}
        if not asked or not done:
            return asked
        steps = [each.replace(disabled=each.disabled or each.id in done) for each in plan.steps]
        left = await self._intake.review(plan.replace(steps=tuple(steps)))
        return [asked[0].replace(reasons=each.reasons) for each in left] or asked

    async def _repeat(
        self,
        old: Run,
        plan: Plan,
        *,
        kept: Sequence[e.StepReused],
        by: e.Who,
        origin: Origin | None = None,
        anew: bool = False,
    ) -> Run:
        """A new run of an earlier one's plan, reviewed like any other and told what it repeats."""
        plan = await self._intake.pinned(plan)
        reasons = await self._reviser.told_again(old, plan, kept)
        reasons += await self._reviser.repeated(await self._journals.load(old.id), plan, names=True)
        asked = await self._review_left(plan, kept)
        asked = asked or ([shown_first(plan)] if sees_first(old) else [])
        if reasons and not asked and not anew:  # who continues does not expect anything twice
            asked = [e.ReviewAsked(hash=plan.hash)]
        reviewed = [each.replace(reasons=(*each.reasons, *reasons)) for each in asked]
        journal = await self.ask_again(
            old, by=by, origin=origin, plan=plan, kept=kept, reviewed=reviewed
        )
        return await self._journals.whole(journal)
