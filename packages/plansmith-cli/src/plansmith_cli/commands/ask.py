"""`plansmith ask` plans and runs a request; `plansmith plan` only makes the plan."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any, Final, get_args

from plansmith.errors import Misconfigured
from plansmith.formats.dialect import dialect_names
from plansmith.formats.native import to_yaml
from plansmith.plan.data import Json
from plansmith.plan.events import PlanProposed
from plansmith.plan.run import Run
from plansmith.plan.run_options import Replan
from plansmith.plan.sentence import Sentence, in_language
from plansmith.review.draw import tree
from plansmith.review.render import estimate_lines, plan_lines, problem_lines
from plansmith_cli.commands.model import offer_model
from plansmith_cli.commands.plans import print_foreign
from plansmith_cli.commands.schedule_view import offer_schedule
from plansmith_cli.commands.threads import THREAD, say_request, thread_name
from plansmith_cli.consent import waiting_lines
from plansmith_cli.describe import run_json
from plansmith_cli.exit_codes import Exit
from plansmith_cli.interactive import is_new, run_interactively, say_no_plan, show_plan
from plansmith_cli.options import DETAIL, PARTS, RUNNING, positive, settings_of
from plansmith_cli.parser import command
from plansmith_cli.session import Session, exit_of, has_no_plan, in_session, is_unusable
from plansmith_cli.ui.output import print_json, print_lines, print_prose, read_file
from plansmith_cli.ui.own_locale import speak
from plansmith_cli.wiring import rules_plan
from plansmith_desk.model.demo import NOTICE
from plansmith_planner.context.profile import read_profile

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
    "thread": thread_name,
}
_REQUEST: Final = "REQUEST  what you want done, in your words; - for stdin\n"
_PLAN: Final = """
--lang LANG  the language of the plan, such as en or zh-CN
--dialect  draft it in another system's format
--json  print all as JSON
| --yaml  print only the plan, as YAML
"""


def _ask(args: argparse.Namespace) -> int | None:
    async def work(session: Session) -> int:
        options = request_options(session)
        if args.thread:
            return await say_request(session, options, _run)
        return await _run(session, await planned(session, options))

    prepare(args)
    return in_session(args, work)


async def _run(session: Session, run: Run, *, fresh: bool = True) -> int:
    """Runs what was planned, or keeps it as a schedule."""
    offered = await offer_schedule(session, run) if is_new(run) else None
    if offered is not None:
        return offered
    show_plan(session, run)
    return await run_interactively(session, run.id, fresh=fresh)


def _plan(args: argparse.Namespace) -> int | None:
    async def work(session: Session) -> int:
        session.smith.runs.planning.early_start = False
        run = await planned(session, request_options(session))
        if args.json:
            print_json(run_json(run, session) | await _planning_json(session, run))
        elif args.yaml and run.plan is not None:
            sys.stdout.write(to_yaml(run.plan))
        elif args.dialect and run.plan is not None:
            print_foreign(run.plan, args.dialect, run.problems)
        else:
            _print(run, session.locale)
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
        args.request = read_file("-").decode("utf-8", "replace").strip()
        speak(args.lang, args.request)
    if args.request is None or args.request.strip():
        # The session warns about ignored settings: once is enough.
        settings = settings_of(args, lambda _: None)
        if args.request is not None and asyncio.run(rules_plan(args.request, settings)):
            return
        offer_model(args, settings)


def need_request(args: argparse.Namespace) -> None:
    """Refuses a request of spaces alone."""
    if args.request is not None and not args.request.strip():
        raise Misconfigured(
            Sentence("the request is empty"), hint=Sentence('say what you want: plansmith ask "…"')
        )


def request_options(session: Session) -> dict[str, Any]:
    """Returns what the flags say about a request; tells if there is no model."""
    args, settings = session.args, session.settings
    need_request(args)
    if settings.models.plan.model == "demo":
        session.tell(NOTICE[session.locale])
    options: dict[str, Any] = {
        "locale": args.lang or "",
        "target": args.agent,
        "top_k": args.top_k,
        "dialect": vars(args).get("dialect") or "",
        "replan": args.replan or "",
    }
    if settings.profile:
        options["profile"] = read_profile(settings.profile)
    return options


async def planned(session: Session, options: dict[str, Any]) -> Run:
    """Plans the request; the run has a plan, or an answer if no plan is needed."""
    try:
        with session.planning():
            return await session.smith.plan(session.args.request, by=session.by, **options)
    except asyncio.CancelledError:
        stopped = Sentence("Stopped here; what is done is kept. To go on:")
        session.say(stopped, f"  {session.command('go', 'last')}")
        raise


async def _planning_json(session: Session, run: Run) -> dict[str, Json]:
    """Returns how the plan was made: picked tools and figures."""
    events = await session.smith.store.events(run.id)
    made = [each.body for each in events if isinstance(each.body, PlanProposed)]
    picks: list[Json] = [each.to_json() for each in made[-1].picks] if made else []
    metrics: Json = run.metrics.to_json() if run.metrics is not None else None
    return {"answer": "" if run.plan else run.reason, "picks": picks, "metrics": metrics}


def _print(run: Run, locale: str) -> None:
    if run.plan is None:
        print_prose(in_language(run.reason, locale))
        return
    print_lines(plan_lines(run.plan, locale=locale))
    print_lines(["", *tree(run.plan, locale).splitlines()])
    if run.estimate is not None:
        print_lines(["", *estimate_lines(run.estimate, locale)])
    if run.problems:
        print_lines(["", *problem_lines(run.problems, locale)])


ASK = command(_REQUEST + PLANNING + THREAD + RUNNING, _ask, **TYPED)
PLAN = command(
    _REQUEST + PLANNING + DETAIL + _PLAN, _plan, dialect={"choices": dialect_names()}, **TYPED
)
