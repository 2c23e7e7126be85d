"""Drafts a plan: what a model is told, and its errors sent back until the plan is usable."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from plansmith.check.check_plan import check_plan, used_results
from plansmith.check.constraints import Constraint, constraint_problems, step_limit
from plansmith.check.lint import lint_plan
from plansmith.check.names import Catalogue
from plansmith.check.rehearsal import WOULD_FAIL, rehearsal_problems
from plansmith.errors import ModelBusy, ModelFailed
from plansmith.formats.native import schema
from plansmith.plan.briefs import total
from plansmith.plan.capability import AgentSpec, ToolSpec
from plansmith.plan.data import Json
from plansmith.plan.earlier import NO_RESULTS
from plansmith.plan.graph import downstream
from plansmith.plan.plan import Plan
from plansmith.plan.planning import Decision, Planned, PlanningFigures, PlanRequest
from plansmith.plan.problem import Problem, Severity, has_errors, problem
from plansmith.plan.refs import escape_text
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.steps import AnyStep, MapStep, ReplyStep
from plansmith.ports import Message, PlanBrief, Prompt, Usage
from plansmith.text import visible
from plansmith_planner.autofix import autofix
from plansmith_planner.context.fence import fence
from plansmith_planner.context.gather import Context, time_text
from plansmith_planner.context.history import RunOutcome
from plansmith_planner.dialect import Reading, dialect
from plansmith_planner.language.constraints import asked_constraints, read_constraint
from plansmith_planner.language.made_up import made_up_values
from plansmith_planner.language.recurrence import without_schedule_words
from plansmith_planner.model_calls import ModelAnswer, read_answer, render
from plansmith_planner.parse.normalize import assigned, with_results
from plansmith_planner.parse.read import JsonStream
from plansmith_planner.parse.reply import parse_answer, parse_value
from plansmith_planner.settings import Fallback
from plansmith_planner.stages import PlannerDeps, Watch

OnText = Callable[[str], None]
_DRAFTS: Final = 3


class Offer(NamedTuple):
    """The tools, agents and templates that a plan may use; `enabled` are all tools."""

    tools: Sequence[ToolSpec] = ()
    agents: Sequence[AgentSpec] = ()
    templates: Sequence[str] = ()
    enabled: Sequence[ToolSpec] = ()


def draft_messages(
    request: str,
    *,
    offer: Offer,
    context: str = "",
    max_steps: int = 12,
    locale: str = "en",
    prompts: Path | None = None,
    shape: str = "",
) -> list[Message]:
    """Makes the prompt: constant parts first, so that providers can cache them, the request last.

    `shape` is the dialect to draft in; empty means the plan language itself.
    """

    def listed(title: str, lines: Iterable[Json]) -> str:
        # Servers and agents of others describe themselves: their words are data too.
        text = "\n".join(json.dumps(each, ensure_ascii=False) for each in lines)
        return fence(title, text) if text else "(none)"

    user = render(
        "request",
        folder=prompts,
        max_steps=str(max_steps),
        locale=locale,
        tools=listed("tools", map(_about_tool, offer.tools)),
        agents=listed("agents", map(_about_agent, offer.agents)),
        templates=listed("templates", offer.templates),
        context=context or "(no further context)",
        request=fence("request", request),
    )
    rules = render(shape or "draft", folder=prompts)
    return [Message("system", rules), Message("user", user)]


def _about_tool(tool: ToolSpec) -> Json:
    given = {"name": tool.name, "does": tool.description, "effect": tool.effect.value}
    gives = {"gives": tool.output_schema} if tool.output_schema is not None else {}
    return {**given, "inputs": tool.input_schema, **gives}


def _about_agent(agent: AgentSpec) -> Json:
    skills: list[Json] = [skill.to_json() for skill in agent.skills]
    return {"name": agent.name, "does": agent.description, "skills": skills}


class StepStream:
    """Finds steps in a text that is still being written."""

    def __init__(self, on_step: Callable[[AnyStep], None]) -> None:
        self._stream = JsonStream()
        self._on_step = on_step
        self._seen: set[str] = set()

    def feed(self, piece: str) -> None:
        for value in self._stream.feed(piece):
            # A step without an id gets one only when the whole plan is known.
            plan = parse_value([value]).plan if "id" in value else None
            if plan is not None and len(plan.steps) == 1 and plan.steps[0].id not in self._seen:
                self._seen.add(plan.steps[0].id)
                self._on_step(plan.steps[0])


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
        self.dialect = dialect(name) if (name := self.request.options.dialect) else None
        self.rules = rules_of(self.request, self.deps)
        messages = draft_messages(
            self.query,
            offer=self.offer,
            context=self.context.text,
            max_steps=step_limit(self.rules, self.deps.settings.max_steps),
            locale=self.locale,
            prompts=self.deps.settings.prompts,
            shape=name,
        )
        last = self.request.options.history[-1] if self.request.options.history else None
        self.brief = PlanBrief(
            visible(self.query),
            locale=self.locale,
            tools=tuple(self.offer.tools),
            agents=tuple(self.offer.agents),
            known=self.context.facts,
            now=time_text(self.deps.clock, self.deps.settings.timezone),
            previous=self.request.previous,
            feedback=visible(self.request.feedback),
            enabled=tuple(self.offer.enabled),
            before=last.before if isinstance(last, RunOutcome) else None,
        )
        form = self.dialect.schema() if self.dialect else schema(for_models=True)
        self.prompt = Prompt(messages, schema=form, brief=self.brief)

    async def run(self, on_text: OnText) -> Planned:
        """Returns a usable plan, or a fallback plan with all problems."""
        try:
            self.text, self.usage = await self._draft(on_text)
            with self.watch("parse", Sentence("{count} characters", count=f"{len(self.text):,}")):
                parsed = await self._parsed(self.text)
            self.parsed_at_once = parsed.plan is not None
            await self._check(parsed)
            while not self._usable and self.repairs < self.deps.settings.repairs:
                before = self.plan, self.problems, self.text
                await self._repair()
                # A plan whose calls may fail is better than none.
                if not has_errors(_to_show(before[1])) and has_errors(_to_show(self.problems)):
                    self.plan, self.problems, self.text = before
                    break
        except ModelFailed as failure:
            hint = failure.hint or Sentence("look at the model's settings, or try again")
            message = Sentence("the model gave no usable answer: {reason}", reason=failure.message)
            self.problems = (*self.problems, problem("PS015", message, hint=hint))
        return self._outcome()

    @property
    def _usable(self) -> bool:
        return self.plan is not None and not has_errors(self.problems)

    async def _draft(self, on_text: OnText) -> ModelAnswer:
        """Returns the model's text; asks again from the start if an answer breaks off."""
        model, note, number = self.deps.plan_model, partial(self.watch.note, "draft"), 0
        while True:
            number += 1
            last = number == _DRAFTS
            about = Sentence(
                "{model} writes, last try" if last else "{model} writes", model=model.name
            )
            try:
                with self.watch("draft", about):
                    return await read_answer(model.stream(self.prompt), on_text, note)
            except ModelBusy as busy:
                if last:
                    raise
                why = busy.message
                broke = Sentence("try {number} broke off: {reason}", number=number, reason=why)
                note(broke, begins=True)

    async def _parsed(self, text: str) -> Reading:
        shape = self.request.options.dialect
        return await parse_answer(text, goal=self.query, locale=self.locale, shape=shape)

    async def _check(self, parsed: Reading) -> None:
        """Corrects obvious mistakes of a plan, and keeps it with the problems that are left."""
        plan, known, deps = parsed.plan, self.deps.usable, self.deps
        self.plan, self.problems = plan, parsed.problems
        if plan is None:
            return
        if known is not None:
            if self.request.options.dialect and known.results:  # our own language has references
                plan = with_results(plan, {**known.names, **{ref: ref for ref in known.results}})
            plan = known.named(plan)
        step_text = self.dialect.step_text if self.dialect else None
        plan, notes = assigned(plan, deps.agents, step_text)
        with self.watch("check", Sentence("{count} steps", count=len(plan.steps))):
            usable = await used_results(plan, known) if known else NO_RESULTS
            bare, bared = without_schedule_words(plan)
            ask = deps.settings.ask_for_missing
            fixed = autofix(bare, deps.tools, agents=deps.agents, ask_for_missing=ask)
            self.plan = plan = fixed.plan
            found = check_plan(
                plan,
                deps.tools,
                agents=deps.agents,
                templates=deps.templates,
                max_steps=deps.settings.max_steps,
                usable=usable,
            )
            # The rules hold for the plan with the steps that are kept in it.
            kept = {step.id: step for step in self.request.kept}
            others = (step for step in plan.steps if step.id not in kept)
            whole = plan.replace(steps=(*kept.values(), *others)) if kept else plan
            catalogue = Catalogue.of(deps.tools), self.rules, deps.agents, deps.templates
            self.problems += (
                *(*notes, *bared, *fixed.problems, *found),
                *constraint_problems(whole, *catalogue),
                *lint_plan(plan, deps.tools),
                *made_up_values(plan, deps.tools, self.given),
                *self._not_offered(plan),
            )
            if not has_errors(self.problems):
                # What the tools say about the calls of a plan that is right in itself.
                tools = {spec.name: spec for spec in deps.tools}
                self.problems += _to_repair(await rehearsal_problems(plan, tools, deps.rehearse))

    def _not_offered(self, plan: Plan) -> Iterator[Problem]:
        """Yields the calls of what exists but was not offered, where the shortlist is strict."""
        if not self.deps.settings.strict_shortlist:
            return
        offered = _names(self.offer.tools, self.offer.agents)
        others = _names(self.deps.tools, self.deps.agents)
        for step in plan.steps:
            inner = step.inner
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
        plan, broken = self.plan, list[str]()
        if plan is not None and errors and not self.request.options.dialect:
            inner = {step.each.id: step.id for step in plan.steps if isinstance(step, MapStep)}
            named = {inner.get(each.step or "", each.step) for each in errors}
            if named <= plan.by_id.keys() and len(named) * 2 <= len(plan.steps):
                broken = [step.id for step in plan.steps if step.id in named]
        count = len(errors)
        about = Sentence("round {number}, {errors} errors", number=self.repairs, errors=count)
        with self.watch("repair", about):
            answer = await read_answer(self.deps.plan_model.stream(self._asking(errors, broken)))
            parsed = await self._parsed(answer.text)
            # An answer with a whole plan replaces it.
            if broken and plan and parsed.plan and len(parsed.plan.steps) < len(plan.steps):
                fresh = dict(parsed.plan.by_id)
                kept = [fresh.pop(s.id, s) if s.id in broken else s for s in plan.steps]
                new = [step for name, step in fresh.items() if name not in plan.by_id]
                parsed = replace(parsed, plan=plan.replace(steps=(*new, *kept)))
        self.usage = total(self.usage, answer.usage)
        self.text = answer.text or self.text
        await self._check(parsed)

    def _asking(self, errors: Sequence[Problem], broken: Sequence[str]) -> Prompt:
        """Returns a prompt with the errors of a plan; without `broken` it asks for all of it."""
        what = "Write the whole plan again."
        if broken:
            names = json.dumps(broken, ensure_ascii=False)
            what = f'Write only these steps again, under their ids: {names}, as {{"steps": […]}}.'
        listed, lines, tool_lines = errors[:20], list[str](), list[str]()
        for each in listed:
            about = {"code": each.code, "step": each.step, "field": ".".join(map(str, each.path))}
            line = {**about, "problem": each.message, "hint": each.hint}
            # What a tool says may hold words of files: it is data.
            heap = tool_lines if each.code == WOULD_FAIL else lines
            heap.append(json.dumps(line, ensure_ascii=False))
        if tool_lines:
            lines.append(fence("what the tools say about these calls", "\n".join(tool_lines)))
        if len(errors) > len(listed):
            lines.append(json.dumps({"problem": f"and {len(errors) - len(listed)} more"}))
        own, problems = self.deps.settings.prompts, "\n".join(lines)
        asked = render("repair", folder=own, problems=problems, what=what)
        exchange = [Message("assistant", self.text), Message("user", asked)]
        brief = replace(self.brief, problems=tuple(each.message for each in listed))
        return Prompt([*self.prompt.messages, *exchange], brief=brief)

    def _outcome(self) -> Planned:
        self.problems = _to_show(self.problems)
        usable = self._usable
        final = self.plan if usable else self._substitute()
        if final is not None and self.request.previous is not None:
            final = final.replace(revision=self.request.previous.revision + 1)
        # As in the limit on steps, what only asks or answers does not count.
        counted = [s for s in final.steps if s.kind not in ("ask", "reply")] if final else []
        return Planned(
            Decision.PLAN,
            locale=self.locale,
            plan=final,
            draft=None if usable else self.plan,
            problems=self.problems,
            text=self.text,
            figures=PlanningFigures(
                parsed=self.plan is not None,
                parsed_at_once=self.parsed_at_once,
                enough_context=self.plan is not None and self.plan.enough_context,
                degraded=not usable and final is not None,
                steps=len(counted),
                repairs=self.repairs,
            ).spent(self.usage),
        )

    def _substitute(self) -> Plan | None:
        """Returns the fallback plan; it has the worst problem, and how to mend a failed model."""
        kind, locale = self.deps.settings.fallback, self.locale
        if kind is Fallback.NONE:
            return None
        why = in_language(Sentence("ps.no_plan"), locale)
        if self.problems:
            worst = min(self.problems, key=lambda each: each.severity is not Severity.ERROR)
            why = in_language(worst.message, locale)
            if worst.code == "PS015" and worst.hint:
                why = f"{why} ({in_language(worst.hint, locale)})"
        # The model's text, which is probably the answer.
        text = self.text.strip()[:2000].encode("utf-8", "replace").decode()
        says = escape_text(text) or in_language(Sentence("(no plan is available)"), locale)
        steps: list[dict[str, Any]] = [{"id": "reply", "kind": "reply", "instruction": says}]
        if kind is Fallback.THREE_STEPS:
            steps = _three_steps(
                self.query, self.offer, (self.dialect and self.dialect.language) or locale
            )
        goal = f"Plan for: {self.query[:50]}{'...' * (len(self.query) > 50)}"
        fields = {"goal": goal, "locale": locale, "degraded": why, "steps": steps}
        return Plan.model_validate(fields)


