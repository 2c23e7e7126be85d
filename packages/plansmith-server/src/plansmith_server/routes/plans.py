"""Routes of plans: read, check, edit, compare, undo."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field, RootModel
from starlette.responses import Response

from plansmith.app import Plansmith
from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.plan.data import stored_json
from plansmith.plan.diff import diff_plans
from plansmith.plan.earlier import NO_RESULTS
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith_server import bodies as b
from plansmith_server import views as v
from plansmith_server.api import Answer, Ask, route
from plansmith_server.errors import HttpProblem, in_reader_language, problem_view
from plansmith_server.provenance import plan_origins, run_origins
from plansmith_server.routes.runs import EDITED
from plansmith_server.views import export_plan, parse_plan


class Difference(BaseModel):
    """What changed from one revision of a plan to another."""

    from_: int = Field(alias="from")
    to: int
    changes: list[dict[str, Any]]


class Revision(BaseModel):
    """One plan of a run's history, with the errors of the steps that failed before it was made."""

    revision: int
    hash: str
    origin: str
    cause: str
    errors: dict[str, str]
    at: datetime
    plan: dict[str, Any]


class Revisions(RootModel[list[Revision]]):
    """All plans of a run, oldest first."""


@route("GET /v1/runs/{id}/plan", "look")
async def show(ask: Ask, given: b.PlanQuery) -> Answer:
    """Shows the current plan; its ETag is its hash.

    In a dialect it comes with what that cannot hold.
    """
    plan = (await ask.state.run(ask.run)).plan
    if plan is None:
        raise HttpProblem(404, "not_found", Sentence("run {run} has no plan yet", run=ask.run))
    value = plan.to_json()
    if given.dialect is not None:
        run = await ask.smith.get(ask.run) if given.results else None
        value = in_reader_language(export_plan(plan, given.dialect, run), ask.language)
    headers = {"ETag": f'"{plan.hash}"'}
    return Response(stored_json(value), headers=headers, media_type="application/json")


@route("PUT /v1/runs/{id}/plan", "propose", answer=v.RunView, headers=("If-Match",))
async def edit(ask: Ask, given: b.PlanBody) -> Answer:
    """Replaces the plan, if the client saw the current one."""
    run = await ask.state.run(ask.run)
    seen = ask.header("if-match").strip().removeprefix("W/").strip('"')
    if not seen:
        why = Sentence("If-Match is missing: it names the plan that the edit changes")
        hint = Sentence("send the plan's ETag as If-Match")
        raise HttpProblem(428, "condition_needed", why, hint=hint)
    if seen not in (run.plan.hash if run.plan else "", "*"):
        hint, why = Sentence("read the plan again"), Sentence("the plan was changed meanwhile")
        raise HttpProblem(412, "changed_meanwhile", why, hint=hint)
    agents = ask.runs.registry.agents()
    plan, notes = parse_plan(given.plan, given.dialect, goal=run.request, agents=agents)
    await ask.runs.editing.edit(ask.run, plan, by=ask.by, notes=notes)
    await ask.runs.ask_for_review(ask.run, EDITED)
    return await ask.run_view()


@route("POST /v1/runs/{id}/plan/check", "look", answer=v.PlanView)
async def check(ask: Ask, given: b.PlanBody) -> Answer:
    """Checks a plan as if it were the run's; saves nothing."""
    journal = await ask.state.journal(ask.run)
    specs = (await ask.runs.registry.callees()).specs
    known = await run_origins(ask.smith, journal.events, specs)
    view, plan = await check_plan(ask.smith, given, run=journal.run)
    return view | {"origins": plan_origins(plan, journal.run.plan, known)}


@route("POST /v1/plans/check", "look", answer=v.PlanView)
async def check_new(ask: Ask, given: b.NewPlanBody) -> Answer:
    """Checks a plan of no run; saves nothing."""
    view, _ = await check_plan(ask.state.for_team(given.team, given.database).smith, given)
    return view | {"origins": {}}


async def check_plan(
    smith: Plansmith, given: b.PlanBody, *, run: Run | None = None
) -> tuple[v.JsonObject, Plan]:
    """Reads and checks a plan, of a run if given; returns what is known, in the plan language."""
    intake, registry = smith.runs.intake, smith.runs.registry
    agents, goal = registry.agents(), run.request if run else ""
    read, notes = parse_plan(given.plan, given.dialect, goal=goal, agents=agents)
    usable = await registry.usable_results(run.options, run.pins) if run else NO_RESULTS
    plan = usable.named(await registry.with_fixed_templates(read))
    found = [*await intake.check(plan, usable), *await intake.advice(plan)]
    problems = (*notes, *found, *usable.notes(plan))
    workload = (await registry.facts(plan)).workload
    past = (await intake.timings()).measured(workload.names)
    expected = workload.estimate(past, intake.price_per_million)
    view = {
        "plan": plan.to_json(),
        "hash": plan.hash,
        "problems": [problem_view(each) for each in problems],
        "estimate": {**expected.to_json(), "basis": expected.basis},
        "effects": await v.effects_view(smith, plan, await registry.template_plans(plan)),
        "rules": v.rules_view(plan),
    }
    return view, plan


@route("POST /v1/runs/{id}/undo", "propose", answer=v.RunView)
async def undo(ask: Ask) -> Answer:
    """Goes back to the previous plan."""
    await ask.runs.editing.undo(ask.run, by=ask.by)
    return await ask.run_view()


@route("GET /v1/runs/{id}/plans", "look", answer=Revisions)
async def revisions(ask: Ask) -> Answer:
    """Returns every plan of the run, oldest first."""
    found, errors = list[v.JsonObject](), dict[str, str]()
    for event in (await ask.state.journal(ask.run)).events:
        body = event.body
        if isinstance(body, e.StepFailed):
            errors[body.step] = body.error
        if isinstance(body, e.PlanProposed):
            own = {"hash": body.plan.hash, "plan": body.plan.to_json(), "at": event.at}
            found.append(v.view(Revision, body, revision=len(found) + 1, errors=errors, **own))
            errors = {}
    return found


@route("GET /v1/runs/{id}/diff", "look", answer=Difference)
async def diff(ask: Ask, given: b.DiffQuery) -> Answer:
    """Compares two plans of the run."""
    events = (await ask.state.journal(ask.run)).events
    found = [each.body.plan for each in events if isinstance(each.body, e.PlanProposed)]
    last = given.to or len(found)
    first = given.from_ or last - 1
    if not 1 <= min(first, last) <= max(first, last) <= len(found):
        raise Refused(f"run {ask.run} has {len(found)} plans", hint=Sentence("name two of them"))
    diff = diff_plans(*(found[each - 1].replace(revision=1) for each in (first, last)))
    changes: list[v.JsonObject] = [
        {"kind": "plan", **each.model_dump(mode="json")} for each in diff.plan
    ]
    for kind, steps in (("added", diff.added), ("removed", diff.removed)):
        for placed in steps:
            step = {"step": placed.step.to_json(), "position": placed.position}
            changes.append({"kind": kind, **step})
    for changed in diff.changed:
        fields = [each.model_dump(mode="json") for each in changed.fields]
        changes.append({"kind": "changed", "step": changed.id, "fields": fields})
    for move in diff.moved:
        places = {"before": move.before, "after": move.after}
        changes.append({"kind": "moved", "step": move.id, **places})
    return {"from": first, "to": last, "changes": changes}
