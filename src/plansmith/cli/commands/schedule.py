"""`plansmith schedule`: create, list, fire, pause and remove schedules."""

from __future__ import annotations

import argparse
import asyncio
import signal
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Final

from plansmith.cli.command import FileCommand
from plansmith.cli.commands.schedule_options import (
    behaviour_of,
    configure,
    moment_of,
    timing_of,
)
from plansmith.cli.commands.schedule_view import (
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
from plansmith.cli.commands.templates import pairs, typed_value
from plansmith.cli.ending import finish
from plansmith.cli.exit_codes import Exit
from plansmith.cli.interactive import interrupts
from plansmith.cli.options import settings_of
from plansmith.cli.session import Session, exit_of, in_session
from plansmith.cli.ui.output import load_plan, print_json, print_lines
from plansmith.errors import Misconfigured
from plansmith.plan.data import Json
from plansmith.plan.plan import Plan
from plansmith.plan.schedules import Fire, FireState, Schedule
from plansmith.plan.sentence import in_language
from plansmith.plan.timing import Timing, next_fires
from plansmith.planner.recurrence import recurrence
from plansmith.text import clip, safe


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
        hint = "--cron, --daily, --every or --at, or the name of a schedule"
        raise Misconfigured("no times are given", hint=hint)
    after = moment_of(args.after, args.tz or zone) if args.after else datetime.now().astimezone()
    _print_times(args, next_fires(timing, after=after, count=max(args.count, 0)), timing)
    return Exit.OK


def _print_times(args: argparse.Namespace, times: list[datetime], timing: Timing) -> None:
    if args.json:
        print_json([instant(at) for at in times])
    else:
        print_lines(f"{instant(at)}  {local(at, timing.timezone)}" for at in times)


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
        session.say(f"paused: {safe(in_language(schedule.reason, session.words['locale']))}")
    _print_times(args, times, schedule.timing)
    return Exit.OK


async def _add(session: Session) -> int:
    args = session.args
    sources = [args.request.strip(), args.plan, args.run, args.template]
    if sum(bool(each) for each in sources) != 1:
        raise Misconfigured("say what to do", hint="a REQUEST, --plan, --run or --template")
    if args.anew and not args.request:
        raise Misconfigured("--anew needs a REQUEST", hint="a ready plan is not planned again")
    zone = args.tz or session.settings.planner.timezone
    timing = timing_of(args, zone)
    request = args.request.strip()
    if request and timing is None:
        request, timing = _split_request(session, request, zone)
    offer = await _source(session, request, timing)
    if args.anew:
        fields = offer.fields | behaviour_of(args)
        return _print_change(
            session, await session.smith.schedules.create(**fields, by=session.by), "kept"
        )
    if not await confirmed(session, offer):
        return print_waiting(session, offer)
    made = await create_approved(session, offer, **behaviour_of(args))
    if args.json:
        print_json(schedules_json(made))
        return Exit.OK
    return [_print_change(session, each, "kept") for each in made][-1]


def _split_request(session: Session, request: str, zone: str) -> tuple[str, Timing]:
    """Reads what to do and when from a request."""
    found = recurrence(request, timezone=zone)
    if found is None or found.timing is None:
        why = found.flaw if found else "the request does not say when"
        hint = 'such as "every weekday at 9 …", or --cron, --daily, --every, --at'
        raise Misconfigured(why, hint=hint)
    more = f" {found.assumed}" if found.assumed else ""
    session.say(f"understood: {safe(found.words)}: {found.timing}{more}")
    if not found.rest:
        raise Misconfigured("the request does not say what to do", hint="add it")
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
        raise Misconfigured(
            run.reason or "there is no plan for it", hint="describe the request in more detail"
        )
    return Offer(run.plan, fields | {"run": run.id})


def _print_change(session: Session, schedule: Schedule, action: str) -> int:
    if session.args.json:
        print_json(schedule_json(schedule))
        return Exit.OK
    session.say(f"{action} schedule {safe(schedule.name)}: {schedule.timing}")
    if action == "kept":
        session.say(f"{session.command('schedule', 'keep')} fires it; so does plansmith serve")
    return Exit.OK


async def _list(session: Session) -> int:
    found = await session.smith.schedules.all()
    if session.args.json:
        print_json([schedule_json(each) for each in found])
    elif found:
        print_lines(list_lines(found, session.smith.runs.journals.folder))
    else:
        session.say("no schedules; plansmith schedule add makes one")
    return Exit.OK


async def _show(session: Session) -> int:
    smith = session.smith
    schedule = await smith.schedules.get(session.args.name)
    fires = await smith.schedules.history(schedule.id, limit=5)
    if session.args.json:
        history: list[Json] = [fire_json(each) for each in fires]
        print_json(schedule_json(schedule, count=5) | {"history": history})
        return Exit.OK
    print_lines(schedule_lines(schedule))
    if fires:
        print_lines(["", *fire_lines(fires, schedule.timing.timezone)])
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
        raise Misconfigured("no change is given", hint="plansmith schedule change -h")
    after = await smith.schedules.change(schedule.id, timing=timing, by=session.by, **changes)
    return _print_change(session, after, "changed")


async def _pause(session: Session) -> int:
    args = session.args
    after = await session.smith.schedules.pause(args.name, reason=args.reason, by=session.by)
    return _print_change(session, after, "paused")


async def _resume(session: Session) -> int:
    return _print_change(
        session, await session.smith.schedules.resume(session.args.name), "resumed"
    )


async def _remove(session: Session) -> int:
    return _print_change(
        session, await session.smith.schedules.remove(session.args.name), "removed"
    )


async def _run_now(session: Session) -> int:
    fire = await session.smith.schedules.fire_now(session.args.name)
    await session.smith.schedules.carried()
    rows = await session.smith.schedules.history(session.args.name, limit=1000)
    row = next(each for each in rows if each.due == fire.due)
    if not await session.smith.store.events(fire.run):
        raise Misconfigured(row.note, hint="fix this and try again")
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
        session.say(f"{len(fires)} fires queued; plansmith schedule keep starts them in order")
    return Exit.OK


async def _history(session: Session) -> int:
    schedule = await session.smith.schedules.get(session.args.name)
    fires = await session.smith.schedules.history(schedule.id, limit=max(session.args.limit, 0))
    if session.args.json:
        print_json([fire_json(each) for each in fires])
    else:
        print_lines(fire_lines(fires, schedule.timing.timezone))
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
                note = (
                    f": {clip(safe(in_language(fire.note, session.words['locale'])), 200)}"
                    if fire.note
                    else ""
                )
                session.say(f"{safe(schedule.name)}: {fire.state.value}{note}  {fire.run}".rstrip())
    if session.args.json:
        print_json(printed)
    elif not printed:
        session.say("nothing is due")
    return next((code for code in _WORST if code in codes), max(codes))


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
        session.say("firing schedules; Ctrl-C stops, and open runs can be resumed later")
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
COMMAND = FileCommand(configure, _main)
