"""`plansmith research` and `plansmith data`: give a request to a team of agents."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from plansmith.app import Plansmith
from plansmith.cli.command import FileCommand
from plansmith.cli.describe import run_json
from plansmith.cli.ending import finish
from plansmith.cli.interactive import run_interactively, show_plan
from plansmith.cli.options import add_parts, add_running, detail_of, settings_of
from plansmith.cli.questions import read_answer
from plansmith.cli.session import Session, exit_of
from plansmith.cli.team_smiths import TeamSmiths
from plansmith.cli.threads import add_thread, say_request
from plansmith.cli.ui.output import print_json, print_text
from plansmith.cli.ui.own_locale import own_locale
from plansmith.cli.ui.planning import PlanningProgress
from plansmith.cli.ui.words import words_for
from plansmith.config import Settings
from plansmith.errors import Misconfigured
from plansmith.plan.next_move import AwaitReview, Paused, next_move
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.planner.context.profile import read_profile
from plansmith.teams import Tell, data, research

Make = Callable[[Settings, Tell], Plansmith]
_WRITER: Final = "sql_writer"


def _configure(parser: argparse.ArgumentParser, team: str) -> None:
    parser.add_argument("request", metavar="REQUEST", nargs="?", default="", help="what to find")
    parser.add_argument(
        "--resume", metavar="RUN", help="continue a run of this team: its id, or last"
    )
    parser.add_argument(
        "--answer",
        nargs=2,
        metavar=("QUESTION", "ANSWER"),
        help="answer a question of the run first",
    )
    add_thread(parser)
    add_parts(parser)
    add_running(parser)
    parser.set_defaults(team=team)


def _configure_research(parser: argparse.ArgumentParser) -> None:
    _configure(parser, "research")


def _configure_data(parser: argparse.ArgumentParser) -> None:
    _configure(parser, "data")
    urls = "sqlite:///FILE, duckdb:///FILE or postgresql://…"
    several = "repeatable as NAME=URL, or a name of [builtin.databases]"
    parser.add_argument(
        "--db",
        metavar="URL",
        action="append",
        required=True,
        help=f"the database: {urls}; {several}",
    )
    parser.add_argument("--sql-only", action="store_true", help="write the SQL and do not run it")


def _research(args: argparse.Namespace) -> int:
    def make(settings: Settings, tell: Tell) -> Plansmith:
        return research(settings, tell=tell)

    return _in_team(args, make, _run_request)


def _data(args: argparse.Namespace) -> int:
    def make(settings: Settings, tell: Tell) -> Plansmith:
        database = _databases(args.db, settings)
        return data(settings, database=database, sql_only=args.sql_only, tell=tell)

    return _in_team(args, make, _sql if args.sql_only else _run_request)


def _databases(given: list[str], settings: Settings) -> str | dict[str, str]:
    """Reads `--db`: one address, or several with their names."""
    known = settings.builtin.databases
    if len(given) == 1 and given[0] not in known:
        return given[0]
    found: dict[str, str] = {}
    for text in given:
        name, _, url = (text, "=", known[text]) if text in known else text.partition("=")
        if not url or not name.isidentifier():
            hint = "--db shop=sqlite:///shop.db --db crm=postgresql://…"
            raise Misconfigured(Sentence("team.no_database", text=text), hint=hint)
        if name in found:
            hint = Sentence("team.name_apart")
            raise Misconfigured(Sentence("team.two_databases", name=name), hint=hint)
        found[name] = url
    return found


def _in_team(
    args: argparse.Namespace, make: Make, work: Callable[[Session], Awaitable[int]]
) -> int:
    """Makes a team, does the work of a command and closes the team in any case."""
    if args.thread and args.resume:
        hint = Sentence("team.no_thread")
        raise Misconfigured(Sentence("team.in_its_thread"), hint=hint)
    if bool(args.request.strip()) == bool(args.resume):
        hint = Sentence("team.request_or_run_hint", team=args.team)
        raise Misconfigured(Sentence("team.request_or_run"), hint=hint)
    settings = settings_of(args)
    words = words_for(args.lang or own_locale())
    lines = PlanningProgress(words, detail=detail_of(args))

    async def go() -> int:
        smith = make(settings, lines.say)
        try:
            return await work(
                Session(smith, settings, args, words, TeamSmiths(smith, settings), lines=lines)
            )
        finally:
            await smith.close()

    return asyncio.run(go())


async def _run_request(session: Session) -> int:
    """Runs a new request, or continues a run."""
    if session.args.resume:
        run = await session.run(session.args.resume)
        if next_move(run) == Paused():
            await session.smith.resume(run.id, by=session.by)
        if session.args.answer:
            await _answer(session, run, *session.args.answer)
        return await run_interactively(session, run.id, fresh=False)
    if session.args.thread:
        return await say_request(session, _options(session), _run)
    return await _run(session, await _planned(session))


async def _run(session: Session, run: Run, *, fresh: bool = True) -> int:
    show_plan(session, run)
    return await run_interactively(session, run.id, fresh=fresh)


async def _answer(session: Session, run: Run, question: str, typed: str) -> None:
    if question not in run.questions:
        hint = Sentence("error.open_questions", names=[*run.questions]) if run.questions else ""
        problem = Sentence("error.not_this_question", run=run.id, name=question)
        raise Misconfigured(problem, hint=hint)
    value = read_answer(run.questions[question], typed)
    await session.smith.answer(run.id, question, value, by=session.by)


def _options(session: Session, target: str | None = None) -> dict[str, Any]:
    profile = session.settings.profile
    options: dict[str, Any] = {"locale": session.args.lang or "", "target": target}
    return options | ({"profile": read_profile(profile)} if profile else {})


async def _planned(session: Session, target: str | None = None) -> Run:
    options = _options(session, target)
    try:
        with session.planning():
            return await session.smith.plan(session.args.request, by=session.by, **options)
    except asyncio.CancelledError:
        session.say(session.words["detached"], f"  {session.command('resume', 'last')}")
        raise


async def _sql(session: Session) -> int:
    """Prints only the SQL statement, which the database has checked but not run."""
    if session.args.resume:
        return await _run_request(session)
    run = await _planned(session, _WRITER)
    if run.plan is None or isinstance(next_move(run), AwaitReview):
        return await run_interactively(session, run.id)
    run = await session.smith.runs.run(run.id)
    [step] = run.steps.values()
    if session.args.json:
        print_json(run_json(run, session))
    elif isinstance(step.result, dict):
        print_text(str(step.result["sql"]))
    else:
        await finish(session, run)
    return exit_of(run)


RESEARCH = FileCommand(_configure_research, _research)
DATA = FileCommand(_configure_data, _data)
