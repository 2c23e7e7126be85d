"""`plansmith schedule`: create, list, fire, pause and remove schedules."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from plansmith.errors import Misconfigured
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.schedules import Fire, FireState, Missed, Overlap, Schedule
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.timing import Timing, make_timing, next_fires, zone_of
from plansmith.schedules.service import LOOK_S
from plansmith.text import clip, safe
from plansmith_cli.command_table import Command
from plansmith_cli.commands.schedule_view import (
    Offer,
    confirmed,
    create_approved,
    fire_json,
    fire_lines,
    instant,
    list_lines,
    local,
    print_waiting,
    schedule_json,
    schedule_lines,
    schedules_json,
)
from plansmith_cli.commands.templates import pairs, typed_value
from plansmith_cli.exit_codes import Exit
from plansmith_cli.interactive import finish, interrupts
from plansmith_cli.options import (
    add_json,
    add_parts,
    add_store_alone,
    add_tools,
    read_budget,
    settings_of,
)
from plansmith_cli.session import Session, exit_of, in_session
from plansmith_cli.ui.output import load_plan, print_as, print_json, print_lines
from plansmith_cli.ui.own_locale import own_locale
from plansmith_planner.language.recurrence import recurrence

_NAMES: Final = "add|list|show|change|pause|resume|run-now|backfill|remove|history|next|keep"
_UNITS: Final = {"m": 1, "h": 60, "d": 1440, "w": 10080}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of every action."""
    actions = parser.add_subparsers(dest="action", required=True, metavar=_NAMES)
    made = {name: actions.add_parser(name, help=text) for name, text in _HELP.items()}
    for name in ("show", "change", "pause", "resume", "run-now", "backfill", "remove", "history"):
        made[name].add_argument(
            "name", metavar="NAME", help="its name, its id, or the beginning of its id"
        )
    made["next"].add_argument("name", metavar="NAME", nargs="?", help="a schedule, or give times")
    for name in ("add", "change", "next"):
        _add_timing(made[name])
    for name in ("add", "change"):
        _add_behaviour(made[name])
    _add_sources(made["add"])
    made["pause"].add_argument("--reason", default="", help="why it is paused")
    for flag, text in (("--since", "the first time"), ("--until", "the last time")):
        made["backfill"].add_argument(flag, metavar="TIME", required=True, help=text)
    made["history"].add_argument("--limit", type=int, default=20, help="how many (default: 20)")
    made["next"].add_argument("--after", metavar="TIME", help="from when on (default: now)")
    made["next"].add_argument("--count", type=int, default=5, help="how many (default: 5)")
    keep = made["keep"]
    keep.add_argument("--once", action="store_true", help="fire what is due now, then exit")
    look = f"how often to look for due schedules, in seconds (default: {LOOK_S:g})"
    keep.add_argument("--look", type=float, default=LOOK_S, metavar="SECONDS", help=look)
    for name, each in made.items():
        _PARTS.get(name, add_store_alone)(each)
        add_json(each)


_HELP: Final = {
    "add": "create a schedule from a request, a plan, a run or a template",
    "list": "list all schedules",
    "show": "show a schedule: its plan, its next and its last fires",
    "change": "change the times, the plan or the behaviour",
    "pause": "pause a schedule",
    "resume": "resume a schedule",
    "run-now": "fire once, now",
    "backfill": "queue fires for past times that were missed",
    "remove": "remove a schedule",
    "history": "list its past fires, newest first",
    "next": "print the next fires of a schedule, or of times you give",
    "keep": "fire what is due, until you stop it",
}


# What an action needs beside the store: what it plans or runs.
_PARTS: Final = {"add": add_parts, "change": add_tools, "run-now": add_parts, "keep": add_parts}


def _add_timing(parser: argparse.ArgumentParser) -> None:
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--every", metavar="15m|2h|1d", help="an interval, counted from its creation")
    when.add_argument("--daily", metavar="HH:MM", help="a time of day")
    when.add_argument("--cron", metavar="EXPR", help="five fields: minute hour day month weekday")
    when.add_argument("--at", metavar="TIME", help="once, such as 2026-12-01T09:00")
    parser.add_argument("--tz", metavar="ZONE", help="an IANA time zone, such as Europe/London")


def _add_behaviour(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--overlap", choices=list(Overlap), help="if the last one still runs (default: skip)"
    )
    parser.add_argument("--missed", choices=list(Missed), help="for missed fires (default: one)")
    parser.add_argument(
        "--window", type=int, metavar="MINUTES", help="how far back --missed all goes"
    )
    parser.add_argument(
        "--jitter", type=int, metavar="SECONDS", help="start at random up to this much later"
    )
    parser.add_argument(
        "--max-failures", type=int, metavar="N", help="pause after N failures in a row (default: 3)"
    )
    parser.add_argument("--budget", metavar="LIMITS", help="for each fire, such as steps=20")
    parser.add_argument("--plan", metavar="FILE", help="the plan, from a file")
    parser.add_argument("--approve-plan", metavar="HASH", help="approve exactly this plan")


