"""Describes a run as JSON and as lines of text: what it is, what its review shows, how it ended."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

from plansmith import Plan, Run, RunStatus, diff_plans
from plansmith.plan.data import Json
from plansmith.plan.events import Event, PlanProposed, ReviewAsked
from plansmith.plan.refs import value_line
from plansmith.plan.sentence import Sentence
from plansmith.report.build import load_report
from plansmith.report.data import Report
from plansmith.report.markdown import answer_markdown, lacking_markdown, to_markdown, took_lines
from plansmith.text import clip, safe
from plansmith_cli.questions import is_lossy, next_commands, preview_lines, waiting_lines
from plansmith_cli.session import Session, has_no_plan, is_unusable, say_stopped
from plansmith_cli.ui import output as ui
from plansmith_cli.ui import render
from plansmith_cli.ui.progress import header, rows
from plansmith_cli.ui.terminal import own_locale
from plansmith_desk.files.run_files import WorkFiles

_UNSEEN: Final = "PS406"
_BY_RULES: Final = "review.degraded"


def run_json(run: Run, session: Session) -> dict[str, Json]:
    """Returns everything about a run as JSON."""
    of_step = "status attempts result error started_at finished_at"
    return ui.json_of(
        run,
        "id status request folder locale decision reason damage interrupted approved tokens report"
        " created_at updated_at",
        thread=session.thread or run.options.thread,
        plan=run.plan.to_json() if run.plan else None,
        hash=run.plan.hash if run.plan else None,
        problems=[each.shown_json() | {"name": each.name} for each in run.problems],
        estimate=run.estimate.shown_json() if run.estimate else None,
        steps={name: ui.json_of(state, of_step) for name, state in run.steps.items()},
        questions=[each.shown_json() for each in run.questions.values()],
        cost_usd=str(run.money),
        next=list(next_commands(run, session)),
        **({"turn": session.turn} if session.turn else {}),
    )


async def review_lines(run: Run, session: Session, *, flag: str = "") -> list[str]:
    """Returns what a person has to see before approving: steps, arguments, cost, files, hash.

    With the flag that has approved it, the plan does not wait.
    """
    if run.plan is None:
        return []
    locale = own_locale()
    events = list(await session.smith.store.events(run.id))
    previews = await WorkFiles(session.smith.runs).plan_previews(run)
    # The reasons of the review tell that rules made the plan.
    lines = [*render.plan_lines(run.plan, run.templates, locale, tells_rules=False), ""]
    lines += revision_lines(events)
    if run.estimate is not None:
        lines += render.estimate_lines(run.estimate, locale)
    reasons = next((x.body.reasons for x in events[::-1] if isinstance(x.body, ReviewAsked)), ())
    # What is a reason to ask is told there, and values that come later are shown when they come.
    later = {_UNSEEN} if session.smith.runs.execution.limits.data == "ask" else set[str]()
    found = [*run.problems, *await session.smith.runs.intake.advice(run.plan)]
    others = [each for each in found if each.message not in reasons and each.code not in later]
    lines += render.problem_lines(others, locale)
    if run.folder:
        lines.append(ui.own_text("In the folder {folder}", folder=safe(run.folder)))
    lines += continued_lines(run)
    waits = ui.own_text("This plan waits for your approval.")
    lines.append(ui.own_text("Approved by {flag}.", flag=flag) if flag else waits)
    files = [(each, previews.get(getattr(each, "fields", {}).get("step", ""))) for each in reasons]
    for reason, seen in sorted(files, key=lambda each: not is_lossy(each[1])):
        if flag and getattr(reason, "key", "") == _BY_RULES:
            continue  # nobody decides now, and the choice of the model was told
        lines.append(f"  ! {safe(ui.own(reason))}")
        lines += (f"  {line}" for line in preview_lines(seen))
    lines.append(f"  {ui.own_text('hash {hash}', hash=run.plan.hash)}")
    if any(line.lstrip().startswith("…") for line in lines):
        whole = session.command("convert", run.id, "--to", "yaml")
        lines += [ui.own_text("Not everything is shown here. To see all of it:"), f"  {whole}"]
    return lines


def continued_lines(run: Run) -> Iterator[str]:
    """Yields how many steps an earlier run has done, which will not run again."""
    reused = [step for step in run.steps.values() if step.reused_from]
    if run.plan is not None and run.origin.kind == "run" and reused:
        yield ui.own_text(
            "{done} of {total} steps are done (run {run}) and will not run again.",
            done=len(reused),
            total=sum(not step.disabled for step in run.plan.steps),
            run=run.origin.id,
        )


def done_so_far(run: Run) -> str:
    """Says what a run has done so far, for a person who stops it."""
    if any(state.attempts for state in run.steps.values()):
        return ui.own_text("nothing more is run; what ran before is not taken back")
    return ui.own_text("nothing was run")


def revision_lines(events: Sequence[Event]) -> Iterator[str]:
    """Yields the changes from the previous plan to the last one, and their cause."""
    plans = [each.body for each in events if isinstance(each.body, PlanProposed)]
    if len(plans) < 2:
        return
    why = ui.own(plans[-1].cause)
    yield f"{ui.own_text('changed plan:')}{f' {clip(safe(why))}' if why else ''}"
    changes = [*change_lines(plans[-2].plan, plans[-1].plan)]
    yield from changes or [ui.own_text("end.same_plan")]
    yield ""


def change_lines(before: Plan, after: Plan) -> Iterator[str]:
    """Yields the changes from one plan to another, except the revision number."""
    diff = diff_plans(before.replace(revision=1), after.replace(revision=1))
    yield from render.diff_lines(diff, own_locale())


def status_text(run: Run) -> str:
    """Returns the status of a run in the person's language."""
    approved = run.status is RunStatus.REVIEWING and run.is_approved
    return ui.status_word("approved" if approved else run.status)


