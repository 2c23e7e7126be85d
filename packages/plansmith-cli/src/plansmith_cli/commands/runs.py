"""`plansmith runs` lists runs; `plansmith show` shows one, or a plan file."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from plansmith.lazy import lazy_modules
from plansmith.plan.data import Json
from plansmith.plan.run import RunStatus
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.summary import OPEN_STATUSES, RunSummary
from plansmith.runs.lists import RunLists
from plansmith.text import clip, padded, safe
from plansmith_cli.command_table import Command
from plansmith_cli.exit_codes import Exit
from plansmith_cli.options import add_json, add_store, add_store_alone, positive
from plansmith_cli.session import Session, in_session, session_command, shortest
from plansmith_cli.ui.output import load_plan, print_json, print_lines
from plansmith_cli.ui.own_locale import own_locale

if TYPE_CHECKING:
    from plansmith.review import draw, render
    from plansmith_cli import describe
    from plansmith_cli.commands import threads
else:
    lazy_modules(
        globals(),
        describe="plansmith_cli.describe",
        draw="plansmith.review.draw",
        render="plansmith.review.render",
        threads="plansmith_cli.commands.threads",
    )

_MOST: Final = 20
_SHORT: Final = 8


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--status",
        action="append",
        metavar="STATUS",
        choices=["open", *(status.value for status in RunStatus)],
        help="only these: open (not over), done, failed, reviewing and so on; repeatable",
    )
    parser.add_argument(
        "--limit", type=positive, default=_MOST, help=f"how many (default: {_MOST})"
    )
    add_store_alone(parser)
    add_json(parser)


async def _main(session: Session) -> int:
    args = session.args
    lists = RunLists(session.journals)
    found = await lists.newest(statuses=_wanted(args.status), limit=args.limit)
    runs = found[::-1]
    if args.json:
        print_json([_row_json(run) for run in runs])
    elif runs:
        ids = [run.run for run in runs]
        length = shortest({*ids, *await lists.beside(ids)})
        print_lines(_table(runs, length, session))
    else:
        session.say(
            session.own_text("no run has this status" if args.status else "there are no runs")
        )
    return Exit.OK


def _wanted(given: Sequence[str] | None) -> frozenset[str]:
    return frozenset(
        each for name in given or () for each in (OPEN_STATUSES if name == "open" else [name])
    )


def _place(run: RunSummary, here: str) -> str:
    return f"  ({safe(run.folder)})" if run.folder not in ("", here) else ""


def _table(runs: Sequence[RunSummary], length: int, session: Session) -> list[str]:
    here, locale = session.journals.folder, session.locale
    return [
        f"{run.run[:length]}  {padded(_status(run, locale), 11)}  {_share(run):>5}"
        f"  {_began(run):<16}  {clip(safe(run.request or run.damage), 80)}{_place(run, here)}"
        for run in runs
    ]


def _status(run: RunSummary, locale: str) -> str:
    """Returns the status for the list; `damaged` or `interrupted` come first."""
    name = "damaged" if run.damage else "interrupted" if run.interrupted else run.status.value
    return in_language(Sentence(f"status.{name}"), locale)


def _began(run: RunSummary) -> str:
    return f"{run.created_at:%Y-%m-%d %H:%M}" if run.created_at else ""


def _share(run: RunSummary) -> str:
    return f"{run.steps.done}/{run.steps.total}" if run.steps.total else ""


def _row_json(run: RunSummary) -> dict[str, Json]:
    return {
        "id": run.run,
        "status": run.status.value,
        "request": run.request,
        "folder": run.folder,
        "reason": run.reason,
        "damage": run.damage,
        "interrupted": run.interrupted,
        "questions": [*run.questions],
        "tokens": run.tokens,
        "cost_usd": str(run.money),
        "planning_seconds": run.times.planning,
        "running_seconds": run.times.running,
        "waiting_seconds": run.times.waiting,
        "created_at": run.created_at.isoformat() if run.created_at else None,
        "updated_at": run.updated_at.isoformat() if run.updated_at else None,
    }


_RUN_NAME: Final = re.compile(r"last|[0-9a-fA-F]{4}[0-9a-fA-F-]*")


def names_run(name: str) -> bool:
    """Whether a name means a run rather than a file."""
    return bool(_RUN_NAME.fullmatch(name)) and not Path(name).exists()


def _configure_show(parser: argparse.ArgumentParser) -> None:
    what = "a plan as JSON or YAML, - for stdin; or a run: its id, or last"
    parser.add_argument("plan", metavar="PLAN|RUN", help=what)
    add_store(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print it as JSON")
    form.add_argument("--graph", action="store_true", help="draw the steps as a tree")


def _show(args: argparse.Namespace) -> int:
    if names_run(args.plan):
        return in_session(args, _show_run)
    plan = load_plan(args.plan)
    if args.json:  # with the hash that `--approve-plan` takes; it can be read again
        print_json({**plan.to_json(), "hash": plan.hash})
    else:
        locale = own_locale()
        shown = draw.tree(plan, locale).splitlines() if args.graph else None
        print_lines(shown or render.plan_lines(plan, locale=locale))
    return Exit.OK


async def _show_run(session: Session) -> int:
    """Shows a run: status, steps and results."""
    args = session.args
    run = await session.run(args.plan)
    session.thread = await threads.thread_of(session, run)
    if args.json:
        print_json(describe.run_json(run, session))
    elif args.graph and run.plan is not None:
        sys.stdout.write(draw.tree(run.plan, session.locale))
    else:
        print_lines(describe.run_lines(run, session))
        session.say(*describe.waiting_lines(run, session))
    return Exit.OK


COMMAND = session_command(_configure, _main, only_reads=True)
SHOW = Command(_configure_show, _show)
