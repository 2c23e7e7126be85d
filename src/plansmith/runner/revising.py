"""Revising: a new plan for a run, after a failure, on advice, in rounds, or at a person's word."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from plansmith.errors import Refused, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.problem import has_errors
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.plan.sentence import Sentence, joined
from plansmith.planner.kit import Planned, PlanRequest
from plansmith.review.coverage import Coverage, coverage
from plansmith.runner.budget import Purse
from plansmith.runner.guard import loop_in
from plansmith.runner.journal import Entry, Journal, load_results
from plansmith.runner.limits import limit_question
from plansmith.runner.planning import Planning, exchanged, failure
from plansmith.runner.repeats import calls_left_out, repeated_calls
from plansmith.runner.replan import (
    Cause,
    account,
    ask_about,
    cause_to_revise,
    keep_finished,
    resets,
)
from plansmith.runner.rerun import check_unknown, to_repeat
from plansmith.runner.undoing import versions

_NO_BUDGET: Final = Sentence("pause.replan_budget")


class Revising(Planning):
    """Revises plans, each kind of revision with a limit of its own."""

    async def edit(self, run_id: str, plan: Plan, *, by: e.Who = "") -> Run:
        """A person's own version of the plan: checked at once, approved like any other."""
        return await self._edited(run_id, plan, by=by)

    async def _edited(
        self, run_id: str, plan: Plan, *, by: e.Who, restores: int = 0, why: str = ""
    ) -> Run:
        journal = await self.own_journal(run_id)
        run = journal.run
        busy = not run.paused and run.calls_open
        if run_id in self._active or busy or run.status.over:
            hint = "pause it first, or repeat it with a plan of yours"
            raise Refused(f"run {run_id} is {run.status}", hint=hint)
        plan = await self.pinned(plan)
        problems = await self.usable(plan)
        who = e.actor(by)
        edited = plan.replace(revision=(run.plan.revision if run.plan else 0) + 1)
        check_unknown(run, edited)
        again = to_repeat(run, edited)
        origin = "person" if who.kind == "person" else "program"
        about = {"origin": origin, "restores": restores}
        more = (*([why] if why else []), *await self.repeated(journal, edited, names=True))
        more += await self.done_before(run, edited)
        reviewed = await self.review(edited, run, more=more) if more else None
        try:
            await self.propose(
                journal, edited, problems, then=again, about=about, reviewed=reviewed, by=who
            )
        except StaleWriter:
            raise StaleDecision(f"someone else changed run {run_id} first") from None
        return await self.whole(journal)

    async def undo(self, run_id: str, *, by: e.Who = "") -> Run:
        """Go back to the plan before the current one; again, to the one before that."""
        found = versions(await self.store.events(run_id)).before
        if found is None:
            raise Refused(f"run {run_id} has no earlier plan")
        why = "you went back to an earlier plan"
        return await self._edited(run_id, found.plan, by=by, restores=found.number, why=why)

    async def redo(self, run_id: str, *, by: e.Who = "") -> Run:
        """Go forward again to the plan that was undone last."""
        found = versions(await self.store.events(run_id)).after
        if found is None:
            raise Refused(f"run {run_id} has no undone plan")
        why = "you went forward to a later plan"
        return await self._edited(run_id, found.plan, by=by, restores=found.number, why=why)

    async def request_changes(self, run_id: str, text: str, *, by: e.Who = "") -> Run:
        """Ask for another plan and say how it should differ; the planner sees plan and text.

        A run under way is paused for it: finished work is kept.
        """
        self.need_model()
        await self.own_journal(run_id)
        if run_id in self._active:
            await self.pause(run_id, by=by, reason=text)
        journal = await self.journal(run_id)
        run = journal.run
        if run.plan is None or run.status.over:
            raise Refused(f"run {run_id} has no plan to change: it is {run.status}")
        if run.rejections >= self.limits.max_rejections + run.grants.get("rejections", 0):
            if not any(each.limit_asked == "rejections" for each in run.questions.values()):
                words = Sentence("question.rejections", count=run.rejections)
                await journal.append(limit_question(run, "rejections", words))
            return await self.whole(journal)
        async with self.owners.owning(run_id):
            await journal.append(e.ChangesAsked(text=text), by=e.actor(by))
            await self.change(journal)
        return await self.whole(journal)

    async def change(self, journal: Journal) -> None:
        """Make the plan a person asked for; what has run stays."""
        run = journal.run
        asked = PlanRequest.of(run.request, run.options)
        told = run.reason
        if any(state.attempts for state in run.steps.values()):
            told = f"{told}\n\n{account(run, (await self.callees()).specs)}"
        planned = await self.make(replace(asked, previous=run.plan, feedback=told))
        if planned.plan is None or planned.plan.degraded:
            assert run.plan is not None  # noqa: S101
            failed, said = failure(planned), exchanged(planned)
            first = Sentence("review.plan_before", reason=failed.reason)
            reasons = (first, *await self.done_before(run, run.plan))
            [review] = await self.review(run.plan, run, more=reasons, templates=run.templates)
            drops = tuple(dict.fromkeys((*run.drops, *review.drops)))
            await journal.append(failed, review.replace(drops=drops), values=said)
            return
        kept = keep_finished(run, planned.plan)
        planned = replace(planned, plan=kept.plan, problems=(*planned.problems, *kept.problems))
        start: list[Entry] = [e.RunResumed()] if run.paused else []
        again = list(resets(run, kept.plan))
        entries: dict[str, Sequence[Entry]] = {"start": start, "then": again}
        more, drops = await self.done_before(run, kept.plan), tuple[str, ...]()
        if run.covered is not None:
            found = await self._uncovered(journal, kept.plan)
            more, drops = (*found.reasons, *more), found.drops
        if more:
            [review] = await self.review(kept.plan, run, more=more)
            entries["reviewed"] = [review.replace(drops=drops or review.drops)]
        await self.propose_made(journal, planned, cause=run.reason, **entries)

    async def done_before(self, run: Run, plan: Plan) -> tuple[str, ...]:
        """What a person's change of a plan would do again that an earlier run has done."""
        del run, plan
        return ()

    async def end(
        self, journal: Journal, *, reason: str = "", results: Mapping[str, Json] | None = None
    ) -> bool:
        """End a run, unless a new plan is called for: then it goes on, or asks."""
        await self.settle_early(journal, ())
        await self.drop_early(journal.id)
        run = journal.run
        cause = cause_to_revise(run, self.limits) if self._model else None
        if run.phase is RunStatus.REPLANNING and cause is not None:
            cause = cause._replace(limit=None)
        if cause is None or reason:
            return await super().end(journal, reason=reason, results=results)
        if cause.limit:
            await journal.append(ask_about(run, cause))
            return False
        return await self._revise(journal, cause)

    async def _revise(self, journal: Journal, cause: Cause) -> bool:
        """Ask for a plan that goes on from here; the run ends when there is none."""
        run = journal.run
        assert run.plan is not None  # noqa: S101
        budget = self.budget_of(run)
        purse = Purse(budget, run, self.clock)
        refusal = purse.reserve("replan", "replan")
        if refusal is not None:
            await journal.append(purse.question(refusal), e.RunPaused(reason=_NO_BUDGET))
            return False
        if run.phase is not RunStatus.REPLANNING:
            await journal.append(e.ReplanStarted(cause=cause.text, kind=cause.kind))
        told = account(run, (await self.callees()).specs)
        asked = PlanRequest.of(run.request, run.options)
        planned = await self.make(replace(asked, previous=run.plan, feedback=told))
        purse.spend("replan", planned.metrics.usage)
        purse.settle("replan")
        if planned.plan is None or planned.plan.degraded:
            await journal.append(failure(planned), values=exchanged(planned))
            return await super().end(
                journal, reason=joined([cause.text, Sentence("end.no_other_plan")])
            )
        return await self._go_on(journal, planned, cause)

    async def _go_on(self, journal: Journal, planned: Planned, cause: Cause) -> bool:
        """Take a new plan up, unless it is unusable or leads in a circle."""
        run = journal.run
        assert planned.plan is not None and run.plan is not None  # noqa: S101, PT018
        kept = keep_finished(run, planned.plan, iterating=cause.kind == "iteration")
        problems = [*await self.check(kept.plan), *kept.problems]
        circle = loop_in(
            journal.events,
            kept.plan,
            results=await load_results(self.store, run),
            statuses={name: state.status for name, state in run.steps.items()},
            templates={**self.templates, **run.templates},
        )
        if kept.plan.hash == run.plan.hash:
            circle = Sentence("end.same_plan")
        flaw = circle or (Sentence("end.unusable_plan") if has_errors(problems) else "")
        if not flaw and _is_done(run, kept.plan.by_id):
            flaw = "" if cause.kind == "iteration" else Sentence("end.nothing_new")
            return await super().end(journal, reason=flaw and joined([cause.text, flaw]))
        if flaw:
            return await super().end(journal, reason=joined([cause.text, flaw]))
        # The goal is the person's: another way to it is no other goal.
        plan = kept.plan.replace(goal=run.plan.goal, schedule=run.plan.schedule)
        planned = replace(planned, plan=plan, problems=tuple(problems))
        found = await self._uncovered(journal, plan)
        next_: e.AnyBody = e.RunStarted(hash=plan.hash, reason=Sentence("start.nothing_new"))
        if found.reasons:
            next_ = e.ReviewAsked(hash=plan.hash, reasons=found.reasons, drops=found.drops)
        again = list(resets(run, plan))
        await self.propose_made(journal, planned, then=again, reviewed=[next_], cause=cause.text)
        return journal.run.phase is RunStatus.RUNNING

    async def _uncovered(self, journal: Journal, plan: Plan) -> Coverage:
        """What of a revision nobody has agreed to.

        It is compared with the plan that a person approved last and not with the one before it,
        so that many small revisions lead no further than one.
        """
        run = journal.run
        assert run.covered is not None and run.plan is not None  # noqa: S101, PT018
        after = await self.calls(plan)
        base = await self.calls(*run.covered)
        done = [
            after.keys[name]
            for name, state in run.steps.items()
            if state.status is StepStatus.DONE and name in after.keys
        ]
        found = coverage(base, after, happened=done)
        again = await self.repeated(journal, plan)
        before = await self.calls(run.plan, run.templates)
        left = calls_left_out(run, before=before, after=after)
        made = {call.text for call in after.acting}
        lost = (*(text for text in run.dropped if text not in made), *found.drops)
        return Coverage((*again, *left, *found.reasons), tuple(dict.fromkeys(lost)))

    async def repeated(
        self, journal: Journal, plan: Plan, *, names: bool = False
    ) -> tuple[str, ...]:
        """What another plan would call once more; with `names`, only in steps of other names."""
        run = journal.run
        if run.plan is None:
            return ()
        return repeated_calls(
            run,
            journal.events,
            before=await self.calls(run.plan, run.templates),
            after=await self.calls(plan),
            revision=plan,
            results=await load_results(self.store, run),
            templates={**self.templates, **run.templates, **await self.contents(plan)},
            approved=await self.calls(*run.covered) if run.covered else None,
            names=names,
        )


def _is_done(run: Run, steps: Iterable[str]) -> bool:
    """Whether a plan has no step that is not done already."""
    states = (run.steps.get(name) for name in steps)
    return all(state is not None and state.status is StepStatus.DONE for state in states)
