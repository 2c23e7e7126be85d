"""Routes of runs: start, list, show, cancel, retry, take back, remove; what they cost."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal
from typing import Final

from pydantic import AwareDatetime
from starlette import responses as web

from plansmith.errors import Refused, StoreAway
from plansmith.formats.native import read_plan
from plansmith.plan.data import Flag
from plansmith.plan.next_move import goes_on
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.run_options import OriginKind, read_options
from plansmith.plan.second_person import why_cannot_approve
from plansmith.plan.sentence import Sentence
from plansmith.report.build import load_report
from plansmith.report.markdown import to_markdown
from plansmith.runs.intake import NewRun
from plansmith.runs.journals import delete_run
from plansmith_server import bodies as b
from plansmith_server import views as v
from plansmith_server.api import Answer, Ask, route
from plansmith_server.errors import HttpProblem
from plansmith_server.report_page import POLICY, to_html
from plansmith_server.routes.conversations import say_and_show
from plansmith_server.routes.files import step_result, work_files
from plansmith_server.team.audit import AuditQuery, audit_lines
from plansmith_server.views import parse_plan

EDITED: Final = Sentence("review.edited")
# A report brings its own style, named by its hash, and no script.
_REPORT_POLICY: Final = POLICY.replace("default-src 'none'", "default-src 'self'")


@route("POST /v1/runs", "propose", answer=v.TurnView, status=202, waits=True)
async def create(ask: Ask, given: b.NewRun) -> Answer:
    """Plans a request, also in a conversation, or takes a plan; it continues without the client."""
    if given.conversation is not None:
        view = await say_and_show(ask, given, given.request or "", conversation=given.conversation)
        if not ask.wait_s:
            return view
        state = await ask.state.for_run(view["id"], acts=False)
        return {**view, **await state.run_view(view["id"], wait_s=ask.wait_s)}
    state, goal = ask.state.for_team(given.team, given.database), given.request or ""
    runs, wanted = state.smith.runs, read_options(given.options())
    new = NewRun(goal, run_id=runs.journals.new_id(), options=wanted, by=ask.by)
    if given.plan is not None:
        agents = runs.registry.agents()
        plan, notes = parse_plan(given.plan, wanted.dialect, goal=goal, agents=agents)
        new = replace(new, request=goal or plan.goal, plan=plan, notes=notes)
    try:
        await runs.create(new)
    except StoreAway:
        state.background.go_on(new.run_id)  # it may have been stored: then it is continued
        raise
    state.background.go_on(new.run_id)
    return await state.run_view(new.run_id, wait_s=ask.wait_s)


@route("GET /v1/runs", "look", answer=v.RunPage)
async def listing(
    ask: Ask,
    *,
    cursor: b.Text = "",
    limit: b.Page = 50,
    status: b.Text = "",
    q: b.Long = "",
    origin: OriginKind | None = None,
    since: AwareDatetime | None = None,
    until: AwareDatetime | None = None,
) -> Answer:
    """Lists runs, newest first; `since` and `until` are about when a run was created."""
    wanted = {each for each in status.split(",") if each}
    if "open" in wanted:
        wanted |= {each.value for each in RunStatus if not each.over}
    known = ["open", *(each.value for each in RunStatus)]
    if unknown := wanted.difference(known):
        hint = Sentence(
            "use {names}, or several of them with commas between", names=", ".join(known)
        )
        detail = Sentence("there is no status '{name}'", name=min(unknown))
        raise HttpProblem(422, "invalid_input", detail, hint=hint)
    if cursor:
        await ask.runs.journals.listed(cursor)  # 404: the list would begin anew
    found = await ask.runs.lists.newest(
        statuses=wanted,
        before=cursor,
        text=q,
        origin=origin or "",
        since=since,
        until=until,
        limit=limit + 1,
    )
    page = found[:limit]
    more = page[-1].run if len(found) > len(page) else None
    return {"items": [v.run_row(each) for each in page], "next": more}


@route("GET /v1/runs/{id}", "look", answer=v.RunView)
async def show(ask: Ask) -> Answer:
    """Shows everything about a run."""
    view = await ask.state.run_view(ask.run)
    if view["status"] != "reviewing":
        return view
    if "approve" in ask.grant.rights:
        rule = ask.runs.intake.policy.second_person
        why = why_cannot_approve(await ask.state.run(ask.run), ask.by, rule)
    else:
        why = Sentence("Your role or token cannot approve plans")
    return {**view, "cannot_approve": why} if why else view


@route("DELETE /v1/runs/{id}", "approve", status=204)
async def remove(ask: Ask) -> None:
    """Cancels a run if it is open, and deletes it once nobody works on it any more."""
    if not (await ask.state.run(ask.run)).status.over:
        await ask.state.background.halt_planning(ask.run)
        await ask.smith.cancel(ask.run, by=ask.by)
    await delete_run(ask.runs.journals, ask.run, by=ask.by)
    ask.state.open_runs.forget(ask.run)


@route("GET /v1/runs/{id}/events", "look", answer=v.Listed)
async def events(ask: Ask, *, after: b.Number = 0) -> Answer:
    """Returns the events of a run after a number."""
    journal = await ask.state.journal(ask.run)
    return {"items": [each.shown_json(ask.language) for each in journal.events[after:]]}


@route("GET /v1/runs/{id}/steps/{step:path}", "look", answer=v.Inspected)
async def step(ask: Ask, *, download: bool = False) -> Answer:
    """Shows a step with its inputs, result, attempts and model calls; or saves its whole result."""
    if download:
        return await step_result(ask, ask.path("step"))
    return await v.step_details(ask.smith, ask.run, ask.path("step"))


@route("GET /v1/runs/{id}/report", "look", media="text/markdown")
async def report(ask: Ask, given: b.ReportQuery) -> Answer:
    """Returns the report of a run as Markdown, HTML or JSON."""
    kinds = {"text/html": "html", "application/json": "json"}
    accepted = [form for kind, form in kinds.items() if kind in ask.header("accept")]
    form = given.format or (accepted[0] if accepted else "md")
    # The page shows it in the reader's language; a document to keep is in that of the run.
    locale = ask.language if form == "json" and ask.header("accept-language") else ""
    found = await load_report(ask.smith.store, ask.run, locale=locale)
    if form == "json":
        return web.JSONResponse(found.to_json())
    if form == "html":
        files = await work_files(ask.runs).written(ask.run)
        page = await asyncio.to_thread(to_html, found, files)  # it takes long where a report does
        return web.HTMLResponse(page, headers={"Content-Security-Policy": _REPORT_POLICY})
    return web.PlainTextResponse(to_markdown(found), media_type="text/markdown")


@route("POST /v1/runs/{id}/cancel", "propose", answer=v.RunView, example=b.REASON)
async def cancel(ask: Ask, *, reason: b.Long = "") -> Answer:
    """Stops a run for good."""
    if (await ask.state.run(ask.run)).status.over:
        raise Refused(Sentence("run {run} is over", run=ask.run))
    await ask.state.background.halt_planning(ask.run)
    await ask.smith.cancel(ask.run, by=ask.by, reason=reason)
    return await ask.run_view()


@route("POST /v1/runs/{id}/pause", "propose", answer=v.RunView, example=b.REASON)
async def pause(ask: Ask, *, reason: b.Long = "") -> Answer:
    """Pauses a run: starts no more steps, lets running ones end."""
    await ask.state.background.halt_planning(ask.run)
    await ask.runs.pause_at_once(ask.run, by=ask.by, reason=reason)
    return await ask.run_view()


@route(
    "POST /v1/runs/{id}/resume", "approve", answer=v.RunView, waits=True, example={"force": False}
)
async def resume(ask: Ask, *, force: Flag = False) -> Answer:
    """Resumes a paused run, or one whose process ended; by `force`, also from a living one."""
    journal = await ask.state.journal(ask.run)
    journal.require_sound()
    if not force:
        await ask.runs.journals.ownership.require_free(ask.run)
    else:
        await ask.smith.resume(ask.run, by=ask.by, force=True)
        await journal.catch_up()
    if journal.run.paused or not goes_on(journal.run):
        await ask.smith.resume(ask.run, by=ask.by)
    if v.is_undecided(await ask.state.run(ask.run)):
        await ask.runs.ask_for_review(ask.run, EDITED)
    ask.state.background.go_on(ask.run)
    return await ask.run_view()


@route("POST /v1/runs/{id}/repair", "approve", answer=v.RunView)
async def repair(ask: Ask) -> Answer:
    """Repairs a damaged run: keeps it up to its last good event, paused."""
    await ask.runs.journals.repair(ask.run, by=ask.by)
    ask.state.open_runs.forget(ask.run)
    return await ask.run_view()


@route(
    "POST /v1/runs/{id}/retry",
    "propose",
    answer=v.RunView,
    status=202,
    example={"from_step": "weather"},
)
async def retry(
    ask: Ask, *, from_step: b.Short | None = None, plan: b.PlanJson | None = None
) -> Answer:
    """Continues a run as a new run that keeps what is done; plans again if there was no plan."""
    old = await ask.state.run(ask.run)
    new = read_plan(plan) if plan is not None else None
    if old.plan is None and new is None and old.status.over:
        return await _plan_again(ask, old)
    run = await ask.smith.retry(ask.run, from_step=from_step, plan=new, by=ask.by)
    await ask.runs.ask_for_review(run.id, Sentence("review.continues"))
    return await ask.run_view(run.id)


@route("POST /v1/runs/{id}/rerun", "propose", answer=v.RunView, status=202)
async def rerun(ask: Ask) -> Answer:
    """Runs the plan of a finished run again as a new run, without its results."""
    old = await ask.state.run(ask.run)
    if old.plan is None and old.status.over:
        return await _plan_again(ask, old)
    run = await ask.smith.rerun(ask.run, by=ask.by)
    await ask.runs.ask_for_review(run.id, Sentence("review.reruns"))
    return await ask.run_view(run.id)


async def _plan_again(ask: Ask, old: Run) -> Answer:
    journal = await ask.runs.editing.ask_again(old, by=ask.by)
    ask.state.background.go_on(journal.id)
    return await ask.run_view(journal.id)


@route("POST /v1/runs/{id}/take-back", "propose", answer=v.RunView, status=202)
async def take_back(ask: Ask) -> Answer:
    """Makes a run that takes back what a finished run did; it waits for review."""
    run = await ask.runs.undo_effects(ask.run, by=ask.by)
    return await ask.run_view(run.id)


@route("POST /v1/runs/{id}/skip", "approve", answer=v.RunView, example={"step": "weather"})
async def skip(ask: Ask, *, step: b.Short) -> Answer:
    """Skips a step that has not begun or that asks, and the steps that need it."""
    work = ask.runs.skip(ask.run, step, by=ask.by)
    # Not until the first event: that may be one of the process that executes the run.
    await ask.state.background.do_and_continue(ask.run, work)
    return await ask.run_view()


@route("GET /v1/metrics", "look")
async def metrics(ask: Ask) -> Answer:
    """Sums up tokens and costs of all runs, by status, day and model."""
    totals = await ask.runs.lists.totals()
    days = [
        {"day": day, "runs": each.runs, "tokens": each.tokens, "cost_usd": str(each.money)}
        for day, each in sorted(totals.days.items())
    ]
    return {
        "runs": totals.statuses,
        "tokens": sum(each.tokens for each in totals.days.values()),
        "cost_usd": str(sum((each.money for each in totals.days.values()), Decimal(0))),
        "by_day": days,
        "by_model": [
            {"model": name, **totals.models[name]._asdict()} for name in sorted(totals.models)
        ],
        "planning": {**totals.planning},
    }


@route("GET /v1/audit", "audit", media="application/x-ndjson")
async def audit(ask: Ask, given: b.AuditExport) -> Answer:
    """Exports who did what and when over all runs, as JSON lines or CSV."""
    wanted = given.model_dump(exclude={"format"})
    lines = audit_lines(ask.smith.store, AuditQuery(**wanted), given.format)
    media = "text/csv; charset=utf-8" if given.format == "csv" else "application/x-ndjson"
    headers = {"Content-Disposition": f'attachment; filename="audit.{given.format}"'}
    return web.StreamingResponse(lines, media_type=media, headers=headers)