def _three_steps(request: str, offer: Offer, language: str) -> list[dict[str, Any]]:
    """Returns analyse, execute and verify: for an agent if there is one, else replies."""
    steps: list[dict[str, Any]] = []
    titles = {
        "analyze": Sentence("Analyze request"),
        "execute": Sentence("Execute task"),
        "verify": Sentence("Verify results"),
    }
    for name, english in titles.items():
        title = in_language(english, language)
        task = f"{title}: {escape_text(request)}"
        agent = {"agent": offer.agents[0].name, "task": task} if offer.agents else {}
        after = [steps[-1]["id"]] if steps else []
        action = agent or {"instruction": task}
        steps.append({"id": name, "title": title, "after": after, **action})
    return steps


def rules_of(request: PlanRequest, deps: PlannerDeps) -> list[Constraint]:
    """Returns the rules for a plan: those of the profile, and those in the person's words."""
    rules = asked_constraints(request.text, _names(deps.tools, deps.agents))
    profile = request.options.profile
    if profile is None:
        return rules
    hard = [read_constraint(text) for text in profile.hard_constraints]
    soft = [read_constraint(text, hard=False) for text in profile.soft_constraints]
    return [*hard, *soft, *rules]


def _names(tools: Sequence[ToolSpec], agents: Sequence[AgentSpec]) -> list[str]:
    return [*(each.name for each in tools), *(each.name for each in agents)]


