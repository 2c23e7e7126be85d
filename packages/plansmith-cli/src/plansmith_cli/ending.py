"""Prints what a run came to: the answer last, problems and what to do next before it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from plansmith.plan.run import RunStatus
from plansmith.plan.sentence import in_language
from plansmith.report.build import load_report
from plansmith.report.markdown import answer_markdown, lacking_markdown, to_markdown, took_lines
from plansmith.review.render import problem_lines
from plansmith.text import safe
from plansmith_cli.describe import done_so_far, run_json, status_text, waiting_lines
from plansmith_cli.session import has_no_plan, is_unusable
from plansmith_cli.ui.output import dim, print_json, print_markdown, print_prose, print_text

if TYPE_CHECKING:
    from plansmith.plan.run import Run
    from plansmith.report.data import Report
    from plansmith_cli.session import Session


async def finish(session: Session, run: Run, *, detached: bool = False) -> None:
    """Prints what to do next on stderr, and the result of a run on stdout."""
    args = vars(session.args)
    found = run.status.over and run.status is not RunStatus.CANCELLED and not has_no_plan(run)
    if found and args.get("request") and session.has_person:
        session.tell(*map(dim, _next_lines(session, run)))
    if args.get("json"):
        print_json(run_json(run, session))
    await print_end(session, run, silent=bool(args.get("json") or args.get("jsonl")))
    if detached:
        session.say(
            session.own_text("Stopped here; what is done is kept. To go on:"),
            f"  {session.command('go', run.id)}",
        )
    elif not run.status.over:
        session.say(*waiting_lines(run, session))


def _next_lines(session: Session, run: Run) -> Iterator[str]:
    whole = session.command("report", run.id)
    yield session.own_text("How this was found: {command}", command=safe(whole))
    again = session.command("ask", "--thread", "last", "…")
    yield session.own_text("To follow up: {command}", command=safe(again))


async def print_end(session: Session, run: Run, *, silent: bool = False) -> None:
    """Prints what a run that is over came to, or why there is no plan."""
    report = await _report(session, run)
    if report is not None and session.detail == "verbose":
        session.say(*took_lines(report.took, report.words))
    if run.status.over and not silent:
        _print_outcome(session, run, report)
    if is_unusable(run):
        found = problem_lines(run.problems, session.locale)
        session.say(_no_plan_text(session, run), *found)
    if has_no_plan(run):
        say_no_plan(session, run)


async def _report(session: Session, run: Run) -> Report | None:
    """Returns the report of a run that was executed to its end; None for any other."""
    if not run.status.over or run.status is RunStatus.ANSWERED or not run.report:
        return None
    return await load_report(session.smith.store, run.id, locale=session.locale)


def _print_outcome(session: Session, run: Run, report: Report | None) -> None:
    """Prints the answer of a run, after what failed or is missing; the report tells the rest.

    A run without an answer has only its results to show, and the report of a team is its answer.
    """
    if report is None:
        print_prose(run.report or in_language(run.reason, session.locale))
    elif session.detail == "quiet" and not report.answer.text and run.options.team is None:
        if run.status is not RunStatus.DONE:
            session.say(*lacking_markdown(report).splitlines())
        status, command = status_text(run, session), session.command("report", run.id)
        print_text(
            session.own_text(
                "{status}; the plan has no reply, its results are in: {command}",
                status=status,
                command=command,
            )
        )
    elif run.options.team is not None or not report.answer.text:
        print_markdown(to_markdown(report))
    elif session.detail == "quiet":
        session.say(*lacking_markdown(report).splitlines())
        print_markdown(answer_markdown(report, alone=True))
    else:
        print_markdown(answer_markdown(report))
    sys.stdout.flush()


def _no_plan_text(session: Session, run: Run) -> str:
    return session.own_text("No usable plan could be made; {ran}.", ran=done_so_far(run, session))


def say_no_plan(session: Session, run: Run) -> None:
    """Says that planning failed, why, and how to try again."""
    session.say(_no_plan_text(session, run))
    # The reason of a run that failed is printed with it.
    others = [each for each in run.problems if each.message not in run.reason]
    session.say(*problem_lines(others, session.locale))
    session.say(
        session.own_text("To have it planned again, perhaps with another --model:"),
        f"  {session.command('runs', 'retry', run.id)}",
    )
