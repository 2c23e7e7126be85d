"""Describes a run as JSON and as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from plansmith.plan.data import Json
from plansmith.plan.diff import diff_plans
from plansmith.plan.events import Event, PlanProposed, ReviewAsked
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus, StepState
from plansmith.plan.sentence import in_language
from plansmith.review.render import (
    diff_lines,
    estimate_lines,
    plan_lines,
    problem_lines,
    value_line,
)
from plansmith.runs.files import Preview
from plansmith.text import clip, safe
from plansmith_cli.file_previews import loses, preview_lines
from plansmith_cli.questions import group_name, question_groups
from plansmith_cli.session import Session, has_no_plan, is_unusable
from plansmith_cli.ui.progress import header, rows
from plansmith_cli.ui.words import status_word
from plansmith_desk.files.run_files import WorkFiles

_UNSEEN: Final = "PS406"
_BY_RULES: Final = "review.degraded"


def run_json(run: Run, session: Session) -> dict[str, Json]:
    """Returns everything about a run as JSON."""
    shown: dict[str, Json] = {
        "id": run.id,
        "status": run.status.value,
        "request": run.request,
        "thread": session.thread or run.options.thread,
        "folder": run.folder,
        "locale": run.locale,
        "decision": run.decision,
        "reason": run.reason,
        "damage": run.damage,
        "interrupted": run.interrupted,
        "plan": run.plan.to_json() if run.plan else None,
        "hash": run.plan.hash if run.plan else None,
        "approved": run.approved,
        "problems": [each.shown_json() | {"name": each.name} for each in run.problems],
        "estimate": run.estimate.shown_json() if run.estimate else None,
        "steps": {name: _step_json(state) for name, state in run.steps.items()},
        "questions": [each.shown_json() for each in run.questions.values()],
        "tokens": run.tokens,
        "cost_usd": str(run.money),
        "report": run.report,
        "created_at": run.created_at.isoformat() if run.created_at else None,
        "updated_at": run.updated_at.isoformat() if run.updated_at else None,
        "next": list(next_commands(run, session)),
    }
    turn: dict[str, Json] = {"turn": session.turn} if session.turn else {}
    return shown | turn


def _step_json(state: StepState) -> dict[str, Json]:
    return {
        "status": state.status.value,
        "attempts": state.attempts,
        "result": state.result,
        "error": state.error,
        "started_at": state.started_at.isoformat() if state.started_at else None,
        "finished_at": state.finished_at.isoformat() if state.finished_at else None,
    }


def next_commands(run: Run, session: Session) -> Iterator[str]:
    """Yields the commands that continue a run: decisions for scripts, and last what goes on."""
    if run.damage:
        yield session.command("store", "repair", run.id)
        return
    if has_no_plan(run):
        yield session.command("runs", "retry", run.id)
    if run.status.over or (run.plan is None and not run.questions):
        return
    if is_unusable(run):
        yield session.command_for(run, "runs", "edit", run.id)
        return
    move = next_move(run)
    if isinstance(move, AwaitReview):
        yield session.command_for(run, "approve", run.id, move.hash)
    for group in question_groups(run.questions.values()):
        name = group_name(group)
        if group[0].kind == "consent":
            yield session.command_for(run, "answer", run.id, name, "--show")
        yield session.command_for(run, "answer", run.id, name, "ANSWER")
    yield session.command_for(run, "go", run.id)


async def review_lines(run: Run, session: Session, *, flag: str = "") -> list[str]:
    """Returns what a person has to see before approving: steps, arguments, cost, files, hash.

    With the flag that has approved it, the plan does not wait.
    """
    events = list(await session.smith.store.events(run.id))
    previews = await WorkFiles(session.smith.runs).plan_previews(run)
    lines = list(_review_lines(run, events, previews, session, flag))
    if any(line.lstrip().startswith("…") for line in lines):
        lines += [
            session.own_text("Not everything is shown here. To see all of it:"),
            f"  {session.command('convert', run.id, '--to', 'yaml')}",
        ]
    return lines


def _review_lines(
    run: Run, events: Sequence[Event], previews: Mapping[str, Preview], session: Session, flag: str
) -> Iterator[str]:
    if run.plan is None:
        return
    # The reasons of the review tell that rules made the plan.
    yield from plan_lines(run.plan, run.templates, session.locale, tells_rules=False)
    yield ""
    yield from revision_lines(events, session)
    if run.estimate is not None:
        yield from estimate_lines(run.estimate, session.locale)
    asked = [each.body for each in events if isinstance(each.body, ReviewAsked)]
    reasons = asked[-1].reasons if asked else ()
    # What is a reason to ask is told there, and values that come later are shown when they come.
    shown_later = {_UNSEEN} if session.smith.runs.execution.limits.data == "ask" else set[str]()
    others = [
        each
        for each in run.problems
        if each.message not in reasons and each.code not in shown_later
    ]
    yield from problem_lines(others, session.locale)
    if run.folder:
        yield session.own_text("In the folder {folder}", folder=safe(run.folder))
    yield from prefetch_lines(run, session)
    yield from continued_lines(run, session)
    waits = session.own_text("This plan waits for your approval.")
    yield session.own_text("Approved by {flag}.", flag=flag) if flag else waits
    found = [(each, previews.get(getattr(each, "fields", {}).get("step", ""))) for each in reasons]
    for reason, seen in sorted(found, key=lambda each: not loses(each[1])):
        if flag and getattr(reason, "key", "") == _BY_RULES:
            continue  # nobody decides now, and the choice of the model was told
        yield f"  ! {safe(in_language(reason, session.locale))}"
        yield from (f"  {line}" for line in preview_lines(seen, session.locale))
    yield f"  {session.own_text('hash {hash}', hash=run.plan.hash)}"


def continued_lines(run: Run, session: Session) -> Iterator[str]:
    """Yields how many steps an earlier run has done, which will not run again."""
    reused = [step for step in run.steps.values() if step.reused_from]
    if run.plan is None or run.origin.kind != "run" or not reused:
        return
    total = sum(not step.disabled for step in run.plan.steps)
    yield session.own_text(
        "{done} of {total} steps are done (run {run}) and will not run again.",
        done=len(reused),
        total=total,
        run=run.origin.id,
    )


def done_so_far(run: Run, session: Session) -> str:
    """Says what a run has done so far, for a person who stops it."""
    if any(state.attempts for state in run.steps.values()):
        return session.own_text("nothing more is run; what ran before is not taken back")
    if run.prefetches:
        tools = dict.fromkeys(safe(each.tool) for each in run.prefetches.values())
        return session.own_text(
            "nothing was changed; already read: {tools}", tools=", ".join(tools)
        )
    return session.own_text("nothing was run")


def prefetch_lines(run: Run, session: Session) -> Iterator[str]:
    """Yields the reads that were made before the review."""
    for each in run.prefetches.values():
        at = f"{each.started_at:%H:%M:%S} UTC"
        yield session.own_text(
            "  already read, to save time (reading changes nothing): {tool}, at {at}",
            tool=safe(each.tool),
            at=at,
        )


def revision_lines(events: Sequence[Event], session: Session) -> Iterator[str]:
    """Yields the changes from the previous plan to the last one, and their cause."""
    plans = [each.body for each in events if isinstance(each.body, PlanProposed)]
    if len(plans) < 2:
        return
    why = in_language(plans[-1].cause, session.locale)
    cause = f" {clip(safe(why))}" if why else ""
    yield f"{session.own_text('changed plan:')}{cause}"
    yield from change_lines(plans[-2].plan, plans[-1].plan, session.locale)
    yield ""


def change_lines(before: Plan, after: Plan, locale: str = "en") -> Iterator[str]:
    """Yields the changes from one plan to another, except the revision number."""
    diff = diff_plans(before.replace(revision=1), after.replace(revision=1))
    yield from diff_lines(diff, locale)


def status_text(run: Run, session: Session) -> str:
    """Returns the status of a run in the person's language."""
    approved = run.status is RunStatus.REVIEWING and run.is_approved
    return status_word("approved" if approved else run.status, session.locale)


