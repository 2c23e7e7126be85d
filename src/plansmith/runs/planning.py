"""Plans a request; resumes after a crash or a clarifying answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace
from typing import Any, Final

from plansmith.engine.call import Callees
from plansmith.engine.journal import Entry, Journal
from plansmith.engine.prefetch import Prefetch, left_open, wanted_by
from plansmith.engine.progress import spending
from plansmith.engine.store_outage import WaitingStore
from plansmith.errors import Misconfigured
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_hash
from plansmith.plan.next_move import sees_first
from plansmith.plan.plan import Plan
from plansmith.plan.planning_events import PlanningFailed
from plansmith.plan.problem import Severity
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep
from plansmith.planner.draft import OnStep
from plansmith.planner.fallback import only_stands_in
from plansmith.planner.model_calls import Transcript
from plansmith.planner.old_models import takes_prompt
from plansmith.planner.pipeline import make_plan
from plansmith.planner.request import Planned, PlannerDeps, PlannerSettings, PlanRequest, Tell
from plansmith.planner.shortlist.pick import SemanticRanker
from plansmith.planner.triage import Decision
from plansmith.ports import ChatModel, ContextSource
from plansmith.runs.intake import PlanIntake
from plansmith.runs.journals import Journals
from plansmith.runs.replies import Composer
from plansmith.templates.book import plan_steps, runs_templates, template_problems

CLARIFICATIONS: Final = 2
RULES: Final = "rules"  # the name of the model that is none
SEEN_FIRST: Final = Sentence("review.seen_first")
# What stands in for a review of a plan that a model made for a run; None where nothing does.
Standing = Callable[[Run, Plan], Awaitable[Sequence[Entry] | None]]


def _wait_for_the_plan(_: AnyStep) -> None:
    """Start nothing before the plan is complete."""


def tell_nobody(_: str) -> None:
    """Planning goes on unseen."""


async def nothing_stands(_: Run, __: Plan) -> None:
    """Every plan is reviewed by itself."""


class RunPlanner:
    """Makes the plans of runs with a model, and words their replies with one."""

    def __init__(  # noqa: PLR0913 - all by name
        self,
        *,
        journals: Journals,
        intake: PlanIntake,
        model: ChatModel | None = None,
        triage_model: ChatModel | None = None,
        report_model: ChatModel | None = None,
        context: Sequence[ContextSource] = (),
        ranker: SemanticRanker | None = None,
        settings: PlannerSettings | None = None,
        early_start: bool = True,
        tell: Tell = tell_nobody,
        standing: Standing = nothing_stands,
    ) -> None:
        self.early_start = early_start
        self.tell = tell
        journals.patience.tell = lambda text: self.tell(text)  # noqa: PLW0108 - `tell` may change
        self.model = takes_prompt(model) if model else None
        self._journals = journals
        self._intake = intake
        self._triage_model = takes_prompt(triage_model) if triage_model else self.model
        self._report_model = takes_prompt(report_model) if report_model else self.model
        self._context = list(context)
        self._ranker = ranker
        self._settings = settings or PlannerSettings()
        self._standing = standing
        self._early: dict[str, Prefetch] = {}
        self._planning: set[str] = set()

    def need_model(self) -> ChatModel:
        """The model that plans, or why there is no planning."""
        if self.model is None:
            raise Misconfigured("there is no model to plan with", hint="give Plansmith(model=…)")
        return self.model

    def is_planning(self, run_id: str) -> bool:
        """Whether a plan for this run is being made here."""
        return run_id in self._planning

    async def plan(self, journal: Journal, request: PlanRequest | None = None) -> None:
        """Plan what a run was created for; also after a crash, and after the person said more."""
        run = journal.run
        self._journals.require_ours(run)
        async with self._journals.owners.owning(journal.id):
            await self._plan(journal, request or PlanRequest.of(run.request, run.options))

    async def _plan(self, journal: Journal, request: PlanRequest) -> None:
        journal.wait_for(WaitingStore(self._journals.patience))
        said = _said(journal.events)
        await self.settle_early(journal)
        self._planning.add(journal.id)
        try:
            planned = await self.make(
                replace(request, text="\n\n".join([request.text, *said])),
                on_step=await self._starter(journal),
                triage=len(said) < CLARIFICATIONS,
            )
            # While a person looks at a plan nothing of it runs.
            runs_on = planned.plan is not None and not await self._intake.review(planned.plan)
            keep = wanted_by(planned.plan) if planned.plan and runs_on else ()
            await self.settle_early(journal, keep)
            await self._take(journal, planned)
        finally:
            self._planning.discard(journal.id)
            if journal.run.plan is None:
                await self.drop_early(journal.id)

    async def _starter(self, journal: Journal) -> OnStep:
        """What starts reads early; nothing where a person wants to see every plan first."""
        if not self.early_start or sees_first(journal.run) or self._intake.policy.ask == "always":
            return _wait_for_the_plan
        early = Prefetch(journal, await self._intake.callees(), tell=self.tell)
        self._early[journal.id] = early
        return early.start

    async def settle_early(self, journal: Journal, keep: Collection[str] | None = None) -> None:
        """Write how early reads ended, also those of a process that is gone."""
        early = self._early.get(journal.id)
        if early is not None:
            await early.settle(journal, keep)
        gone = left_open(journal.run, early.keys if early else ())
        if gone and not journal.run.status.over:
            await journal.append(*gone)

    async def _take(self, journal: Journal, planned: Planned) -> None:
        spent = spending(planned.metrics.usage)
        head = {"decision": planned.decision.value, "reason": planned.reason}
        plan = planned.plan
        if planned.decision is Decision.PLAN and plan and not only_stands_in(plan):
            await self.propose(journal, planned, start=[e.Triaged.model_validate(head)])
            return
        said = exchanged(planned)
        record = content_hash(said[0]) if said else ""
        if planned.decision is Decision.PLAN:
            failed, ended = failure(planned), _no_plan(planned)
            await journal.append(e.Triaged.model_validate(head), failed, ended, values=said)
            return
        triaged = e.Triaged.model_validate(head | spent | {"record": record})
        if planned.decision is Decision.ASK:
            number = sum(isinstance(event.body, e.QuestionAsked) for event in journal.events)
            name = f"request:{number + 1}"
            question = e.QuestionAsked(question=name, text=planned.answer, kind="request")
            await journal.append(triaged, question, values=said)
            return
        made = e.ReportMade(result=content_hash(planned.answer))
        ending = e.RunFinished(status="answered", reason=planned.reason)
        await journal.append(triaged, made, ending, values=[planned.answer, *said])

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
        """Put a plan forward that a model made, with how it was made."""
        plan = planned.plan
        assert plan is not None  # noqa: S101
        about: dict[str, Any] = {
            "origin": self.maker_of(planned),
            "cause": cause,
            "metrics": planned.metrics.to_json(),
            "picks": [{"name": each.name, "reason": each.reason} for each in planned.picks],
            **spending(planned.metrics.usage),
        }
        said = exchanged(planned)
        if said:
            about["record"] = content_hash(said[0])
        if reviewed is None:
            reviewed = await self._standing(journal.run, plan)
        if reviewed is None and sees_first(journal.run):
            reviewed = await self._intake.review(plan) or [shown_first(plan)]
        await self._intake.propose(
            journal,
            plan,
            planned.problems,
            start=start,
            then=then,
            reviewed=reviewed,
            about=about,
            values=said,
        )

    def maker_of(self, planned: Planned) -> str:
        """Who made a plan: a model, or rules, where no model took part."""
        asked = {str(each["model"]) for each in planned.exchanges}
        return "model" if asked - {RULES} else "rules"

    async def make(
        self, request: PlanRequest, *, on_step: OnStep = _wait_for_the_plan, triage: bool = True
    ) -> Planned:
        callees = await self._intake.callees()
        triages = triage and self._settings.triage
        transcript = Transcript()
        deps = PlannerDeps(
            plan_model=transcript.of(self.need_model()),
            triage_model=transcript.of(self._triage_model)
            if triages and self._triage_model
            else None,
            clock=self._intake.clock,
            tools=list(callees.specs.values()),
            agents=self._intake.agents(),
            templates=await self._templates_for(request),
            sources=self._context,
            search=self._intake.search(),
            ranker=self._ranker,
            settings=self._settings_for(request),
            past=(await self._intake.past()).costs,
            price_per_million=self._intake.price_per_million,
        )
        made = await make_plan(request, deps=deps, tell=self.tell, on_step=on_step)
        made = replace(made, exchanges=tuple(transcript.exchanges))
        if made.plan is None or not runs_templates(made.plan):
            return made
        plan = await self._intake.pinned(made.plan)
        found = template_problems(plan, await self._intake.load_templates())
        return replace(made, plan=plan, problems=(*made.problems, *found))

    async def _templates_for(self, request: PlanRequest) -> list[str]:
        """The newest templates, and the versions that the plan to be revised runs."""
        before = [step.template for _, step in plan_steps(request.previous or Plan())]
        known = await self._intake.load_templates()
        names = [name for name in known if "@" not in name]
        return [*names, *dict.fromkeys(name for name in before if name in known and "@" in name)]

    def _settings_for(self, request: PlanRequest) -> PlannerSettings:
        most = request.max_steps
        return self._settings if most is None else self._settings.replace(max_steps=most)

    def equip(self, callees: Callees, run: Run) -> Callees:
        """What a run can call: replies are worded by the model, in the run's language."""
        early = self._early.get(run.id)
        if self._report_model is None:
            return replace(callees, early=early)
        prompts = self._settings.prompts
        composer = Composer(self._report_model, locale=run.locale, prompts=prompts)
        return replace(callees, compose=composer, early=early)

    async def drop_early(self, run_id: str) -> None:
        """Let go of reads that were started early and that no step has asked for."""
        early = self._early.pop(run_id, None)
        if early is not None:
            await early.drop()

    async def close(self) -> None:
        """Let go of every read that was started early."""
        for run_id in list(self._early):
            await self.drop_early(run_id)