def _add_sources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "request", metavar="REQUEST", nargs="?", default="", help="what to do, and when, in words"
    )
    parser.add_argument("--run", metavar="RUN", help="the plan of a run")
    parser.add_argument("--template", metavar="NAME", help="a template")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="its parameter; repeatable"
    )
    parser.add_argument(
        "--anew",
        action="store_true",
        help="plan the request again each time; each plan needs approval",
    )
    parser.add_argument("--name", default="", help="the name of the schedule")
    parser.add_argument("--lang", help="the language of the plan, such as en or zh-CN")
    parser.add_argument("--no-input", action="store_true", help="ask nothing")


def timing_of(args: argparse.Namespace, zone: str) -> Timing | None:
    """Returns the timing that the flags give, or None."""
    given: dict[str, Any] = {
        "every_minutes": _minutes(args.every) if args.every else None,
        "daily_at": args.daily,
        "cron": args.cron,
        "once_at": args.at,
    }
    fields = {name: value for name, value in given.items() if value is not None}
    return make_timing(**fields, timezone=args.tz or zone) if fields else None


def _minutes(text: str) -> int:
    number, unit = (text[:-1], text[-1]) if text[-1:] in _UNITS else (text, "m")
    if not number.isdecimal() or not int(number):
        hint = Sentence("such as 15m, 2h, 1d or 1w")
        raise Misconfigured(Sentence("{text} is not an interval", text=repr(text)), hint=hint)
    return int(number) * _UNITS[unit]


