"""`plansmith team research` and `team data`: give a request to a team of agents."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Final

from plansmith.app import Plansmith
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith_cli.commands.ask import ask, plan_request, request_options
from plansmith_cli.commands.threads import THREAD
from plansmith_cli.config import Settings
from plansmith_cli.describe import finish, run_json
from plansmith_cli.interactive import run_interactively
from plansmith_cli.options import PARTS, RUNNING
from plansmith_cli.parser import command
from plansmith_cli.session import Session, exit_of, in_session
from plansmith_cli.teams import Tell, data, research
from plansmith_cli.ui.output import print_json, print_text, wrong


def maker(args: argparse.Namespace, team: str) -> Callable[..., Plansmith]:
    """Returns what makes a team from what the flags name."""
    if team == "research":
        return research
    if not args.db:
        raise wrong("the data team needs its database", hint="--db URL")

    def make(settings: Settings, *, tell: Tell) -> Plansmith:
        only = bool(vars(args).get("sql_only"))
        return data(settings, database=_databases(args.db, settings), sql_only=only, tell=tell)

    return make


def _databases(given: list[str], settings: Settings) -> str | dict[str, str]:
    known = settings.builtin.databases
    if len(given) == 1 and given[0] not in known:
        return given[0]
    found: dict[str, str] = {}
    for text in given:
        name, _, url = (text, "=", known[text]) if text in known else text.partition("=")
        if not url or not name.isidentifier():
            hint = "--db shop=sqlite:///shop.db --db crm=postgresql://…"
            raise wrong("'{text}' does not name a database", hint=hint, text=text)
        if name in found:
            raise wrong("two databases are called '{name}'", "name them apart", name=name)
        found[name] = url
    return found


async def _sql(session: Session) -> int:
    """Prints only the SQL statement, which the database has checked but not run."""
    run = await plan_request(session, request_options(session, "sql_writer"))
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


_REQUEST: Final = "REQUEST  what to find\n" + THREAD + PARTS + RUNNING
_URLS: Final = "sqlite:///FILE, duckdb:///FILE or postgresql://…"
_DATA: Final = f"""
--db URL*  the database: {_URLS}; repeatable as NAME=URL, or a name of [builtin.databases]
--sql-only  write the SQL and do not run it
"""
RESEARCH = command(_REQUEST, lambda args: in_session(args, ask, make=research))
DATA = command(
    _REQUEST + _DATA,
    lambda args: in_session(args, _sql if args.sql_only else ask, make=maker(args, "data")),
    db={"required": True},
)
