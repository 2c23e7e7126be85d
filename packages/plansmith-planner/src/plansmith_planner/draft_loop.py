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
from plansmith_planner.draft import Offer, OnText, StepStream, draft_messages, draft_schema
from plansmith_planner.fallback import fallback
from plansmith_planner.language.constraints import asked_constraints, read_constraint
from plansmith_planner.language.made_up import made_up_values
from plansmith_planner.language.recurrence import without_schedule_words
from plansmith_planner.model_calls import ModelAnswer, read_answer
from plansmith_planner.parse.earlier_results import with_results
from plansmith_planner.parse.normalize import assigned
from plansmith_planner.parse.reply import Parsed, parse_answer
from plansmith_planner.repair import broken_steps, repair_prompt, spliced
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
                parsed = await self._parsed(self.text)
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
        name = self.deps.plan_model.name
        told = Sentence("{model} writes", model=name)
        for number in range(1, _DRAFTS):
            try:
                with self.watch("draft", told):
                    return await self._write(on_step, on_text)
            except ModelBusy as busy:
                why = busy.message
                broke = Sentence("try {number} broke off: {reason}", number=number, reason=why)
                self.watch.note("draft", broke, begins=True)
        with self.watch("draft", Sentence("{model} writes, last try", model=name)):
            return await self._write(on_step, on_text)

    async def _write(self, on_step: OnStep, on_text: OnText) -> ModelAnswer:
        steps = StepStream(on_step)

        def on_piece(piece: str) -> None:
            on_text(piece)
            steps.feed(piece)

        stream = self.deps.plan_model.stream(self.prompt)
        return await read_answer(stream, on_piece, partial(self.watch.note, "draft"))

    async def _check(self, parsed: Parsed) -> None:
        plan, known = parsed.plan, self.deps.earlier
        self.plan, self.problems = plan, tuple(parsed.problems)
        if plan is None:
            return
        if known is not None:
            if self.request.dialect and known.results:  # our own language has references
                plan = with_results(plan, {**known.names, **{ref: ref for ref in known.results}})
            plan = known.named(plan)
        step_text = self.dialect.step_text if self.dialect else None
        plan, notes = assigned(plan, self.deps.agents, step_text)
        with self.watch("check", Sentence("{count} steps", count=len(plan.steps))):
            earlier = await used_results(plan, known) if known else NOTHING_EARLIER
            plan, found = check(plan, self.deps, self.rules, self.request.kept, earlier=earlier)
            made_up = made_up_values(plan, self.deps.tools, self.given)
            self.plan = plan
            self.problems += (*notes, *found, *made_up, *self._not_offered(plan))
            self.problems += await self._rehearsed(plan)

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
        """Has the model rewrite what is wrong: only the broken steps where these are few.

        A plan in another system's shape is always rewritten whole, since its steps have no ids.
        """
        self.repairs += 1
        errors = [each for each in self.problems if each.severity is Severity.ERROR]
        broken = broken_steps(self.plan, errors) if not self.request.dialect else []
        count = len(errors)
        told = Sentence("round {number}, {errors} errors", number=self.repairs, errors=count)
        with self.watch("repair", told):
            prompt = repair_prompt(
                self.prompt, self.text, errors, broken, prompts=self.deps.settings.prompts
            )
            answer = await read_answer(self.deps.plan_model.stream(prompt))
            parsed = await self._parsed(answer.text)
            if broken and self.plan is not None and parsed.plan is not None:
                parsed = Parsed(spliced(self.plan, parsed.plan, broken), parsed.problems)
        self.usage = total(self.usage, answer.usage)
        self.text = answer.text or self.text
        await self._check(parsed)

    async def _parsed(self, text: str) -> Parsed:
        shape = self.request.dialect
        return await parse_answer(text, goal=self.query, locale=self.locale, shape=shape)

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
            metrics=PlanningFigures(
                parsed=self.plan is not None,
                parsed_at_once=self.parsed_at_once,
                enough_context=self.plan is not None and self.plan.enough_context,
                degraded=substitute is not None,
                # As in the limit on steps, what only asks or answers does not count.
                steps=sum(step.kind not in ("ask", "reply") for step in final.steps)
                if final
                else 0,
                repairs=self.repairs,
            ).spent(self.usage),
        )

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
    message = Sentence("the model gave no usable answer: {reason}", reason=failure.message)
    return problem("PS015", message, hint=hint)
