"""Runs the stages of planning in order, from a request to a checked plan."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from plansmith.check.check_plan import check_plan
from plansmith.plan import planning as p
from plansmith.plan.briefs import total
from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import Sentence, in_language
from plansmith.ports import ContextBlock, Usage
from plansmith_planner.context import gather
from plansmith_planner.context.background import HEADING
from plansmith_planner.context.history import TITLE, recall
from plansmith_planner.context.token_budget import clipped
from plansmith_planner.dialect import dialect
from plansmith_planner.draft import DraftLoop, Offer, OnText
from plansmith_planner.instant import instant
from plansmith_planner.language.characters import READ_BY_RULES
from plansmith_planner.language.locales import locale_of
from plansmith_planner.ranking.pick import Pick, reader_picks, shortlist
from plansmith_planner.stages import PlannerDeps, Watch
from plansmith_planner.triage import Triage, triage


async def make_plan(
    request: p.PlanRequest,
    *,
    deps: PlannerDeps,
    tell: p.Tell = lambda _: None,
    on_text: OnText = lambda _: None,
) -> p.Planned:
    """Returns a checked plan for a request, or what triage decided instead.

    Calls `tell` as each stage begins, `on_text` with the model's text.
    """
    language = request.options.profile.language if request.options.profile else ""
    locale = locale_of(request.text, request.options.locale or language)
    watch, settings = Watch(deps.clock, tell, locale), deps.settings
    with watch("triage", Sentence("in {locale}", locale=locale)):
        decided = await _by_rules(request, deps, locale, tell)
        decided = decided or await _triage(request, deps, locale)
    query, decision, reason, made = decided.query, decided.decision, decided.reason, decided.plan
    if decision is not p.Decision.PLAN:
        spent = p.PlanningFigures().spent(decided.usage, watch.seconds)
        return p.Planned(decision, reason, decided.answer, locale=locale, figures=spent)
    if made is not None:  # without a model
        with watch("check", Sentence("{count} steps", count=len(made.steps))):
            found = tuple(check_plan(made, deps.tools, templates=deps.templates))
        figures = p.PlanningFigures(parsed=True, parsed_at_once=True, steps=len(made.steps))
        spent = figures.spent(Usage(), watch.seconds)
        done = p.Planned(decision, reason, locale=made.locale, plan=made)
        return replace(done, problems=found, figures=spent)
    with watch("context", Sentence("{count} sources", count=len(deps.sources))):
        context = await gather.gather_context(
            query,
            clock=deps.clock,
            known=request,
            earlier=[*deps.usable.results.values()] if deps.usable else (),
            sources=deps.sources,
            settings=settings,
            tell=partial(watch.note, "context", begins=True),
        )
    known = Sentence(
        "of {tools} tools and {agents} agents", tools=len(deps.tools), agents=len(deps.agents)
    )
    with watch("shortlist", known):
        picks, offer = _shortlist(query, request, deps, context)
    # All text from which values may come: the person's words and what was looked up.
    said = [*(m.text for m in request.options.history), *(each.text for each in context.facts)]
    given = "\n".join([request.text, request.feedback, *said])
    loop = DraftLoop(request, query, locale, deps, offer, context, watch, given)
    planned = _finished(await loop.run(on_text), decided, request)
    usage = total(decided.usage, planned.figures.usage)
    return replace(
        planned,
        reason=reason,
        picks=tuple(p.PickedTool(name=each.name, reason=each.reason) for each in picks),
        problems=(*_context_notes(context), *planned.problems),
        figures=planned.figures.spent(usage, watch.seconds),
    )


async def _by_rules(
    request: p.PlanRequest, deps: PlannerDeps, locale: str, tell: p.Tell
) -> Triage | None:
    """Decides a new request that needs no model; None for any other."""
    options, profile = request.options, request.options.profile
    # What changes a plan, or has rules or a form of its own, is for a model.
    other = (options.target, options.dialect, request.previous, request.feedback, request.findings)
    ruled = profile is not None and bool(profile.hard_constraints or profile.soft_constraints)
    if not deps.settings.triage or any(other) or ruled:
        return None
    found = await instant(request.text, tools=deps.tools, rehearse=deps.rehearse, locale=locale)
    if found is None:
        return None
    tell(in_language(found.reason, locale))
    decision = p.Decision.PLAN if found.plan is not None else p.Decision.ANSWER
    return Triage(decision, found.reason, request.text, found.answer, found.plan)


async def _triage(request: p.PlanRequest, deps: PlannerDeps, locale: str) -> Triage:
    settings, known = deps.settings, list[ContextBlock]()
    decided = request.triaged or request.previous is not None or bool(request.feedback)
    model = deps.triage_model if settings.triage and not decided else None
    if model is not None:
        # The conversation, shortened to a third of the context, and the time.
        room = settings.context_tokens // 3
        recalled = recall(request.options.history, tokens=room)
        results = gather.earlier_text([*deps.usable.results.values()]) if deps.usable else ""
        results_text = clipped(results, tokens=room, keep_end=True)
        texts = {TITLE: recalled.text, gather.EARLIER: results_text}
        texts |= {gather.TIME: gather.time_text(deps.clock, settings.timezone)}
        known = [ContextBlock(title, text) for title, text in texts.items() if text]
    return await triage(
        request.text,
        model=model,
        known=known,
        target=request.options.target,
        agents=deps.agents,
        templates=deps.templates,
        locale=locale,
        timezone=settings.timezone,
        prompts=settings.prompts,
    )


def _shortlist(
    query: str, request: p.PlanRequest, deps: PlannerDeps, context: gather.Context
) -> tuple[list[Pick], Offer]:
    """Returns what the model may choose from: the best matches and what the last plan used.

    What reads a file that the request names is always among them.
    """
    query = query[:READ_BY_RULES]
    agents = [
        each for each in deps.agents if each.enabled and not each.hidden and not each.passthrough
    ]
    most, tools = request.options.top_k or deps.settings.top_k, deps.tools
    if request.options.dialect and dialect(request.options.dialect).agents_only:
        most, tools = request.options.top_k or max(len(agents), 1), ()
    picks = shortlist(query, [*tools, *agents], k=most, ranker=deps.ranker)
    names = {pick.name for pick in picks}
    folder = [b for b in context.blocks if b.title in (gather.FOLDER, gather.FOLDER_NEAR)]
    lines = [line for block in folder for line in block.text.split("\n")]
    files = [*dict.fromkeys(line.partition(": ")[0] for line in lines)]
    picks += [pick for pick in reader_picks(query, files, tools) if pick.name not in names]
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


def _finished(planned: p.Planned, decided: Triage, request: p.PlanRequest) -> p.Planned:
    """Adds when to repeat a plan; one that first asks for something is not a plan yet."""
    plan = planned.plan
    if plan is None:
        return planned
    asked = dialect(request.options.dialect).asks(plan) if request.options.dialect else ()
    if asked:
        text = "\n".join(asked)
        return replace(planned, decision=p.Decision.ASK, plan=None, answer=text, questions=asked)
    if decided.schedule is not None and not plan.schedules:
        return replace(planned, plan=plan.replace(schedule=decided.schedule))
    return planned


def _context_notes(context: gather.Context) -> list[Problem]:
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
