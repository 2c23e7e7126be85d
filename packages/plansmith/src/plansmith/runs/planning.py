"""Plans a request; resumes after a crash or a clarifying answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from plansmith import plugins
from plansmith.engine.journal import Entry, Journal
from plansmith.engine.progress import spending
from plansmith.engine.recover import unended_reads
from plansmith.errors import Misconfigured
from plansmith.lazy import lazy_modules
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_of
from plansmith.plan.limits import Limits
from plansmith.plan.next_move import sees_first
from plansmith.plan.plan import Plan, owned
from plansmith.plan.planning import Decision, Planned, PlanOrigin, PlanRequest, only_stands_in
from plansmith.plan.problem import Problem, Severity
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.ports import Available, Planner, ReplyWriter
from plansmith.runs.intake import NewRun, Proposal
from plansmith.templates.template import plan_steps, runs_templates, template_problems

if TYPE_CHECKING:
    from plansmith.engine import prefetch
    from plansmith.engine.call import Callees
    from plansmith.plan.planning import OnStep
    from plansmith.plan.steps import AnyStep
    from plansmith.runs import replies
    from plansmith.runs.intake import PlanIntake
    from plansmith.runs.journals import Journals
else:
    lazy_modules(
        globals(),
        prefetch="plansmith.engine.prefetch",
        replies="plansmith.runs.replies",
    )


# Who made the plan of a run that was made from something; else whoever submitted it.
_ORIGINS: Final[dict[str, PlanOrigin]] = {"template": "template", "run": "rerun", "undo": "rerun"}
CLARIFICATIONS: Final = 2
READ_RESULTS: Final = Sentence("review.read_results")
# Returns the events that replace the review of a new plan, such as an approval given before.
StandingReview = Callable[[Run, Plan], Awaitable[Sequence[Entry] | None]]


def _start_nothing(_: AnyStep) -> None: ...


class RunPlanning:
    """Makes the plans of runs with a model, and sets up their replies."""

    def __init__(
        self,
        *,
        journals: Journals,
        intake: PlanIntake,
        planner: Planner | None = None,
        writer: ReplyWriter | None = None,
        limits: Limits | None = None,
        standing: StandingReview | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.planner = planner
        self.journals, self.tell = journals, journals.tell
        self.intake = intake
        self._writer = writer
        self._standing_review = standing
        # The runs that are being planned here, with the reads that are made early for each.
        self._planning: dict[str, prefetch.EarlyReads | None] = {}

    def need_planner(self) -> Planner:
        """Returns the planner; raises `Misconfigured` if there is none."""
        if self.planner is None:
            plugins.load("planners", "default")  # says what to install, if no package brings one
            raise Misconfigured(
                Sentence("there is no model to plan with"), hint="pass Plansmith(model=…)"
            )
        return self.planner

    def is_planning(self, run_id: str) -> bool:
        """Tells whether this process is making a plan for a run."""
        return run_id in self._planning

    async def create(self, new: NewRun) -> Journal:
        """Creates a run: checks and proposes its plan; without a plan, planning comes later."""
        who, journal = e.actor(new.by), self.journals.new(new.run_id)
        created = new.created(self.journals, self.intake.policy)
        if new.plan is None:
            self.need_planner()
            await journal.append(created, by=who)
            return journal
        submitted: PlanOrigin = "program" if who.kind == "program" else "submitted"
        origin = new.plan_origin or _ORIGINS.get(new.origin.kind, submitted)
        given = e.PlanProposed(plan=new.plan, problems=tuple(new.notes), origin=origin)
        if new.checked:
            proposal = await self.intake.take_in(given, created.options, new.pins)
        else:
            proposal = Proposal(given.replace(plan=owned(new.plan)))
        proposal = replace(
            proposal,
            created=created,
            then=new.kept,
            reasons=new.reasons,
            review_events=new.review_events,
            by=who,
        )
        await self.intake.propose(journal, proposal)
        return self.journals.keep_new(journal)

    async def plan(self, journal: Journal, request: PlanRequest | None = None) -> None:
        """Plans a run's request; also after a crash and after answers about the request."""
        run = journal.run
        self.journals.require_ours(run)
        async with self.journals.owners.owning(journal.id) as journal.fence:
            await self._plan(journal, request or PlanRequest(run.request, run.options))

    async def _plan(self, journal: Journal, request: PlanRequest) -> None:
        journal.retry = self.journals.store_retry
        clarified = _clarifications(journal.events)
        triaged = request.triaged or len(clarified) >= CLARIFICATIONS
        request = replace(request, text="\n\n".join([request.text, *clarified]), triaged=triaged)
        if left := unended_reads(journal.run):
            await journal.append(*left)
        early = self._planning[journal.id] = await self._early_reads(journal)
        try:
            planned = await self.make(request, on_step=early.start if early else _start_nothing)
            if early is not None:
                await early.finish(await self._wanted_at_once(planned))
            await self._record(journal, planned)
        finally:
            self._planning.pop(journal.id, None)
            if early is not None:
                await early.finish()

    async def _early_reads(self, journal: Journal) -> prefetch.EarlyReads | None:
        """Returns what makes reads early; none is made if a person sees every plan first."""
        sees_plan = sees_first(journal.run) or self.intake.policy.ask == "always"
        if sees_plan or not self.limits.early_start:
            return None
        return prefetch.EarlyReads(journal, await self.intake.callees(), self.tell)

    async def _wanted_at_once(self, planned: Planned) -> Collection[str]:
        """Returns the calls of a plan that begins now: nothing of one runs while it is reviewed."""
        plan = planned.plan
        if plan is None or await self._reasons_of_reader(planned, plan):
            return ()
        return () if await self.intake.review(plan) else prefetch.wanted_by(plan)

    async def _record(self, journal: Journal, planned: Planned) -> None:
        """Writes the outcome of planning: a plan, a failure, a question or an answer."""
        triaged = e.Triaged(decision=planned.decision, reason=planned.reason)
        values = recorded_exchanges(planned)
        if planned.decision is Decision.PLAN:
            if planned.plan and not only_stands_in(planned.plan):
                proposal = replace(proposed(planned), start=[triaged])
                await self.propose(journal, planned, proposal)
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
        made = e.ReportMade(result=content_of(planned.answer).digest)
        ending = e.RunFinished(status="answered", reason=triaged.reason)
        await journal.append(triaged, made, ending, values=[planned.answer, *values])

    async def propose(self, journal: Journal, planned: Planned, proposal: Proposal) -> None:
        """Writes a plan that a model made into a run."""
        plan, reasons = proposal.body.plan, proposal.reasons
        if proposal.review_events is None and not reasons:
            if self._standing_review is not None:
                standing = await self._standing_review(journal.run, plan)
                proposal = replace(proposal, review_events=standing)
            proposal = replace(proposal, reasons=await self._reasons_of_reader(planned, plan))
        await self.intake.propose(journal, proposal)

    async def _reasons_of_reader(self, planned: Planned, plan: Plan) -> Sequence[str]:
        """Returns why a plan that changes something and was made after reading results is reviewed.

        Whatever the policy says: words in an old result must not lead to a change by themselves.
        """
        if not planned.read_results or self.limits.tool_texts == "trust":
            return ()
        return [READ_RESULTS] if await self.intake.acting(plan) else ()

    async def make(
        self, request: PlanRequest, *, on_step: OnStep = _start_nothing, results: bool = True
    ) -> Planned:
        """Makes a plan; without `results` the planner reads only what persons said before."""
        planner, callees = self.need_planner(), await self.intake.callees()
        options = request.options
        if options.thread and (talk := self.intake.conversations) is not None:
            history = await talk.before(options.thread, options.message)
            kept = [each for each in history if results or each.role == "user"]
            options = options.model_copy(update={"history": (*kept, *options.history)})
            request = replace(request, options=options)
        # The newest templates, and the versions that the previous plan runs.
        templates = await self.intake.load_templates()
        before = [step.template for _, step in plan_steps(request.previous or Plan())]
        versions = dict.fromkeys(name for name in before if name in templates and "@" in name)
        available = Available(
            tools=list(callees.specs.values()),
            agents=self.intake.agents(),
            templates=[*(name for name in templates if "@" not in name), *versions],
            sources=callees.tools,
            earlier=await self.intake.usable_results(options, request.pins),
        )
        made = await planner.make(request, available, tell=self.tell, on_step=on_step)
        has_read = options.thread and any(each.role == "assistant" for each in options.history)
        made = replace(made, read_results=bool(has_read))
        if made.plan is None:
            return made
        plan, found = owned(made.plan), list[Problem]()
        if runs_templates(plan):
            plan = await self.intake.pinned(plan)
            found = template_problems(plan, await self.intake.load_templates())
        return replace(made, plan=plan, problems=(*made.problems, *found))

    def equip(self, callees: Callees, run: Run) -> Callees:
        """Adds what a run needs to call its steps: the writer of replies."""
        steps = run.plan.steps if run.plan else ()
        shows_results = any(step.kind == "reply" and step.style == "results" for step in steps)
        # Without a writer a reply is its instruction; but results are shown as tables then, too.
        if self._writer is None and not shows_results:
            return callees
        talk, options, history = self.intake.conversations, run.options, replies.no_history
        if talk is not None and options.thread:
            history = partial(talk.before, options.thread, options.message)
        return replace(callees, compose=replies.Replies(run, self._writer, history))

    async def close(self) -> None:
        """Stops every early read."""
        for early in [*self._planning.values()]:
            if early is not None:
                await early.finish()


def proposed(planned: Planned, *, cause: str = "") -> Proposal:
    """Returns the proposal of a plan that a model made, with how it was made."""
    assert planned.plan is not None  # noqa: S101
    body = e.PlanProposed(
        plan=planned.plan,
        problems=planned.problems,
        origin=planned.origin,
        cause=cause,
        picks=planned.picks,
        metrics=planned.metrics,
        **_costs(planned),
    )
    return Proposal(body, values=recorded_exchanges(planned))


def recorded_exchanges(planned: Planned) -> list[Json]:
    """Returns the model calls of planning as values to store, at most one."""
    return [[*planned.exchanges]] if planned.exchanges else []


def _costs(planned: Planned) -> dict[str, Any]:
    """Returns what planning used, and where its model calls are recorded, as fields of an event."""
    costs: dict[str, Any] = {**spending(planned.metrics.usage)}
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
