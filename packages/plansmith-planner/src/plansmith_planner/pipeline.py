"""Runs the stages of planning in order, from a request to a checked plan."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from plansmith.check.check_plan import check_plan
from plansmith.formats.dialect import dialect
from plansmith.plan.briefs import total
from plansmith.plan.plan import Plan
from plansmith.plan.planning import (
    Decision,
    OnStep,
    PickedTool,
    Planned,
    PlanningFigures,
    PlanRequest,
    Tell,
)
from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import Sentence, in_language
from plansmith.ports import ContextBlock, Usage
from plansmith.text import READ_BY_RULES
from plansmith_planner import instant
from plansmith_planner.context.background import HEADING
from plansmith_planner.context.gather import (
    EARLIER,
    FOLDER,
    FOLDER_NEAR,
    TIME,
    Context,
    Known,
    Limits,
    earlier_text,
    gather_context,
    time_text,
)
from plansmith_planner.context.history import TITLE, Summariser, recall
from plansmith_planner.context.token_budget import clipped
from plansmith_planner.draft import Offer, OnText
from plansmith_planner.draft_loop import DraftLoop
from plansmith_planner.language.left_out import left_out
from plansmith_planner.language.locales import locale_of
from plansmith_planner.ranking.pick import Pick, reader_picks, shortlist
from plansmith_planner.stages import PlannerDeps, Watch
from plansmith_planner.triage import Triage, triage


async def make_plan(
    request: PlanRequest,
    *,
    deps: PlannerDeps,
    tell: Tell = lambda _: None,
    on_step: OnStep = lambda _: None,
    on_text: OnText = lambda _: None,
) -> Planned:
    """Returns a checked plan for a request, or what triage decided instead.

    Calls `tell` as each stage begins, `on_text` with the model's text, `on_step` with each step.
    """
    language = request.profile.language if request.profile else ""
    locale = locale_of(request.text, request.locale or language)
    watch = Watch(deps.clock, tell, locale)
    with watch("triage", Sentence("in {locale}", locale=locale)):
        decided = await _by_rules(request, deps, locale, tell) or await _triage(
            request, deps, locale
        )
    if decided.decision is not Decision.PLAN:
        spent = PlanningFigures().spent(decided.usage, watch.seconds)
        return Planned(
            decided.decision, decided.reason, decided.answer, locale=locale, metrics=spent
        )
    if decided.plan is not None:
        return _without_model(decided.plan, decided.reason, deps, watch)
    with watch("context", Sentence("{count} sources", count=len(deps.sources))):
        note = partial(watch.note, "context", begins=True)
        context = await _context(request, decided.query, deps, note)
    known = Sentence(
        "of {tools} tools and {agents} agents", tools=len(deps.tools), agents=len(deps.agents)
    )
    with watch("shortlist", known):
        picks, offer = _shortlist(decided.query, request, deps, context)
    given = _given(request, context)
    loop = DraftLoop(request, decided.query, locale, deps, offer, context, watch, given)
    planned = await loop.run(on_step, on_text)
    usage = total(decided.usage, context.usage, planned.metrics.usage)
    return replace(
        _with_schedule(planned, decided, request),
        reason=decided.reason,
        picks=tuple(PickedTool(name=each.name, reason=each.reason) for each in picks),
        problems=(
            *_context_notes(context),
            *planned.problems,
            *_left_out(planned.plan, request, deps),
        ),
        metrics=planned.metrics.spent(usage, watch.seconds),
    )


def _left_out(plan: Plan | None, request: PlanRequest, deps: PlannerDeps) -> list[Problem]:
    """Returns warnings of what the person asked for and a drafted plan seems to leave out."""
    if plan is None or plan.degraded:
        return []
    earlier = request.kept
    if request.previous is not None and not request.changes:
        earlier = earlier or request.previous.steps  # what a new round adds to
    kept = (step for step in earlier if step.id not in plan.by_id)
    whole = plan.replace(steps=(*kept, *plan.steps))
    return left_out([request.text, *request.changes], whole, deps.tools, deps.agents)


def _with_schedule(planned: Planned, decided: Triage, request: PlanRequest) -> Planned:
    """Adds when to repeat the plan; one that first asks for something is not a plan yet."""
    plan = planned.plan
    if plan is None:
        return planned
    asked = dialect(request.dialect).asks(plan) if request.dialect else ()
    if asked:
        text = "\n".join(asked)
        return replace(planned, decision=Decision.ASK, plan=None, answer=text, questions=asked)
    if decided.schedule is not None and not plan.schedules:
        return replace(planned, plan=plan.replace(schedule=decided.schedule))
    return planned


async def _by_rules(
    request: PlanRequest, deps: PlannerDeps, locale: str, tell: Tell
) -> Triage | None:
    """Decides a new request that needs no model; None for any other."""
    profile = request.profile
    # What changes a plan, or has rules or a form of its own, is for a model.
    other = (request.target, request.previous, request.feedback, request.dialect, request.findings)
    ruled = profile is not None and bool(profile.hard_constraints or profile.soft_constraints)
    if not deps.settings.triage or any(other) or ruled:
        return None
    found = await instant.instant(
        request.text, tools=deps.tools, rehearse=deps.rehearse, locale=locale
    )
    if found is None:
        return None
    tell(in_language(found.reason, locale))
    decision = Decision.PLAN if found.plan is not None else Decision.ANSWER
    return Triage(decision, found.reason, request.text, found.answer, found.plan)


async def _triage(request: PlanRequest, deps: PlannerDeps, locale: str) -> Triage:
    decided = request.triaged or request.previous is not None or bool(request.feedback)
    model = deps.triage_model if deps.settings.triage and not decided else None
    return await triage(
        request.text,
        model=model,
        known=await _known_to_triage(request, deps) if model is not None else (),
        before=[each.text for each in request.history if each.role == "user"],
        target=request.target,
        agents=deps.agents,
        templates=deps.templates,
        locale=locale,
        timezone=deps.settings.timezone,
        prompts=deps.settings.prompts,
    )


async def _known_to_triage(request: PlanRequest, deps: PlannerDeps) -> list[ContextBlock]:
    """Returns the conversation, shortened to a third of the context, and the time."""
    room = deps.settings.context_tokens // 3
    said = await recall(request.history, tokens=room, count=deps.count) if request.history else None
    blocks = [ContextBlock(TITLE, said.text)] if said is not None and said.text else []
    results = earlier_text([*deps.earlier.results.values()]) if deps.earlier else ""
    shown = clipped(results, tokens=room, count=deps.count, keep_end=True)
    blocks += [ContextBlock(EARLIER, shown)] if shown else []
    return [*blocks, ContextBlock(TIME, time_text(deps.clock, deps.settings.timezone))]


async def _context(request: PlanRequest, query: str, deps: PlannerDeps, tell: Tell) -> Context:
    model = deps.triage_model or deps.plan_model
    summariser = Summariser(model, deps.clock, prompts=deps.settings.prompts)
    return await gather_context(
        query,
        clock=deps.clock,
        known=Known(
            profile=request.profile,
            timezone=deps.settings.timezone,
            history=request.history,
            earlier=[*deps.earlier.results.values()] if deps.earlier else (),
            previous=request.previous,
            feedback=request.feedback,
            findings=request.findings,
        ),
        sources=deps.sources,
        search=deps.search if deps.settings.background_search else None,
        # A thread keeps a summary of its own.
        summariser=None if request.thread else summariser,
        limits=Limits(
            tokens=deps.settings.context_tokens,
            seconds=deps.settings.source_seconds,
            count=deps.count,
        ),
        tell=tell,
    )


def _shortlist(
    query: str, request: PlanRequest, deps: PlannerDeps, context: Context
) -> tuple[list[Pick], Offer]:
    """Returns what the model may choose from: the best matches and what the last plan used.

    What reads a file that the request names is always among them.
    """
    query = query[:READ_BY_RULES]
    agents = [
        each for each in deps.agents if each.enabled and not each.hidden and not each.passthrough
    ]
    most, tools = request.top_k or deps.settings.top_k, deps.tools
    if request.dialect and dialect(request.dialect).agents_only:
        most, tools = request.top_k or max(len(agents), 1), ()
    picks = shortlist(query, [*tools, *agents], k=most, ranker=deps.ranker)
    names = {pick.name for pick in picks}
    readers = reader_picks(query, _files(context), tools)
    picks += [pick for pick in readers if pick.name not in names]
    names |= {pick.name for pick in picks}
    for step in request.previous.steps if request.previous else ():
        fields = step.to_json()
        names.add(str(fields.get("tool") or fields.get("agent")))
    return picks, Offer(
        [tool for tool in deps.tools if tool.name in names],
        [agent for agent in agents if agent.name in names],
        deps.templates,
        tools,
    )


def _files(context: Context) -> list[str]:
    """Returns the files that the context tells of, one a line."""
    told = [each.text for each in context.blocks if each.title in (FOLDER, FOLDER_NEAR)]
    lines = "\n".join(told).split("\n")
    return [*dict.fromkeys(line.partition(": ")[0] for line in lines)]


def _without_model(plan: Plan, reason: str, deps: PlannerDeps, watch: Watch) -> Planned:
    """Checks and returns a plan that triage made without a model."""
    with watch("check", Sentence("{count} steps", count=len(plan.steps))):
        found = check_plan(plan, deps.tools, templates=deps.templates)
    figures = PlanningFigures(parsed=True, parsed_at_once=True, steps=len(plan.steps))
    return Planned(
        Decision.PLAN,
        reason=reason,
        locale=plan.locale,
        plan=plan,
        problems=tuple(found),
        metrics=figures.spent(Usage(), watch.seconds),
    )


def _given(request: PlanRequest, context: Context) -> str:
    """Returns all text from which values may come: the person's words and what was looked up."""
    said = [each.text for each in request.history]
    found = [block.text for block in context.facts]
    return "\n".join([request.text, request.feedback, *said, *found])


def _context_notes(context: Context) -> list[Problem]:
    """Returns what was cut, and each search made before planning, whose source a reviewer sees."""
    hint = Sentence("raise context_tokens, or give the planner less")
    notes = [problem("PS016", note, hint=hint) for note in context.notes]
    hint = Sentence("set planner.background_search to false to plan without it")
    for block in context.blocks:
        if block.title == HEADING:
            text = Sentence(
                "the planner read what {tool} found on the request ({size} characters)",
                tool=block.source,
                size=len(block.text),
            )
            notes.append(problem("PS018", text, hint=hint))
    return notes
