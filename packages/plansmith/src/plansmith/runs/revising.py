"""Makes a new plan for a run: after a failure, on a step's advice, or when a person asks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from plansmith.engine.budget import CallReservations, limit_question
from plansmith.engine.executor import Pacing
from plansmith.engine.journal import Journal, load_results, load_values
from plansmith.engine.units import Unit, place_of
from plansmith.plan import events as e
from plansmith.plan.diff import undone_edits
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import sees_first
from plansmith.plan.plan import owned
from plansmith.plan.planning import Planned, PlanRequest
from plansmith.plan.problem import Problem, has_errors
from plansmith.plan.refs import escape_text, with_words
from plansmith.plan.run import NOT_STARTED, Run, RunStatus, StepStatus
from plansmith.plan.sentence import Sentence, in_language, joined
from plansmith.plan.steps import ReplyStep
from plansmith.review.coverage import Coverage, coverage
from plansmith.runs import replan
from plansmith.runs.planning import RunPlanning, failure, proposed, recorded_exchanges

if TYPE_CHECKING:
    from plansmith.engine.budget import RunBudgets
    from plansmith.plan.plan import Plan

_OPEN: Final = (*NOT_STARTED, StepStatus.RUNNING)
_RETHINK: Final = "Steps are done. If the rest of the plan still fits, write it again unchanged."


class PlanReviser:
    """Revises plans, each kind of revision with a limit of its own."""

    def __init__(
        self,
        *,
        planning: RunPlanning,
        budgets: RunBudgets,
        limits: Limits,
        rounds: replan.Rounds | None = None,
    ) -> None:
        self.limits = limits
        self.rounds = rounds or replan.Rounds()
        self.planning, self.journals, self.intake = planning, planning.journals, planning.intake
        self._budgets = budgets

    @property
    def ends_when_done(self) -> bool:
        """Whether a run whose steps are all done ends without a look at what comes next."""
        return self.planning.planner is None or self.limits.max_iterations < 2

    def pacing(self, journal: Journal) -> Pacing | None:
        """Returns what an executor waits with: later steps, the last replies; None if nothing."""
        run = journal.run
        if self.planning.planner is None:
            return None
        ended = replan.ended_since(run, self.limits, journal.events)
        held = _last_replies(run) if replan.may_iterate(run, self.limits, self.rounds) else {}
        if ended is None and not held:
            return None
        return Pacing(after_step=ended is not None, due=bool(ended), held=frozenset(held))

    def last_replies(self, run: Run) -> Pacing | None:
        """Returns how the last replies of a run that ends are still written, if any are open.

        Where a step failed, they are written from what there is, if `Rounds.partial_reply` says so.
        """
        done = {name for name, state in run.steps.items() if state.status is StepStatus.DONE}
        off = {step.id for step in run.plan.steps if step.disabled} if run.plan else set[str]()
        written: dict[str, Unit] = {}
        for name, step in _last_replies(run).items():
            missing = sorted(step.needed - done - off)
            if not missing:
                written[name] = Unit(name, step)
            elif done and self.rounds.partial_reply:
                written[name] = Unit(name, _from_part(step, missing, run.locale))
        return Pacing(replies=written) if written and not run.cancel_asked else None

    async def change(self, journal: Journal) -> None:
        """Makes the plan that a person asked for; finished steps are kept."""
        run = journal.run
        feedback = run.reason
        if any(state.attempts for state in run.steps.values()):
            specs = (await self.intake.callees()).specs
            feedback = f"{feedback}\n\n{replan.describe_outcomes(run, specs)}"
        planned = await self.planning.make(_request(journal, feedback))
        if planned.plan is None or planned.plan.degraded:
            assert run.plan is not None  # noqa: S101
            failed = failure(planned)
            first = Sentence("review.plan_before", reason=failed.reason)
            more = (first, *await self.repeats_of_origin(run, run.plan))
            [review] = await self.intake.review(run.plan, run, more=more, templates=run.templates)
            review = review.replace(drops=tuple(dict.fromkeys((*run.drops, *review.drops))))
            await journal.append(failed, review, values=recorded_exchanges(planned))
            return
        plan, problems = replan.keep_finished(run, planned.plan)
        found = Coverage(()) if run.covered is None else await self._uncovered(journal, plan)
        reasons = [*found.reasons, *await self.repeats_of_origin(run, plan)]
        if undone := _undone_edits(journal.events, plan):
            reasons.insert(0, Sentence("review.edits_undone", steps=undone))
        planned = replace(planned, plan=plan, problems=(*planned.problems, *problems))
        proposal = replace(
            proposed(planned, cause=run.reason),
            start=[e.RunResumed()] if run.paused else [],
            then=[*replan.resets(run, plan)],
            reasons=reasons,
            drops=found.drops,
        )
        await self.planning.propose(journal, planned, proposal)

    async def at_rest(self, journal: Journal) -> str | None:
        """Makes another plan for a run that has nothing left to do, if it needs one.

        Returns the reason with which the run ends; None if it goes on or waits for a person.
        """
        run, rounds, most = journal.run, self.rounds, self.limits.max_iterations
        if self.planning.planner is None or run.cancel_asked:
            return ""
        if run.origin.kind == "schedule" and (failed := replan.failed_steps(run)):
            return Sentence(
                "failed: {steps}; a schedule runs the plan that was approved and no other",
                steps=failed[:5],
            )
        cause = replan.cause_to_revise(run, self.limits, journal.events)
        if cause is None:
            return ""
        if cause.limit == "iterations" and rounds.end_at_limit:
            return Sentence("the limit of {count} plan iterations", count=most)
        if cause.limit == "replans" and rounds.end_at_replans:
            return cause.text
        if not cause.limit or run.phase is RunStatus.REPLANNING:
            return await self._revise(journal, cause)
        question = Sentence(
            "{count} plans were not enough ({reason}). Make another one?",
            count=run.replans if cause.limit == "replans" else run.iterations + 1,
            reason=cause.text,
        )
        await journal.append(limit_question(run, cause.limit, question))
        return None

    async def _revise(self, journal: Journal, cause: replan.Cause) -> str | None:
        """Makes a plan that continues from the present state; the run ends if there is none."""
        run, intake = journal.run, self.intake
        budget = CallReservations(self._budgets.of(run), run, self.journals.clock)
        refusal = budget.reserve("replan", "replan")
        if refusal is not None:
            paused = e.RunPaused(reason=Sentence("the budget is used up"))
            await journal.append(budget.question(refusal), paused)
            return None
        if run.phase is not RunStatus.REPLANNING:
            await journal.append(e.ReplanStarted(cause=cause.text, kind=cause.kind))
        rethinks = cause.kind == "rethink"
        feedback = replan.describe_outcomes(run, (await intake.callees()).specs)
        request = _request(journal, f"{_RETHINK}\n{feedback}" if rethinks else feedback)
        if cause.kind != "iteration":
            # Another round is a plan of its own: the rules hold for it alone.
            request = replace(request, kept=replan.kept_steps(run))
        # Texts of tools are read only where a person reviews the plan, or the settings trust them.
        reads = sees_first(run) or intake.policy.ask == "always"
        reads = reads or self.limits.tool_texts != "reviewed"
        if reads:
            results = await load_results(self.journals.store, run) if rethinks else {}
            texts = replan.texts_of(run, results)
            request = replace(request, findings=texts)
        planned = await self.planning.make(request, results=reads)
        budget.spend("replan", planned.metrics.usage)
        budget.settle("replan")
        if planned.plan is not None and not planned.plan.degraded:
            return await self._go_on(journal, planned, cause, read_texts=bool(request.findings))
        if rethinks:
            await self._keep_plan(journal, planned)
            return None
        await journal.append(failure(planned), values=recorded_exchanges(planned))
        return joined([cause.text, Sentence("no other plan was found")])

    async def _keep_plan(self, journal: Journal, planned: Planned, why: str = "") -> None:
        """Goes on with the present plan, which thinking it over did not change."""
        answer = failure(planned)
        if why:
            # As text, like every other reason why a model gave no plan.
            answer = answer.replace(reason=in_language(why, journal.run.locale), problems=())
        start = e.RunStarted(hash=journal.plan_hash, reason=Sentence("the plan stays as it is"))
        await journal.append(answer, start, values=recorded_exchanges(planned))

    async def _go_on(
        self, journal: Journal, planned: Planned, cause: replan.Cause, *, read_texts: bool
    ) -> str | None:
        """Continues with a new plan, unless it is unusable or only repeats what was tried."""
        run, before, made = journal.run, journal.run.plan, planned.plan
        assert made is not None and before is not None  # noqa: S101, PT018
        iterates = cause.kind == "iteration"
        if iterates and self.rounds.join is not None:
            made = owned(self.rounds.join(before, made))
        plan, problems = replan.keep_finished(run, made, iterating=iterates)
        # The goal is the person's; a new plan does not change it, nor when it runs.
        own = {name: each for name, each in before.schedules.items() if name in plan.by_id}
        plan = plan.replace(goal=before.goal, schedule=before.schedule, schedules=own)
        earlier = await self.intake.usable_results(run.options, run.earlier)
        problems = [*await self.intake.check(plan, earlier), *problems]
        flaw = await self._flaw(journal, plan, problems)
        if cause.kind == "rethink":
            if plan.hash == before.hash:
                flaw = Sentence("thinking it over changed nothing")
            if flaw:
                await self._keep_plan(journal, planned, flaw)
                return None
        elif flaw:
            return joined([cause.text, flaw])
        elif all(
            (state := run.steps.get(name)) is not None and state.status is StepStatus.DONE
            for name in plan.by_id
        ):
            adds_nothing = joined([cause.text, Sentence("the new plan adds nothing")])
            return "" if iterates else adds_nothing
        reasons, drops = await self._uncovered(journal, plan)
        if read_texts and self.limits.tool_texts != "trust":
            reasons = (Sentence("review.read_texts"), *reasons)
        started = e.RunStarted(hash=plan.hash, reason=Sentence("nothing new is touched"))
        asked = e.ReviewAsked(hash=plan.hash, reasons=reasons, drops=drops)
        planned = replace(planned, plan=plan, problems=tuple(problems))
        proposal = replace(
            proposed(planned, cause=cause.text),
            then=[*replan.resets(run, plan)],
            review_events=[asked if reasons else started],
        )
        await self.planning.propose(journal, planned, proposal)
        return None

    async def _flaw(self, journal: Journal, plan: Plan, problems: list[Problem]) -> str:
        """Says why a run cannot go on with a new plan; empty if it can."""
        run = journal.run
        if plan.hash == journal.plan_hash:
            return Sentence("end.same_plan")
        results = await load_values(self.journals.store, run)
        loop = replan.loop_in(journal.events, plan, run, results)
        return loop or (Sentence("the new plan is unusable") if has_errors(problems) else "")

    async def _uncovered(self, journal: Journal, plan: Plan) -> Coverage:
        """Returns what a revision does that no person has approved.

        It is compared with the plan approved last, not with the previous revision, so that many
        small revisions cannot add up to something new.
        """
        run = journal.run
        assert run.covered is not None and run.plan is not None  # noqa: S101, PT018
        after = (await self.intake.facts(plan)).calls
        done = [
            after.keys[name]
            for name, state in run.steps.items()
            if state.status is StepStatus.DONE and name in after.keys
        ]
        found = coverage((await self.intake.facts(*run.covered)).calls, after, happened=done)
        again = await self.repeated(journal, plan)
        # What a person skipped stays skipped in its step, and must not be done by another one.
        out = {
            place_of(run.plan, name, run.templates)
            for name, state in run.steps.items()
            if replan.is_left_out(state)
        }

        def is_out(place: str) -> bool:
            return any(place == step or place.startswith(f"{step}/") for step in out if step)

        before = (await self.intake.facts(run.plan, run.templates)).calls
        keys = {call.key for call in before.acting if is_out(call.place)}
        left = [
            Sentence("review.left_out", call=call.text)
            for call in after.acting
            if call.key in keys and not is_out(call.place)
        ]
        made = {call.text for call in after.acting}
        lost = (*(text for text in run.dropped if text not in made), *found.drops)
        return Coverage((*again, *left, *found.reasons), tuple(dict.fromkeys(lost)))

    async def repeated(
        self, journal: Journal, plan: Plan, *, names: bool = False
    ) -> tuple[str, ...]:
        """Returns a reason for each call that a new plan repeats in a step that has not made it.

        Whoever approved two equal calls wants both. Calls are compared by their arguments if these
        are known by now, else by how the plan writes them. A step that now makes a different call
        counts too, unless `names` is set.
        """
        run, intake = journal.run, self.intake
        if run.plan is None:
            return ()
        templates = {**intake.templates, **run.templates, **await intake.contents(plan)}
        before = (await intake.facts(run.plan, run.templates)).calls
        old = {call.place: call.key for call in before.acting}
        begun = {
            place
            for name, state in run.steps.items()
            if state.status is StepStatus.DONE or state.made or replan.is_in_doubt(state)
            if (place := place_of(run.plan, name, templates)) in old
        }
        keys = {old[place] for place in begun}
        approved = (await intake.facts(*run.covered)).calls.acting if run.covered else []
        wanted = {(call.place, call.key) for call in approved}
        calls = replan.calls_made(journal.events) if run.calls else ()
        made = {call for _, call, end in calls if not isinstance(end, e.StepFailed)}
        results = await load_values(self.journals.store, run)
        planned = replan.resolved_calls(plan, results, templates)
        return tuple(
            Sentence("review.repeats", call=call.text)
            for call in (await intake.facts(plan)).calls.acting
            if (call.place, call.key) not in wanted
            if call.place not in begun or (old[call.place] != call.key and not names)
            if call.key in keys or planned[call.place] & made
        )

    async def repeated_by(
        self, journal: Journal, plan: Plan, kept: Collection[e.StepReused]
    ) -> tuple[str, ...]:
        """Returns the changes that an earlier run has made and the plan of another would repeat."""
        effects = replan.done_again(journal.run, plan, kept, await self.intake.acting(plan))
        return tuple(dict.fromkeys((*effects, *await self.repeated(journal, plan, names=True))))

    async def repeats_of_origin(self, run: Run, plan: Plan) -> tuple[str, ...]:
        """Returns the changes that the repeated run has made and the plan would make again."""
        origin = run.origin.id
        if run.origin.kind != "run" or origin not in await self.journals.store.runs():
            return ()
        journal = await self.journals.load(origin)
        return await self.repeated_by(journal, plan, replan.carried_over(run, plan))


def _request(journal: Journal, feedback: str) -> PlanRequest:
    """Returns the request of a run for another plan, with all that persons asked to change."""
    run = journal.run
    asked = [event.body.text for event in journal.events if isinstance(event.body, e.ChangesAsked)]
    again = PlanRequest(run.request, run.options, previous=run.plan, feedback=feedback)
    return replace(again, changes=asked, pins=run.earlier)


def _last_replies(run: Run) -> dict[str, ReplyStep]:
    """Returns the replies of a plan that no other step uses and that are not written yet."""
    if run.plan is None:
        return {}
    found = {
        step.id: step
        for step in run.plan.steps
        if step.kind == "reply" and not step.disabled and run.steps[step.id].status in _OPEN
    }
    return {name: step for name, step in found.items() if not run.plan.needed_by[name]}


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


def _undone_edits(events: Sequence[e.Event], plan: Plan) -> list[str]:
    """Returns the steps that a person changed by hand and that a new plan has otherwise."""
    base = person = None
    for event in events:
        if isinstance(event.body, e.PlanProposed) and event.body.origin == "person":
            person = event.body.plan
        elif isinstance(event.body, e.PlanProposed):
            base, person = event.body.plan, None
    if base is None or person is None:
        return []
    return undone_edits(base, person, plan)
