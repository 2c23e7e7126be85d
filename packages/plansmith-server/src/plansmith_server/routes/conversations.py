"""Routes of conversations: list, show, say, take back, remove."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import Final, Literal

from pydantic import BaseModel
from starlette.responses import Response

from plansmith.errors import PlansmithError, Refused
from plansmith.plan.data import Json
from plansmith.plan.events import QuestionAsked
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.thread import Judge, MessageKind, Reading, ThreadMessage
from plansmith.text import clip
from plansmith_planner.threads.memory import answer_text
from plansmith_server import bodies as b
from plansmith_server import conversations as talk
from plansmith_server import views as v
from plansmith_server.api import Answer, Ask, route
from plansmith_server.errors import not_found
from plansmith_server.news import conversation_row
from plansmith_server.state import ServerState
from plansmith_server.team.auth import need_scope

_ANSWER: Final = 600


class MessageView(BaseModel):
    """A message of a conversation; `kind` is null as long as nobody has read it.

    `asked` is the text of the question that it answers, `reply` the answer that it got at once,
    `instead` the run that goes on where it was taken back.
    """

    number: int
    at: datetime
    by: dict[str, str]
    text: str
    kind: MessageKind | None
    run: str
    question: str
    asked: str
    value: Json
    judge: Judge | None
    reason: str
    reply: dict[str, str] | None
    undone: bool
    instead: str


class ConversationRow(BaseModel):
    """A conversation in a list; `waits` is what a person has to do in it."""

    id: str
    title: str
    owner: str
    folder: str
    messages: int
    last: int
    updated_at: datetime
    waits: Literal["", "question", "review"]


class ConversationPage(BaseModel):
    """Some conversations, newest activity first; `next` is the cursor of the next page."""

    items: list[ConversationRow]
    next: str | None


class ConversationRun(v.RunRow):
    """A run of a conversation; `answer` is the beginning of what it told the person."""

    answer: str


class QuestionOfRun(v.QuestionView):
    """An open question, and its run."""

    run: str


class ConversationView(BaseModel):
    """A conversation: its messages and runs, oldest first, and what waits in it.

    `summary` has the messages up to a number in short.
    """

    id: str
    title: str
    owner: str
    folder: str
    messages: list[MessageView]
    runs: list[ConversationRun]
    questions: list[QuestionOfRun]
    summary: dict[str, Json] | None
    created_at: datetime | None
    updated_at: datetime | None
    last: int


async def said(ask: Ask, given: b.RequestOptions, text: str, *, conversation: str) -> v.Shown:
    """Says something in a conversation; answers with the run and what the message was."""
    team = ask.state.for_team(given.team, given.database)
    key = ask.header("idempotency-key")
    known = f"{ask.grant.name} {key}" if key else ""
    if known and conversation in talk.NEW:  # sent again, it begins no second one
        conversation = sha256(known.encode()).hexdigest()[:32]
    state, thread = await talk.open_conversation(team, conversation, fixed=bool(given.team))
    again = bool(known) and any(each.key == known for each in thread.history)
    if (thread.runs or thread.state.last) and not again:
        # The message may be the answer to a question.
        need_scope(ask.request.scope, "answer")
    turn = await talk.say(state, thread, text, by=ask.by, key=known, **given.options())
    return await talk.turn_view(state, thread, turn)


@route("POST /v1/conversations/{id:path}/messages", "propose", answer=v.TurnView, status=202)
async def message(ask: Ask, given: b.NewMessage) -> Answer:
    """Says something in a conversation that has begun, or about a run."""
    found = await talk.read_conversation(ask.state, ask.path("id"))
    return await said(ask, given, given.text, conversation=found.id)


@route("POST /v1/conversations/{id:path}/messages/{number}/undo", "propose", answer=v.TurnView)
async def undone(ask: Ask) -> Answer:
    """Takes back what a message was taken for."""
    number = ask.path("number")
    found = await talk.read_conversation(ask.state, ask.path("id"))
    said = found.message(int(number[:18])) if number.isascii() and number.isdigit() else None
    if said is None:
        raise not_found("message", number)
    if said.reading is None:
        why = Sentence(
            "message {number} has done nothing yet: nothing is to be undone", number=number
        )
        raise Refused(why, hint=Sentence("the next message of the conversation takes it up"))
    state, thread = await talk.open_conversation(ask.state, found.id)
    turn = await talk.undo(state, thread, int(number), by=ask.by)
    return await talk.turn_view(state, thread, turn)


@route("DELETE /v1/conversations/{id:path}", "approve", status=204)
async def remove(ask: Ask) -> Answer:
    """Cancels what is open in a conversation, and removes it with its runs."""
    found = await talk.read_conversation(ask.state, ask.path("id"))
    if not found.last:
        raise not_found("conversation", found.id)  # a run without one: it is removed as a run
    await talk.remove(ask.state, found, by=ask.by)
    return Response(status_code=204)


@route("GET /v1/conversations", "look", answer=ConversationPage)
async def listing(
    ask: Ask, *, cursor: b.Text = "", limit: b.Page = 50, owner: b.Text | None = None
) -> Answer:
    """Lists conversations, newest activity first."""
    found = await ask.smith.threads.list(owner=owner, before=cursor, limit=limit + 1)
    page, waits = found[:limit], dict[str, str]()
    for listed in await ask.state.open_runs.all():
        run = listed.run
        what = "question" if run.questions else "review" if v.awaits_review(run) else ""
        if what:
            waits[run.options.thread or run.id] = what  # one that was adopted has the run's id
    rows = [{**conversation_row(each), "waits": waits.get(each.thread, "")} for each in page]
    return {"items": rows, "next": page[-1].thread if len(found) > len(page) else None}


@route("GET /v1/conversations/{id:path}", "look", answer=ConversationView)
async def show(ask: Ask, *, after: b.Number = 0, wait_s: b.Seconds = 0.0) -> Answer:
    """Shows a conversation; with `after`, once it has more, or the time is up."""
    state = ask.state
    found = await talk.read_conversation(state, ask.path("id"))
    if wait_s and found.last <= after:
        await state.wait(state.smith.threads.wait(found.id, after=after), wait_s)
        found = await talk.read_conversation(state, found.id)
    runs, questions = list[v.Shown](), list[v.Shown]()
    for name in found.runs:
        try:
            run, summary = await state.smith.runs.journals.listed(name)
        except PlansmithError:
            continue  # removed: the messages still name it
        runs.append({**v.run_row(summary), "answer": await _answer(state, run)})
        questions += [{**v.question_view(run, q), "run": name} for q in run.questions.values()]
    return v.view(
        ConversationView,
        found,
        messages=[await _message(state, each) for each in found.messages],
        runs=runs,
        questions=questions,
        summary=found.summary and found.summary._asdict(),
        created_at=found.opened_at,
    )


async def _answer(state: ServerState, run: Run) -> str:
    """Returns the beginning of what a run told the person."""
    if run.damage or not run.status.over:
        return ""
    return clip(answer_text(await state.smith.get(run.id)), _ANSWER)


async def _asked(state: ServerState, reading: Reading | None) -> str:
    """Returns the text of the question that a message answered."""
    if reading is None or reading.kind != "answer":
        return ""
    with suppress(PlansmithError):  # removed or damaged: the name of the question is left
        for event in await state.smith.store.events(reading.run):
            body = event.body
            if isinstance(body, QuestionAsked) and body.question == reading.question:
                return body.text
    return ""


async def _message(state: ServerState, each: ThreadMessage) -> v.Shown:
    reading = each.reading
    return v.view(
        MessageView,
        each,
        by={"kind": each.by.kind, "name": each.by.name},
        question=reading.question if reading else "",
        asked=await _asked(state, reading),
        value=reading.value if reading else None,
        judge=reading.judge if reading else None,
        reason=reading.reason if reading else "",
        reply=each.reply and each.reply._asdict(),
    )