def run_lines(run: Run, session: Session) -> Iterator[str]:
    """Yields the lines of `plansmith show`: status, steps and results."""
    now, locale = session.smith.runs.journals.clock.now(), own_locale()
    yield ui.own_text("Run {run}: {status}", run=run.id, status=status_text(run))
    yield f"  {clip(safe(run.request), 200)}"
    if session.thread:
        yield f"  {ui.own_text('In the conversation {thread}', thread=safe(session.thread))}"
    if run.folder:
        yield f"  {ui.own_text('In the folder {folder}', folder=safe(run.folder))}"
    yield f"  {header(run, now=now, locale=locale)}"
    yield from (f"  {line}" for line in _reason_lines(run))
    yield ""
    yield from (row.text for row in rows(run, now=now, locale=locale))
    results = {name: step.result for name, step in run.steps.items() if step.result is not None}
    yield from ("",) if results else ()
    yield from (f"{safe(name)} = {value_line(value, 300)}" for name, value in results.items())
    if run.problems:
        yield from ("", *render.problem_lines(run.problems, locale))


def _reason_lines(run: Run) -> Iterator[str]:
    if run.interrupted:
        yield ui.own_text("Its process has ended and nothing of it runs. `plansmith go` goes on.")
    if run.damage:
        yield ui.own_text(
            "The journal is damaged; this is the run as it stood at event {number}:",
            number=run.last.number if run.last else 0,
        )
        yield clip(safe(ui.own(run.damage)), 400)
    # Why a request is planned, and not answered, says nothing about where its run stands.
    is_of_triage = run.decision == "plan" and run.status is RunStatus.REVIEWING and not run.paused
    if run.reason and not is_of_triage:
        yield clip(safe(ui.own(run.reason)), 200)


async def finish(session: Session, run: Run, *, detached: bool = False) -> None:
    """Prints what to do next on stderr, and the result of a run on stdout."""
    found = run.status.over and run.status is not RunStatus.CANCELLED and not has_no_plan(run)
    if found and session.given("request") and session.has_person:
        whole = safe(session.command("report", run.id))
        again = safe(session.command("ask", "--thread", "last", "…"))
        session.tell(
            ui.dim(ui.own_text("How this was found: {command}", command=whole)),
            ui.dim(ui.own_text("To follow up: {command}", command=again)),
        )
    if session.given("json"):
        ui.print_json(run_json(run, session))
    await print_end(session, run, silent=bool(session.given("json") or session.given("jsonl")))
    if detached:
        say_stopped(session, run.id)
    elif not run.status.over:
        session.say(*await waiting_lines(run, session))


async def print_end(session: Session, run: Run, *, silent: bool = False) -> None:
    """Prints what a run that is over came to, or why there is no plan."""
    report = None
    # Only a run that was executed to its end has one.
    if run.status.over and run.status is not RunStatus.ANSWERED and run.report:
        report = await load_report(session.smith.store, run.id, locale=session.locale)
    if report is not None and session.detail == "verbose":
        session.say(*took_lines(report.took, report.words))
    if run.status.over and not silent:
        _print_outcome(session, run, report)
        sys.stdout.flush()
    if is_unusable(run):
        session.say(_no_plan(run), *render.problem_lines(run.problems, own_locale()))
    if has_no_plan(run):
        say_no_plan(session, run)


def _print_outcome(session: Session, run: Run, report: Report | None) -> None:
    """Prints the answer of a run, after what failed or is missing; the report tells the rest.

    A run without an answer has only its results to show, and the report of a team is its answer.
    """
    is_quiet = session.detail == "quiet"
    if report is None:
        ui.print_prose(run.report or ui.own(run.reason))
    elif run.options.team is not None or not (report.answer.text or is_quiet):
        ui.print_markdown(to_markdown(report, brief=True))
    elif not is_quiet:
        ui.print_answer(answer_markdown(report))
    elif report.answer.text:
        session.say(*ui.text_lines(lacking_markdown(report)))
        ui.print_answer(answer_markdown(report, alone=True))
    else:
        ui.print_text(
            ui.own_text(
                "{status}; the plan has no reply, its results are in: {command}",
                status=status_text(run),
                command=session.command("report", run.id),
            )
        )


def _no_plan(run: Run) -> Sentence:
    return Sentence("No usable plan could be made; {ran}.", ran=done_so_far(run))


def say_no_plan(session: Session, run: Run) -> None:
    """Says that planning failed, why, and how to try again."""
    # The reason of a run that failed is printed with it.
    others = [each for each in run.problems if each.message not in run.reason]
    session.say(
        _no_plan(run),
        *render.problem_lines(others, own_locale()),
        Sentence("To have it planned again, perhaps with another --model:"),
        f"  {session.command('runs', 'retry', run.id)}",
    )
