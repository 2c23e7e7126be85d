"""The line of stages from a request to a checked plan.

triage > context > shortlist > draft > parse > check (> repair) > estimate
"""

from __future__ import annotations

from dataclasses import replace

from plansmith.plan.problem import Problem, problem
from plansmith.plan.sentence import Sentence
from plansmith.planner.briefing.history import Summariser
from plansmith.planner.briefing.locales import locale_of
from plansmith.planner.check import check_plan
from plansmith.planner.context import Context, Known, Limits, gather_context
from plansmith.planner.draft import Offer, OnStep, OnText
from plansmith.planner.kit import Kit, Planned, PlanRequest, Tell, Watch
from plansmith.planner.listen import total
from plansmith.planner.metrics import PlanMetrics
from plansmith.planner.rounds import Rounds, estimate_with
from plansmith.planner.shortlist import Pick, shortlist
from plansmith.planner.triage import Decision, Triage, triage


async def make_plan(
    request: PlanRequest,
    *,
    kit: Kit,
    tell: Tell = lambda _: None,
    on_step: OnStep = lambda _: None,
    on_text: OnText = lambda _: None,
) -> Planned:
    """A checked plan for a request, or what triage decided instead.

    `tell` hears of each stage as it begins, `on_text` of the model's text, `on_step` of each step.
    """
    watch = Watch(kit.clock, tell)
    language = request.profile.language if request.profile else ""
    locale = locale_of(request.text, request.locale or language)
    with watch("triage", f"in {locale}"):
        decided = await _triage(request, kit, locale)
    if decided.decision is not Decision.PLAN:
        return _without_plan(decided, locale, watch)
    if decided.plan is not None:
        return _without_model(decided, kit, watch)
    with watch("context", f"{len(kit.sources)} sources"):
        context = await _context(request, decided.query, kit, tell)
    with watch("shortlist", f"of {len(kit.tools)} tools and {len(kit.agents)} agents"):
        picks, offer = _shortlist(decided.query, request, kit)
    told = _given(request, context)
    rounds = Rounds(request, decided.query, locale, kit, offer, context, watch, told)
    planned = await rounds.run(on_step, on_text)
    usage = total(decided.usage, context.usage, planned.metrics.usage)
    plan = planned.plan
    if plan is not None and decided.schedule is not None:
        plan = plan.replace(schedule=decided.schedule)
    return replace(
        planned,
        plan=plan,
        reason=decided.reason,
        picks=tuple(picks),
        problems=(*map(_told, context.notes), *planned.problems),
        metrics=replace(planned.metrics, usage=usage, seconds=watch.seconds),
    )


async def _triage(request: PlanRequest, kit: Kit, locale: str) -> Triage:
    revising = request.previous is not None or bool(request.feedback)
    return await triage(
        request.text,
        model=kit.triage_model if kit.settings.triage and not revising else None,
        target=request.target,
        agents=kit.agents,
        templates=kit.templates,
        locale=locale,
        timezone=kit.settings.timezone,
        prompts=kit.settings.prompts,
    )


async def _context(request: PlanRequest, query: str, kit: Kit, tell: Tell) -> Context:
    return await gather_context(
        query,
        clock=kit.clock,
        known=Known(
            profile=request.profile,
            timezone=kit.settings.timezone,
            history=request.history,
            previous=request.previous,
            feedback=request.feedback,
        ),
        sources=kit.sources,
        search=kit.search if kit.settings.background_search else None,
        summariser=Summariser(
            kit.triage_model or kit.plan_model, kit.clock, prompts=kit.settings.prompts
        ),
        limits=Limits(
            tokens=kit.settings.context_tokens,
            seconds=kit.settings.source_seconds,
            count=kit.count,
        ),
        tell=tell,
    )


def _shortlist(query: str, request: PlanRequest, kit: Kit) -> tuple[list[Pick], Offer]:
    """What the model may choose from: the best fits, and whatever the previous plan used."""
    agents = [each for each in kit.agents if each.enabled and not each.hidden]
    agents = [each for each in agents if not each.passthrough]
    most = request.top_k or kit.settings.top_k
    picks = shortlist(query, [*kit.tools, *agents], k=most, ranker=kit.ranker)
    names = {pick.name for pick in picks}
    for step in request.previous.steps if request.previous else ():
        fields = step.to_json()
        names.add(str(fields.get("tool") or fields.get("agent")))
    return picks, Offer(
        [tool for tool in kit.tools if tool.name in names],
        [agent for agent in agents if agent.name in names],
        kit.templates,
    )


def _without_model(decided: Triage, kit: Kit, watch: Watch) -> Planned:
    """A plan that needed no model to be written; it is checked all the same."""
    plan = decided.plan
    assert plan is not None  # noqa: S101
    with watch("check", f"{len(plan.steps)} steps"):
        found = check_plan(plan, kit.tools, templates=kit.templates)
    return Planned(
        Decision.PLAN,
        reason=decided.reason,
        locale=plan.locale,
        plan=plan,
        problems=tuple(found),
        estimate=estimate_with(plan, kit),
        metrics=PlanMetrics(
            parsed=True, parsed_at_once=True, steps=len(plan.steps), seconds=watch.seconds
        ),
    )


def _without_plan(decided: Triage, locale: str, watch: Watch) -> Planned:
    metrics = PlanMetrics(usage=decided.usage, seconds=watch.seconds)
    return Planned(decided.decision, decided.reason, decided.answer, locale=locale, metrics=metrics)


def _given(request: PlanRequest, context: Context) -> str:
    """What values may come from: the person's words and what was looked up, never the clock."""
    said = [each.text for each in request.history]
    found = [block.text for block in context.facts]
    return "\n".join([request.text, request.feedback, *said, *found])


def _told(note: str) -> Problem:
    return problem("PS016", note, hint=Sentence("hint.context_tokens"))
