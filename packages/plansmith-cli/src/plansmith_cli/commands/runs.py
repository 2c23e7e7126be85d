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
from plansmith_cli.options import JSON, STORE, STORE_ALONE, positive
from plansmith_cli.parser import command
from plansmith_cli.session import Session, in_session, session_command, shortest
from plansmith_cli.ui.output import load_plan, print_json, print_lines
from plansmith_cli.ui.own_locale import own_locale

if TYPE_CHECKING:
    from plansmith.review import draw, render
    from plansmith_cli import consent, describe
    from plansmith_cli.commands import threads
else:
    lazy_modules(
        globals(),
        consent="plansmith_cli.consent",
        describe="plansmith_cli.describe",
        draw="plansmith.review.draw",
        render="plansmith.review.render",
        threads="plansmith_cli.commands.threads",
    )

_MOST: Final = 20


async def _main(session: Session) -> None:
    args = session.args
    lists = RunLists(session.journals)
    found = await lists.newest(statuses=_wanted(args.status), limit=args.limit)
    runs = found[::-1]
    ids = [run.run for run in runs]
    length = shortest({*ids, *await lists.beside(ids)}) if ids else 0
    none = Sentence("no run has this status" if args.status else "there are no runs")
    session.print_list([*map(_row_json, runs)], _table(runs, length, session), none)


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


def _show(args: argparse.Namespace) -> None:
    if names_run(args.plan):
        in_session(args, _show_run)
        return
    plan = load_plan(args.plan)
    if args.json:  # with the hash that `--approve-plan` takes; it can be read again
        print_json({**plan.to_json(), "hash": plan.hash})
    else:
        locale = own_locale()
        shown = draw.tree(plan, locale).splitlines() if args.graph else None
        print_lines(shown or render.plan_lines(plan, locale=locale))


async def _show_run(session: Session) -> None:
    """Shows a run: status, steps and results."""
    args = session.args
    run = await session.run(args.plan)
    session.thread = await threads.thread_of(session, run)
    if args.json:
        print_json(describe.run_json(run, session))
    elif args.graph and run.plan is not None:
        sys.stdout.write(draw.tree(run.plan, session.locale))
    else:
        session.print(*describe.run_lines(run, session))
        session.say(*await consent.waiting_lines(run, session))


_LIST: Final = f"""
--status STATUS*  only these: open (not over), done, failed, reviewing and so on; repeatable
--limit LIMIT  how many (default: {_MOST})
"""
_SHOW: Final = """
PLAN|RUN  a plan as JSON or YAML, - for stdin; or a run: its id, or last
--json  print it as JSON
| --graph  draw the steps as a tree
"""
COMMAND = session_command(
    _LIST + STORE_ALONE + JSON,
    _main,
    only_reads=True,
    status={"choices": ["open", *(status.value for status in RunStatus)]},
    limit={"type": positive, "default": _MOST},
)
SHOW = command(_SHOW + STORE, _show)
