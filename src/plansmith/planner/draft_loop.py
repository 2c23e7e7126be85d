"""Drafts, parses and checks a plan; sends problems back to the model until the plan is usable."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from plansmith.errors import ModelBusy, ModelFailed
from plansmith.plan.data import Json
from plansmith.plan.estimate import Estimate
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem, Severity, has_errors, problem
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import MapStep
from plansmith.planner.check.autofix import autofix
from plansmith.planner.check.check_plan import check_plan
from plansmith.planner.check.constraints import Constraint, read_constraint
from plansmith.planner.check.lint import lint_plan
from plansmith.planner.check.made_up import made_up_values
from plansmith.planner.context.gather import Context, time_text
from plansmith.planner.context.profile import Profile
from plansmith.planner.draft import Offer, OnStep, OnText, draft, draft_messages, draft_schema
from plansmith.planner.estimate import estimate
from plansmith.planner.fallback import fallback
from plansmith.planner.model_calls import ModelAnswer, read_answer, render, total
from plansmith.planner.parse.normalize import assigned
from plansmith.planner.parse.reply import Parsed, parse
from plansmith.planner.request import PlanMetrics, Planned, PlannerDeps, PlanRequest, Watch
from plansmith.planner.triage import Decision
from plansmith.ports import Brief, ChatModel, Message, PlanBrief, Prompt, Usage
from plansmith.text import visible

_MOST_PROBLEMS: Final = 20
_WHOLE: Final = "Write the whole plan again."


class Repaired(NamedTuple):
    """The mended plan with its reading, and what asking took."""

    parsed: Parsed
    text: str
    usage: Usage


async def repair(  # noqa: PLR0913 - all that tells how by name
    prompt: Prompt,
    text: str,
    plan: Plan | None,
    problems: Sequence[Problem],
    *,
    model: ChatModel,
    goal: str,
    locale: str,
    prompts: Path | None = None,
    shape: str = "",
) -> Repaired:
    """One round: request, tools, text and problems go to the model; its answer is read.

    When only some steps are broken, only they are asked for, and put in their places; a plan in
    another system's shape is asked for whole, since steps have no ids there.
    """
    errors = [each for each in problems if each.severity is Severity.ERROR]
    broken = _broken_steps(plan, errors) if not shape else []
    what = _what(broken) if broken else _WHOLE
    told = render("repair", folder=prompts, problems=_problem_lines(errors), what=what)
    messages = [*prompt.messages, Message("assistant", text), Message("user", told)]
    heard = await read_answer(model.stream(Prompt(messages, brief=_brief(prompt.brief, errors))))
    parsed = parse(heard.text, goal=goal, locale=locale, shape=shape)
    if broken and plan is not None and parsed.plan is not None:
        parsed = Parsed(_spliced(plan, parsed.plan, broken), parsed.problems)
    return Repaired(parsed, heard.text, heard.usage)


def _brief(brief: Brief | None, errors: Sequence[Problem]) -> Brief | None:
    if not isinstance(brief, PlanBrief):
        return brief
    return replace(brief, problems=tuple(each.message for each in errors[:_MOST_PROBLEMS]))


def _broken_steps(plan: Plan | None, errors: Sequence[Problem]) -> list[str]:
    """The steps to ask for again, or none when the whole plan is needed."""
    if plan is None or not errors:
        return []
    names = {each.step for each in errors}
    inner = {step.each.id: step.id for step in plan.steps if isinstance(step, MapStep)}
    named = {inner.get(name or "", name) for name in names}
    if not all(name in plan.by_id for name in named) or len(named) * 2 > len(plan.steps):
        return []
    return [step.id for step in plan.steps if step.id in named]


def _what(broken: Sequence[str]) -> str:
    names = json.dumps(broken, ensure_ascii=False)
    return f'Write only these steps again, under their ids: {names}, as {{"steps": […]}}.'


def _problem_lines(problems: Sequence[Problem]) -> str:
    lines: list[str] = []
    for each in problems[:_MOST_PROBLEMS]:
        line: dict[str, Json] = {
            "code": each.code,
            "step": each.step,
            "field": ".".join(map(str, each.path)),
            "problem": each.message,
            "hint": each.hint,
        }
        lines.append(json.dumps(line, ensure_ascii=False))
    if len(problems) > _MOST_PROBLEMS:
        lines.append(json.dumps({"problem": f"and {len(problems) - _MOST_PROBLEMS} more"}))
    return "\n".join(lines)


def _spliced(plan: Plan, answer: Plan, broken: Sequence[str]) -> Plan:
    """The plan with the broken steps replaced; a whole plan in answer replaces it whole."""
    if len(answer.steps) >= len(plan.steps):
        return answer
    fresh = dict(answer.by_id)
    steps = [fresh.pop(step.id, step) if step.id in broken else step for step in plan.steps]
    new = [step for name, step in fresh.items() if name not in plan.by_id]
    return plan.replace(steps=(*new, *steps))


_DRAFTS = 3


@dataclass
class DraftLoop:
    """The rounds for one request; what they came to so far."""

    request: PlanRequest
    query: str
    locale: str
    deps: PlannerDeps
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
            max_steps=self.deps.settings.max_steps,
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
            while not self._usable and self.repairs < self.deps.settings.repairs:
                await self._repair()
        except ModelFailed as failure:
            self.problems = (*self.problems, _model_failed(failure))
        return self._outcome()

    @property
    def _usable(self) -> bool:
        return self.plan is not None and not has_errors(list(self.problems))

    async def _draft(self, on_step: OnStep, on_text: OnText) -> ModelAnswer:
        """The model's text; an answer that breaks off half-way is asked for again, whole."""
        model = self.deps.plan_model
        for number in range(1, _DRAFTS):
            try:
                with self.watch("draft", f"{model.name} writes"):
                    return await self._write(on_step, on_text)
            except ModelBusy as busy:
                with self.watch("draft", f"try {number} broke off: {busy.message}"):
                    continue
        with self.watch("draft", f"{model.name} writes, last try"):
            return await self._write(on_step, on_text)

    async def _write(self, on_step: OnStep, on_text: OnText) -> ModelAnswer:
        return await draft(
            self.prompt, model=self.deps.plan_model, on_step=on_step, on_text=on_text
        )

    def _check(self, parsed: Parsed) -> None:
        if parsed.plan is not None:
            tags = self.request.dialect == "openmanus"
            named = assigned(parsed.plan, self.deps.agents, tags=tags)
            parsed = Parsed(named.plan, [*parsed.problems, *named.problems])
        self.plan, self.problems = parsed.plan, tuple(parsed.problems)
        if parsed.plan is None:
            return
        with self.watch("check", f"{len(parsed.plan.steps)} steps"):
            self.plan, found = check(parsed.plan, self.deps, self.request.profile)
            made_up = made_up_values(self.plan, self.deps.tools, self.told)
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
                model=self.deps.plan_model,
                goal=self.query,
                locale=self.locale,
                prompts=self.deps.settings.prompts,
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
            estimate=estimate_with(final, self.deps) if final else None,
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
            self.deps.settings.fallback,
            request=self.query,
            text=self.text,
            reason=in_language(worst[0].message if worst else Sentence("ps.no_plan"), self.locale),
            locale=self.locale,
            agent=self.offer.agents[0].name if self.offer.agents else None,
        )


