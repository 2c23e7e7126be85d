"""Rounds: draft, parse and check, and repair until a plan stands or its stand-in does."""

from __future__ import annotations

from dataclasses import dataclass, field

from plansmith.errors import ModelBusy, ModelFailed
from plansmith.plan.estimate import Estimate
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity, has_errors, problem
from plansmith.plan.sentence import Sentence, in_language
from plansmith.planner.briefing.profile import Profile
from plansmith.planner.check import check_plan
from plansmith.planner.checking.constraints import Constraint, read_constraint
from plansmith.planner.checking.made_up import made_up_values
from plansmith.planner.context import Context, time_text
from plansmith.planner.draft import Offer, OnStep, OnText, draft, draft_messages, draft_schema
from plansmith.planner.estimate import estimate
from plansmith.planner.fallback import fallback
from plansmith.planner.kit import Kit, Planned, PlanRequest, Watch
from plansmith.planner.lint import lint_plan
from plansmith.planner.listen import Heard, total
from plansmith.planner.mend import mend
from plansmith.planner.metrics import PlanMetrics
from plansmith.planner.parse import Parsed, parse
from plansmith.planner.repair import repair
from plansmith.planner.shape import assigned
from plansmith.planner.triage import Decision
from plansmith.ports import PlanBrief, Prompt, Usage
from plansmith.text import visible

_DRAFTS = 3


