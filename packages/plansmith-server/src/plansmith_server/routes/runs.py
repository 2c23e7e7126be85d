"""Routes of runs: start, list, show, cancel, retry, take back, remove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from plansmith.errors import Refused, StoreAway
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.next_move import goes_on
from plansmith.plan.planning import PlanRequest
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.second_person import why_not
from plansmith.plan.sentence import Sentence
from plansmith.report.build import load_report
from plansmith.report.html import POLICY, to_html
from plansmith.report.markdown import to_markdown
from plansmith.runs.deletion import delete_run
from plansmith.runs.files import pictures
from plansmith.runs.service import RunService
from plansmith_server.errors import HttpProblem
from plansmith_server.openapi import Answer, Ask, Nothing
from plansmith_server.plan_bodies import plan_of, received
from plansmith_server.routes.conversations import said
from plansmith_server.routes.files import step_result
from plansmith_server.schemas import requests as b
from plansmith_server.serialize import inspected, is_undecided, run_row, run_view
from plansmith_server.state import ServerState
from plansmith_server.work_files import work_files

EDITED: Final = Sentence("review.edited")
CONTINUES: Final = Sentence("review.continues")
RERUNS: Final = Sentence("review.reruns")


async def create(ask: Ask, given: b.NewRun) -> Answer:
    """Creates a run of a request or a plan, which continues without the client."""
    if given.conversation is not None:
        turn = await said(ask, given, given.request or "", conversation=given.conversation)
        return await _after_waiting(ask, turn)
    server_state = ask.server_state.for_team(given.team, given.database)
    smith = server_state.smith
    run_id = smith.runs.journals.new_id()
    try:
        await _created(smith.runs, run_id, given, by=ask.by)
    except StoreAway:
        server_state.background.go_on(run_id)  # it may have been stored: then it is continued
        raise
    server_state.background.go_on(run_id)
    await until_rest(server_state, run_id, ask.wait_s)
    return await run_view(smith, run_id)


async def _after_waiting(ask: Ask, turn: Mapping[str, Json]) -> Answer:
    """Returns the answer to a message; if the client waits, with the run as it stands then."""
    if not ask.wait_s:
        return turn
    run_id = str(turn["id"])
    server_state = await ask.server_state.for_run(run_id, acts=False)
    await until_rest(server_state, run_id, ask.wait_s)
    return {**turn, **await run_view(server_state.smith, run_id)}


async def until_rest(server_state: ServerState, run_id: str, seconds: float) -> None:
    """Waits until a run is over or needs a person, at most so long."""
    if seconds:
        await server_state.wait(server_state.background.at_rest(run_id), seconds)


async def _created(runs: RunService, run_id: str, given: b.NewRun, *, by: e.Who) -> None:
    """Creates a run of a request or a plan."""
    wanted = PlanRequest(given.request or "", **given.options())
    options = wanted.options()
    if given.plan is None:
        await runs.create(wanted.text, run_id=run_id, options=options, by=by)
        return
    goal = given.request or ""
    plan, notes = received(given.plan, wanted.dialect, goal=goal, agents=runs.intake.agents())
    goal = goal or plan.goal
    await runs.create(goal, plan=plan, run_id=run_id, options=options, notes=notes, by=by)


async def listing(ask: Ask, given: b.RunQuery) -> Answer:
    """Lists runs, newest first."""
    wanted = {each for each in given.status.split(",") if each}
    if "open" in wanted:
        wanted |= {each.value for each in RunStatus if not each.over}
    known = ["open", *(each.value for each in RunStatus)]
    if unknown := wanted.difference(known):
        hint = f"use {', '.join(known)}, or several of them with commas between"
        detail = f"there is no status {min(unknown)!r}"
        raise HttpProblem(422, "invalid_input", detail, hint=hint)
    found = await ask.server_state.smith.runs.lists.newest(
        statuses=wanted,
        before=given.cursor,
        text=given.q,
        origin=given.origin or "",
        since=given.since,
        until=given.until,
        limit=given.limit + 1,
    )
    page = found[: given.limit]
    items: list[Json] = [run_row(each) for each in page]
    return {"items": items, "next": page[-1].run if len(found) > len(page) else None}


async def show(ask: Ask, _: Nothing) -> Answer:
    """Returns everything about a run."""
    run = (await ask.server_state.journal(ask.run)).run
    view = await run_view(ask.server_state.smith, ask.run)
    why = _cannot_approve(ask, run) if view["status"] == "reviewing" else None
    return view | {"cannot_approve": why} if why else view


def _cannot_approve(ask: Ask, run: Run) -> Sentence | None:
    """Returns why this client cannot approve the plan of a run, or None."""
    if "approve" not in ask.grant.scopes:
        return Sentence("Your role or token cannot approve plans")
    return why_not(run, ask.by, ask.server_state.smith.runs.intake.policy.second_person)


async def remove(ask: Ask, _: Nothing) -> Answer:
    """Cancels a run if it is open, and deletes it once nobody works on it any more."""
    server_state, smith = ask.server_state, ask.server_state.smith
    if not (await server_state.run(ask.run)).status.over:
        await server_state.background.halt_planning(ask.run)
        await smith.cancel(ask.run, by=ask.by)
    await delete_run(smith.runs.journals, ask.run, by=ask.by)
    server_state.open_runs.forget(ask.run)
    return Response(status_code=204)


async def events(ask: Ask, given: b.AfterQuery) -> Answer:
    """Returns the events of a run after a number."""
    journal = await ask.server_state.journal(ask.run)
    return {"items": [each.shown_json(ask.language) for each in journal.events[given.after :]]}


async def step(ask: Ask, given: b.FileQuery) -> Answer:
    """Returns a step with its inputs, result, attempts and model calls; or its whole result."""
    if given.download == "true":
        return await step_result(ask, ask.path("step"))
    await ask.server_state.journal(ask.run)
    return await inspected(ask.server_state.smith, ask.run, ask.path("step"))


async def report(ask: Ask, given: b.ReportQuery) -> Answer:
    """Returns the report of a run as Markdown, HTML or JSON."""
    await ask.server_state.journal(ask.run)
    accepts = ask.header("accept")
    accepted = [form for kind, form in _FORMS.items() if kind in accepts]
    form = given.format or (accepted[0] if accepted else "md")
    # The page shows it in the reader's language; a document to keep is in that of the run.
    locale = ask.language if form == "json" and ask.header("accept-language") else ""
    found = await load_report(ask.server_state.smith.store, ask.run, locale=locale)
    if form == "json":
        return JSONResponse(found.to_json())
    if form == "html":
        files = await work_files(ask.server_state.smith.runs).written(ask.run)
        found = replace(found, pictures=pictures(files))
        return HTMLResponse(to_html(found), headers={"Content-Security-Policy": _REPORT_POLICY})
    return PlainTextResponse(to_markdown(found), media_type="text/markdown")


_FORMS: Final[dict[str, Literal["html", "json"]]] = {
    "text/html": "html",
    "application/json": "json",
}
# A report brings its own style, named by its hash, and no script.
_REPORT_POLICY: Final = POLICY.replace("default-src 'none'", "default-src 'self'")


async def cancel(ask: Ask, given: b.ReasonBody) -> Answer:
    """Cancels a run."""
    server_state = ask.server_state
    if (await server_state.run(ask.run)).status.over:
        raise Refused(Sentence("run {run} is over", run=ask.run))
    await server_state.background.halt_planning(ask.run)
    await server_state.smith.cancel(ask.run, by=ask.by, reason=given.reason)
    return await run_view(server_state.smith, ask.run)


async def pause(ask: Ask, given: b.ReasonBody) -> Answer:
    """Pauses a run: starts no more steps, lets running ones end."""
    server_state = ask.server_state
    await server_state.journal(ask.run)
    await server_state.background.halt_planning(ask.run)
    await server_state.smith.runs.stopping.pause_at_once(ask.run, by=ask.by, reason=given.reason)
    return await run_view(server_state.smith, ask.run)


async def resume(ask: Ask, given: b.ResumeBody) -> Answer:
    """Resumes a paused run, or one whose process ended; by `force`, also from a living one."""
    server_state = ask.server_state
    journal = await server_state.journal(ask.run)
    journal.need_sound()
    if not given.force:
        await server_state.smith.runs.journals.owners.need_free(ask.run)
    else:
        await server_state.smith.resume(ask.run, by=ask.by, force=True)
        await journal.catch_up()
    if journal.run.paused or not goes_on(journal.run):
        await server_state.smith.resume(ask.run, by=ask.by)
    if is_undecided(await server_state.run(ask.run)):
        await server_state.smith.runs.ask_for_review(ask.run, EDITED)
    server_state.background.go_on(ask.run)
    await until_rest(server_state, ask.run, ask.wait_s)
    return await run_view(server_state.smith, ask.run)


async def repair(ask: Ask, _: Nothing) -> Answer:
    """Repairs a damaged run: keeps it up to its last good event, paused."""
    server_state = ask.server_state
    await server_state.journal(ask.run)
    await server_state.smith.runs.journals.repair(ask.run, by=ask.by)
    server_state.open_runs.forget(ask.run)
    return await run_view(server_state.smith, ask.run)


async def retry(ask: Ask, given: b.RetryBody) -> Answer:
    """Continues a run as a new run that keeps what is done; plans again if there was no plan."""
    server_state = ask.server_state
    old = await server_state.run(ask.run)
    plan = plan_of(given.plan) if given.plan is not None else None
    if old.plan is None and plan is None and old.status.over:
        return await _plan_again(ask, old)
    run = await server_state.smith.retry(ask.run, from_step=given.from_step, plan=plan, by=ask.by)
    await server_state.smith.runs.ask_for_review(run.id, CONTINUES)
    return await run_view(server_state.smith, run.id)


async def rerun(ask: Ask, _: Nothing) -> Answer:
    """Runs the plan of a finished run again as a new run, without its results."""
    server_state = ask.server_state
    old = await server_state.run(ask.run)
    if old.plan is None and old.status.over:
        return await _plan_again(ask, old)
    run = await server_state.smith.rerun(ask.run, by=ask.by)
    await server_state.smith.runs.ask_for_review(run.id, RERUNS)
    return await run_view(server_state.smith, run.id)


async def take_back(ask: Ask, _: Nothing) -> Answer:
    """Makes a run that takes back what a finished run did; it waits for review."""
    server_state = ask.server_state
    await server_state.journal(ask.run)
    run = await server_state.smith.runs.undo_plan(ask.run, by=ask.by)
    return await run_view(server_state.smith, run.id)


async def _plan_again(ask: Ask, old: Run) -> Answer:
    """Plans the same request again, in the background."""
    journal = await ask.server_state.smith.runs.repeating.ask_again(old, by=ask.by)
    ask.server_state.background.go_on(journal.id)
    return await run_view(ask.server_state.smith, journal.id)


async def skip(ask: Ask, given: b.SkipBody) -> Answer:
    """Skips a step that has not begun or that asks, and the steps that need it."""
    server_state = ask.server_state
    await server_state.journal(ask.run)
    work = server_state.smith.runs.stopping.skip(ask.run, given.step, by=ask.by)
    # Not until the first event: that may be one of the process that executes the run.
    await server_state.background.do_and_continue(ask.run, work)
    return await run_view(server_state.smith, ask.run)
