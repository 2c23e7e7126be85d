"""The flags of `plansmith schedule`: times, behaviour, dates."""

from __future__ import annotations

import argparse
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from plansmith.cli.options import add_json, add_parts, read_budget
from plansmith.errors import Misconfigured
from plansmith.plan.schedules import Missed, Overlap
from plansmith.plan.timing import Timing, make_timing, zone_of
from plansmith.schedules.service import LOOK_S

_NAMES: Final = "add|list|show|change|pause|resume|run-now|backfill|remove|history|next|keep"
_UNITS: Final = {"m": 1, "h": 60, "d": 1440, "w": 10080}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of every deed."""
    deeds = parser.add_subparsers(dest="deed", required=True, metavar=_NAMES)
    made = {name: deeds.add_parser(name, help=words) for name, words in _HELP.items()}
    for name in ("show", "change", "pause", "resume", "run-now", "backfill", "remove", "history"):
        made[name].add_argument("name", metavar="NAME", help="its name, its id, or how that begins")
    made["next"].add_argument("name", metavar="NAME", nargs="?", help="a schedule, or give times")
    for name in ("add", "change", "next"):
        _add_timing(made[name])
    for name in ("add", "change"):
        _add_behaviour(made[name])
    _add_sources(made["add"])
    made["pause"].add_argument("--reason", default="", help="why, for whoever finds it paused")
    for flag, words in (("--since", "the first instant"), ("--until", "the last instant")):
        made["backfill"].add_argument(flag, metavar="TIME", required=True, help=words)
    made["history"].add_argument("--limit", type=int, default=20, help="how many (default: 20)")
    made["next"].add_argument("--after", metavar="TIME", help="from when on (default: now)")
    made["next"].add_argument("--count", type=int, default=5, help="how many (default: 5)")
    keep = made["keep"]
    keep.add_argument("--once", action="store_true", help="deal with what is due now, and end")
    look = f"how often to look for news, in seconds (default: {LOOK_S:g})"
    keep.add_argument("--look", type=float, default=LOOK_S, metavar="SECONDS", help=look)
    for each in made.values():
        add_parts(each)
        add_json(each)


_HELP: Final = {
    "add": "make a schedule of a request, a plan, a run or a template",
    "list": "all schedules",
    "show": "one schedule: its plan, its next fires, what came of the last ones",
    "change": "other times, another plan, another behaviour",
    "pause": "fire nothing more for now",
    "resume": "fire again, from now on",
    "run-now": "fire once, now",
    "backfill": "queue fires for instants that had none",
    "remove": "fire never again",
    "history": "what came of its fires, newest first",
    "next": "the next fires of a schedule, or of times you give",
    "keep": "fire what is due, until you stop it",
}


def _add_timing(parser: argparse.ArgumentParser) -> None:
    when = parser.add_mutually_exclusive_group()
    when.add_argument("--every", metavar="15m|2h|1d", help="an interval, counted from its making")
    when.add_argument("--daily", metavar="HH:MM", help="a time of day")
    when.add_argument("--cron", metavar="EXPR", help="five fields: minute hour day month weekday")
    when.add_argument("--at", metavar="TIME", help="once, such as 2026-12-01T09:00")
    parser.add_argument("--tz", metavar="ZONE", help="an IANA time zone, such as Europe/London")


def _add_behaviour(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--overlap", choices=list(Overlap), help="while one runs: skip is usual")
    parser.add_argument("--missed", choices=list(Missed), help="when nobody was there: one")
    parser.add_argument("--window", type=int, metavar="MINUTES", help="how far back --missed all")
    parser.add_argument("--jitter", type=int, metavar="SECONDS", help="start up to so much later")
    parser.add_argument("--max-failures", type=int, metavar="N", help="pause after N in a row: 3")
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
        "--anew", action="store_true", help="plan the request anew each time; each plan asks first"
    )
    parser.add_argument("--name", default="", help="what to call it")
    parser.add_argument("--lang", help="the language of the plan, such as en or zh-CN")
    parser.add_argument("--no-input", action="store_true", help="ask nothing")


def timing_of(args: argparse.Namespace, zone: str) -> Timing | None:
    """The times that the flags name."""
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
        raise Misconfigured(f"{text!r} is not an interval", hint="such as 15m, 2h, 1d or 1w")
    return int(number) * _UNITS[unit]


def moment_of(text: str, zone: str) -> datetime:
    """A time as it was typed; local in the zone where it has none of its own."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        hint = "such as 2026-12-01T09:00 or 2026-12-01T08:00:00Z"
        raise Misconfigured(f"{text!r} is not a time", hint=hint) from None
    return at if at.tzinfo is not None else at.replace(tzinfo=zone_of(zone))


def behaviour_of(args: argparse.Namespace) -> dict[str, Any]:
    """What the flags say of overlap, missed fires, failures and budget."""
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
