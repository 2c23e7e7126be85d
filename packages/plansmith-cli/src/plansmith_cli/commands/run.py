"""`plansmith run` runs a plan file; `go` and `runs watch|retry|rerun` go on with runs."""

from __future__ import annotations

import argparse
from pkgutil import resolve_name
from typing import Any, Final

from plansmith.errors import Misconfigured, RunBusy
from plansmith.plan.next_move import Conclude, Execute, MakePlan, next_move
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.sentence import Sentence
from plansmith.plan.summary import OPEN_STATUSES
from plansmith.runs.lists import RunLists
from plansmith.text import safe
from plansmith_cli import options
from plansmith_cli.commands.plans import DIALECT, DIALECTS, load_foreign
from plansmith_cli.commands.runs import names_run
from plansmith_cli.commands.schedule_view import offer_schedule
from plansmith_cli.consent import waiting_lines
from plansmith_cli.describe import continued_lines, run_json
from plansmith_cli.exit_codes import Exit
from plansmith_cli.interactive import Watcher, finish, is_new, run_interactively, stoppable
from plansmith_cli.options import PARTS, RUN_OVER, RUNNING, WATCHING
from plansmith_cli.parser import command
from plansmith_cli.session import Session, exit_of, has_no_plan, in_session, session_command
from plansmith_cli.ui.output import load_plan, print_json
from plansmith_cli.ui.progress import ticking
from plansmith_cli.ui.words import error_text, status_word

_LOOKED_AT: Final = 200
_TO_RETRY: Final = (RunStatus.FAILED, RunStatus.PARTLY_DONE, RunStatus.CANCELLED)
_TEAM: Final = "plansmith_cli.commands.team:maker"


async def _run(session: Session) -> int:
    args = session.args
    if args.dialect is None and names_run(args.plan):
        hint = session.command("go", args.plan)
        raise Misconfigured(
            Sentence("{name} is a run, and run takes a plan file", name=args.plan), hint=hint
        )
    plan = load_foreign(args.plan, args.dialect) if args.dialect else load_plan(args.plan)
    await session.refuse_what_cannot_run(plan)
    run = await session.smith.submit(plan, by=session.by)
    return await run_interactively(session, run.id)


def _go(args: argparse.Namespace) -> int | None:
    async def work(session: Session) -> int:
        if args.force and not args.run:
            raise Misconfigured(Sentence("--force is for one run"), hint=Sentence("name the run"))
        if args.all:
            return await _resume_all(session)
        name = args.run or await _waiting_run(session)
        if not name:
            session.say(Sentence("no run of this folder waits for you"))
            return Exit.OK
        return await _go_on(session, await session.run(name))

    if args.team:
        return in_session(args, work, make=resolve_name(_TEAM)(args, args.team))
    return in_session(args, work)


async def _waiting_run(session: Session) -> str:
    """Returns the newest run of this folder that is open and that no process executes."""
    for each in await RunLists(session.journals).newest(statuses=OPEN_STATUSES, limit=_LOOKED_AT):
        busy = await session.smith.runs.journals.owners.other_owner(each.run)
        if not busy and session.journals.is_here(each.folder):
            return each.run
    return ""


async def _go_on(session: Session, run: Run) -> int:
    """Does what is next for a run, with the person; one that is over is told again."""
    if run.status.over:
        await finish(session, run)
        if run.status in _TO_RETRY and not has_no_plan(run):
            retry = f"  {session.command('runs', 'retry', run.id)}"
            session.tell(Sentence("To try again from what is done:"), retry)
        return exit_of(run)
    if is_new(run) and session.has_person:
        offered = await offer_schedule(session, run)
        if offered is not None:
            return offered
    if session.args.force:
        await _take_over(session, run)
    elif run.paused and not run.questions:
        await session.smith.resume(run.id, by=session.by)
    return await run_interactively(session, run.id, fresh=False)