def check(
    plan: Plan, deps: PlannerDeps, profile: Profile | None = None
) -> tuple[Plan, list[Problem]]:
    """The plan with what can be mended mended, and every problem that is left."""
    mended = autofix(
        plan, deps.tools, agents=deps.agents, ask_for_missing=deps.settings.ask_for_missing
    )
    problems = check_plan(
        mended.plan,
        deps.tools,
        agents=deps.agents,
        templates=deps.templates,
        max_steps=deps.settings.max_steps,
        constraints=_constraints(profile) if profile else None,
    )
    return mended.plan, [*mended.problems, *problems, *lint_plan(mended.plan, deps.tools)]


def _constraints(profile: Profile) -> list[Constraint]:
    hard = [read_constraint(text) for text in profile.hard_constraints]
    return hard + [read_constraint(text, hard=False) for text in profile.soft_constraints]


def estimate_with(plan: Plan, deps: PlannerDeps) -> Estimate:
    """The estimate of a plan by what the kit knows."""
    return estimate(
        plan,
        deps.tools,
        agents=deps.agents,
        past=deps.past,
        price_per_million=deps.price_per_million,
    )


def _model_failed(failure: ModelFailed) -> Problem:
    hint = failure.hint or Sentence("hint.model_settings")
    return problem("PS015", Sentence("ps.no_answer", reason=failure.message), hint=hint)