def _state_lines(run: Run, session: Session) -> Iterator[str]:
    """Yields the reasons of a run's status, if there are any."""
    if run.interrupted:
        yield session.own_text(
            "Its process has ended and nothing of it runs. `plansmith go` goes on."
        )
    if run.damage:
        number = run.last.number if run.last else 0
        yield session.own_text(
            "The journal is damaged; this is the run as it stood at event {number}:", number=number
        )
        yield clip(safe(in_language(run.damage, session.locale)), 400)
    # Why a request is planned, and not answered, says nothing about where its run stands.
    is_of_triage = run.decision == "plan" and run.status is RunStatus.REVIEWING and not run.paused
    if run.reason and not is_of_triage:
        yield clip(safe(in_language(run.reason, session.locale)), 200)


def run_lines(run: Run, session: Session) -> Iterator[str]:
    """Yields the lines of `plansmith show`: status, steps and results."""
    now = session.smith.runs.journals.clock.now()
    yield session.own_text("Run {run}: {status}", run=run.id, status=status_text(run, session))
    yield f"  {clip(safe(run.request), 200)}"
    if session.thread:
        yield f"  {session.own_text('In the conversation {thread}', thread=safe(session.thread))}"
    if run.folder:
        yield f"  {session.own_text('In the folder {folder}', folder=safe(run.folder))}"
    yield f"  {header(run, now=now, locale=session.locale)}"
    yield from (f"  {line}" for line in _state_lines(run, session))
    yield ""
    yield from (row.text for row in rows(run, now=now, locale=session.locale))
    if any(step.result is not None for step in run.steps.values()):
        yield ""
    for name, step in run.steps.items():
        if step.result is not None:
            yield f"{safe(name)} = {value_line(step.result, 300)}"
    if run.problems:
        yield from ("", *problem_lines(run.problems, session.locale))
