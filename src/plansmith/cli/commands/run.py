"""`plansmith run`, `resume`, `retry`, `rerun` and `watch`: runs plans and follows runs."""

from __future__ import annotations

import argparse
import asyncio

from plansmith.cli.command import FileCommand
from plansmith.cli.commands.plans import add_dialect, load_foreign, names_run
from plansmith.cli.describe import continued_lines, run_json, waiting_lines
from plansmith.cli.ending import finish
from plansmith.cli.exit_codes import Exit
from plansmith.cli.interactive import Watcher, interrupts, run_interactively
from plansmith.cli.options import add_detail, add_parts, add_running, add_store_alone
from plansmith.cli.session import Session, exit_of, in_session
from plansmith.cli.ui.output import load_plan, print_json
from plansmith.cli.ui.progress import ticking
from plansmith.cli.ui.words import error_text
from plansmith.errors import Misconfigured, Refused, RunBusy
from plansmith.plan.next_move import Conclude, Execute, MakePlan, Paused, next_move
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, in_language
from plansmith.text import safe


def _configure_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="PLAN|RUN", help="a plan file (JSON or YAML), or a run")
    add_dialect(parser)
    add_parts(parser)
    add_running(parser)


def _run(args: argparse.Namespace) -> int:
    async def work(session: Session) -> int:
        if args.dialect is None and names_run(args.what):
            run = await session.run(args.what)
            _refuse_over(run, session)
            if next_move(run) == Paused():
                hint = session.command("resume", run.id)
                raise Refused(Sentence("error.run_paused", run=run.id), hint=hint)
            return await run_interactively(session, run.id, fresh=False)
        plan = load_foreign(args.what, args.dialect) if args.dialect else load_plan(args.what)
        await session.refuse_what_cannot_run(plan)
        run = await session.smith.submit(plan, by=session.by)
        return await run_interactively(session, run.id)

    return in_session(args, work)


def _refuse_over(run: Run, session: Session) -> None:
    if run.status.over:
        retry, rerun = session.command("retry", run.id), session.command("rerun", run.id)
        hint = Sentence("error.retry_or_rerun", retry=retry, rerun=rerun)
        status = Sentence(f"status.{run.status.value}")
        raise Refused(Sentence("error.run_over", run=run.id, status=status), hint=hint)


def _configure_resume(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("run", nargs="?", metavar="RUN", help="a run: its id, or last")
    which.add_argument("--all", action="store_true", help="every open run of this folder")
    parser.add_argument(
        "--force",
        action="store_true",
        help="take the run from a process that still lives; what it is calling becomes unknown",
    )
    add_parts(parser)
    add_running(parser)


def _resume(args: argparse.Namespace) -> int:
    async def work(session: Session) -> int:
        if args.all and args.force:
            raise Misconfigured(Sentence("error.force_one"), hint=Sentence("error.name_run"))
        if args.all:
            return await _resume_all(session)
        run = await session.run(args.run)
        _refuse_over(run, session)
        await (_take_over if args.force else _resume_paused)(session, run)
        return await run_interactively(session, run.id, fresh=False)

    return in_session(args, work)


async def _resume_paused(session: Session, run: Run) -> None:
    """Resumes a run if it is paused and has no question."""
    if run.paused and not run.questions:
        await session.smith.resume(run.id, by=session.by)


async def _take_over(session: Session, run: Run) -> None:
    """Takes a run from the process that executes it, and tells the person."""
    process = await session.smith.runs.journals.owners.other_owner(run.id)
    await session.smith.resume(run.id, by=session.by, force=True)
    if process:
        taken = Sentence("resume.taken_over", process=process)
        session.say(safe(in_language(taken, session.words["locale"])))


async def _resume_all(session: Session) -> int:
    busy: list[RunBusy] = []
    runs = await session.smith.runs.resume_all(busy=busy.append)
    for smith in await session.teams_of_open_runs():
        runs += await smith.runs.resume_all(busy=busy.append)
    locale = session.words["locale"]
    session.say(*dict.fromkeys(safe(error_text(each, locale)) for each in busy))
    if session.args.json:
        print_json([run_json(run, session) for run in runs])
    for run in runs:
        session.tell(f"{run.id}  {session.words[run.status.value]}")
        session.say(*waiting_lines(run, session))
    left = Exit.WAITING if busy else Exit.OK
    return max((exit_of(run) for run in runs), default=left)


def _configure_retry(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run that is over: its id, or last")
    parser.add_argument("--from", dest="from_step", metavar="STEP", help="repeat this step too")
    parser.add_argument("--plan", metavar="FILE", help="your own version of the plan")
    add_parts(parser)
    add_running(parser)


def _retry(args: argparse.Namespace) -> int:
    async def work(session: Session) -> int:
        old = await session.run(args.run)
        plan = load_plan(args.plan) if args.plan else old.plan
        if plan is not None:
            await session.refuse_what_cannot_run(plan)
        run = await session.smith.retry(old.id, from_step=args.from_step, plan=plan, by=session.by)
        session.tell(*continued_lines(run, session))
        return await run_interactively(session, run.id)

    return in_session(args, work)


def _configure_rerun(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run that is over: its id, or last")
    add_parts(parser)
    add_running(parser)


def _rerun(args: argparse.Namespace) -> int:
    async def work(session: Session) -> int:
        old = await session.run(args.run)
        if old.plan is not None:
            await session.refuse_what_cannot_run(old.plan)
        run = await session.smith.rerun(old.id, by=session.by)
        return await run_interactively(session, run.id)

    return in_session(args, work)


def _configure_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a run: its id, or last")
    add_store_alone(parser)
    add_detail(parser)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print the run as JSON at the end")
    form.add_argument("--jsonl", action="store_true", help="print events as JSON, one per line")
    parser.add_argument(
        "--no-input", action="store_true", help="exit with 5 when the run waits for you"
    )


def _watch(args: argparse.Namespace) -> int:
    async def work(session: Session) -> int:
        run = await session.run(args.run)
        if not run.status.over:
            session.tell(session.words["watching"], f"  {session.command('resume', run.id)}")
        return await _follow(session, run)

    return in_session(args, work)


async def _follow(session: Session, run: Run) -> int:
    """Shows a run of another process until it is over or the person presses Ctrl-C."""
    watcher = Watcher(session, run.id)
    await watcher.catch_up()
    async with ticking(watcher.view), interrupts() as hits:
        following = asyncio.ensure_future(_until_over(watcher))
        leaving = asyncio.ensure_future(hits.get())
        both: list[asyncio.Future[None]] = [following, leaving]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for each in both:
            each.cancel()
        await asyncio.gather(*both, return_exceptions=True)
    run = await session.smith.get(run.id)
    await finish(session, run)
    return Exit.INTERRUPTED if leaving.done() and not leaving.cancelled() else exit_of(run)


async def _until_over(watcher: Watcher) -> None:
    """Follows a run to its end; without a terminal, only until it waits for a person."""
    if watcher.session.has_person:
        await watcher.follow()
        return
    while isinstance(next_move(watcher.run), MakePlan | Execute | Conclude):
        await watcher.session.smith.store.wait(watcher.run_id, after=watcher.number)
        await watcher.catch_up()


RUN = FileCommand(_configure_run, _run)
RESUME = FileCommand(_configure_resume, _resume)
RETRY = FileCommand(_configure_retry, _retry)
RERUN = FileCommand(_configure_rerun, _rerun)
WATCH = FileCommand(_configure_watch, _watch)