def exchanged(planned: Planned) -> list[Json]:
    """What models were asked and said for a plan, as a value to keep."""
    return [[*planned.exchanges]] if planned.exchanges else []


def failure(planned: Planned) -> PlanningFailed:
    """The event of planning that gave nothing to run, with what it took."""
    record = content_hash([*planned.exchanges]) if planned.exchanges else ""
    told = {"reason": why_none(planned), "problems": planned.problems, "record": record}
    return PlanningFailed.model_validate(told | spending(planned.metrics.usage))


def why_none(planned: Planned) -> str:
    """Why there is no plan, for a person."""
    if planned.plan is not None and planned.plan.degraded:
        return planned.plan.degraded
    worst = sorted(planned.problems, key=lambda each: each.severity is not Severity.ERROR)
    return worst[0].message if worst else planned.reason or Sentence("end.model_gave_none")


def _no_plan(planned: Planned) -> e.RunFinished:
    reason = Sentence("end.no_plan", reason=why_none(planned))
    return e.RunFinished(status="failed", reason=reason)


def _said(events: Sequence[e.Event]) -> list[str]:
    """What the person was asked about the request, each time with the answer."""
    asked: dict[str, str] = {}
    said: list[str] = []
    for event in events:
        body = event.body
        if isinstance(body, e.QuestionAsked) and body.asks == "request":
            asked[body.question] = body.text
        elif isinstance(body, e.QuestionAnswered) and body.question in asked:
            said.append(f"{asked[body.question]}\n{body.answer}")
    return said


def shown_first(plan: Plan) -> e.ReviewAsked:
    """The review of a plan that would need none, for whoever wants to see it first."""
    return e.ReviewAsked(hash=plan.hash, reasons=(SEEN_FIRST,))
