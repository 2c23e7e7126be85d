"""Routes of schedules: create, list, pause, fire, remove."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from plansmith.errors import Refused
from plansmith.formats.native import read_plan
from plansmith.plan.timing import next_fires, require_valid_timing
from plansmith.schedules.schedule import Fire, Schedule
from plansmith_server import bodies as b
from plansmith_server.api import Answer, Ask, route
from plansmith_server.errors import of_error
from plansmith_server.views import JsonObject, Listed


@route("GET /v1/schedules", "look", answer=Listed)
async def listing(ask: Ask) -> Answer:
    """Lists all schedules, each with its next fires."""
    return {"items": [_view(ask, each) for each in await ask.smith.schedules.all()]}


@route(
    "POST /v1/schedules",
    "approve",
    status=201,
    conflict="The plan needs an approval by its hash, or cannot run unattended",
)
async def create(ask: Ask, given: b.NewSchedule) -> Answer:
    """Creates a schedule; `approve` is the hash of the plan that may run unattended.

    A run whose steps have times of their own becomes a schedule for each, listed as `items`.
    """
    own = read_plan(given.plan) if given.plan is not None else None
    plan, schedules = own, ask.smith.schedules
    if plan is None and given.run:
        plan = (await ask.state.run(given.run)).plan
    elif plan is None and given.template:
        plan = await ask.smith.templates.plan(given.template, given.parameters)
    try:
        if given.run and given.timing is None and plan is not None and plan.schedules:
            made = await schedules.create_each(given.run, approve=given.approve, by=ask.by)
            return {"items": [_view(ask, one) for one in made]}
        schedule = await schedules.create(
            timing=given.timing,
            plan=own,
            run=given.run,
            template=given.template,
            inputs=given.parameters,
            request=given.request,
            approve=given.approve,
            name=given.name,
            by=ask.by,
            **given.settings(),
        )
    except Refused as error:
        # With the hash, so that a page can offer the missing approval.
        problem = of_error(error)
        problem.hash = plan.hash if plan is not None else ""
        raise problem from None
    return _view(ask, schedule)


@route("POST /v1/schedules/preview", "look")
async def preview(ask: Ask, given: b.Preview) -> Answer:
    """Returns the next times of a timing."""
    require_valid_timing(given)
    after = given.after or ask.state.clock.now()
    return {"fires": next_fires(given, after=after, count=given.count)}


@route("GET /v1/schedules/{id}", "look")
async def show(ask: Ask) -> Answer:
    """Shows a schedule."""
    return _view(ask, await ask.smith.schedules.get(ask.path("id")))


@route("PATCH /v1/schedules/{id}", "approve")
async def change(ask: Ask, given: b.ChangedSchedule) -> Answer:
    """Changes the times, the plan or the behaviour of a schedule."""
    changed = await ask.smith.schedules.change(
        ask.path("id"),
        timing=given.timing,
        plan=read_plan(given.plan) if given.plan is not None else None,
        approve=given.approve,
        by=ask.by,
        **given.settings(),
    )
    return _view(ask, changed)


@route("DELETE /v1/schedules/{id}", "approve", status=204)
async def remove(ask: Ask) -> None:
    """Removes a schedule; its history and runs stay."""
    await ask.smith.schedules.remove(ask.path("id"))


@route("POST /v1/schedules/{id}/pause", "propose", example=b.REASON)
async def pause(ask: Ask, *, reason: b.Long = "") -> Answer:
    """Pauses a schedule until it is resumed."""
    paused = await ask.smith.schedules.pause(ask.path("id"), reason=reason, by=ask.by)
    return _view(ask, paused)


@route("POST /v1/schedules/{id}/resume", "approve")
async def resume(ask: Ask) -> Answer:
    """Resumes a schedule from now on."""
    return _view(ask, await ask.smith.schedules.resume(ask.path("id")))


@route("POST /v1/schedules/{id}/run-now", "approve", status=202)
async def run_now(ask: Ask) -> Answer:
    """Fires a schedule once, now."""
    fire = await ask.smith.schedules.fire_now(ask.path("id"))
    # A client may ask for the run next: wait until it exists.
    with suppress(TimeoutError):
        async with asyncio.timeout(5.0):
            await ask.smith.store.wait(fire.run)
    return _fire(ask, fire)


@route("POST /v1/schedules/{id}/backfill", "approve", answer=Listed, status=202)
async def backfill(ask: Ask, given: b.Backfill) -> Answer:
    """Fires for every past time that had no fire."""
    schedules = ask.smith.schedules
    fires = await schedules.backfill(ask.path("id"), since=given.from_, until=given.to)
    return {"items": [_fire(ask, each) for each in fires]}


@route("GET /v1/schedules/{id}/history", "look", answer=Listed)
async def history(ask: Ask, *, limit: b.Page = 50) -> Answer:
    """Lists the past fires, newest first."""
    fires = await ask.smith.schedules.history(ask.path("id"), limit=limit)
    return {"items": [_fire(ask, each) for each in fires]}


def _view(ask: Ask, schedule: Schedule) -> JsonObject:
    context = {"locale": ask.language}
    value: dict[str, Any] = schedule.model_dump(mode="json", exclude={"plan"}, context=context)
    return {
        **value,
        "state": schedule.state,
        "words": str(schedule.timing),
        "plan": schedule.plan.to_json() if schedule.plan else None,
        "fires": schedule.next_times(ask.state.clock.now()),
    }


def _fire(ask: Ask, fire: Fire) -> JsonObject:
    value: JsonObject = fire.model_dump(mode="json", context={"locale": ask.language})
    return value