def salvage(plan: Plan, problems: Sequence[Problem], *, max_steps: int) -> Plan | None:
    """Returns the plan without steps that have errors and without what depends on these.

    Replies that would report on removed steps are removed too; an entry that was no step takes
    nothing with it. Of too many steps the first are kept, and the last reply; a rule that allows
    fewer steps than `max_steps` counts too. Returns None if nothing is left.
    """
    errors = [each for each in problems if each.severity is Severity.ERROR]
    for each in errors:  # how many steps the broken rules allow
        broken = each.message
        if isinstance(broken, Sentence) and broken.key == "ps.by_rule":
            broken = broken.fields["problem"]
        if isinstance(broken, Sentence) and broken.key == "ps.many_steps":
            max_steps = min(max_steps, int(broken.fields["most"]))
    inner = {step.each.id: step.id for step in plan.steps if isinstance(step, MapStep)}
    bad = {inner.get(each.step, each.step) for each in errors if each.step is not None}
    # What a step refers to, in its rules too.
    refs = {step.id: {each.ref.step for each in step.references if each.ref} for step in plan.steps}
    using = {name: frozenset(each & plan.by_id.keys()) for name, each in refs.items()}
    gone = bad | downstream(using, [name for name in bad if name in using])
    behind = downstream(plan.needs, [name for name in gone if name in using])
    reports = {step.id for step in plan.steps if isinstance(step, ReplyStep)} & behind
    kept = [step for step in plan.steps if step.id not in gone | reports]
    steps = kept[:max_steps]
    # A reply alone would have nothing to report.
    if len(kept) > max_steps > 1 and isinstance(kept[-1], ReplyStep):
        steps = [*kept[: max_steps - 1], kept[-1]]
    names = {step.id for step in steps}
    loose = [step.replace(after=tuple(n for n in step.after if n in names)) for step in steps]
    return plan.replace(steps=tuple(loose)) if steps else None


def _to_repair(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Returns the problems of a rehearsal as errors, which a planner is asked to repair."""
    return tuple(each.replace(severity=Severity.ERROR) for each in problems)


def _to_show(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Returns problems with those of a rehearsal as warnings: the person may know better."""
    return tuple(
        each.replace(severity=Severity.WARNING) if each.code == WOULD_FAIL else each
        for each in problems
    )
