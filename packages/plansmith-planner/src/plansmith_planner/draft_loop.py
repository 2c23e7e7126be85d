"""Drafts, parses and checks a plan; sends problems back to the model until the plan is usable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from plansmith.check.autofix import autofix
from plansmith.check.check_plan import check_plan, used_results
from plansmith.check.constraints import Constraint, constraint_problems, step_limit
from plansmith.check.lint import lint_plan
from plansmith.check.names import Catalogue
from plansmith.check.rehearsal import rehearsal_problems, to_repair, to_show
from plansmith.errors import ModelBusy, ModelFailed
from plansmith.formats.dialect import dialect
from plansmith.plan.briefs import total
from plansmith.plan.earlier import NOTHING_EARLIER, Earlier
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Decision, OnStep, Planned, PlanningFigures, PlanRequest
from plansmith.plan.problem import Problem, Severity, has_errors, problem
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import AnyStep, MapStep
from plansmith.ports import PlanBrief, Prompt, Usage
from plansmith.text import visible
from plansmith_planner.context.gather import Context, time_text
from plansmith_planner.draft import Offer, OnText, draft, draft_messages, draft_schema
from plansmith_planner.fallback import fallback
from plansmith_planner.language.constraints import asked_constraints, read_constraint
from plansmith_planner.language.made_up import made_up_values
from plansmith_planner.language.recurrence import without_schedule_words
from plansmith_planner.model_calls import ModelAnswer
from plansmith_planner.parse.earlier_results import with_results
from plansmith_planner.parse.normalize import assigned
from plansmith_planner.parse.reply import Parsed, parse_answer
from plansmith_planner.repair import repair
from plansmith_planner.stages import PlannerDeps, Watch

_DRAFTS = 3


@dataclass
class DraftLoop:
    """The drafts and repairs of one request."""

    request: PlanRequest
    query: str
    locale: str
    deps: PlannerDeps
    offer: Offer
    context: Context
    watch: Watch
    given: str = ""
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    repairs: int = 0
    parsed_at_once: bool = False
    plan: Plan | None = None
    problems: tuple[Problem, ...] = ()

    def __post_init__(self) -> None:
        self.dialect = dialect(self.request.dialect) if self.request.dialect else None
        self.rules = rules_of(self.request, self.deps)
        messages = draft_messages(
            self.query,
            offer=self.offer,
            context=self.context.text,
            max_steps=step_limit(self.rules, self.deps.settings.max_steps),
            locale=self.locale,
            prompts=self.deps.settings.prompts,
            shape=self.request.dialect,
        )
        brief = PlanBrief(
            visible(self.query),
            locale=self.locale,
            tools=tuple(self.offer.tools),
            agents=tuple(self.offer.agents),
            known=self.context.facts,
            now=time_text(self.deps.clock, self.deps.settings.timezone),
            previous=self.request.previous,
            feedback=visible(self.request.feedback),
            enabled=tuple(self.offer.enabled),
        )
        form = draft_schema(self.request.dialect)
        self.prompt = Prompt(messages, schema=form, brief=brief)

    async def run(self, on_step: OnStep, on_text: OnText) -> Planned:
        """Returns a usable plan, or a fallback plan with all problems."""
        try:
            answer = await self._draft(on_step, on_text)
            self.text, self.usage = answer
            with self.watch("parse", Sentence("{count} characters", count=f"{len(self.text):,}")):
                parsed = await parse_answer(
                    self.text, goal=self.query, locale=self.locale, shape=self.request.dialect
                )
            self.parsed_at_once = parsed.plan is not None
            await self._check(parsed)
            while not self._usable and self.repairs < self.deps.settings.repairs:
                before = self.plan, self.problems, self.text
                await self._repair()
                # A plan whose calls may fail is better than none.
                if not has_errors([*to_show(before[1])]) and has_errors([*to_show(self.problems)]):
                    self.plan, self.problems, self.text = before
                    break
        except ModelFailed as failure:
            self.problems = (*self.problems, _model_failed(failure))
        return self._outcome()

    @property
    def _usable(self) -> bool:
        return self.plan is not None and not has_errors(list(self.problems))

    async def _draft(self, on_step: OnStep, on_text: OnText) -> ModelAnswer:
        """Returns the model's text; asks again from the start if an answer breaks off."""
        model = self.deps.plan_model
        for number in range(1, _DRAFTS):
            try:
                with self.watch("draft", Sentence("{model} writes", model=model.name)):
                    return await self._write(on_step, on_text)
            except ModelBusy as busy:
                broke = Sentence(
                    "try {number} broke off: {reason}", number=number, reason=busy.message
                )
                with self.watch("draft", broke):
                    continue
        with self.watch("draft", Sentence("{model} writes, last try", model=model.name)):
            return await self._write(on_step, on_text)

    async def _write(self, on_step: OnStep, on_text: OnText) -> ModelAnswer:
        return await draft(
            self.prompt,
            model=self.deps.plan_model,
            on_step=on_step,
            on_text=on_text,
            on_progress=partial(self.watch.note, "draft"),
        )

    async def _check(self, parsed: Parsed) -> None:
        known = self.deps.earlier
        if parsed.plan is not None and known is not None:
            read = parsed.plan
            if self.request.dialect and known.results:  # our own language has references
                read = with_results(read, {**known.names, **{ref: ref for ref in known.results}})
            parsed = Parsed(known.named(read), parsed.problems)
        if parsed.plan is not None:
            step_text = self.dialect.step_text if self.dialect else None
            named = assigned(parsed.plan, self.deps.agents, step_text)
            parsed = Parsed(named.plan, [*parsed.problems, *named.problems])
        self.plan, self.problems = parsed.plan, tuple(parsed.problems)
        if parsed.plan is None:
            return
        with self.watch("check", Sentence("{count} steps", count=len(parsed.plan.steps))):
            earlier = await used_results(parsed.plan, known) if known else NOTHING_EARLIER
            self.plan, found = check(
                parsed.plan, self.deps, self.rules, self.request.kept, earlier=earlier
            )
            made_up = made_up_values(self.plan, self.deps.tools, self.given)
            self.problems = (*parsed.problems, *found, *made_up, *self._not_offered(self.plan))
            self.problems += await self._rehearsed(self.plan)

    async def _rehearsed(self, plan: Plan) -> tuple[Problem, ...]:
        """Returns what the tools say about the calls of a plan that is right in itself."""
        if has_errors(list(self.problems)):
            return ()
        tools = {spec.name: spec for spec in self.deps.tools}
        return to_repair(await rehearsal_problems(plan, tools, self.deps.rehearse))

    def _not_offered(self, plan: Plan) -> Iterator[Problem]:
        """Yields the calls of what exists but was not offered, where the shortlist is strict."""
        if not self.deps.settings.strict_shortlist:
            return
        offered = [each.name for each in self.offer.tools]
        offered += [each.name for each in self.offer.agents]
        others = {tool.name for tool in self.deps.tools} | {each.name for each in self.deps.agents}
        for step in plan.steps:
            inner = step.each if isinstance(step, MapStep) else step
            for kind, code in (("tool", "PS101"), ("agent", "PS102")):
                name = getattr(inner, kind, "")
                if name in others and name not in offered:
                    text = Sentence("'{name}' was not offered for this request", name=name)
                    hint = Sentence("use one of {tools}", tools=offered)
                    yield problem(code, text, hint=hint, step=inner.id, path=(kind,))

    async def _repair(self) -> None:
        self.repairs += 1
        errors = sum(each.severity is Severity.ERROR for each in self.problems)
        told = Sentence("round {number}, {errors} errors", number=self.repairs, errors=errors)
        with self.watch("repair", told):
            fixed = await repair(
                self.prompt,
                self.text,
                self.plan,
                self.problems,
                model=self.deps.plan_model,
                goal=self.query,
                locale=self.locale,
                prompts=self.deps.settings.prompts,
                shape=self.request.dialect,
            )
        self.usage = total(self.usage, fixed.usage)
        self.text = fixed.text or self.text
        await self._check(fixed.parsed)

    def _outcome(self) -> Planned:
        self.problems = to_show(self.problems)
        usable = self._usable
        substitute = None if usable else self._substitute()
        final = self.plan if usable else substitute
        if final is not None and self.request.previous is not None:
            final = final.replace(revision=self.request.previous.revision + 1)
        return Planned(
            Decision.PLAN,
            locale=self.locale,
            plan=final,
            draft=None if usable else self.plan,
            problems=self.problems,
            text=self.text,
            metrics=self._metrics(final, degraded=substitute is not None),
        )

    def _metrics(self, final: Plan | None, *, degraded: bool) -> PlanningFigures:
        return PlanningFigures(
            parsed=self.plan is not None,
            parsed_at_once=self.parsed_at_once,
            enough_context=self.plan is not None and self.plan.enough_context,
            degraded=degraded,
            # As in the limit on steps, what only asks or answers does not count.
            steps=sum(each.kind not in ("ask", "reply") for each in final.steps) if final else 0,
            repairs=self.repairs,
        ).spent(self.usage)

    def _substitute(self) -> Plan | None:
        return fallback(
            self.deps.settings.fallback,
            request=self.query,
            text=self.text,
            reason=self._why_no_plan(),
            locale=self.locale,
            agent=self.offer.agents[0].name if self.offer.agents else None,
            language=self.dialect.language if self.dialect else "",
        )

    def _why_no_plan(self) -> str:
        """Returns the worst problem; when the model failed, also what a person can do about it."""
        if not self.problems:
            return in_language(Sentence("ps.no_plan"), self.locale)
        worst = min(self.problems, key=lambda each: each.severity is not Severity.ERROR)
        why = in_language(worst.message, self.locale)
        if worst.code != "PS015" or not worst.hint:
            return why
        return f"{why} ({in_language(worst.hint, self.locale)})"


