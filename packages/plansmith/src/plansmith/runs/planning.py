"""Plans a request; resumes after a crash or a clarifying answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from plansmith import plugins
from plansmith.engine.journal import Entry, Journal
from plansmith.engine.progress import spending
from plansmith.engine.store_outage import WaitingStore
from plansmith.errors import Misconfigured
from plansmith.lazy import lazy_modules
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_of
from plansmith.plan.events import PlanningFailed
from plansmith.plan.next_move import sees_first
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Decision, Planned, PlanRequest, Tell, only_stands_in
from plansmith.plan.problem import Severity
from plansmith.plan.run import Run
from plansmith.plan.run_options import RunOptions
from plansmith.plan.sentence import Sentence
from plansmith.ports import Available, Message, Planner, ReplyWriter
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


CLARIFICATIONS: Final = 2
READ_RESULTS: Final = Sentence("review.read_results")
# Returns the conversation before a message (its number) of a thread (its id).
SaidBefore = Callable[[str, int | None], Awaitable[Sequence[Message]]]
# Returns the events that replace the review of a new plan, such as an approval given before.
StandingReview = Callable[[Run, Plan], Awaitable[Sequence[Entry] | None]]


def _start_nothing(_: AnyStep) -> None:
    """Starts no step before the plan is complete."""


def ignore_progress(_: str) -> None:
    """Ignores messages about the progress of planning."""


async def nothing_said(_: str, __: int | None) -> Sequence[Message]:
    """Says that nothing came before a message."""
    return ()


async def no_standing_review(_: Run, __: Plan) -> None:
    """Says that no approval was given before: every plan gets its own review."""


class RunPlanning:
    """Makes the plans of runs with a model, and sets up their replies."""

    def __init__(  # noqa: PLR0913 - all by name
        self,
        *,
        journals: Journals,
        intake: PlanIntake,
        planner: Planner | None = None,
        writer: ReplyWriter | None = None,
        early_start: bool = True,
        tell: Tell = ignore_progress,
        standing: StandingReview = no_standing_review,
        said: SaidBefore = nothing_said,
        trusts_texts: bool = False,
    ) -> None:
        self.early_start = early_start
        self.tell = tell
        journals.patience.tell = lambda text: self.tell(text)  # noqa: PLW0108 - `tell` may change
        self.planner = planner
        self._journals = journals
        self._intake = intake
        self._writer = writer
        self._standing_review = standing
        self._said = said
        self._trusts_texts = trusts_texts
        self._early: dict[str, prefetch.Prefetch] = {}
        self._planning: set[str] = set()

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

    async def plan(self, journal: Journal, request: PlanRequest | None = None) -> None:
        """Plans a run's request; also after a crash and after answers about the request."""
        run = journal.run
        self._journals.require_ours(run)
        async with self._journals.owners.owning(journal.id) as journal.fence:
            await self._plan(journal, request or PlanRequest.of(run.request, run.options))

    async def _plan(self, journal: Journal, request: PlanRequest) -> None:
        journal.wait_for(WaitingStore(self._journals.patience))
        clarifications = clarifications_in(journal.events)
        await self.settle_early(journal)
        self._planning.add(journal.id)
        try:
            planned = await self.make(
                replace(
                    request,
                    text="\n\n".join([request.text, *clarifications]),
                    triaged=request.triaged or len(clarifications) >= CLARIFICATIONS,
                ),
                on_step=await self._starter(journal),
            )
            # Nothing of a plan runs while a person reviews it.
            runs_on = planned.plan is not None and not (
                await self._intake.review(planned.plan) or await self._review_of_reader(planned)
            )
            keep = prefetch.wanted_by(planned.plan) if planned.plan and runs_on else ()
            await self.settle_early(journal, keep)
            await self._record(journal, planned)
        finally:
            self._planning.discard(journal.id)
            if journal.run.plan is None:
                await self.drop_early(journal.id)

    async def _starter(self, journal: Journal) -> OnStep:
        """Returns what starts reads early; nothing starts if a person sees every plan first."""
        if not self.early_start or sees_first(journal.run) or self._intake.policy.ask == "always":
            return _start_nothing
        early = prefetch.Prefetch(journal, await self._intake.callees(), tell=self.tell)
        self._early[journal.id] = early
        return early.start

    async def settle_early(self, journal: Journal, keep: Collection[str] | None = None) -> None:
        """Records how early reads ended, also those of a process that died."""
        early = self._early.get(journal.id)
        if early is None and not journal.run.prefetches:
            return
        if early is not None:
            await early.settle(journal, keep)
        gone = prefetch.left_open(journal.run, early.keys if early else ())
        if gone and not journal.run.status.over:
            await journal.append(*gone)

    async def _record(self, journal: Journal, planned: Planned) -> None:
        """Writes the outcome of planning: a plan, a failure, a question or an answer."""
        spent = spending(planned.metrics.usage)
        decided = e.Triaged(decision=planned.decision.value, reason=planned.reason)
        plan = planned.plan
        if planned.decision is Decision.PLAN and plan and not only_stands_in(plan):
            await self.propose(journal, planned, start=[decided])
            return
        exchanges = recorded_exchanges(planned)
        record = content_of(exchanges[0]).digest if exchanges else ""
        if planned.decision is Decision.PLAN:
            failed, ended = failure(planned), no_plan(planned)
            await journal.append(decided, failed, ended, values=exchanges)
            return
        triaged = decided.replace(**spent, record=record)
        if planned.decision is Decision.ASK:
            number = sum(isinstance(event.body, e.QuestionAsked) for event in journal.events)
            texts = enumerate(planned.questions or (planned.answer,), start=number + 1)
            asked = [
                e.QuestionAsked(question=f"request:{place}", text=text, kind="request")
                for place, text in texts
            ]
            await journal.append(triaged, *asked, values=exchanges)
            return
        await self.keep_answer(journal, planned.answer, triaged, values=exchanges)

    async def keep_answer(
        self, journal: Journal, text: str, triaged: e.Triaged, *, values: Sequence[Json] = ()
    ) -> None:
        """Ends a run whose request was answered at once."""
        made = e.ReportMade(result=content_of(text).digest)
        ending = e.RunFinished(status="answered", reason=triaged.reason)
        await journal.append(triaged, made, ending, values=[text, *values])

    async def propose(
        self,
        journal: Journal,
        planned: Planned,
        *,
        cause: str = "",
        start: Sequence[Entry] = (),
        then: Sequence[Entry] = (),
        reviewed: Sequence[Entry] | None = None,
    ) -> None:
        """Writes a plan that a model made into a run, with how it was made."""
        plan = planned.plan
        assert plan is not None  # noqa: S101
        about: dict[str, Any] = {
            "origin": planned.origin,
            "cause": cause,
            "metrics": planned.metrics,
            "picks": planned.picks,
            **spending(planned.metrics.usage),
        }
        exchanges = recorded_exchanges(planned)
        if exchanges:
            about["record"] = content_of(exchanges[0]).digest
        if reviewed is None:
            reviewed = await self._own_review(journal.run, planned, plan)
        await self._intake.propose(
            journal,
            plan,
            planned.problems,
            start=start,
            then=then,
            reviewed=reviewed,
            about=about,
            values=exchanges,
        )

    async def _own_review(self, run: Run, planned: Planned, plan: Plan) -> Sequence[Entry] | None:
        """Returns the review of a plan where the policy alone does not decide on it."""
        reviewed = await self._standing_review(run, plan)
        return reviewed if reviewed is not None else await self._review_of_reader(planned) or None

    async def _review_of_reader(self, planned: Planned) -> list[e.ReviewAsked]:
        """Returns the review of a plan that changes something, made after reading results.

        Whatever the policy says: words in an old result must not lead to a change by themselves.
        """
        plan = planned.plan
        if plan is None or not planned.read_results or self._trusts_texts:
            return []
        if not await self._intake.acting(plan):
            return []
        return await self._intake.review(plan, more=(READ_RESULTS,))

    async def make(
        self, request: PlanRequest, *, on_step: OnStep = _start_nothing, results: bool = True
    ) -> Planned:
        """Makes a plan; without `results` the planner reads only what persons said before."""
        planner, callees = self.need_planner(), await self._intake.callees()
        request = await self._with_history(request, results=results)
        available = Available(
            tools=list(callees.specs.values()),
            agents=self._intake.agents(),
            templates=await self._templates_for(request),
            sources=callees.tools,
            earlier=await self._intake.usable_results(
                RunOptions(thread=request.thread, message=request.message), request.pins
            ),
        )
        made = await planner.make(request, available, tell=self.tell, on_step=on_step)
        made = replace(made, read_results=_has_read(request))
        if made.plan is None or not runs_templates(made.plan):
            return made
        plan = await self._intake.pinned(made.plan)
        found = template_problems(plan, await self._intake.load_templates())
        return replace(made, plan=plan, problems=(*made.problems, *found))

    async def _with_history(self, request: PlanRequest, *, results: bool) -> PlanRequest:
        """Adds what was said before in the thread of a request."""
        if not request.thread:
            return request
        said = await self._said(request.thread, request.message)
        kept = said if results else [each for each in said if each.role == "user"]
        return replace(request, history=(*kept, *request.history))

    async def _templates_for(self, request: PlanRequest) -> list[str]:
        """Returns the newest templates, and the versions that the previous plan runs."""
        before = [step.template for _, step in plan_steps(request.previous or Plan())]
        known = await self._intake.load_templates()
        names = [name for name in known if "@" not in name]
        return [*names, *dict.fromkeys(name for name in before if name in known and "@" in name)]

    def equip(self, callees: Callees, run: Run) -> Callees:
        """Adds what a run needs to call its steps: the writer of replies, and early reads."""
        early = self._early.get(run.id)
        # Without a writer a reply is its instruction; but results are shown as tables then, too.
        if self._writer is None and not _shows_results(run):
            return replace(callees, early=early) if early is not None else callees
        thread, message = run.options.thread, run.options.message
        said = partial(self._said if thread else nothing_said, thread, message)
        return replace(callees, compose=replies.Replies(run, self._writer, said), early=early)

    def has_early(self, run: Run) -> bool:
        """Whether reads of a run were started early, whose ends are still to be written."""
        return bool(run.prefetches) or run.id in self._early

    async def drop_early(self, run_id: str) -> None:
        """Stops early reads that no step has used."""
        early = self._early.pop(run_id, None)
        if early is not None:
            await early.drop()

    async def close(self) -> None:
        """Stops every early read."""
        for run_id in list(self._early):
            await self.drop_early(run_id)