@dataclass
class Rounds:
    """The rounds for one request; what they came to so far."""

    request: PlanRequest
    query: str
    locale: str
    kit: Kit
    offer: Offer
    context: Context
    watch: Watch
    told: str = ""
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    repairs: int = 0
    parsed_at_once: bool = False
    plan: Plan | None = None
    problems: tuple[Problem, ...] = ()

    def __post_init__(self) -> None:
        messages = draft_messages(
            self.query,
            offer=self.offer,
            context=self.context.text,
            max_steps=self.kit.settings.max_steps,
            locale=self.locale,
            prompts=self.kit.settings.prompts,
            shape=self.request.dialect,
        )
        brief = PlanBrief(
            visible(self.query),
            locale=self.locale,
            tools=tuple(self.offer.tools),
            agents=tuple(self.offer.agents),
            known=self.context.facts,
            now=time_text(self.kit.clock, self.kit.settings.timezone),
            previous=self.request.previous,
            feedback=visible(self.request.feedback),
        )
        form = draft_schema(self.request.dialect)
        self.prompt = Prompt(messages, schema=form, brief=brief)

    async def run(self, on_step: OnStep, on_text: OnText) -> Planned:
        """A usable plan, or its stand-in together with all that was wrong."""
        try:
            heard = await self._draft(on_step, on_text)
            self.text, self.usage = heard
            with self.watch("parse", f"{len(self.text):,} characters"):
                parsed = parse(
                    self.text, goal=self.query, locale=self.locale, shape=self.request.dialect
                )
            self.parsed_at_once = parsed.plan is not None
            self._check(parsed)
            while not self._usable and self.repairs < self.kit.settings.repairs:
                await self._repair()
        except ModelFailed as failure:
            self.problems = (*self.problems, _model_failed(failure))
        return self._outcome()

    @property
    def _usable(self) -> bool:
        return self.plan is not None and not has_errors(list(self.problems))

    async def _draft(self, on_step: OnStep, on_text: OnText) -> Heard:
        """The model's text; an answer that breaks off half-way is asked for again, whole."""
        model = self.kit.plan_model
        for number in range(1, _DRAFTS):
            try:
                with self.watch("draft", f"{model.name} writes"):
                    return await self._write(on_step, on_text)
            except ModelBusy as busy:
                with self.watch("draft", f"try {number} broke off: {busy.message}"):
                    continue
        with self.watch("draft", f"{model.name} writes, last try"):
            return await self._write(on_step, on_text)

    async def _write(self, on_step: OnStep, on_text: OnText) -> Heard:
        return await draft(self.prompt, model=self.kit.plan_model, on_step=on_step, on_text=on_text)

    def _check(self, parsed: Parsed) -> None:
        if parsed.plan is not None:
            tags = self.request.dialect == "openmanus"
            named = assigned(parsed.plan, self.kit.agents, tags=tags)
            parsed = Parsed(named.plan, [*parsed.problems, *named.problems])
        self.plan, self.problems = parsed.plan, tuple(parsed.problems)
        if parsed.plan is None:
            return
        with self.watch("check", f"{len(parsed.plan.steps)} steps"):
            self.plan, found = check(parsed.plan, self.kit, self.request.profile)
            made_up = made_up_values(self.plan, self.kit.tools, self.told)
            self.problems = (*parsed.problems, *found, *made_up)

    async def _repair(self) -> None:
        self.repairs += 1
        errors = sum(each.severity is Severity.ERROR for each in self.problems)
        with self.watch("repair", f"round {self.repairs}, {errors} errors"):
            mended = await repair(
                self.prompt,
                self.text,
                self.plan,
                self.problems,
                model=self.kit.plan_model,
                goal=self.query,
                locale=self.locale,
                prompts=self.kit.settings.prompts,
                shape=self.request.dialect,
            )
        self.usage = total(self.usage, mended.usage)
        self.text = mended.text or self.text
        self._check(mended.parsed)

    def _outcome(self) -> Planned:
        usable = self._usable
        stand_in = None if usable else self._stand_in()
        final = stand_in or self.plan
        if final is not None and self.request.previous is not None:
            final = final.replace(revision=self.request.previous.revision + 1)
        return Planned(
            Decision.PLAN,
            locale=self.locale,
            plan=final,
            draft=None if usable else self.plan,
            problems=self.problems,
            text=self.text,
            estimate=estimate_with(final, self.kit) if final else None,
            metrics=self._metrics(final, degraded=stand_in is not None),
        )

    def _metrics(self, final: Plan | None, *, degraded: bool) -> PlanMetrics:
        return PlanMetrics(
            parsed=self.plan is not None,
            parsed_at_once=self.parsed_at_once,
            enough_context=self.plan is not None and self.plan.enough_context,
            degraded=degraded,
            steps=len(final.steps) if final else 0,
            repairs=self.repairs,
            usage=self.usage,
        )

    def _stand_in(self) -> Plan | None:
        worst = sorted(self.problems, key=lambda each: each.severity is not Severity.ERROR)
        return fallback(
            self.kit.settings.fallback,
            request=self.query,
            text=self.text,
            reason=in_language(worst[0].message if worst else Sentence("ps.no_plan"), self.locale),
            locale=self.locale,
            agent=self.offer.agents[0].name if self.offer.agents else None,
        )


def check(plan: Plan, kit: Kit, profile: Profile | None = None) -> tuple[Plan, list[Problem]]:
    """The plan with what can be mended mended, and every problem that is left."""
    mended = mend(plan, kit.tools, agents=kit.agents, ask_for_missing=kit.settings.ask_for_missing)
    problems = check_plan(
        mended.plan,
        kit.tools,
        agents=kit.agents,
        templates=kit.templates,
        max_steps=kit.settings.max_steps,
        constraints=_constraints(profile) if profile else None,
    )
    return mended.plan, [*mended.problems, *problems, *lint_plan(mended.plan, kit.tools)]


def _constraints(profile: Profile) -> list[Constraint]:
    hard = [read_constraint(text) for text in profile.hard_constraints]
    return hard + [read_constraint(text, hard=False) for text in profile.soft_constraints]


def estimate_with(plan: Plan, kit: Kit) -> Estimate:
    """The estimate of a plan by what the kit knows."""
    return estimate(
        plan, kit.tools, agents=kit.agents, past=kit.past, price_per_million=kit.price_per_million
    )


def _model_failed(failure: ModelFailed) -> Problem:
    hint = failure.hint or Sentence("hint.model_settings")
    return problem("PS015", Sentence("ps.no_answer", reason=failure.message), hint=hint)
