"""Routes of decisions: approve, reject, ask for changes, answer; and what waits for a person."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Final

from pydantic import BaseModel

from plansmith.engine.consent import allow_seen
from plansmith.engine.journal import load_preview
from plansmith.errors import Refused, StaleDecision
from plansmith.plan import events as e
from plansmith.plan.data import Json
from plansmith.plan.preview import CallPreview, PreviewedCall
from plansmith.plan.question_options import ALLOW, FOR_PROGRAMS
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.runs import decisions as d
from plansmith.runs.service import RunService
from plansmith.schedules.schedule import failures_in_a_row
from plansmith_server import bodies as b
from plansmith_server.api import Answer, Ask, route
from plansmith_server.errors import not_found
from plansmith_server.routes.previews import previewed_file
from plansmith_server.routes.tools import waiting_tools
from plansmith_server.state import ServerState
from plansmith_server.team.auth import require_scope
from plansmith_server.views import JsonObject, QuestionView, RunView, awaits_review, question_view

_YOU_DECIDE: Final = {
    "en": "You decide, and write down what you decided among the assumptions.",
    "zh": "由你决定，并把你的决定写进假设。",
}


class ShownCall(BaseModel):
    """What the tool of a call shows that it would do; `seen` is to be sent with the answer."""

    now: CallPreview | None
    seen: str


class QuestionWhole(QuestionView, ShownCall):
    """A question with the full values of the call that it is about.

    `previewed` is that call as a person approved it before.
    """

    values: dict[str, Any] | None
    can_change: bool
    previewed: PreviewedCall | None


class Inbox(BaseModel):
    """What waits for a person; only its number, if that was asked for."""

    count: int
    items: list[dict[str, Any]] | None = None


@route(
    "POST /v1/runs/{id}/decision",
    "approve",
    answer=RunView,
    conflict="The plan has another hash now, or the run no longer waits for a decision",
)
async def decide(ask: Ask, given: b.Decision) -> Answer:
    """Approves, rejects or changes the plan of a run; an approved plan starts."""
    run = await ask.state.run(ask.run)
    if given.changes is not None:
        work = ask.smith.request_changes(ask.run, given.changes, by=ask.by)
        await ask.state.background.until_journaled(ask.run, work)
        return await ask.run_view()
    if not given.reject:
        d.require_approvable(run, given.approve)
    await ask.runs.ask_for_review(ask.run, Sentence("review.undecided"))
    if given.reject:
        await ask.smith.decide(ask.run, reject=True, by=ask.by)
    else:
        details = given.model_dump(include={"leave_out", "change", "fresh"})
        await ask.smith.decide(ask.run, approve=given.approve, by=ask.by, **details)
        ask.state.background.go_on(ask.run)
    return await ask.run_view()


@route(
    "POST /v1/runs/{id}/answers",
    "answer",
    answer=RunView,
    conflict="The question is not open any more, or only a person may answer it",
)
async def answer(ask: Ask, given: b.AnswerBody) -> Answer:
    """Answers a question; of two answers at once, the first counts."""
    run = await ask.state.run(ask.run)
    if given.question not in run.questions:
        why = Sentence("run {run} has no open question '{name}'", run=ask.run, name=given.question)
        raise StaleDecision(why)
    asked = d.open_question(run, given.question, given.hash)
    if ask.by.kind == "person" and asked.kind not in FOR_PROGRAMS:
        require_scope(ask.request.scope, "approve")
    value = given.answer
    if given.you_decide:
        if asked.options or asked.answer_schema is not None or asked.state:
            hint = Sentence("choose one of its options, or give an answer")
            raise Refused(Sentence("only you can answer this question"), hint=hint)
        value = _YOU_DECIDE["zh" if run.locale.startswith("zh") else "en"]
    if given.change is not None or (given.seen and asked.kind == "consent" and value == ALLOW):
        value = await _consent(ask, run, asked, given)
    # Not `smith.answer`, which would wait for the plan.
    seen = run.question_hash(given.question)
    await ask.runs.answer(ask.run, given.question, value, by=ask.by, of=seen)
    ask.state.background.go_on(ask.run)
    return await ask.run_view()


async def _consent(ask: Ask, run: Run, asked: e.QuestionAsked, given: b.AnswerBody) -> Json:
    """Returns a consent with what was seen: the call itself looks at it again."""
    values, own = await d.consent_values(ask.runs.store, asked), None
    if given.change is not None:
        require_scope(ask.request.scope, "approve")
        own = await d.changed_values(ask.runs.store, asked, given.change)
    now = [await _shown(ask.runs, run, asked, each) for each in (own, values) if each is not None]
    # Somebody with own values may have looked at what these do, or only at what was asked about.
    if given.seen and any(now) and given.seen not in {each.hash for each in now if each}:
        paths = [file.path for each in now[:1] if each for file in each.files]
        why = Sentence("{names} changed after you looked", names=paths or [asked.callee])
        raise StaleDecision(why, hint=Sentence("look at it again, then decide"))
    return allow_seen(now[0].hash if own and now[0] else given.seen, own)


@route("GET /v1/runs/{id}/questions/{question:path}", "look", answer=QuestionWhole)
async def question(ask: Ask, *, path: b.Text = "") -> Answer:
    """Shows a question, of a call with all its values; or a file as that call would write it."""
    run, asked = await _open_question(ask)
    values = await d.consent_values(ask.runs.store, asked)
    now = await _shown(ask.runs, run, asked, values)
    if path:
        return previewed_file(now, path)
    shown = await load_preview(ask.runs.store, run) if run.approved else None
    calls = {each.step: each.to_json() for each in shown.calls} if shown else {}
    rule = ask.runs.intake.policy.second_person
    return {
        **question_view(run, asked),
        **_shown_view(now),
        "values": values,
        "can_change": values is not None and d.may_change_values(run, asked, rule),
        "previewed": calls.get(asked.step or ""),
    }


@route(
    "POST /v1/runs/{id}/questions/{question:path}",
    "approve",
    answer=ShownCall,
    example={"change": {"path": "june.md"}},
)
async def with_values(ask: Ask, *, change: dict[str, Json]) -> Answer:
    """Shows what a call that asks for consent would do with values of one's own."""
    run, asked = await _open_question(ask)
    own = await d.changed_values(ask.runs.store, asked, change)
    return _shown_view(await _shown(ask.runs, run, asked, own))


