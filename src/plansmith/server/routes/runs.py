"""Routes of runs: start, list, show, cancel, retry, remove."""

from __future__ import annotations

from typing import Any, Final, Literal

from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response

from plansmith.dialects.native import read_plan
from plansmith.errors import InvalidPlan, Refused
from plansmith.plan.data import Json
from plansmith.plan.next_move import goes_on
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run, RunStatus
from plansmith.planner.request import PlanRequest
from plansmith.report.build import load_report
from plansmith.report.html import POLICY, to_html
from plansmith.report.markdown import to_markdown
from plansmith.runs.planning import SEEN_FIRST
from plansmith.server.errors import HttpProblem
from plansmith.server.openapi import Answer, Ask, Nothing
from plansmith.server.schemas import requests as b
from plansmith.server.serialize import inspected, is_undecided, run_view

EDITED: Final = "the plan was changed by hand"


async def create(ask: Ask, given: b.NewRun) -> Answer:
    """Take a request or a plan in; planning and running go on without the client."""
    server_state, smith = ask.server_state, ask.server_state.smith
    wanted = PlanRequest(
        given.request or "",
        locale=given.locale,
        profile=given.profile,
        max_steps=given.max_steps,
        budget=given.budget.to_json() if given.budget else None,
        mode=given.mode,
    )
    if given.plan is not None:
        plan = plan_of(given.plan)
        text = given.request or plan.goal
        created = await smith.runs.create(text, plan=plan, options=wanted.options(), by=ask.by)
        run_id = created.id
        if given.mode == "review":
            await server_state.smith.runs.ask_for_review(run_id, SEEN_FIRST)
    else:
        journal = await smith.runs.create(wanted.text, options=wanted.options(), by=ask.by)
        run_id = journal.id
    server_state.background.go_on(run_id)
    return await run_view(smith, run_id)


def plan_of(value: dict[str, Any]) -> Plan:
    """A plan out of JSON, or everything that keeps it from being one."""
    found = read_plan(value)
    if not isinstance(found, Plan):
        raise InvalidPlan(found)
    return found


async def listing(ask: Ask, given: b.RunQuery) -> Answer:
    """Some runs, newest first."""
    wanted = {each for each in given.status.split(",") if each}
    if "open" in wanted:
        wanted |= {each.value for each in RunStatus if not each.over}
    unknown = wanted - {each.value for each in RunStatus} - {"open"}
    if unknown:
        raise HttpProblem(422, "invalid_input", f"there is no status {min(unknown)!r}")
    text, items = given.q.casefold(), list[Json]()
    async for row, *_ in ask.server_state.rows.newest(given.cursor):
        if wanted and row["status"] not in wanted:
            continue
        if text and text not in f"{row['request']}\n{row['goal']}\n{row['id']}".casefold():
            continue
        if len(items) == given.limit:
            last: Any = items[-1]
            return {"items": items, "next": last["id"]}
        items.append(row)
    return {"items": items, "next": None}


async def show(ask: Ask, _: Nothing) -> Answer:
    """A run, whole."""
    await ask.server_state.journal(ask.run)
    return await run_view(ask.server_state.smith, ask.run)


async def remove(ask: Ask, _: Nothing) -> Answer:
    """Cancel a run if it is open, and remove it where the store can."""
    server_state, smith = ask.server_state, ask.server_state.smith
    run = await server_state.run(ask.run)
    delete = getattr(smith.store, "delete_run", None)
    if delete is None:
        raise Refused("this store keeps every run", hint="use SQLite or PostgreSQL")
    if not run.status.over:
        await server_state.background.halt_planning(ask.run)
        await smith.cancel(ask.run, by=ask.by)
    await delete(ask.run)
    server_state.rows.forget(ask.run)
    return Response(status_code=204)


async def events(ask: Ask, given: b.AfterQuery) -> Answer:
    """The events of a run behind a number."""
    journal = await ask.server_state.journal(ask.run)
    return {"items": [each.shown_json(ask.language) for each in journal.events[given.after :]]}


async def step(ask: Ask, _: Nothing) -> Answer:
    """All that is known of one step."""
    await ask.server_state.journal(ask.run)
    return await inspected(ask.server_state.smith, ask.run, ask.path("step"))


