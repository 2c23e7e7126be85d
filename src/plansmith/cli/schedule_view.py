"""Schedules and their fires as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from plansmith.plan.data import Json
from plansmith.plan.schedules import Fire, Schedule
from plansmith.plan.timing import next_fires, zone_of
from plansmith.review.render import plan_lines
from plansmith.text import clip, safe


def instant(at: datetime) -> str:
    """An instant in UTC, as RFC 3339 writes it."""
    kept = "auto" if at.microsecond else "seconds"
    return at.astimezone(UTC).isoformat(timespec=kept).replace("+00:00", "Z")


def local(at: datetime, zone: str) -> str:
    """An instant on the clocks of a zone."""
    return f"{at.astimezone(zone_of(zone)):%a %Y-%m-%d %H:%M} {zone}"


def coming(schedule: Schedule, count: int) -> list[datetime]:
    """The next fires of a schedule; none while it is paused."""
    if schedule.paused:
        return []
    after = max(schedule.settled, datetime.now(UTC))
    return next_fires(schedule.timing, after=after, anchor=schedule.created, count=count)


def schedule_json(schedule: Schedule, *, count: int = 1) -> dict[str, Json]:
    """All that is known of a schedule."""
    return {
        "id": schedule.id,
        "name": schedule.name,
        "state": "removed" if schedule.removed else schedule.state,
        "reason": schedule.reason,
        "timing": schedule.timing.to_json() | {"timezone": schedule.timing.timezone},
        "request": schedule.request,
        "plan": schedule.plan.to_json() if schedule.plan else None,
        "template": schedule.template,
        "inputs": dict(schedule.inputs),
        "approved": schedule.approved,
        "approved_by": schedule.approved_by,
        "overlap": schedule.overlap.value,
        "missed": schedule.missed.value,
        "window_minutes": schedule.window_minutes,
        "jitter_seconds": schedule.jitter_seconds,
        "max_failures": schedule.max_failures,
        "budget": schedule.budget.to_json(),
        "by": schedule.by,
        "folder": schedule.folder,
        "created": instant(schedule.created),
        "next": [instant(at) for at in coming(schedule, count)],
    }


def fire_json(fire: Fire) -> dict[str, Json]:
    """One row of a history."""
    return {
        "due": instant(fire.due),
        "kind": fire.kind.value,
        "state": fire.state.value,
        "run": fire.run,
        "note": fire.note,
        "at": instant(fire.at),
        "ended": instant(fire.ended) if fire.ended else None,
    }


def list_lines(schedules: Sequence[Schedule], here: str = "") -> Iterator[str]:
    """A line a schedule; of one that fires elsewhere, where."""
    names = [clip(safe(each.name), 40) for each in schedules]
    width = max(map(len, names))
    for name, each in zip(names, schedules, strict=True):
        first = next(iter(coming(each, 1)), None)
        when = f"next {local(first, each.timing.timezone)}" if first else safe(each.reason)
        place = f"  fires in {safe(each.folder)}" if each.folder not in ("", here) else ""
        yield f"{name:<{width}}  {each.state:<6}  {safe(str(each.timing))}  {clip(when, 80)}{place}"


def schedule_lines(schedule: Schedule) -> Iterator[str]:
    """A schedule as `show` shows it."""
    yield f"{safe(schedule.name)}: {schedule.state}, {safe(str(schedule.timing))}"
    if schedule.reason:
        yield f"  {clip(safe(schedule.reason), 200)}"
    yield f"  {schedule.id}, made by {safe(schedule.by) or '?'} at {instant(schedule.created)}"
    if schedule.folder:
        yield f"  fires in {safe(schedule.folder)}"
    how = f"overlap {schedule.overlap}, missed {schedule.missed}"
    yield f"  {how}, paused after {schedule.max_failures} failures in a row"
    limits = ", ".join(f"{name} {value}" for name, value in schedule.budget.to_json().items())
    if limits:
        yield f"  each fire may take {limits}"
    if schedule.approved:
        who = safe(schedule.approved_by) or "?"
        yield f"  runs unattended as plan {schedule.approved}, approved by {who}"
    yield from (f"  next {local(at, schedule.timing.timezone)}" for at in coming(schedule, 5))
    yield ""
    if schedule.plan is not None:
        yield from plan_lines(schedule.plan)
    elif schedule.template:
        yield f"template {safe(schedule.template)}"
    else:
        yield f"planned anew each time: {clip(safe(schedule.request), 200)}"


def fire_lines(fires: Sequence[Fire], zone: str) -> Iterator[str]:
    """A line a fire."""
    for fire in fires:
        note = f"  {clip(safe(fire.note), 120)}" if fire.note else ""
        kind = "" if fire.kind == "due" else f" ({fire.kind.value})"
        run = f"  {fire.run}" if fire.run else ""
        yield f"{local(fire.due, zone)}  {fire.state.value}{kind}{run}{note}"
