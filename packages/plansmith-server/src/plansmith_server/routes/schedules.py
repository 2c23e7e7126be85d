"""Routes of schedules: create, list, pause, fire, remove."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from starlette.responses import Response

from plansmith.errors import Refused
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.schedules import Fire, Schedule
from plansmith.plan.timing import check_timing, next_fires
from plansmith_server.errors import not_found, of_error
from plansmith_server.openapi import Answer, Ask, Nothing
from plansmith_server.plan_bodies import plan_of
from plansmith_server.schemas import requests as b
from plansmith_server.serialize import moment

_AHEAD: Final = 5
_BEGINS_S: Final = 5.0


async def listing(ask: Ask, _: Nothing) -> Answer:
    """Lists all schedules, each with its next fires."""
    found = await ask.server_state.smith.schedules.all()
    return {"items": [await _view(ask, each) for each in found]}


async def create(ask: Ask, given: b.NewSchedule) -> Answer:
    """Creates a schedule; `approve` is the hash of the plan that may run unattended.

    A run whose steps have times of their own becomes a schedule for each, listed as `items`.
    """
    plan = await _plan_of(ask, given)
    try:
        if given.run and given.timing is None and plan is not None and plan.schedules:
            each = ask.server_state.smith.schedules.create_each
            made = await each(given.run, approve=given.approve, by=ask.by)
            return {"items": [await _view(ask, one) for one in made]}
        schedule = await ask.server_state.smith.schedules.create(
            timing=given.timing,
            plan=plan_of(given.plan) if given.plan is not None else None,
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
        problem.digest = plan.hash if plan is not None else ""
        raise problem from None
    return await _view(ask, schedule)


async def _plan_of(ask: Ask, given: b.NewSchedule) -> Plan | None:
    """Returns the plan that would run: the given one, a run's, or a template's."""
    if given.plan is not None:
        return plan_of(given.plan)
    if given.run:
        return (await ask.server_state.run(given.run)).plan
    if given.template:
        return await ask.server_state.smith.templates.plan(given.template, given.parameters)
    return None


async def show(ask: Ask, _: Nothing) -> Answer:
    """Returns a schedule."""
    return await _view(ask, await _found(ask))


async def change(ask: Ask, given: b.ChangedSchedule) -> Answer:
    """Changes the times, the plan or the behaviour of a schedule."""
    schedule = await _found(ask)
    changed = await ask.server_state.smith.schedules.change(
        schedule.id,
        timing=given.timing,
        plan=plan_of(given.plan) if given.plan is not None else None,
        approve=given.approve,
        by=ask.by,
        **given.settings(),
    )
    return await _view(ask, changed)


async def remove(ask: Ask, _: Nothing) -> Answer:
    """Removes a schedule; its history and runs stay."""
    schedule = await _found(ask)
    await ask.server_state.smith.schedules.remove(schedule.id)
    return Response(status_code=204)


async def pause(ask: Ask, given: b.ReasonBody) -> Answer:
    """Pauses a schedule until it is resumed."""
    schedule, server_state = await _found(ask), ask.server_state
    paused = await server_state.smith.schedules.pause(schedule.id, reason=given.reason, by=ask.by)
    return await _view(ask, paused)


async def resume(ask: Ask, _: Nothing) -> Answer:
    """Resumes a schedule from now on."""
    schedule = await _found(ask)
    return await _view(ask, await ask.server_state.smith.schedules.resume(schedule.id))


async def run_now(ask: Ask, _: Nothing) -> Answer:
    """Fires a schedule once, now."""
    schedule, smith = await _found(ask), ask.server_state.smith
    fire = await smith.schedules.fire_now(schedule.id)
    # A client may ask for the run next: wait until it exists.
    with suppress(TimeoutError):
        async with asyncio.timeout(_BEGINS_S):
            await smith.store.wait(fire.run)
    return _fire(ask, fire)


async def backfill(ask: Ask, given: b.Backfill) -> Answer:
    """Fires for every past time that had no fire."""
    schedule = await _found(ask)
    fires = await ask.server_state.smith.schedules.backfill(
        schedule.id, since=given.from_, until=given.to
    )
    return {"items": [_fire(ask, each) for each in fires]}


async def history(ask: Ask, given: b.HistoryQuery) -> Answer:
    """Lists the past fires, newest first."""
    schedule = await _found(ask)
    fires = await ask.server_state.smith.schedules.history(schedule.id, limit=given.limit)
    return {"items": [_fire(ask, each) for each in fires]}


async def preview(ask: Ask, given: b.Preview) -> Answer:
    """Returns the next times of a timing."""
    timing = given.timing()
    check_timing(timing)
    after = given.after or ask.server_state.smith.runs.journals.clock.now()
    return {"fires": _times(next_fires(timing, after=after, count=given.count))}


async def _found(ask: Ask) -> Schedule:
    wanted = ask.path("id")
    known = await ask.server_state.smith.schedules.all()
    found = [each for each in known if wanted in (each.id, each.name)]
    if not found:
        raise not_found("schedule", wanted)
    return found[0]


async def _view(ask: Ask, schedule: Schedule) -> dict[str, Json]:
    shown = {"locale": ask.language}
    value: dict[str, Any] = schedule.model_dump(mode="json", exclude={"plan"}, context=shown)
    return {
        **value,
        "state": schedule.state,
        "words": str(schedule.timing),
        "plan": schedule.plan.to_json() if schedule.plan else None,
        "fires": _times(
            await ask.server_state.smith.schedules.next_fires(schedule.id, count=_AHEAD)
        ),
    }


def _fire(ask: Ask, fire: Fire) -> dict[str, Json]:
    value: dict[str, Any] = fire.model_dump(mode="json", context={"locale": ask.language})
    return value


def _times(times: list[datetime]) -> list[Json]:
    return [moment(each) for each in times]
