"""Planning: a request becomes a run with a plan, also after a crash and after more was said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, cast

from plansmith.errors import JournalDamaged, Misconfigured, RunBusy
from plansmith.plan import events as e
from plansmith.plan.data import Json, content_hash
from plansmith.plan.next_move import MakePlan, next_move, sees_first
from plansmith.plan.plan import Plan
from plansmith.plan.planning_events import PlanningFailed
from plansmith.plan.problem import Severity
from plansmith.plan.run import Run
from plansmith.plan.steps import AnyStep
from plansmith.planner.draft import OnStep
from plansmith.planner.fallback import only_stands_in
from plansmith.planner.kit import Kit, Planned, PlanRequest, Tell
from plansmith.planner.metrics import MetricTotals, PlanMetrics
from plansmith.planner.pipeline import make_plan
from plansmith.planner.settings import PlannerSettings
from plansmith.planner.shortlist import SemanticRanker
from plansmith.planner.transcript import Transcript
from plansmith.planner.triage import Decision
from plansmith.ports import ChatModel, ContextSource
from plansmith.runner.batch import spending
from plansmith.runner.budget import Budget, BudgetLimits
from plansmith.runner.call import Callees
from plansmith.runner.compose import Composer
from plansmith.runner.early import EarlyReads, left_open, wanted_by
from plansmith.runner.execute import Conductor
from plansmith.runner.journal import Entry, Journal
from plansmith.runner.patience import PatientStore
from plansmith.runner.runs import Runs, shown_first
from plansmith.runner.templates import plan_steps, runs_templates, template_problems

CLARIFICATIONS: Final = 2
RULES: Final = "rules"  # the name of the model that is none


def _wait_for_the_plan(_: AnyStep) -> None:
    """Start nothing before the plan is complete."""


def _tell_nobody(_: str) -> None:
    """Planning goes on unseen."""


class Planning(Runs):
    """Makes plans with a model, and words replies with one."""

    def __init__(
        self,
        *,
        model: ChatModel | None = None,
        triage_model: ChatModel | None = None,
        report_model: ChatModel | None = None,
        context: Sequence[ContextSource] = (),
        ranker: SemanticRanker | None = None,
        planner: PlannerSettings | None = None,
        early_start: bool = True,
        tell: Tell = _tell_nobody,
        **runs: Any,
    ) -> None:
        super().__init__(**runs)
        self.early_start = early_start
        self.tell = tell
        self.patience.tell = lambda text: self.tell(text)  # noqa: PLW0108 - `tell` may change
        self._model = model
        self._triage_model = triage_model or model
        self._report_model = report_model or model
        self._context = list(context)
        self._ranker = ranker
        self._planner = planner or PlannerSettings()
        self._early: dict[str, EarlyReads] = {}
        self._planning: set[str] = set()

    async def plan(self, request: str, *, by: e.Who = "", **options: Any) -> Run:
        """A run with a checked plan for a request, waiting for review if it has to.

        Options are those of a `PlanRequest`: locale, target, profile, history, top_k.
        """
        wanted = PlanRequest(request, **options)
        self.need_model()
        journal = self.new_journal()
        created = e.RunCreated(request=request, options=wanted.options())
        await journal.append(created, by=e.actor(by))
        await self.plan_into(journal, wanted)
        return await self.whole(journal)

    async def plan_into(self, journal: Journal, request: PlanRequest) -> None:
        """Plan what a run was created for; also after a crash, and after the person said more."""
        self.require_here(f"run {journal.id}", journal.run.folder)
        async with self.owners.owning(journal.id):
            await self._plan_into(journal, request)

    async def _plan_into(self, journal: Journal, request: PlanRequest) -> None:
        journal.wait_for(PatientStore(self.patience))
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
            runs_on = planned.plan is not None and not await self.review(planned.plan)
            keep = wanted_by(planned.plan) if planned.plan and runs_on else ()
            await self.settle_early(journal, keep)
            await self._take(journal, planned)
        finally:
            self._planning.discard(journal.id)
            if journal.run.plan is None:
                await self.drop_early(journal.id)

    async def _starter(self, journal: Journal) -> OnStep:
        """What starts reads early; nothing where a person wants to see every plan first."""
        if not self.early_start or sees_first(journal.run) or self.policy.ask == "always":
            return _wait_for_the_plan
        early = EarlyReads(journal, await self.callees(), tell=self.tell)
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
            await self.propose_made(journal, planned, start=[e.Triaged.model_validate(head)])
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

    async def propose_made(
        self, journal: Journal, planned: Planned, *, cause: str = "", **entries: Sequence[Entry]
    ) -> None:
        """Put a plan forward that a model made, with how it was made."""
        assert planned.plan is not None  # noqa: S101
        picks = [{"name": each.name, "reason": each.reason} for each in planned.picks]
        about: dict[str, Any] = {
            "origin": self.maker_of(planned),
            "cause": cause,
            "metrics": planned.metrics.to_json(),
            "picks": picks,
            **spending(planned.metrics.usage),
        }
        said = exchanged(planned)
        if said:
            about["record"] = content_hash(said[0])
        given = cast("dict[str, Any]", entries)
        if sees_first(journal.run) and "reviewed" not in given:
            given["reviewed"] = await self.review(planned.plan) or [shown_first(planned.plan)]
        await self.propose(
            journal, planned.plan, planned.problems, about=about, values=said, **given
        )

    def maker_of(self, planned: Planned) -> str:
        """Who made a plan: a model, or rules, where no model took part."""
        asked = {str(each["model"]) for each in planned.exchanges}
        return "model" if asked - {RULES} else "rules"

    async def answer(self, run_id: str, question: str, value: Json, *, by: e.Who = "") -> Run:
        """A person's answer; one to a question about the request itself leads to a plan."""
        run = await super().answer(run_id, question, value, by=by)
        if run.plan is None and not run.status.over:
            journal = await self.journal(run_id)
            await self.plan_into(journal, PlanRequest.of(run.request, run.options))
            return await self.whole(journal)
        return run

    def need_model(self) -> ChatModel:
        if self._model is None:
            raise Misconfigured("there is no model to plan with", hint="give Plansmith(model=…)")
        return self._model

    async def make(
        self, request: PlanRequest, *, on_step: OnStep = _wait_for_the_plan, triage: bool = True
    ) -> Planned:
        callees = await self.callees()
        triages = triage and self._planner.triage
        transcript = Transcript()
        kit = Kit(
            plan_model=transcript.of(self.need_model()),
            triage_model=transcript.of(self._triage_model)
            if triages and self._triage_model
            else None,
            clock=self.clock,
            tools=list(callees.specs.values()),
            agents=self.agents(),
            templates=await self._templates_for(request),
            sources=self._context,
            search=self.search(),
            ranker=self._ranker,
            settings=self._planner_for(request),
            past=(await self.past()).costs,
            price_per_million=self.price_per_million,
        )
        made = await make_plan(request, kit=kit, tell=self.tell, on_step=on_step)
        made = replace(made, exchanges=tuple(transcript.exchanges))
        if made.plan is None or not runs_templates(made.plan):
            return made
        plan = await self.pinned(made.plan)
        found = template_problems(plan, await self.load_templates())
        return replace(made, plan=plan, problems=(*made.problems, *found))

    async def _templates_for(self, request: PlanRequest) -> list[str]:
        """The newest templates, and the versions that the plan to be revised runs."""
        before = [step.template for _, step in plan_steps(request.previous or Plan())]
        known = await self.load_templates()
        names = [name for name in known if "@" not in name]
        return [*names, *dict.fromkeys(name for name in before if name in known and "@" in name)]

    def _planner_for(self, request: PlanRequest) -> PlannerSettings:
        most = request.max_steps
        return self._planner if most is None else self._planner.replace(max_steps=most)

    def budget_of(self, run: Run) -> Budget:
        """What a run may still take, by limits of its own where it was given some."""
        own = cast("dict[str, Any] | None", run.options.get("budget"))
        if not own:
            return super().budget_of(run)
        limits = BudgetLimits(**own)
        if limits.money is not None:
            limits = replace(limits, money=Decimal(limits.money))
        price = self.price_per_million
        return Budget.of_run(limits, run, parent=self._shared, price_per_million=price)

    def equip(self, callees: Callees, run: Run) -> Callees:
        """What a run can call: replies are worded by the model, in the run's language."""
        early = self._early.get(run.id)
        if self._report_model is None:
            return replace(callees, early=early)
        prompts = self._planner.prompts
        composer = Composer(self._report_model, locale=run.locale, prompts=prompts)
        return replace(callees, compose=composer, early=early)

    async def _conductor(self, journal: Journal) -> Conductor:
        """What conducts a run, once it is written how the reads before it ended."""
        await self.settle_early(journal)
        return await super()._conductor(journal)

    async def drop_early(self, run_id: str) -> None:
        """Let go of reads that were started early and that no step has asked for."""
        early = self._early.pop(run_id, None)
        if early is not None:
            await early.drop()

    async def close(self) -> None:
        """Stop conducting, leaving every run to be resumed, and let go of all that is held."""
        for run_id in list(self._early):
            await self.drop_early(run_id)
        await super().close()

    async def resume_all(self, *, busy: Callable[[RunBusy], None] = lambda _: None) -> list[Run]:
        """After a restart: plan what was not planned yet, and go on with all that was under way."""
        for run_id in await self.store.open_runs() if self._model is not None else ():
            with suppress(JournalDamaged):  # told by what follows
                journal = await self.journal(run_id)
                if not self.is_here(journal.run.folder):
                    continue
                try:
                    await self.complete(journal)
                except RunBusy as error:
                    busy(error)
        return await super().resume_all(busy=busy)

    async def complete(self, journal: Journal) -> None:
        """Make a plan whose making was cut off."""
        if self._model is None or journal.id in self._planning or journal.id in self._active:
            return
        run = journal.run
        match next_move(run):
            case MakePlan(changed=True):
                async with self.owners.owning(journal.id):
                    await self.change(journal)
            case MakePlan():
                await self.plan_into(journal, PlanRequest.of(run.request, run.options))
            case _:
                return

    async def change(self, journal: Journal) -> None:
        """Make the plan a person asked for."""
        raise NotImplementedError

    async def metrics(self) -> dict[str, Json]:
        """How planning went over all runs: parse success, steps, repairs, latency, cost."""
        totals = MetricTotals()
        for run in await self.runs():
            if run.metrics is not None:
                totals.add(PlanMetrics.of(run.metrics))
        return totals.to_json()


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
    return worst[0].message if worst else planned.reason or "the model gave none"


def _no_plan(planned: Planned) -> e.RunFinished:
    return e.RunFinished(status="failed", reason=f"no plan could be made: {why_none(planned)}")


def _said(events: Sequence[e.Event]) -> list[str]:
    """What the person was asked about the request, each time with the answer."""
    asked: dict[str, str] = {}
    said: list[str] = []
    for event in events:
        body = event.body
        if isinstance(body, e.QuestionAsked):
            asked[body.question] = body.text
        elif isinstance(body, e.QuestionAnswered) and body.question.startswith("request:"):
            said.append(f"{asked[body.question]}\n{body.answer}")
    return said