def check(
    plan: Plan,
    deps: PlannerDeps,
    rules: Sequence[Constraint] = (),
    kept: Sequence[AnyStep] = (),
    *,
    earlier: Earlier = NOTHING_EARLIER,
) -> tuple[Plan, list[Problem]]:
    """Returns the plan with obvious mistakes corrected, and the problems that are left.

    The rules hold for the plan with the steps that are kept in it.
    """
    bare, notes = without_schedule_words(plan)
    fixed = autofix(
        bare, deps.tools, agents=deps.agents, ask_for_missing=deps.settings.ask_for_missing
    )
    problems = check_plan(
        fixed.plan,
        deps.tools,
        agents=deps.agents,
        templates=deps.templates,
        max_steps=deps.settings.max_steps,
        earlier=earlier,
    )
    names = {step.id for step in kept}
    others = (step for step in fixed.plan.steps if step.id not in names)
    whole = fixed.plan.replace(steps=(*kept, *others)) if kept else fixed.plan
    known = Catalogue.of(deps.tools), rules, deps.agents, deps.templates
    problems += constraint_problems(whole, *known)
    return fixed.plan, [*notes, *fixed.problems, *problems, *lint_plan(fixed.plan, deps.tools)]


def rules_of(request: PlanRequest, deps: PlannerDeps) -> list[Constraint]:
    """Returns the rules for a plan: those of the profile, and those in the person's words."""
    names = {*(tool.name for tool in deps.tools), *(agent.name for agent in deps.agents)}
    asked = asked_constraints(request.text, names)
    profile = request.profile
    if profile is None:
        return asked
    hard = [read_constraint(text) for text in profile.hard_constraints]
    soft = [read_constraint(text, hard=False) for text in profile.soft_constraints]
    return [*hard, *soft, *asked]


def _model_failed(failure: ModelFailed) -> Problem:
    hint = failure.hint or Sentence("look at the model's settings, or try again")
    return problem(
        "PS015",
        Sentence("the model gave no usable answer: {reason}", reason=failure.message),
        hint=hint,
    )
