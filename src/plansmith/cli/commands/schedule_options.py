"""Defines the flags of `plansmith schedule`, and reads times and limits from them."""

from __future__ import annotations

import argparse
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from plansmith.cli.options import add_json, add_parts, add_store_alone, add_tools, read_budget
from plansmith.errors import Misconfigured
from plansmith.plan.schedules import Missed, Overlap
from plansmith.plan.sentence import Sentence
from plansmith.plan.timing import Timing, make_timing, zone_of
from plansmith.schedules.service import LOOK_S

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
        hint = Sentence("error.such_as_interval")
        raise Misconfigured(Sentence("error.no_interval", text=repr(text)), hint=hint)
    return int(number) * _UNITS[unit]


def moment_of(text: str, zone: str) -> datetime:
    """Reads a time; without an offset it is in the given zone."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        hint = Sentence("error.such_as_time")
        raise Misconfigured(Sentence("error.not_moment", text=repr(text)), hint=hint) from None
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