async def _take_over(session: Session, run: Run) -> None:
    """Takes a run from the process that executes it, and tells the person."""
    process = await session.smith.runs.journals.owners.other_owner(run.id)
    await session.smith.resume(run.id, by=session.by, force=True)
    if process:
        taken = Sentence(
            "taken over from {process}: what it was calling may have taken effect",
            process=safe(process),
        )
        session.say(taken)


async def _resume_all(session: Session) -> int:
    busy: list[RunBusy] = []
    runs = await session.smith.runs.resume_all(busy=busy.append)
    for smith in await session.teams_of_open_runs():
        runs += await smith.runs.resume_all(busy=busy.append)
    session.say(*dict.fromkeys(safe(error_text(each, session.locale)) for each in busy))
    if session.args.json:
        print_json([run_json(run, session) for run in runs])
    for run in runs:
        session.tell(f"{run.id}  {status_word(run.status, session.locale)}")
        session.say(*await waiting_lines(run, session))
    left = Exit.WAITING if busy else Exit.OK
    return max((exit_of(run) for run in runs), default=left)


async def _retry(session: Session) -> int:
    args = session.args
    old = await session.run(args.run)
    plan = load_plan(args.plan) if args.plan else old.plan
    if plan is not None:
        await session.refuse_what_cannot_run(plan)
    run = await session.smith.retry(old.id, from_step=args.from_step, plan=plan, by=session.by)
    session.tell(*continued_lines(run, session))
    return await run_interactively(session, run.id)


async def _rerun(session: Session) -> int:
    old = await session.run(session.args.run)
    if old.plan is not None:
        await session.refuse_what_cannot_run(old.plan)
    run = await session.smith.rerun(old.id, by=session.by)
    return await run_interactively(session, run.id)


async def _watch(session: Session) -> int:
    run = await session.run(session.args.run)
    if not run.status.over:
        follows = Sentence("Following a run of another process. If that process has ended:")
        session.tell(follows, f"  {session.command('go', run.id)}")
    return await _follow(session, run)


async def _follow(session: Session, run: Run) -> int:
    """Shows a run of another process until it is over or the person presses Ctrl-C."""
    watcher = Watcher(session, run.id)
    await watcher.catch_up()
    async with ticking(watcher.view):
        ended = await stoppable(_until_over(watcher))
    run = await session.smith.get(run.id)
    await finish(session, run)
    return exit_of(run) if ended else Exit.INTERRUPTED


async def _until_over(watcher: Watcher) -> bool:
    """Follows a run to its end; without a terminal, only until it waits for a person."""
    if watcher.session.has_person:
        await watcher.follow()
        return True
    while isinstance(next_move(watcher.run), MakePlan | Execute | Conclude):
        await watcher.session.smith.store.wait(watcher.run_id, after=watcher.number)
        await watcher.catch_up()
    return True


_GO: Final = """
[RUN]  a run: its id, or last (default: the newest of this folder that waits)
| --all  every open run of this folder
--force  take the run from a process that still lives; what it is calling becomes unknown
--team  make the team of the run anew, from --docs or --db
--db URL*  with --team data: the database, such as postgresql://USER:PASSWORD@HOST/NAME
"""
_RETRY: Final = """
--from STEP  repeat this step too
--plan FILE  your own version of the plan
"""
RUN = session_command(
    "PLAN  a plan as JSON or YAML; - for stdin\n" + DIALECT + PARTS + RUNNING,
    _run,
    dialect=DIALECTS,
)
GO = command(_GO + PARTS + RUNNING, _go, team={"choices": ["research", "data"]})
_STEP: Final[dict[str, Any]] = {"from": {"dest": "from_step"}}
RETRY = session_command(RUN_OVER + _RETRY + PARTS + RUNNING, _retry, **_STEP)
RERUN = session_command(RUN_OVER + PARTS + RUNNING, _rerun)
WATCH = session_command(options.RUN + WATCHING, _watch)
