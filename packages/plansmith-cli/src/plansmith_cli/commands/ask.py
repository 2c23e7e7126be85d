"""`plansmith ask`, `plan` and `run` begin runs; `go`, `runs watch|retry|rerun` go on with them."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pkgutil import resolve_name
from typing import Any, Final, get_args

from plansmith.errors import RunBusy
from plansmith.formats.native import to_yaml
from plansmith.plan.events import PlanProposed
from plansmith.plan.next_move import EndOrReplan, Execute, MakePlan, next_move
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.run_options import Replan
from plansmith.plan.sentence import Sentence
from plansmith.plan.summary import OPEN_STATUSES
from plansmith.text import safe
from plansmith_cli import options
from plansmith_cli.command_table import Exit
from plansmith_cli.commands.model import offer_model
from plansmith_cli.commands.plans import DIALECT, DIALECTS, load_plan_in, print_foreign
from plansmith_cli.commands.runs import names_run
from plansmith_cli.commands.schedule_view import offer_schedule
from plansmith_cli.commands.threads import THREAD, say_request
from plansmith_cli.config import read_profile
from plansmith_cli.describe import continued_lines, finish, run_json, say_no_plan
from plansmith_cli.interactive import (
    Watcher,
    is_new,
    require_runnable,
    run_interactively,
    show_plan,
    stoppable,
)
from plansmith_cli.options import DETAIL, PARTS, RUN_OVER, RUNNING, WATCHING, positive, settings_of
from plansmith_cli.parser import command
from plansmith_cli.questions import waiting_lines
from plansmith_cli.session import (
    Session,
    exit_of,
    has_no_plan,
    in_session,
    is_unusable,
    say_stopped,
    session_command,
    store_command,
)
from plansmith_cli.ui import output as ui
from plansmith_cli.ui.render import estimate_lines, plan_lines, problem_lines
from plansmith_cli.ui.terminal import use_language
from plansmith_cli.ui.tree import tree
from plansmith_cli.wiring import rules_plan
from plansmith_planner.dialect import dialect_names

_TO_RETRY: Final = (RunStatus.FAILED, RunStatus.PARTLY_DONE, RunStatus.CANCELLED)


def _ask(args: argparse.Namespace) -> int | None:
    prepare(args)
    return in_session(args, ask)


async def ask(session: Session) -> int:
    """Plans a request, perhaps in a thread, and runs what was planned."""
    given = request_options(session)
    if session.args.thread is not None:
        return await say_request(session, given, _run_planned)
    return await _run_planned(session, await plan_request(session, given))


async def _run_planned(session: Session, run: Run, *, fresh: bool = True) -> int:
    """Runs what was planned, or keeps it as a schedule, which a team does not."""
    if is_new(run) and run.options.team is None:
        offered = await offer_schedule(session, run)
        if offered is not None:
            return offered
    show_plan(session, run)
    return await run_interactively(session, run.id, fresh=fresh)


def _plan(args: argparse.Namespace) -> int | None:
    async def work(session: Session) -> int:
        run = await plan_request(session, request_options(session))
        if args.json:
            events = await session.smith.store.events(run.id)
            made = [each.body for each in events if isinstance(each.body, PlanProposed)]
            how = {
                "answer": "" if run.plan else run.reason,
                "picks": [each.to_json() for each in made[-1].picks] if made else [],
                "figures": run.figures.to_json() if run.figures is not None else None,
            }
            ui.print_json({**run_json(run, session), **how})
        elif run.plan is None:
            ui.print_prose(ui.own(run.reason))
        elif args.yaml:
            sys.stdout.write(to_yaml(run.plan))
        elif args.dialect:
            print_foreign(run.plan, args.dialect, run.problems)
        else:
            locale = session.locale
            parts = [[*plan_lines(run.plan, locale=locale)], tree(run.plan, locale).splitlines()]
            parts += [[*estimate_lines(run.estimate, locale)]] if run.estimate is not None else []
            problems = [*run.problems, *await session.smith.runs.intake.advice(run.plan)]
            parts += [[*problem_lines(problems, locale)]] if problems else []
            ui.print_lines([line for part in parts for line in ("", *part)][1:])
        if has_no_plan(run):
            say_no_plan(session, run)
        if run.status.over or is_unusable(run):
            return exit_of(run)
        say = session.say if run.plan is None else session.tell
        say(*await waiting_lines(run, session))
        return Exit.WAITING if run.plan is None else Exit.OK

    prepare(args)
    return in_session(args, work)


def prepare(args: argparse.Namespace) -> None:
    """Reads a request from stdin; offers to download a model if none is there and one is needed."""
    if args.request == "-":
        args.request = ui.read_file("-").decode("utf-8", "replace").strip()
        use_language(args.lang, args.request)
    if args.request is None or args.request.strip():
        # The session warns about ignored settings: once is enough.
        settings = settings_of(args, lambda _: None)
        if args.request is None or not asyncio.run(rules_plan(args.request, settings)):
            offer_model(args, settings)


def request_options(session: Session, target: str | None = None) -> dict[str, Any]:
    """Returns what the flags say about a request; tells if there is no model."""
    args, settings = session.args, session.settings
    if args.request is not None and not args.request.strip():
        raise ui.wrong("the request is empty", 'say what you want: plansmith ask "…"')
    given: dict[str, Any] = {"locale": args.lang or "", "target": target}
    if settings.profile:
        given["profile"] = read_profile(settings.profile)
    if "agent" in args:  # a team has its own
        given |= {"target": args.agent, "top_k": args.top_k, "replan": args.replan or ""}
        given["dialect"] = session.given("dialect") or ""
    return given


async def plan_request(session: Session, given: dict[str, Any]) -> Run:
    """Plans the request; the run has a plan, or an answer if no plan is needed."""
    try:
        with session.lines.moving():
            return await session.smith.plan(session.args.request, by=session.by, **given)
    except asyncio.CancelledError:
        say_stopped(session)
        raise


async def _run(session: Session) -> int:
    args = session.args
    if args.dialect is None and names_run(args.plan):
        hint = session.command("go", args.plan)
        raise ui.wrong("{name} is a run, and run takes a plan file", hint=hint, name=args.plan)
    plan = load_plan_in(args.plan, args.dialect)
    await require_runnable(session, plan)
    run = await session.smith.submit(plan, by=session.by)
    return await run_interactively(session, run.id)


def _go(args: argparse.Namespace) -> int | None:
    async def work(session: Session) -> int:
        if args.force and not args.run:
            raise ui.wrong("--force is for one run", "name the run")
        if args.all:
            return await _resume_all(session)
        name = args.run or await _waiting_run(session)
        if not name:
            session.say(Sentence("no run of this folder waits for you"))
            return Exit.OK
        return await _go_on(session, await session.run(name))

    if not args.team:
        return in_session(args, work)
    maker = resolve_name("plansmith_cli.commands.team:maker")
    return in_session(args, work, make=maker(args, args.team))


async def _waiting_run(session: Session) -> str:
    async for each in session.runs_here(OPEN_STATUSES):
        if not await session.journals.ownership.owner_elsewhere(each.run):
            return each.run
    return ""


async def _go_on(session: Session, run: Run) -> int:
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
        process = await session.smith.runs.journals.ownership.owner_elsewhere(run.id)
        await session.smith.resume(run.id, by=session.by, force=True)
        if process:
            session.say(
                Sentence(
                    "taken over from {process}: what it was calling may have taken effect",
                    process=safe(process),
                )
            )
    elif run.paused and not run.questions:
        await session.smith.resume(run.id, by=session.by)
    return await run_interactively(session, run.id, fresh=False)


async def _resume_all(session: Session) -> int:
    busy: list[RunBusy] = []
    runs = await session.smith.runs.resume_all(busy=busy.append)
    for smith in await session.teams_of_open_runs():
        runs += await smith.runs.resume_all(busy=busy.append)
    session.say(*dict.fromkeys(safe(ui.error_text(each, session.locale)) for each in busy))
    if session.args.json:
        ui.print_json([run_json(run, session) for run in runs])
    for run in runs:
        session.tell(f"{run.id}  {ui.status_word(run.status)}")
        session.say(*await waiting_lines(run, session))
    left = Exit.WAITING if busy else Exit.OK
    return max((exit_of(run) for run in runs), default=left)


async def _retry(session: Session) -> int:
    args = session.args
    old = await session.run(args.run)
    plan = ui.load_plan(args.plan) if args.plan else old.plan
    await require_runnable(session, plan)
    run = await session.smith.retry(old.id, from_step=args.from_step, plan=plan, by=session.by)
    session.tell(*continued_lines(run))
    return await run_interactively(session, run.id)


async def _rerun(session: Session) -> int:
    old = await session.run(session.args.run)
    await require_runnable(session, old.plan)
    run = await session.smith.rerun(old.id, by=session.by)
    return await run_interactively(session, run.id)


async def _watch(session: Session) -> int:
    """Shows a run of another process until it is over or the person presses Ctrl-C."""
    run = await session.run(session.args.run)
    if not run.status.over:
        follows = Sentence("Following a run of another process. If that process has ended:")
        session.tell(follows, f"  {session.command('go', run.id)}")
    watcher = Watcher(session, run.id)

    async def follow() -> bool:
        """Follows the run to its end; without a terminal, only until it waits for a person."""
        if session.has_person:
            await watcher.catch_up(follow=True)
            return True
        while isinstance(next_move(watcher.run), MakePlan | Execute | EndOrReplan):
            await session.smith.store.wait(run.id, after=watcher.number)
            await watcher.catch_up()
        return True

    await watcher.catch_up()
    ended = await stoppable(follow())
    watcher.view.stop()
    run = await session.smith.get(run.id)
    await finish(session, run)
    return exit_of(run) if ended else Exit.INTERRUPTED


PLANNING: Final = (
    """
