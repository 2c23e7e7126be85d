"""The times of a schedule: whether they can be used, and those that passed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from plansmith.errors import Misconfigured, Refused
from plansmith.plan.schedules import Fire, FireState, Schedule
from plansmith.plan.sentence import Sentence
from plansmith.plan.timing import check_timing, due, next_fires
from plansmith.schedules.store import ScheduleStore

MAX_BACKFILLED: Final = 1000
_AHEAD: Final = 50
_ALL: Final = 10**9


def check_times(schedule: Schedule) -> Schedule:
    """Returns the schedule; refuses it if its times are invalid, past or too close."""
    check_timing(schedule.timing)
    upcoming = next_fires(
        schedule.timing, after=schedule.settled, anchor=schedule.created, count=_AHEAD
    )
    if not upcoming:
        past = Sentence("{timing} is in the past", timing=str(schedule.timing))
        raise Refused(past, hint=Sentence("give a time in the future"))
    gaps = [after - before for before, after in pairwise(upcoming)]
    if gaps and timedelta(seconds=schedule.jitter_seconds) >= min(gaps):
        hint = Sentence(
            "give less than {most}, the seconds between two fires",
            most=f"{min(gaps).total_seconds():g}",
        )
        raise Misconfigured(
            Sentence("jitter_seconds is too large: {seconds}", seconds=schedule.jitter_seconds),
            hint=hint,
        )
    return schedule


def past_times(schedule: Schedule, *, since: datetime, until: datetime) -> list[datetime]:
    """Returns the due times between two moments; refuses too many."""
    found: list[datetime] = []
    before = since - timedelta(microseconds=1)
    for at in due(schedule.timing, after=before, until=until, anchor=schedule.created):
        found.append(at)
        if len(found) > MAX_BACKFILLED:
            hint = Sentence("at most {most} at a time: choose a shorter time", most=MAX_BACKFILLED)
            raise Refused(Sentence("that would be too many fires"), hint=hint)
    return found


async def replace_missed(store: ScheduleStore, rows: Sequence[Fire]) -> list[Fire]:
    """Queues rows in place of fires that were missed or skipped; returns them."""
    history = {each.due: each for each in await store.fires(rows[0].schedule, limit=_ALL)}
    queued: list[Fire] = []
    for row in rows:
        before = history[row.due]
        if before.state in (FireState.MISSED, FireState.SKIPPED):
            note = f"was {before.state}: {before.note}"
            after = row.replace(version=before.version + 1, note=note)
            queued += [after] if await store.put_fire(after) else []
    return queued


async def first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Waits until the first of these is over; the others are cancelled."""
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
