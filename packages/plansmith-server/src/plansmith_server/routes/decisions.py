"""Routes of decisions: approve, reject, ask for changes, answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Final

from plansmith.engine.provenance import ALLOW, allow_seen
from plansmith.errors import Refused, StaleDecision
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.fold import FOR_PROGRAMS
from plansmith.plan.run import Run
from plansmith.plan.schedules import failures_in_a_row
from plansmith.plan.sentence import Sentence
from plansmith.ports import Records
from plansmith.runs.answering import (
    changed_values,
    consent_values,
    may_change_values,
    open_question,
)
from plansmith.runs.stopping import stale_hash
from plansmith_server.errors import not_found
from plansmith_server.openapi import Answer, Ask, Nothing
from plansmith_server.routes import files
from plansmith_server.routes.tools import waiting_tools
from plansmith_server.schemas import requests as b
from plansmith_server.serialize import awaits_review, moment, question_view, run_view
from plansmith_server.state import ServerState
from plansmith_server.team.auth import need_scope
from plansmith_server.work_files import work_files

_YOU_DECIDE: Final = {
    "en": "You decide, and write down what you decided among the assumptions.",
    "zh": "由你决定，并把你的决定写进假设。",
}


async def decide(ask: Ask, given: b.Decision) -> Answer:
    """Approves, rejects or changes the plan of a run; an approved plan starts."""
    server_state, smith = ask.server_state, ask.server_state.smith
    run = await server_state.run(ask.run)
    if given.changes is not None:
        work = smith.request_changes(ask.run, given.changes, by=ask.by)
        await server_state.background.until_journaled(ask.run, work)
    elif given.reject:
        await server_state.smith.runs.ask_for_review(ask.run, Sentence("review.undecided"))
        await smith.decide(ask.run, reject=True, by=ask.by)
    else:
        if run.plan is None or given.approve != run.plan.hash:
            raise stale_hash(run.plan.hash if run.plan else "none")
        await server_state.smith.runs.ask_for_review(ask.run, Sentence("review.undecided"))
        await smith.decide(ask.run, approve=given.approve, by=ask.by)
        server_state.background.go_on(ask.run)
    return await run_view(smith, ask.run)


async def answer(ask: Ask, given: b.AnswerBody) -> Answer:
    """Answers a question; of two answers at once, the first counts."""
    server_state = ask.server_state
    run = await server_state.run(ask.run)
    if given.question not in run.questions:
        raise StaleDecision(
            Sentence("run {run} has no open question '{name}'", run=ask.run, name=given.question)
        )
    asked = open_question(run, given.question, given.hash)
    if ask.by.kind == "person" and asked.kind not in FOR_PROGRAMS:
        need_scope(ask.request.scope, "approve")
    value = _planner_decides(run, asked) if given.you_decide else given.answer
    if given.change is not None or (given.seen and asked.kind == "consent" and value == ALLOW):
        value = await _allowed(ask, run, asked, given)
    # Not `smith.answer`, which would wait for the plan.
    seen = run.question_hash(given.question)
    await server_state.smith.runs.answer(ask.run, given.question, value, by=ask.by, of=seen)
    server_state.background.go_on(ask.run)
    return await run_view(server_state.smith, ask.run)


async def _allowed(ask: Ask, run: Run, asked: e.QuestionAsked, given: b.AnswerBody) -> Json:
    """Returns a consent with what was seen of the files: the call itself looks at them again."""
    runs, own = ask.server_state.smith.runs, None
    if given.change is not None:
        need_scope(ask.request.scope, "approve")
        own = await changed_values(runs.store, asked, given.change)
    if given.seen:
        await files.need_as_seen(runs, run, asked, given.seen, own)
    if own is None:
        return allow_seen(given.seen)
    found = await work_files(runs).consent_preview(run, asked, own)
    return allow_seen(found.seen if found else "", own)


async def question(ask: Ask, _: Nothing) -> Answer:
    """Returns a question; one that asks for consent includes the values of the call, uncut."""
    run, name = await ask.server_state.run(ask.run), ask.path("question")
    asked = run.questions.get(name)
    if asked is None:
        raise not_found("question", name)
    runs = ask.server_state.smith.runs
    values = await consent_values(runs.store, asked)
    found = await work_files(runs).consent_preview(run, asked)
    rule = runs.intake.policy.second_person
    can_change = values is not None and may_change_values(run, asked, rule)
    told = {"values": values, **files.preview_json(found), "can_change": can_change}
    return {**question_view(run, asked), **told}


def _planner_decides(run: Run, asked: e.QuestionAsked) -> Json:
    """Returns the answer that leaves the choice to the planner, where that is possible."""
    if asked.options or asked.answer_schema is not None or asked.state:
        hint = Sentence("choose one of its options, or give an answer")
        raise Refused(Sentence("only you can answer this question"), hint=hint)
    return _YOU_DECIDE["zh" if run.locale.startswith("zh") else "en"]


async def inbox(ask: Ask, given: b.InboxQuery) -> Answer:
    """Lists or counts what waits for a person: plans, questions, tools, failing schedules."""
    server_state, items = ask.server_state, list[Json]()
    for listed in reversed(await server_state.open_runs.all()):
        items += _waiting(listed.run, listed.row["goal"])
    now = moment(server_state.smith.runs.journals.clock.now())
    for each in await waiting_tools(server_state):
        items.append({"kind": "tool", "run": None, "server": each["name"], "since": now})
    items += [each async for each in _failed_schedules(server_state)]
    return {"count": len(items)} if given.count else {"count": len(items), "items": items}


def _waiting(run: Run, goal: Json) -> Iterator[Json]:
    head: dict[str, Json] = {"run": run.id, "request": run.request, "goal": goal}
    head["since"] = moment(run.updated_at)
    if awaits_review(run) and run.plan is not None and run.last is not None:
        asked = run.last.body
        reasons: list[Json] = [*asked.reasons] if isinstance(asked, e.ReviewAsked) else []
        yield {**head, "kind": "review", "review": {"hash": run.plan.hash, "reasons": reasons}}
    for each in run.questions.values():
        yield {**head, "kind": "question", "question": question_view(run, each)}


async def _failed_schedules(server_state: ServerState) -> AsyncIterator[Json]:
    """Yields the schedules that were paused after failures, not those a person paused."""
    smith = server_state.smith
    for each in await smith.schedules.all() if isinstance(smith.store, Records) else ():
        if not each.paused:
            continue
        fires = await smith.schedules.shelf.fires(each.id, limit=each.max_failures)
        if failures_in_a_row(each, fires) >= each.max_failures:
            since = moment(fires[0].ended)
            item: dict[str, Json] = {"kind": "schedule", "run": None, "schedule": each.id}
            yield {**item, "goal": each.name, "reason": each.reason, "since": since}