async def _open_question(ask: Ask) -> tuple[Run, e.QuestionAsked]:
    """Returns the open question in the path; raises 404 if there is none."""
    run, name = await ask.state.run(ask.run), ask.path("question")
    if name not in run.questions:
        raise not_found("question", name)
    return run, run.questions[name]


async def _shown(
    runs: RunService, run: Run, asked: e.QuestionAsked, values: dict[str, Json] | None
) -> CallPreview | None:
    """Returns what the call of a question would do, where its tool says so."""
    if values is None or not runs.journals.is_here(run.folder):
        return None
    return await runs.look(run.id, asked.step or "", values)


def _shown_view(now: CallPreview | None) -> JsonObject:
    return {"now": now and now.to_json(), "seen": now.hash if now else ""}


@route("GET /v1/inbox", "look", answer=Inbox)
async def inbox(ask: Ask, *, count: bool = False) -> Answer:
    """Lists or counts what waits for a person: plans, questions, tools, failing schedules."""
    items: list[Any] = []
    for row, run in reversed(await ask.state.open_runs.all()):
        head = {"run": run.id, "request": run.request, "goal": row["goal"], "since": run.updated_at}
        if awaits_review(run) and run.plan is not None:
            review = {"hash": run.plan.hash, "reasons": run.review_reasons or ()}
            items.append({**head, "kind": "review", "review": review})
        asked = [question_view(run, each) for each in run.questions.values()]
        items += [{**head, "kind": "question", "question": each} for each in asked]
    head = {"kind": "tool", "run": None, "since": ask.state.clock.now()}
    items += [{**head, "server": each["name"]} for each in await waiting_tools(ask.state)]
    items += [each async for each in _failed_schedules(ask.state)]
    return {"count": len(items)} if count else {"count": len(items), "items": items}


async def _failed_schedules(state: ServerState) -> AsyncIterator[dict[str, Any]]:
    """Yields the schedules that were paused after failures, not those a person paused."""
    smith = state.smith
    for each in await smith.schedules.all():
        if not each.paused:
            continue
        fires = await smith.schedules.store.fires(each.id, limit=each.max_failures)
        if failures_in_a_row(each, fires) >= each.max_failures:
            item = {"kind": "schedule", "run": None, "schedule": each.id, "goal": each.name}
            yield {**item, "reason": each.reason, "since": fires[0].ended}
