"""Routes of plans: read, check, edit, compare, undo."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.responses import JSONResponse

from plansmith.app import Plansmith
from plansmith.check.estimate import estimate
from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.diff import PlanDiff, diff_plans
from plansmith.plan.plan import Plan
from plansmith.plan.problem import Problem
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith_server.errors import HttpProblem, in_reader_language, problem_json
from plansmith_server.openapi import Answer, Ask, Nothing
from plansmith_server.plan_bodies import exported, received
from plansmith_server.provenance import plan_origins, run_origins
from plansmith_server.routes.runs import EDITED
from plansmith_server.schemas import requests as b
from plansmith_server.serialize import effects_view, estimate_view, moment, rules_view, run_view


async def show(ask: Ask, given: b.PlanQuery) -> Answer:
    """Returns the current plan; its ETag is its hash.

    In a dialect it comes with what that cannot hold.
    """
    plan = (await ask.server_state.run(ask.run)).plan
    if plan is None:
        raise HttpProblem(404, "not_found", Sentence("run {run} has no plan yet", run=ask.run))
    value = plan.to_json()
    if given.dialect is not None:
        run = await ask.server_state.smith.get(ask.run) if given.results else None
        value = dict(in_reader_language(exported(plan, given.dialect, run), ask.language))
    return JSONResponse(value, headers={"ETag": f'"{plan.hash}"'})


async def edit(ask: Ask, given: b.PlanBody) -> Answer:
    """Replaces the plan, if the client saw the current one."""
    server_state = ask.server_state
    run = await server_state.run(ask.run)
    seen = ask.header("if-match").strip().removeprefix("W/").strip('"')
    if not seen:
        hint = "send the plan's ETag as If-Match"
        raise HttpProblem(
            428,
            "condition_needed",
            "If-Match is missing: it names the plan that the edit changes",
            hint=hint,
        )
    current = run.plan.hash if run.plan else ""
    if seen not in (current, "*"):
        hint, why = Sentence("read the plan again"), Sentence("the plan was changed meanwhile")
        raise HttpProblem(412, "changed_meanwhile", why, hint=hint)
    agents = server_state.smith.runs.intake.agents()
    plan, notes = received(given.plan, given.dialect or "", goal=run.request, agents=agents)
    await server_state.smith.runs.editing.edit(ask.run, plan, by=ask.by, notes=notes)
    await server_state.smith.runs.ask_for_review(ask.run, EDITED)
    return await run_view(server_state.smith, ask.run)


async def check(ask: Ask, given: b.PlanBody) -> Answer:
    """Checks a plan as if it were the run's; saves nothing."""
    smith = ask.server_state.smith
    journal = await ask.server_state.journal(ask.run)
    specs = (await smith.runs.intake.callees()).specs
    known = await run_origins(smith, journal.events, specs)
    view, plan = await _checked(smith, given, run=journal.run)
    marks = plan_origins(plan, journal.run.plan, known)
    origins: dict[str, Json] = {step: dict(places) for step, places in marks.items()}
    return view | {"origins": origins}


async def check_new(ask: Ask, given: b.NewPlanBody) -> Answer:
    """Checks a plan of no run; saves nothing."""
    server_state = ask.server_state.for_team(given.team, given.database)
    view, _ = await _checked(server_state.smith, given)
    return view | {"origins": {}}


async def _checked(
    smith: Plansmith, given: b.PlanBody, *, run: Run | None = None
) -> tuple[dict[str, Json], Plan]:
    """Reads and checks a plan, of a run if given; returns what is known, in the plan language."""
    intake, goal = smith.runs.intake, run.request if run else ""
    agents = intake.agents()
    read, notes = received(given.plan, given.dialect or "", goal=goal, agents=agents)
    earlier = await intake.usable_results(run.options, run.earlier) if run else None
    plan, used = await intake.pinned(read), list[Problem]()
    if earlier is not None:
        plan = earlier.named(plan)
        used += earlier.notes(plan)
    problems = (*notes, *await intake.check(plan, earlier), *used)
    specs = (await intake.callees()).specs
    expected = estimate(
        plan,
        list(specs.values()),
        agents=agents,
        past=(await intake.past()).costs,
        price_per_million=intake.price_per_million,
    )
    view: dict[str, Json] = {
        "plan": plan.to_json(),
        "hash": plan.hash,
        "problems": [problem_json(each) for each in problems],
        "estimate": estimate_view(expected),
        "effects": await effects_view(smith, plan, await intake.contents(plan)),
        "rules": rules_view(plan),
    }
    return view, plan


async def undo(ask: Ask, _: Nothing) -> Answer:
    """Goes back to the previous plan."""
    server_state = ask.server_state
    await server_state.journal(ask.run)
    await server_state.smith.runs.editing.undo(ask.run, by=ask.by)
    return await run_view(server_state.smith, ask.run)


async def revisions(ask: Ask, _: Nothing) -> Answer:
    """Returns every plan of the run, oldest first."""
    found, errors = list[Json](), dict[str, Json]()
    for event in (await ask.server_state.journal(ask.run)).events:
        if isinstance(event.body, e.StepFailed):
            errors[event.body.step] = event.body.error
        if not isinstance(event.body, e.PlanProposed):
            continue
        body = event.body
        found.append(
            {
                "revision": len(found) + 1,
                "hash": body.plan.hash,
                "origin": body.origin,
                "cause": body.cause,
                "errors": errors,
                "at": moment(event.at),
                "plan": body.plan.to_json(),
            }
        )
        errors = {}
    return found


async def diff(ask: Ask, given: b.DiffQuery) -> Answer:
    """Compares two plans of the run."""
    events = (await ask.server_state.journal(ask.run)).events
    found = [each.body.plan for each in events if isinstance(each.body, e.PlanProposed)]
    last = given.to or len(found)
    first = given.from_ or last - 1
    if not 1 <= min(first, last) <= max(first, last) <= len(found):
        raise Refused(f"run {ask.run} has {len(found)} plans", hint=Sentence("name two of them"))
    before, after = found[first - 1], found[last - 1]
    changes = diff_plans(before.replace(revision=1), after.replace(revision=1))
    return {"from": first, "to": last, "changes": list(_changes(changes))}


def _changes(diff: PlanDiff) -> Iterator[Json]:
    """Yields the changes, each with its kind."""
    for change in diff.plan:
        yield {"kind": "plan", **change.model_dump(mode="json")}
    for kind, steps in (("added", diff.added), ("removed", diff.removed)):
        for placed in steps:
            yield {"kind": kind, "step": placed.step.to_json(), "position": placed.position}
    for changed in diff.changed:
        fields: list[Json] = [each.model_dump(mode="json") for each in changed.fields]
        yield {"kind": "changed", "step": changed.id, "fields": fields}
    for move in diff.moved:
        yield {"kind": "moved", "step": move.id, "before": move.before, "after": move.after}
