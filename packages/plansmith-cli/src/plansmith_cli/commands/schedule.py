"""`plansmith schedule`: create, list, fire, pause and remove schedules."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from plansmith import Misconfigured, Plan
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.plan.timing import Timing, make_timing, next_fires, zone_of
from plansmith.schedules.schedule import Fire, FireState, Missed, Overlap, Schedule
from plansmith.schedules.service import LOOK_S
from plansmith.text import clip, safe
from plansmith_cli.command_table import Exit
from plansmith_cli.commands import schedule_view as view
from plansmith_cli.commands.schedule_view import Offer, fire_json, instant, local, schedule_json
from plansmith_cli.commands.templates import inputs_of
from plansmith_cli.describe import finish
from plansmith_cli.interactive import stoppable
from plansmith_cli.options import (
    JSON,
    PARTS,
    TOOLS,
    read_budget,
    read_pairs,
    read_time,
    read_value,
)
from plansmith_cli.session import Session, exit_of, session_command, store_command
from plansmith_cli.ui.output import load_plan, own, own_text, print_json, wrong
from plansmith_planner.language.recurrence import recurrence

_RULES: Final = ("overlap", "missed", "window_minutes", "jitter_seconds", "max_failures")
_UNITS: Final = {"m": 1, "h": 60, "d": 1440, "w": 10080}
_ALL: Final = 10**9
_WORST: Final = (Exit.FAILED, Exit.INVALID, Exit.PARTLY, Exit.REFUSED, Exit.BUDGET, Exit.WAITING)


def _timing_of(args: argparse.Namespace, zone: str) -> Timing | None:
    given = {name: each for flag, name in view.WAYS.items() if (each := vars(args)[flag])}
    if args.every:
        text = args.every
        number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "m")
        if not number.isdecimal() or not int(number):
            raise wrong("{text} is not an interval", "such as 15m, 2h, 1d or 1w", text=repr(text))
        given["every_minutes"] = int(number) * _UNITS[unit]
    return make_timing(**{"timezone": zone} | given) if given.keys() - {"timezone"} else None


def _behaviour_of(args: argparse.Namespace) -> dict[str, Any]:
    found = {name: value for name in _RULES if (value := vars(args)[name]) is not None}
    if args.budget:
        limits = read_budget(args.budget)
        money = {"money": f"{Decimal(str(limits['money'])):f}"} if "money" in limits else {}
        found["budget"] = limits | money
    if args.bound or args.only:
        found["bounds"] = _bounds_of(args.bound or (), args.only or ())
    return found


def _bounds_of(most: Iterable[str], only: Iterable[str]) -> dict[str, Any]:
    """Reads how many calls of a tool a fire may make, and with which values."""
    bounds: dict[str, Any] = {}
    for tool, number in read_pairs(most).items():
        if not number.isdecimal() or not int(number):
            raise wrong("{text} is no number of calls", "such as send=20", text=repr(number))
        bounds[tool] = {"most": int(number), "only": {}}
    for pair in only:
        ((place, value),) = read_pairs([pair]).items()
        tool, _, name = place.rpartition(".")
        if tool not in bounds:
            raise wrong("{tool} has no bound", "give one, such as --bound send=20", tool=repr(tool))
        bounds[tool]["only"].setdefault(name, []).append(read_value(name, value))
    return bounds


async def _next(session: Session) -> None:
    args, schedules = session.args, session.smith.schedules
    schedule = await schedules.get(args.name) if args.name else None
    zone = session.settings.planner.timezone
    timing = schedule.timing if schedule else _timing_of(args, zone)
    if timing is None:
        raise wrong(
            "no times are given", "--cron, --daily, --every or --at, or the name of a schedule"
        )
    count = max(args.count, 0)
    if schedule is not None and not args.after:
        times = await schedules.next_fires(schedule.id, count=count)
    else:
        after = datetime.now().astimezone()
        after = read_time(args.after, zone_of(timing.timezone)) if args.after else after
        anchor = schedule.created if schedule else None
        times = next_fires(timing, after=after, anchor=anchor, count=count)
    if schedule is not None and schedule.paused and not times:
        session.say(f"{own_text('paused')}: {safe(own(schedule.reason))}")
    lines = (f"{instant(at)}  {local(at, timing.timezone)}" for at in times)
    session.print_as([instant(at) for at in times], lines)


async def _add(session: Session) -> int | None:
    args, request = session.args, session.args.request.strip()
    if sum(map(bool, (request, args.plan, args.run, args.template))) != 1:
        raise wrong("say what to do", "a REQUEST, --plan, --run or --template")
    if args.anew and not args.request:
        raise wrong("--anew needs a REQUEST", "a ready plan is not planned again")
    zone = args.tz or session.settings.planner.timezone
    timing = _timing_of(args, zone)
    if request and timing is None:
        request, timing = _split_request(session, request, zone)
    now = session.journals.clock.now()
    if timing is not None and not next_fires(timing, after=now, count=1):
        raise wrong("{timing}: this time is past", timing=timing.sentence)
    offer = await _source(session, request, timing)
    if args.anew:
        fields = offer.fields | _behaviour_of(args)
        made = [await session.smith.schedules.create(**fields, by=session.by)]
    elif not await view.is_confirmed(session, offer):
        return Exit.WAITING
    else:
        made = await view.create_approved(session, offer, **_behaviour_of(args))
    keep = session.command("schedule", "keep")
    session.say_as(
        view.schedules_json(made),
        *(Sentence("saved schedule {name}: {timing}", **_name_and_timing(each)) for each in made),
        Sentence("{command} fires it; so does plansmith serve", command=keep),
    )
    return None


def _split_request(session: Session, request: str, zone: str) -> tuple[str, Timing]:
    found = recurrence(request, timezone=zone)
    if found is None or found.timing is None:
        raise Misconfigured(
            found.flaw if found else Sentence("the request does not say when"),
            hint=Sentence('such as "every weekday at 9 …", or --cron, --daily, --every, --at'),
        )
    message = Sentence(
        "understood: {words}: {timing}{more}",
        words=safe(found.words),
        timing=found.timing.sentence,
        more=f" {found.assumed}" if found.assumed else "",
    )
    session.say(message)
    if not found.rest:
        raise wrong("the request does not say what to do", "add it")
    return found.rest, found.timing


async def _source(session: Session, request: str, timing: Timing | None) -> Offer:
    args, smith = session.args, session.smith
    fields: dict[str, Any] = {"name": args.name, "timing": timing}
    if args.template:
        inputs = await inputs_of(session, args.template)
        plan = await smith.runs.registry.with_fixed_templates(
            await smith.templates.plan(args.template, inputs)
        )
        return Offer(plan, fields | {"template": args.template, "inputs": inputs})
    if args.plan:
        plan = await smith.runs.registry.with_fixed_templates(load_plan(args.plan))
        return Offer(plan, fields | {"plan": plan})
    if args.anew:
        return Offer(Plan(), fields | {"request": request})
    if args.run:
        run = await session.run(args.run)
    else:
        options = {"locale": args.lang} if args.lang else {}
        run = await smith.plan(request, by=session.by, **options)
    if run.plan is None:
        why = run.reason or Sentence("there is no plan for it")
        raise Misconfigured(why, hint=Sentence("describe the request in more detail"))
    return Offer(run.plan, fields | {"run": run.id})


def _name_and_timing(schedule: Schedule) -> dict[str, str]:
    return {"name": safe(schedule.name), "timing": schedule.timing.sentence}


async def _list(session: Session) -> None:
    found = await session.smith.schedules.all()
    none = Sentence("no schedules; plansmith schedule add makes one")
    lines = view.list_lines(found, session.journals.folder)
    session.print_list([*map(schedule_json, found)], lines, none)


async def _show(session: Session) -> None:
    schedule = await session.smith.schedules.get(session.args.name)
    fires = await session.smith.schedules.history(schedule.id, limit=5)
    history: list[Json] = [fire_json(each) for each in fires]
    past = view.fire_lines(fires, schedule.timing.timezone)
    session.print_as(
        schedule_json(schedule, count=5) | {"history": history},
        [*view.schedule_lines(schedule, session.locale), *(["", *past] if fires else ())],
    )


async def _change(session: Session) -> int | None:
    args, smith = session.args, session.smith
    schedule = await smith.schedules.get(args.name)
    timing = _timing_of(args, schedule.timing.timezone)
    changes: dict[str, Any] = _behaviour_of(args)
    if args.plan:
        plan = await smith.runs.registry.with_fixed_templates(load_plan(args.plan))
        offer = Offer(plan, {"name": schedule.name, "timing": timing or schedule.timing})
        if not await view.is_confirmed(session, offer):
            return Exit.WAITING
        changes |= {"plan": plan, "approve": plan.hash}
    elif args.approve_plan:
        changes["approve"] = args.approve_plan
    if not changes and timing is None:
        raise wrong("no change is given", hint="plansmith schedule change -h")
    after = await smith.schedules.change(schedule.id, timing=timing, by=session.by, **changes)
    message = Sentence("changed schedule {name}: {timing}", **_name_and_timing(after))
    session.say_as(schedule_json(after), message)
    return None


async def _switch(session: Session) -> None:
    """Pauses, resumes or removes a schedule."""
    args, schedules = session.args, session.smith.schedules
    match args.command.rpartition(" ")[2]:
        case "pause":
            after = await schedules.pause(args.name, reason=args.reason, by=session.by)
            message = Sentence("paused schedule {name}: {timing}", **_name_and_timing(after))
        case "resume":
            after = await schedules.resume(args.name)
            message = Sentence("resumed schedule {name}: {timing}", **_name_and_timing(after))
        case _:
            after = await schedules.remove(args.name)
            message = Sentence("removed schedule {name}: {timing}", **_name_and_timing(after))
    session.say_as(schedule_json(after), message)


async def _run_now(session: Session) -> int:
    fire = await session.smith.schedules.fire_now(session.args.name)
    await session.smith.schedules.carried()
    rows = await session.smith.schedules.history(session.args.name, limit=1000)
    row = next(each for each in rows if each.due == fire.due)
    if not await session.smith.store.events(fire.run):
        raise Misconfigured(row.note, hint=Sentence("fix this and try again"))
    run = await session.smith.get(fire.run)
    await finish(session, run)
    return exit_of(run)


async def _backfill(session: Session) -> None:
    args, schedules = session.args, session.smith.schedules
    zone = zone_of((await schedules.get(args.name)).timing.timezone)
    since, until = read_time(args.since, zone), read_time(args.until, zone)
    fires = await schedules.backfill(args.name, since=since, until=until)
    message = Sentence(
        "{count} fires queued; plansmith schedule keep starts them in order", count=len(fires)
    )
    session.say_as([fire_json(each) for each in fires], message)


async def _history(session: Session) -> None:
    schedule = await session.smith.schedules.get(session.args.name)
    fires = await session.smith.schedules.history(schedule.id, limit=max(session.args.limit, 0))
    lines = view.fire_lines(fires, schedule.timing.timezone)
    session.print_as([fire_json(each) for each in fires], lines)


async def _keep_once(session: Session) -> int:
    """Fires what is due now and prints the results; returns the worst exit code."""
    schedules = session.smith.schedules
    before = {fire.key: fire.version for fire in await schedules.store.open_fires()}
    keys = {*before}
    while begun := await schedules.tick():
        keys |= {fire.key for fire in begun}
        await schedules.carried()
    await schedules.carried()
    printed: list[Json] = []
    codes = [Exit.OK]
    for schedule in await schedules.store.schedules():
        if not any(name == schedule.id for name, _ in keys):
            continue
        for fire in [*await schedules.store.fires(schedule.id, limit=_ALL)][::-1]:
            if fire.key in keys and before.get(fire.key) != fire.version:
                printed.append({"schedule": schedule.name, **fire_json(fire)})
                codes.append(await _exit_of_fire(session, fire))
                note = f": {clip(safe(own(fire.note)), 200)}" if fire.note else ""
                state = own_text(f"fire.{fire.state.value}")
                session.say(f"{safe(schedule.name)}: {state}{note}  {fire.run}".rstrip())
    if session.args.json:
        print_json(printed)
    elif not printed:
        session.say(Sentence("nothing is due"))
    return next((code for code in _WORST if code in codes), max(codes))


async def _exit_of_fire(session: Session, fire: Fire) -> Exit:
    if fire.state in (FireState.SKIPPED, FireState.MISSED, FireState.QUEUED):
        return Exit.OK
    if not fire.run or not await session.smith.store.events(fire.run):
        return Exit.FAILED
    return exit_of(await session.smith.get(fire.run))


async def _keep(session: Session) -> int | None:
    if session.args.once:
        return await _keep_once(session)

    async def keep() -> None:
        session.say(Sentence("firing schedules; Ctrl-C stops, and open runs can be resumed later"))
        await session.smith.schedules.run_forever(look_s=max(session.args.look, 0.1))

    await stoppable(keep(), signal.SIGTERM)
    return None


_NAME: Final = "NAME  its name, its id, or the beginning of its id\n"
_TIMING: Final = """
--every 15m|2h|1d  an interval, counted from its creation
| --daily HH:MM  a time of day
| --cron EXPR  five fields: minute hour day month weekday
| --at TIME  once, such as 2026-12-01T09:00
--tz ZONE  an IANA time zone, such as Europe/London
"""
_BEHAVIOUR: Final = """
--overlap  if the last one still runs (default: skip)
--missed  for missed fires (default: one)
--window MINUTES  how far back --missed all goes
--jitter SECONDS  start at random up to this much later
--max-failures N  pause after N failures in a row (default: 3)
--budget LIMITS  for each fire, such as steps=20
--bound TOOL=MOST*  let each fire make so many calls with values of other tools
--only TOOL.INPUT=VALUE*  of these, only with this value
--plan FILE  the plan, from a file
--approve-plan HASH  approve exactly this plan
"""
_SOURCES: Final = """
[REQUEST]  what to do, and when, in words
--run RUN  the plan of a run
--template NAME  a template
--set NAME=VALUE*  its parameter; repeatable
--anew  plan the request again each time; each plan needs approval
--name NAME  the name of the schedule
--lang LANG  the language of the plan, such as en or zh-CN
--no-input  ask nothing
"""
_NEXT: Final = """
[NAME]  a schedule, or give times
--after TIME  from when on (default: now)
--count COUNT  how many (default: 5)
"""
_KEEP: Final = f"""
--once  fire what is due now, then exit
--look SECONDS  how often to look for due schedules, in seconds (default: {LOOK_S:g})
"""
_REASON: Final = "--reason REASON  why it is paused\n"
_TIMES: Final = "--since TIME  the first time\n--until TIME  the last time\n"
_LIMIT: Final = "--limit LIMIT  how many (default: 20)\n"
_EITHER: Final[dict[str, Any]] = {
    "overlap": {"choices": [*map(str, Overlap)]},
    "missed": {"choices": [*map(str, Missed)]},
    "window": {"type": int, "dest": "window_minutes"},
    "jitter": {"type": int, "dest": "jitter_seconds"},
    "max_failures": int,
}
_GIVEN: Final[dict[str, Any]] = {
    "request": {"default": ""},
    "set": {"default": []},
    "name": {"default": ""},
}
_ADD: Final = _TIMING + _BEHAVIOUR + _SOURCES + PARTS + JSON
_CHANGE: Final = _NAME + _TIMING + _BEHAVIOUR + TOOLS + JSON
ADD = session_command(_ADD, _add, **_EITHER, **_GIVEN)
LIST = store_command(JSON, _list)
SHOW = store_command(_NAME + JSON, _show)
CHANGE = session_command(_CHANGE, _change, **_EITHER)
PAUSE = store_command(_NAME + _REASON + JSON, _switch, reason={"default": ""})
RESUME = store_command(_NAME + JSON, _switch)
RUN_NOW = session_command(_NAME + PARTS + JSON, _run_now)
BACKFILL = store_command(
    _NAME + _TIMES + JSON, _backfill, since={"required": True}, until={"required": True}
)
REMOVE = store_command(_NAME + JSON, _switch)
HISTORY = store_command(_NAME + _LIMIT + JSON, _history, limit={"type": int, "default": 20})
NEXT = store_command(
    _NEXT + _TIMING + JSON, _next, only_reads=True, count={"type": int, "default": 5}
)
KEEP = session_command(_KEEP + PARTS + JSON, _keep, look={"type": float, "default": LOOK_S})
