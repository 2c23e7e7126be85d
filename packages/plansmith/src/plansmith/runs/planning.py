"""How plans come into runs: the first one, one that a person asks for, one after a failure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plansmith import plugins
from plansmith.engine.budget import CallReservations, limit_question, spending
from plansmith.engine.journal import Journal, load_results, load_values
from plansmith.errors import Misconfigured
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_of
from plansmith.plan.diff import undone_edits
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import sees_first
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Decision, Planned, PlanOrigin, PlanRequest, is_empty_fallback
from plansmith.plan.problem import Problem, Severity, has_errors
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.plan.sentence import Sentence, in_language, joined
from plansmith.ports import Available, Planner
from plansmith.review.coverage import BeyondApproval
from plansmith.runs import replan, revision
from plansmith.runs.intake import NewRun, Proposal
from plansmith.templates.template import plan_steps, runs_templates, template_problems

if TYPE_CHECKING:
    from plansmith.engine.budget import RunBudgets
    from plansmith.runs.intake import PlanIntake
    from plansmith.runs.journals import Journals

# Who made the plan of a run that was made from something; else whoever submitted it.
_ORIGINS: Final[dict[str, PlanOrigin]] = {"template": "template", "run": "rerun", "undo": "rerun"}
CLARIFICATIONS: Final = 2
READ_RESULTS: Final = Sentence("review.read_results")
_RETHINK: Final = "Steps are done. If the rest of the plan still fits, write it again unchanged."
# Returns the events that replace the review of a new plan, such as an approval given before.
StandingReview = Callable[[Run, Plan], Awaitable[Sequence[e.Entry] | None]]


class EndReason(NamedTuple):
    """Why a run ends without another plan; without a text, its steps say why."""

    text: str = ""


class RunPlanning:
    """Creates runs, and makes their plans with a model: the first, a changed one, another one."""

    def __init__(
        self,
        *,
        journals: Journals,
        intake: PlanIntake,
        budgets: RunBudgets,
        planner: Planner | None,
        limits: Limits,
        iterations: replan.IterationRules,
        standing: StandingReview | None,
    ) -> None:
        self.journals, self.intake, self._budgets = journals, intake, budgets
        self.registry = intake.registry
        self.planner, self.limits, self.iterations = planner, limits, iterations
        self._standing_review = standing
        self._planning: set[str] = set()  # the runs that are being planned here

    def require_planner(self) -> Planner:
        """Returns the planner; raises `Misconfigured` if there is none."""
        if self.planner is None:
            plugins.load("planners", "default")  # says what to install, if no package brings one
            why = Sentence("there is no model to plan with")
            raise Misconfigured(why, hint="pass Plansmith(model=…)")
        return self.planner

    def is_planning(self, run_id: str) -> bool:
        """Tells whether this process is making a plan for a run."""
        return run_id in self._planning

    async def create(self, new: NewRun) -> Journal:
        """Creates a run: checks and proposes its plan; without a plan, planning comes later."""
        who, journal = e.actor(new.by), self.journals.new(new.run_id)
        created = new.created(self.journals, self.intake.policy)
        if new.plan is None:
            self.require_planner()
            await journal.append(created, by=who)
            return journal
        submitted: PlanOrigin = "program" if who.kind == "program" else "submitted"
        origin = new.plan_origin or _ORIGINS.get(new.origin.kind, submitted)
        given = e.PlanProposed(plan=new.plan, problems=tuple(new.notes), origin=origin)
        if new.needs_check:
            proposal = await self.intake.take_in(given, created.options, new.pins)
        else:
            proposal = Proposal(given)
        proposal = replace(
            proposal,
            created=created,
            then=new.reused,
            reasons=new.reasons,
            review_events=new.review_events,
            by=who,
        )
        await self.intake.propose(journal, proposal)
        return self.journals.keep_new(journal)

    async def make_next_plan(self, journal: Journal, *, triaged: bool = False) -> None:
        """Makes the plan that a run waits for; also after a crash and after answers about it."""
        self.journals.require_ours(journal.run)
        async with self.journals.ownership.writing(journal):
            if journal.run.status.over:
                return
            self._planning.add(journal.id)
            try:
                if journal.run.change_asked:
                    await self._make_changed_plan(journal)
                else:
                    await self._make_first_plan(journal, triaged=triaged)
            finally:
                self._planning.discard(journal.id)

    async def _make_first_plan(self, journal: Journal, *, triaged: bool) -> None:
        """Makes the first plan of a run."""
        journal.retry = self.journals.store_retry
        clarified = _clarifications(journal.events)
        text = "\n\n".join([journal.run.request, *clarified])
        triaged = triaged or len(clarified) >= CLARIFICATIONS
        request = PlanRequest(text, journal.run.options, triaged=triaged)
        await self._write_outcome(journal, await self.ask_planner(request))

    async def _write_outcome(self, journal: Journal, planned: Planned) -> None:
        """Writes the outcome of planning: a plan, a failure, a question or an answer."""
        triaged = e.Triaged(decision=planned.decision, reason=planned.reason)
        values = recorded_exchanges(planned)
        if planned.decision is Decision.PLAN:
            if planned.plan and not is_empty_fallback(planned.plan):
                proposal = replace(proposal_of(planned), start=[triaged])
                await self._propose_made(journal, planned, proposal)
                return
            reason = Sentence("end.no_plan", reason=_why_none(planned))
            ending = e.RunFinished(status="failed", reason=reason)
            await journal.append(triaged, failure(planned), ending, values=values)
            return
        triaged = triaged.replace(**_costs(planned))
        if planned.decision is Decision.ASK:
            number = sum(isinstance(event.body, e.QuestionAsked) for event in journal.events)
            texts = enumerate(planned.questions or (planned.answer,), start=number + 1)
            asked = [
                e.QuestionAsked(question=f"request:{place}", text=text, kind="request")
                for place, text in texts
            ]
            await journal.append(triaged, *asked, values=values)
            return
        made = e.RequestAnswered(result=content_of(planned.answer).digest)
        ending = e.RunFinished(status="answered", reason=triaged.reason)
        await journal.append(triaged, made, ending, values=[planned.answer, *values])

    async def _propose_made(self, journal: Journal, planned: Planned, proposal: Proposal) -> None:
        """Writes a plan that a model made into a run."""
        plan, reasons = proposal.body.plan, proposal.reasons
        if proposal.review_events is None and not reasons:
            if self._standing_review is not None:
                standing = await self._standing_review(journal.run, plan)
                proposal = replace(proposal, review_events=standing)
            proposal = replace(proposal, reasons=await self._reasons_after_reading(planned, plan))
        await self.intake.propose(journal, proposal)

    async def _reasons_after_reading(self, planned: Planned, plan: Plan) -> Sequence[str]:
        """Returns why a plan that changes something and was made after reading results is reviewed.

        Whatever the policy says: words in an old result must not lead to a change by themselves.
        """
        if not planned.read_results or self.limits.tool_texts == "trust":
            return ()
        return [READ_RESULTS] if await self.registry.acting(plan) else ()

    async def ask_planner(self, request: PlanRequest, *, results: bool = True) -> Planned:
        """Makes a plan; without `results` the planner reads only what persons said before."""
        planner, callees = self.require_planner(), await self.registry.callees()
        options = request.options
        if options.thread and (talk := self.registry.conversations) is not None:
            history = await talk.before(options.thread, options.message)
            kept = [each for each in history if results or each.role == "user"]
            options = options.model_copy(update={"history": (*kept, *options.history)})
            request = replace(request, options=options)
        # The newest templates, and the versions that the previous plan runs.
        templates = await self.registry.load_templates()
        before = [step.template for _, step in plan_steps(request.previous or Plan())]
        versions = dict.fromkeys(name for name in before if name in templates and "@" in name)
        available = Available(
            tools=list(callees.specs.values()),
            agents=self.registry.agents(),
            templates=[*(name for name in templates if "@" not in name), *versions],
            sources=callees.tools,
            usable=await self.registry.usable_results(options, request.pins),
        )
        planned = await planner.make(request, available, tell=self.journals.tell)
        has_read = options.thread and any(each.role == "assistant" for each in options.history)
        planned = replace(planned, read_results=bool(has_read))
        if planned.plan is None:
            return planned
        plan, found = planned.plan, list[Problem]()
        if runs_templates(plan):
            plan = await self.registry.with_fixed_templates(plan)
            found = template_problems(plan, await self.registry.load_templates())
        return replace(planned, plan=plan, problems=(*planned.problems, *found))

    async def _make_changed_plan(self, journal: Journal) -> None:
        """Makes the plan that a person asked for; finished steps are kept."""
        run = journal.run
        # Not `run.reason`: resuming clears it.
        wishes = [
            each.body.text for each in journal.events if isinstance(each.body, e.ChangesAsked)
        ]
        feedback = wishes[-1]
        if any(state.attempts for state in run.steps.values()):
            specs = (await self.registry.callees()).specs
            feedback = f"{feedback}\n\n{replan.describe_outcomes(run, specs)}"
        planned = await self.ask_planner(_request(run, feedback))
        if planned.plan is None or planned.plan.degraded:
            assert run.plan is not None  # noqa: S101
            failed = failure(planned)
            first = Sentence("review.plan_before", reason=failed.reason)
            more = (first, *await revision.repeat_reasons_of_origin(self.registry, run, run.plan))
            [asked] = await self.intake.review(run.plan, run, more=more, templates=run.templates)
            asked = asked.replace(drops=tuple(dict.fromkeys((*run.drops_in_review, *asked.drops))))
            await journal.append(failed, asked, values=recorded_exchanges(planned))
            return
        plan, problems = revision.with_fixed_steps(run, planned.plan)
        beyond = BeyondApproval(())
        if run.approved_plan is not None:
            beyond = await revision.beyond_approval(self.registry, journal, plan)
        again = await revision.repeat_reasons_of_origin(self.registry, run, plan)
        reasons = [*beyond.reasons, *again]
        if undone := _edits_undone_by(journal.events, plan):
            reasons.insert(0, Sentence("review.edits_undone", steps=undone))
        planned = replace(planned, plan=plan, problems=(*planned.problems, *problems))
        proposal = replace(
            proposal_of(planned, cause=wishes[-1]),
            start=[e.RunResumed()] if run.paused else [],
            then=[*revision.resets(run, plan)],
            reasons=reasons,
            drops=beyond.drops,
        )
        await self._propose_made(journal, planned, proposal)

    async def replan_if_needed(self, journal: Journal) -> EndReason | None:
        """Makes another plan for a run that has nothing left to do, or asks whether to make one.

        Returns why the run ends; None if it goes on or waits for a person.
        """
        run, rounds, most = journal.run, self.iterations, self.limits.max_iterations
        if self.planner is None or run.cancel_asked:
            return EndReason()
        if run.origin.kind == "schedule" and (failed := replan.failed_steps(run)):
            text = Sentence(
                "failed: {steps}; a schedule runs the plan that was approved and no other",
                steps=failed[:5],
            )
            return EndReason(text)
        cause = replan.cause_to_revise(run, self.limits, journal.events)
        if cause is None:
            return EndReason()
        if cause.limit == "iterations" and rounds.end_at_limit:
            return EndReason(Sentence("the limit of {count} plan iterations", count=most))
        if cause.limit == "replans" and rounds.end_at_replans:
            return EndReason(cause.text)
        if not cause.limit or run.phase is RunStatus.REPLANNING:
            return await self._make_another_plan(journal, cause)
        question = Sentence(
            "{count} plans were not enough ({reason}). Make another one?",
            count=run.replans if cause.limit == "replans" else run.iterations + 1,
            reason=cause.text,
        )
        await journal.append(limit_question(run, cause.limit, question))
        return None

    async def _make_another_plan(self, journal: Journal, cause: replan.Cause) -> EndReason | None:
        """Makes a plan that continues from the present state; the run ends if there is none."""
        run = journal.run
        budget = CallReservations(self._budgets.of(run), journal, self.journals.clock)
        refusal = budget.reserve("replan", "replan")
        if refusal is not None:
            paused = e.RunPaused(reason=Sentence("the budget is used up"))
            await journal.append(budget.question(refusal), paused)
            return None
        if run.phase is not RunStatus.REPLANNING:
            await journal.append(e.ReplanStarted(cause=cause.text, kind=cause.kind))
        rethinks = cause.kind == "rethink"
        feedback = replan.describe_outcomes(run, (await self.registry.callees()).specs)
        request = _request(run, f"{_RETHINK}\n{feedback}" if rethinks else feedback)
        if cause.kind != "iteration":
            # Another round is a plan of its own: the rules hold for it alone.
            request = replace(request, kept=revision.fixed_steps(run))
        # Texts of tools are read only where a person reviews the plan, or the settings trust them.
        reads = sees_first(run) or self.intake.policy.ask == "always"
        reads = reads or self.limits.tool_texts != "reviewed"
        if reads:
            results = await load_results(self.journals.store, run) if rethinks else {}
            texts = replan.texts_of(run, results)
            request = replace(request, findings=texts)
        planned = await self.ask_planner(request, results=reads)
        budget.spend("replan", planned.figures.usage)
        budget.settle("replan")
        if planned.plan is not None and not planned.plan.degraded:
            return await self._adopt(journal, planned, cause, read_texts=bool(request.findings))
        if rethinks:
            await self._keep_plan(journal, planned)
            return None
        await journal.append(failure(planned), values=recorded_exchanges(planned))
        return EndReason(joined([cause.text, Sentence("no other plan was found")]))

    async def _keep_plan(self, journal: Journal, planned: Planned, why: str = "") -> None:
        """Goes on with the present plan, which thinking it over did not change."""
        answer = failure(planned)
        if why:
            # As text, like every other reason why a model gave no plan.
            answer = answer.replace(reason=in_language(why, journal.run.locale), problems=())
        start = e.RunStarted(hash=journal.plan_hash, reason=Sentence("the plan stays as it is"))
        await journal.append(answer, start, values=recorded_exchanges(planned))

    async def _adopt(
        self, journal: Journal, planned: Planned, cause: replan.Cause, *, read_texts: bool
    ) -> EndReason | None:
        """Continues with a new plan, unless it is unusable or only repeats what was tried."""
        run, before, made = journal.run, journal.run.plan, planned.plan
        assert made is not None and before is not None  # noqa: S101, PT018
        iterates = cause.kind == "iteration"
        if iterates and self.iterations.join is not None:
            made = self.iterations.join(before, made)
        plan, problems = revision.with_fixed_steps(run, made, iterating=iterates)
        # The goal is the person's; a new plan does not change it, nor when it runs.
        own = {name: each for name, each in before.schedules.items() if name in plan.by_id}
        plan = plan.replace(goal=before.goal, schedule=before.schedule, schedules=own)
        usable = await self.registry.usable_results(run.options, run.pins)
        problems = [*await self.intake.check(plan, usable), *problems]
        flaw = await self._why_unusable(journal, plan, problems)
        if cause.kind == "rethink":
            if plan.hash == before.hash:
                flaw = Sentence("thinking it over changed nothing")
            if flaw:
                await self._keep_plan(journal, planned, flaw)
                return None
        elif flaw:
            return EndReason(joined([cause.text, flaw]))
        elif all(
            (state := run.steps.get(name)) is not None and state.status is StepStatus.DONE
            for name in plan.by_id
        ):
            adds_nothing = joined([cause.text, Sentence("the new plan adds nothing")])
            return EndReason("" if iterates else adds_nothing)
        reasons, drops = await revision.beyond_approval(self.registry, journal, plan)
        if read_texts and self.limits.tool_texts != "trust":
            reasons = (Sentence("review.read_texts"), *reasons)
        started = e.RunStarted(hash=plan.hash, reason=Sentence("nothing new is touched"))
        asked = e.ReviewAsked(hash=plan.hash, reasons=reasons, drops=drops)
        planned = replace(planned, plan=plan, problems=tuple(problems))
        proposal = replace(
            proposal_of(planned, cause=cause.text),
            then=[*revision.resets(run, plan)],
            review_events=[asked if reasons else started],
        )
        await self._propose_made(journal, planned, proposal)
        return None

    async def _why_unusable(self, journal: Journal, plan: Plan, problems: list[Problem]) -> str:
        """Says why a run cannot go on with a new plan; empty if it can."""
        run = journal.run
        if plan.hash == journal.plan_hash:
            return Sentence("end.same_plan")
        results = await load_values(self.journals.store, run)
        loop = revision.loop_in(journal.events, plan, run, results)
        return loop or (Sentence("the new plan is unusable") if has_errors(problems) else "")


def proposal_of(planned: Planned, *, cause: str = "") -> Proposal:
    """Returns the proposal of a plan that a model made, with how it was made."""
    assert planned.plan is not None  # noqa: S101
    body = e.PlanProposed(
        plan=planned.plan,
        problems=planned.problems,
        origin=planned.origin,
        cause=cause,
        picks=planned.picks,
        figures=planned.figures,
        **_costs(planned),
    )
    return Proposal(body, values=recorded_exchanges(planned))


def recorded_exchanges(planned: Planned) -> list[Json]:
    """Returns the model calls of planning as values to store, at most one."""
    return [[*planned.exchanges]] if planned.exchanges else []


def _costs(planned: Planned) -> dict[str, Any]:
    """Returns what planning used, and where its model calls are recorded, as fields of an event."""
    costs: dict[str, Any] = {**spending(planned.figures.usage)}
    if planned.exchanges:
        costs["record"] = content_of([*planned.exchanges]).digest
        costs["models"] = models = dict[str, tuple[int, int]]()
        for each in planned.exchanges:
            name, tokens = str(each.get("model") or ""), each.get("tokens")
            calls, spent = models.get(name, (0, 0))
            models[name] = calls + 1, spent + (tokens if isinstance(tokens, int) else 0)
    return costs


def failure(planned: Planned) -> e.PlanningFailed:
    """Returns the event of planning that failed, with its reason and cost."""
    problems = tuple(planned.problems)
    return e.PlanningFailed(reason=_why_none(planned), problems=problems, **_costs(planned))


def _why_none(planned: Planned) -> str:
    if planned.plan is not None and planned.plan.degraded:
        return planned.plan.degraded
    worst = sorted(planned.problems, key=lambda each: each.severity is not Severity.ERROR)
    return worst[0].message if worst else planned.reason or Sentence("the model gave none")


def _clarifications(events: Sequence[e.Event]) -> list[str]:
    asked: dict[str, str] = {}
    clarifications: list[str] = []
    for event in events:
        body = event.body
        if isinstance(body, e.QuestionAsked) and body.kind == "request":
            asked[body.question] = body.text
        elif isinstance(body, e.QuestionAnswered) and body.question in asked:
            clarifications.append(f"{asked[body.question]}\n{body.answer}")
    return clarifications


def _request(run: Run, feedback: str) -> PlanRequest:
    """Returns the request of a run for another plan."""
    return PlanRequest(
        run.request, run.options, previous=run.plan, feedback=feedback, pins=run.pins
    )


def _edits_undone_by(events: Sequence[e.Event], plan: Plan) -> list[str]:
    """Returns the steps that a person edited since the last other plan and `plan` has otherwise."""
    base = person = None
    for event in events:
        if isinstance(event.body, e.PlanProposed) and event.body.origin == "person":
            person = event.body.plan
        elif isinstance(event.body, e.PlanProposed):
            base, person = event.body.plan, None
    if base is None or person is None:
        return []
    return undone_edits(base, person, plan)
