"""`plansmith runs`: lists runs; also shows one for `plansmith show`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from plansmith.cli.command import FileCommand
from plansmith.cli.exit_codes import Exit
from plansmith.cli.options import add_json, add_parts
from plansmith.cli.session import Session, in_session
from plansmith.cli.ui.output import print_json, print_lines
from plansmith.lazy import lazy_modules
from plansmith.plan.data import Json
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.report.data import Times, times_of
from plansmith.text import clip, safe

if TYPE_CHECKING:
    from plansmith.cli import describe
    from plansmith.dialects import native
else:
    lazy_modules(globals(), describe="plansmith.cli.describe", native="plansmith.dialects.native")

_MOST: Final = 20
_SHORT: Final = 8
_OPEN: Final = [status.value for status in RunStatus if not status.over]


class Listed(NamedTuple):
    """A run in the list, and how long it was planned, ran and waited."""

    run: Run
    times: Times


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--status",
        action="append",
        choices=["open", *(status.value for status in RunStatus)],
        help="only these statuses; open means not over; repeatable",
    )
    parser.add_argument("--limit", type=int, default=_MOST, help=f"how many (default: {_MOST})")
    add_parts(parser)
    add_json(parser)


def _main(args: argparse.Namespace) -> int:
    async def work(session: Session) -> int:
        ids = list(await session.smith.store.runs())
        runs = await _newest(session, ids, _wanted(args.status), args.limit)
        if args.json:
            print_json([_row_json(run, times) for run, times in runs])
        elif runs:
            print_lines(_table(runs, ids, session.journals.folder))
        else:
            session.say(session.words["no_runs"])
        return Exit.OK

    return in_session(args, work, only_reads=True)


def _wanted(given: Sequence[str] | None) -> frozenset[str]:
    found = given or [status.value for status in RunStatus]
    return frozenset(each for name in found for each in (_OPEN if name == "open" else [name]))


async def _newest(
    session: Session, ids: Sequence[str], wanted: frozenset[str], most: int
) -> list[Listed]:
    """Returns the newest runs with these statuses, newest last."""
    found: list[Listed] = []
    for run_id in reversed(ids):
        if len(found) >= max(most, 0):
            break
        run, events = await session.journals.listed(run_id)
        if run.status.value in wanted:
            found.append(Listed(run, times_of(events)))
    return found[::-1]


def _place(run: Run, here: str) -> str:
    return f"  ({safe(run.folder)})" if run.folder not in ("", here) else ""


def _table(runs: Sequence[Listed], ids: Sequence[str], here: str) -> list[str]:
    length = shortest(ids)
    return [
        f"{run.id[:length]}  {_status(run):<11}  {_share(run):>5}"
        f"  {_began(run):<16}  {clip(safe(run.request or run.damage), 80)}{_place(run, here)}"
        for run, _ in runs
    ]


def _status(run: Run) -> str:
    """Returns the status for the list; `damaged` or `interrupted` come first."""
    return "damaged" if run.damage else "interrupted" if run.interrupted else run.status.value


def _began(run: Run) -> str:
    return f"{run.created_at:%Y-%m-%d %H:%M}" if run.created_at else ""


def shortest(ids: Sequence[str]) -> int:
    """Returns how many characters are needed to tell the ids apart."""
    ordered = sorted(ids)
    shared = [
        next((at for at, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), len(one))
        for one, two in pairwise(ordered)
    ]
    return max([_SHORT, *(count + 1 for count in shared)])


def _share(run: Run) -> str:
    states = [run.steps[step.id].status for step in run.plan.steps] if run.plan else []
    return f"{states.count(StepStatus.DONE)}/{len(states)}" if states else ""


def _row_json(run: Run, times: Times) -> dict[str, Json]:
    return {
        "id": run.id,
        "status": run.status.value,
        "request": run.request,
        "folder": run.folder,
        "reason": run.reason,
        "damage": run.damage,
        "interrupted": run.interrupted,
        "questions": list(run.questions),
        "tokens": run.tokens,
        "cost_usd": str(run.money),
        "planning_seconds": times.planning,
        "running_seconds": times.running,
        "waiting_seconds": times.waiting,
        "created_at": run.created_at.isoformat() if run.created_at else None,
        "updated_at": run.updated_at.isoformat() if run.updated_at else None,
    }


def show_run(args: argparse.Namespace) -> int:
    """Shows a run: status, steps and results."""

    async def work(session: Session) -> int:
        run = await session.run(args.plan)
        if args.json:
            print_json(describe.run_json(run, session))
        elif args.yaml:
            sys.stdout.write(native.to_yaml(run.plan) if run.plan else "")
        else:
            print_lines(describe.run_lines(run, session))
            session.say(*describe.waiting_lines(run, session))
        return Exit.OK

    return in_session(args, work)


COMMAND = FileCommand(_configure, _main)
