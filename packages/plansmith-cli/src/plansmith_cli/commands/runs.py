"""`plansmith runs` lists runs."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path
from typing import Final

from plansmith.plan.data import Json
from plansmith.plan.run import RunStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.summary import OPEN_STATUSES, RunSummary
from plansmith.runs.lists import RunLists
from plansmith.text import clip, safe
from plansmith_cli.options import JSON, positive
from plansmith_cli.session import SHORT, Session, store_command
from plansmith_cli.ui.output import json_of, own_text
from plansmith_cli.ui.terminal import padded

_MOST: Final = 20
_ALL: Final = 10**9
_LOOKED_AT: Final = ("damaged", "interrupted")
_RUN_NAME: Final = re.compile(r"last|[0-9a-fA-F]{4}[0-9a-fA-F-]*")


async def _main(session: Session) -> None:
    args = session.args
    wanted = {
        each for name in args.status or () for each in (OPEN_STATUSES if name == "open" else [name])
    }
    # Whether a run is interrupted or damaged is in no list: it is found by looking at each.
    looks = not wanted.isdisjoint(_LOOKED_AT)
    found = await RunLists(session.journals).newest(
        statuses=() if looks else wanted, limit=_ALL if looks else args.limit
    )
    kept = (run for run in found if not looks or not wanted.isdisjoint((_shown(run), run.status)))
    runs = [*islice(kept, args.limit)][::-1]
    none = Sentence("no run has this status" if args.status else "there are no runs")
    lines = (_line(run, session.journals.folder) for run in runs)
    session.print_list([*map(_row_json, runs)], lines, none)


def _line(run: RunSummary, here: str) -> str:
    """Returns a run of the list; that it is damaged or interrupted comes before its status."""
    status = padded(own_text(f"status.{_shown(run)}"), 11)
    share = f"{run.steps.done}/{run.steps.total}" if run.steps.total else ""
    began = f"{run.created_at:%Y-%m-%d %H:%M}" if run.created_at else ""
    place = "" if run.folder in ("", here) else f"  ({safe(run.folder)})"
    about = clip(safe(run.request or run.damage), 80)
    return f"{run.run[:SHORT]}  {status}  {share:>5}  {began:<16}  {about}{place}"


def _shown(run: RunSummary) -> str:
    return "damaged" if run.damage else "interrupted" if run.interrupted else run.status.value


def _row_json(run: RunSummary) -> dict[str, Json]:
    return json_of(
        run,
        "status request folder reason damage interrupted questions tokens created_at updated_at",
        id=run.run,
        cost_usd=str(run.money),
        planning_seconds=run.times.planning,
        running_seconds=run.times.running,
        waiting_seconds=run.times.waiting,
    )


def names_run(name: str) -> bool:
    """Whether a name means a run rather than a file."""
    return bool(_RUN_NAME.fullmatch(name)) and not Path(name).exists()


_LIST: Final = f"""
--status STATUS*  only these: open (not over), done, failed, reviewing and so on; repeatable
--limit LIMIT  how many (default: {_MOST})
"""
COMMAND = store_command(
    _LIST + JSON,
    _main,
    only_reads=True,
    status={"choices": ["open", *(status.value for status in RunStatus), *_LOOKED_AT]},
    limit={"type": positive, "default": _MOST},
)