async def report(ask: Ask, given: b.ReportQuery) -> Answer:
    """What came of a run, as Markdown, HTML or JSON."""
    await ask.server_state.journal(ask.run)
    found = await load_report(ask.server_state.smith.store, ask.run)
    accepts = ask.header("accept")
    accepted = [form for kind, form in _FORMS.items() if kind in accepts]
    form = given.format or (accepted[0] if accepted else "md")
    if form == "json":
        return JSONResponse(found.to_json())
    if form == "html":
        return HTMLResponse(to_html(found), headers={"Content-Security-Policy": _REPORT_POLICY})
    return PlainTextResponse(to_markdown(found), media_type="text/markdown")


_FORMS: Final[dict[str, Literal["html", "json"]]] = {
    "text/html": "html",
    "application/json": "json",
}
# A report carries its own style, by its hash, and nothing that could run.
_REPORT_POLICY: Final = POLICY.replace("default-src 'none'", "default-src 'self'")


async def cancel(ask: Ask, given: b.ReasonBody) -> Answer:
    """Stop a run for good."""
    server_state = ask.server_state
    if (await server_state.run(ask.run)).status.over:
        raise Refused(f"run {ask.run} is over")
    await server_state.background.halt_planning(ask.run)
    await server_state.smith.cancel(ask.run, by=ask.by, reason=given.reason)
    return await run_view(server_state.smith, ask.run)


async def pause(ask: Ask, given: b.ReasonBody) -> Answer:
    """Start nothing more of a run; what runs may end."""
    server_state = ask.server_state
    await server_state.journal(ask.run)
    await server_state.background.halt_planning(ask.run)
    await server_state.smith.runs.stopping.pause_at_once(ask.run, by=ask.by, reason=given.reason)
    return await run_view(server_state.smith, ask.run)


async def resume(ask: Ask, _: Nothing) -> Answer:
    """Let a paused run go on, or one that was left behind by a process that ended."""
    server_state = ask.server_state
    journal = await server_state.journal(ask.run)
    journal.need_sound()
    await server_state.smith.runs.journals.owners.need_free(ask.run)
    if journal.run.paused or not goes_on(journal.run):
        await server_state.smith.resume(ask.run, by=ask.by)
    if is_undecided(await server_state.run(ask.run)):
        await server_state.smith.runs.ask_for_review(ask.run, EDITED)
    server_state.background.go_on(ask.run)
    return await run_view(server_state.smith, ask.run)


async def repair(ask: Ask, _: Nothing) -> Answer:
    """Go on with a damaged run from its last good event; it is paused then."""
    server_state = ask.server_state
    await server_state.journal(ask.run)
    await server_state.smith.runs.journals.repair(ask.run, by=ask.by)
    server_state.rows.forget(ask.run)
    return await run_view(server_state.smith, ask.run)


async def retry(ask: Ask, given: b.RetryBody) -> Answer:
    """Continue from what is done, as a new run; one that came to no plan is planned again."""
    server_state = ask.server_state
    old = await server_state.run(ask.run)
    plan = plan_of(given.plan) if given.plan is not None else None
    if old.plan is None and plan is None and old.status.over:
        return await _plan_again(ask, old)
    run = await server_state.smith.retry(ask.run, from_step=given.from_step, plan=plan, by=ask.by)
    await server_state.smith.runs.ask_for_review(run.id, f"this continues run {ask.run}")
    return await run_view(server_state.smith, run.id)


async def rerun(ask: Ask, _: Nothing) -> Answer:
    """Run everything of a run that is over again, as a new run: no result is taken over."""
    server_state = ask.server_state
    old = await server_state.run(ask.run)
    if old.plan is None and old.status.over:
        return await _plan_again(ask, old)
    run = await server_state.smith.rerun(ask.run, by=ask.by)
    await server_state.smith.runs.ask_for_review(
        run.id, f"this runs everything of run {ask.run} again"
    )
    return await run_view(server_state.smith, run.id)


async def _plan_again(ask: Ask, old: Run) -> Answer:
    """The same request once more; planning goes on without the client."""
    journal = await ask.server_state.smith.runs.repeating.ask_again(old, by=ask.by)
    ask.server_state.background.go_on(journal.id)
    return await run_view(ask.server_state.smith, journal.id)


async def skip(ask: Ask, given: b.SkipBody) -> Answer:
    """Leave a step out that has not begun, or that asks; what needs it does not run either."""
    server_state = ask.server_state
    await server_state.journal(ask.run)
    deed = server_state.smith.skip(ask.run, given.step, by=ask.by)
    await server_state.background.until_journaled(ask.run, deed)
    return await run_view(server_state.smith, ask.run)