def moment_of(text: str, zone: str) -> datetime:
    """Reads a time; without an offset it is in the given zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        hint = Sentence("such as 2026-12-01T09:00 or 2026-12-01T08:00:00Z")
        raise Misconfigured(Sentence("{text} is not a time", text=repr(text)), hint=hint) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=zone_of(zone))


def behaviour_of(args: argparse.Namespace) -> dict[str, Any]:
    """Returns the flags for overlap, missed fires, failures and budget."""
    given = {
        "overlap": args.overlap,
        "missed": args.missed,
        "window_minutes": args.window,
        "jitter_seconds": args.jitter,
        "max_failures": args.max_failures,
    }
    found = {name: value for name, value in given.items() if value is not None}
    if args.budget:
        limits = read_budget(args.budget)
        money = {"money": f"{Decimal(str(limits['money'])):f}"} if "money" in limits else {}
        found["budget"] = limits | money
    return found


def _main(args: argparse.Namespace) -> int:
    if args.action == "next" and not args.name:
        return _next_of_times(args)

    async def work(session: Session) -> int:
        return await _ACTIONS[args.action](session)

    return in_session(args, work)


def _next_of_times(args: argparse.Namespace) -> int:
    zone = settings_of(args).planner.timezone
    timing = timing_of(args, zone)
    if timing is None:
        hint = Sentence("--cron, --daily, --every or --at, or the name of a schedule")
        raise Misconfigured(Sentence("no times are given"), hint=hint)
    after = moment_of(args.after, args.tz or zone) if args.after else datetime.now().astimezone()
    _print_times(args, next_fires(timing, after=after, count=max(args.count, 0)), timing)
    return Exit.OK


def _print_times(args: argparse.Namespace, times: list[datetime], timing: Timing) -> None:
    locale = own_locale()
    lines = (f"{instant(at)}  {local(at, timing.timezone, locale)}" for at in times)
    print_as(args, [instant(at) for at in times], lines)


async def _next(session: Session) -> int:
    args, smith = session.args, session.smith
    schedule = await smith.schedules.get(args.name)
    times = await smith.schedules.next_fires(schedule.id, count=max(args.count, 0))
    if args.after:
        after = moment_of(args.after, schedule.timing.timezone)
        times = next_fires(
            schedule.timing, after=after, anchor=schedule.created, count=max(args.count, 0)
        )
    if schedule.paused and not times:
        why = safe(in_language(schedule.reason, session.locale))
        session.say(f"{session.own_text('paused')}: {why}")
    _print_times(args, times, schedule.timing)
    return Exit.OK


async def _add(session: Session) -> int:
    args = session.args
    sources = [args.request.strip(), args.plan, args.run, args.template]
    if sum(bool(each) for each in sources) != 1:
        raise Misconfigured(
            Sentence("say what to do"), hint=Sentence("a REQUEST, --plan, --run or --template")
        )
    if args.anew and not args.request:
        raise Misconfigured(
            Sentence("--anew needs a REQUEST"), hint=Sentence("a ready plan is not planned again")
        )
    zone = args.tz or session.settings.planner.timezone
    timing = timing_of(args, zone)
    request = args.request.strip()
    if request and timing is None:
        request, timing = _split_request(session, request, zone)
    offer = await _source(session, request, timing)
    if args.anew:
        fields = offer.fields | behaviour_of(args)
        schedule = await session.smith.schedules.create(**fields, by=session.by)
        return _print_change(session, schedule, "added")
    if not await confirmed(session, offer):
        return print_waiting(session, offer)
    made = await create_approved(session, offer, **behaviour_of(args))
    if args.json:
        print_json(schedules_json(made))
        return Exit.OK
    return [_print_change(session, each, "added") for each in made][-1]


def _split_request(session: Session, request: str, zone: str) -> tuple[str, Timing]:
    """Reads what to do and when from a request."""
    found = recurrence(request, timezone=zone)
    if found is None or found.timing is None:
        why = found.flaw if found else Sentence("the request does not say when")
        raise Misconfigured(
            why, hint=Sentence('such as "every weekday at 9 …", or --cron, --daily, --every, --at')
        )
    timing = in_language(found.timing.sentence, session.locale)
    more = f" {found.assumed}" if found.assumed else ""
    told = session.own_text(
        "understood: {words}: {timing}{more}", words=safe(found.words), timing=timing, more=more
    )
    session.say(told)
    if not found.rest:
        raise Misconfigured(
            Sentence("the request does not say what to do"), hint=Sentence("add it")
        )
    return found.rest, found.timing


async def _source(session: Session, request: str, timing: Timing | None) -> Offer:
    """Makes the offer: the plan to be scheduled, and the fields of the schedule."""
    args, smith = session.args, session.smith
    fields: dict[str, Any] = {"name": args.name, "timing": timing}
    if args.template:
        book = smith.templates
        template = await book.get(args.template)
        inputs = {name: typed_value(template, name, text) for name, text in pairs(args.set).items()}
        plan = await smith.runs.intake.pinned(await book.plan(args.template, inputs))
        return Offer(plan, fields | {"template": args.template, "inputs": inputs})
    if args.plan:
        plan = await smith.runs.intake.pinned(load_plan(args.plan))
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


def _print_change(session: Session, schedule: Schedule, change: str) -> int:
    if session.args.json:
        print_json(schedule_json(schedule))
        return Exit.OK
    timing = in_language(schedule.timing.sentence, session.locale)
    fields = {"name": safe(schedule.name), "timing": timing}
    told = {
        "added": Sentence("saved schedule {name}: {timing}", **fields),
        "changed": Sentence("changed schedule {name}: {timing}", **fields),
        "paused": Sentence("paused schedule {name}: {timing}", **fields),
        "resumed": Sentence("resumed schedule {name}: {timing}", **fields),
        "removed": Sentence("removed schedule {name}: {timing}", **fields),
    }
    session.say(in_language(told[change], session.locale))
    if change == "added":
        command = session.command("schedule", "keep")
        session.say(
            session.own_text("{command} fires it; so does plansmith serve", command=command)
        )
    return Exit.OK


async def _list(session: Session) -> int:
    found = await session.smith.schedules.all()
    if session.args.json:
        print_json([schedule_json(each) for each in found])
    elif found:
        here = session.smith.runs.journals.folder
        print_lines(list_lines(found, here, locale=session.locale))
    else:
        session.say(session.own_text("no schedules; plansmith schedule add makes one"))
    return Exit.OK


async def _show(session: Session) -> int:
    smith = session.smith
    schedule = await smith.schedules.get(session.args.name)
    fires = await smith.schedules.history(schedule.id, limit=5)
    if session.args.json:
        history: list[Json] = [fire_json(each) for each in fires]
        print_json(schedule_json(schedule, count=5) | {"history": history})
        return Exit.OK
    print_lines(schedule_lines(schedule, locale=session.locale))
    if fires:
        print_lines(["", *fire_lines(fires, schedule.timing.timezone, locale=session.locale)])
    return Exit.OK


async def _change(session: Session) -> int:
    args, smith = session.args, session.smith
    schedule = await smith.schedules.get(args.name)
    timing = timing_of(args, schedule.timing.timezone)
    changes: dict[str, Any] = behaviour_of(args)
    if args.plan:
        plan = await smith.runs.intake.pinned(load_plan(args.plan))
        offer = Offer(plan, {"name": schedule.name, "timing": timing or schedule.timing})
        if not await confirmed(session, offer):
            return print_waiting(session, offer)
        changes |= {"plan": plan, "approve": plan.hash}
    elif args.approve_plan:
        changes["approve"] = args.approve_plan
    if not changes and timing is None:
        hint = "plansmith schedule change -h"
        raise Misconfigured(Sentence("no change is given"), hint=hint)
    after = await smith.schedules.change(schedule.id, timing=timing, by=session.by, **changes)
    return _print_change(session, after, "changed")


async def _pause(session: Session) -> int:
    args = session.args
    after = await session.smith.schedules.pause(args.name, reason=args.reason, by=session.by)
    return _print_change(session, after, "paused")


async def _resume(session: Session) -> int:
    after = await session.smith.schedules.resume(session.args.name)
    return _print_change(session, after, "resumed")


async def _remove(session: Session) -> int:
    after = await session.smith.schedules.remove(session.args.name)
    return _print_change(session, after, "removed")


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


async def _backfill(session: Session) -> int:
    args = session.args
    zone = (await session.smith.schedules.get(args.name)).timing.timezone
    since, until = moment_of(args.since, zone), moment_of(args.until, zone)
    fires = await session.smith.schedules.backfill(args.name, since=since, until=until)
    if args.json:
        print_json([fire_json(each) for each in fires])
    else:
        session.say(
            session.own_text(
                "{count} fires queued; plansmith schedule keep starts them in order",
                count=len(fires),
            )
        )
    return Exit.OK


async def _history(session: Session) -> int:
    schedule = await session.smith.schedules.get(session.args.name)
    fires = await session.smith.schedules.history(schedule.id, limit=max(session.args.limit, 0))
    if session.args.json:
        print_json([fire_json(each) for each in fires])
    else:
        print_lines(fire_lines(fires, schedule.timing.timezone, locale=session.locale))
    return Exit.OK


async def _keep_once(session: Session) -> int:
    """Fires what is due now and prints the results; returns the worst exit code."""
    smith = session.smith
    before = {fire.key: fire.version for fire in await smith.schedules.shelf.open_fires()}
    keys = {*before}
    while begun := await smith.schedules.tick():
        keys |= {fire.key for fire in begun}
        await smith.schedules.carried()
    await smith.schedules.carried()
    printed: list[Json] = []
    codes = [Exit.OK]
    for schedule in await smith.schedules.shelf.schedules():
        mine = {due for name, due in keys if name == schedule.id}
        fires: Sequence[Fire] = ()
        if mine:
            fires = await smith.schedules.shelf.fires(schedule.id, limit=_ALL)
        for fire in [each for each in fires if each.due in mine][::-1]:
            if before.get(fire.key) != fire.version:
                printed.append({"schedule": schedule.name, **fire_json(fire)})
                codes.append(await _exit_of_fire(session, fire))
                session.say(_fire_line(session, schedule, fire))
    if session.args.json:
        print_json(printed)
    elif not printed:
        session.say(session.own_text("nothing is due"))
    return next((code for code in _WORST if code in codes), max(codes))


def _fire_line(session: Session, schedule: Schedule, fire: Fire) -> str:
    locale = session.locale
    note = f": {clip(safe(in_language(fire.note, locale)), 200)}" if fire.note else ""
    state = in_language(Sentence(f"fire.{fire.state.value}"), locale)
    return f"{safe(schedule.name)}: {state}{note}  {fire.run}".rstrip()


async def _exit_of_fire(session: Session, fire: Fire) -> Exit:
    """Returns the exit code of a fire: that of its run, if it has one."""
    if fire.state in (FireState.SKIPPED, FireState.MISSED, FireState.QUEUED):
        return Exit.OK
    if not fire.run or not await session.smith.store.events(fire.run):
        return Exit.FAILED
    return exit_of(await session.smith.get(fire.run))


_ALL: Final = 10**9
_WORST: Final = (Exit.FAILED, Exit.INVALID, Exit.PARTLY, Exit.REFUSED, Exit.BUDGET, Exit.WAITING)


async def _keep(session: Session) -> int:
    smith = session.smith
    if session.args.once:
        return await _keep_once(session)
    async with interrupts() as hits:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, hits.put_nowait, None)
        keeping = asyncio.ensure_future(smith.schedules.keep(look_s=max(session.args.look, 0.1)))
        hit = asyncio.ensure_future(hits.get())
        session.say(
            session.own_text("firing schedules; Ctrl-C stops, and open runs can be resumed later")
        )
        await asyncio.wait([keeping, hit], return_when=asyncio.FIRST_COMPLETED)
        for each in (keeping, hit):
            each.cancel()
        outcomes = await asyncio.gather(keeping, hit, return_exceptions=True)
    if isinstance(outcomes[0], Exception):
        raise outcomes[0]
    return Exit.OK


_ACTIONS: Final[dict[str, Callable[[Session], Awaitable[int]]]] = {
    "add": _add,
    "list": _list,
    "show": _show,
    "change": _change,
    "pause": _pause,
    "resume": _resume,
    "run-now": _run_now,
    "backfill": _backfill,
    "remove": _remove,
    "history": _history,
    "next": _next,
    "keep": _keep,
}
COMMAND = Command(configure, _main)