--agent NAME  hand the request to this agent
--top-k TOP_K  how many tools the model may choose from
--max-steps MAX_STEPS  the most steps a plan may have
--replan  when to plan again: never, on_failure (the default), after_each step
--yes  download the embedded model if there is no other
"""
    + PARTS
)
TYPED: Final = {
    "top_k": positive,
    "max_steps": positive,
    "replan": {"choices": get_args(Replan)[1:]},
}
_REQUEST: Final = "REQUEST  what you want done, in your words; - for stdin\n"
_PLAN: Final = """
--lang LANG  the language of the plan, such as en or zh-CN
--dialect  draft it in another system's format
--json  print all as JSON
| --yaml  print only the plan, as YAML
"""
_GO: Final = """
[RUN]  a run: its id, or last (default: the newest of this folder that waits)
| --all  every open run of this folder
--force  take the run from a process that still lives; what it is calling becomes unknown
--team  make the team of the run anew, from --docs or --db
--db URL*  with --team data: the database, such as postgresql://USER:PASSWORD@HOST/NAME
"""
_RETRY: Final = "--from STEP  repeat this step too\n--plan FILE  your own version of the plan\n"
_STEP: Final[dict[str, Any]] = {"from": {"dest": "from_step"}}
ASK = command(_REQUEST + PLANNING + THREAD + RUNNING, _ask, **TYPED)
PLAN = command(
    _REQUEST + PLANNING + DETAIL + _PLAN, _plan, dialect={"choices": dialect_names()}, **TYPED
)
RUN = session_command(
    "PLAN  a plan as JSON or YAML; - for stdin\n" + DIALECT + PARTS + RUNNING,
    _run,
    dialect=DIALECTS,
)
GO = command(_GO + PARTS + RUNNING, _go, team={"choices": ["research", "data"]})
RETRY = session_command(RUN_OVER + _RETRY + PARTS + RUNNING, _retry, **_STEP)
RERUN = session_command(RUN_OVER + PARTS + RUNNING, _rerun)
WATCH = store_command(options.RUN + WATCHING, _watch)