def _shows_results(run: Run) -> bool:
    """Tells whether a reply of a run's plan shows results as tables and lists."""
    steps = run.plan.steps if run.plan else ()
    return any(step.kind == "reply" and step.style == "results" for step in steps)


def _has_read(request: PlanRequest) -> bool:
    """Tells whether a planner read words of tools or models in the thread of a request."""
    return bool(request.thread) and any(each.role == "assistant" for each in request.history)


def recorded_exchanges(planned: Planned) -> list[Json]:
    """Returns the model calls of planning as values to store, at most one."""
    return [[*planned.exchanges]] if planned.exchanges else []


def failure(planned: Planned) -> PlanningFailed:
    """Returns the event of planning that failed, with its reason and cost."""
    record = content_of([*planned.exchanges]).digest if planned.exchanges else ""
    return PlanningFailed(
        reason=why_none(planned),
        problems=tuple(planned.problems),
        record=record,
        **spending(planned.metrics.usage),
    )


def why_none(planned: Planned) -> str:
    """Says why there is no plan, for a person."""
    if planned.plan is not None and planned.plan.degraded:
        return planned.plan.degraded
    worst = sorted(planned.problems, key=lambda each: each.severity is not Severity.ERROR)
    return worst[0].message if worst else planned.reason or Sentence("the model gave none")


def no_plan(planned: Planned) -> e.RunFinished:
    """Returns the end of a run that got no plan."""
    reason = Sentence("end.no_plan", reason=why_none(planned))
    return e.RunFinished(status="failed", reason=reason)


def changes_asked(events: Sequence[e.Event]) -> list[str]:
    """Returns what persons asked to change about the plan of a run, in order."""
    return [event.body.text for event in events if isinstance(event.body, e.ChangesAsked)]


def clarifications_in(events: Sequence[e.Event]) -> list[str]:
    """Returns the questions about the request that were answered, each with its answer."""
    asked: dict[str, str] = {}
    clarifications: list[str] = []
    for event in events:
        body = event.body
        if isinstance(body, e.QuestionAsked) and body.kind == "request":
            asked[body.question] = body.text
        elif isinstance(body, e.QuestionAnswered) and body.question in asked:
            clarifications.append(f"{asked[body.question]}\n{body.answer}")
    return clarifications
