"""Conversations: routes to list, show, say, take back, remove; and what messages set off."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Literal

from pydantic import BaseModel

from plansmith.errors import JournalDamaged, PlansmithError, Refused
from plansmith.plan.data import Json
from plansmith.plan.events import Actor, QuestionAsked
from plansmith.plan.next_move import goes_on
from plansmith.plan.sentence import Sentence
from plansmith.text import clip
from plansmith_planner.threads.entries import Judge, MessageKind, ThreadMessage, ThreadState
from plansmith_planner.threads.memory import answer_text
from plansmith_planner.threads.thread import Thread, Turn
from plansmith_server import bodies as b
from plansmith_server import views as v
from plansmith_server.api import Answer, Ask, route
from plansmith_server.errors import HttpProblem, not_found
from plansmith_server.news import conversation_row
from plansmith_server.state import ServerState
from plansmith_server.team.auth import require_scope

NEW: Final = ("", "new")
# Messages of these kinds get their answer at once, and set nothing off.
ANSWERED: Final = ("why", "review")
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


async def say_and_show(
    ask: Ask, given: b.RequestOptions, text: str, *, conversation: str
) -> v.JsonObject:
    """Says something in a conversation; answers with the run and what the message was."""
    team = ask.state.for_team(given.team, given.database)
    key = ask.header("idempotency-key")
    known = f"{ask.grant.name} {key}" if key else ""
    if known and conversation in NEW:  # sent again, it begins no second one
        conversation = sha256(known.encode()).hexdigest()[:32]
    state, thread = await open_conversation(team, conversation, fixed=bool(given.team))
    is_repeated = bool(known) and any(each.key == known for each in thread.history)
    if (thread.runs or thread.state.last) and not is_repeated:
        # The message may be the answer to a question.
        require_scope(ask.request.scope, "answer")
    turn = await say_in(state, thread, text, by=ask.by, key=known, **given.options())
    return await turn_view(state, thread, turn)


@route("POST /v1/conversations/{id:path}/messages", "propose", answer=v.TurnView, status=202)
async def message(ask: Ask, given: b.NewMessage) -> Answer:
    """Says something in a conversation that has begun, or about a run."""
    found = await read_conversation(ask.state, ask.path("id"))
    return await say_and_show(ask, given, given.text, conversation=found.id)


@route("POST /v1/conversations/{id:path}/messages/{number}/undo", "propose", answer=v.TurnView)
async def undone(ask: Ask) -> Answer:
    """Takes back what a message was taken for."""
    number = ask.path("number")
    found = await read_conversation(ask.state, ask.path("id"))
    message = found.message(int(number[:18])) if number.isascii() and number.isdigit() else None
    if message is None:
        raise not_found("message", number)
    if message.reading is None:
        why = Sentence(
            "message {number} has done nothing yet: nothing is to be undone", number=number
        )
        raise Refused(why, hint=Sentence("the next message of the conversation takes it up"))
    state, thread = await open_conversation(ask.state, found.id)
    turn = await take_back(state, thread, int(number), by=ask.by)
    return await turn_view(state, thread, turn)


@route("DELETE /v1/conversations/{id:path}", "approve", status=204)
async def remove(ask: Ask) -> None:
    """Cancels what is open in a conversation, and removes it with its runs."""
    state, found = ask.state, await read_conversation(ask.state, ask.path("id"))
    if not found.last:
        raise not_found("conversation", found.id)  # a run without one: it is removed as a run
    for name in found.runs:
        journal = await state.smith.runs.journals.load_or_none(name)
        if journal is not None and not journal.run.status.over:
            await state.background.halt_planning(name)
            own = await state.for_run(name, acts=False)
            await own.smith.cancel(name, by=ask.by)
    await state.smith.threads.delete(found.id, by=ask.by)
    for name in found.runs:
        state.open_runs.forget(name)
    state.conversations.look()


@route("GET /v1/conversations", "look", answer=ConversationPage)
async def listing(
    ask: Ask, *, cursor: b.Text = "", limit: b.Page = 50, owner: b.Text | None = None
) -> Answer:
    """Lists conversations, newest activity first."""
    with suppress(JournalDamaged):  # its line in the list is there all the same
        if cursor:
            await read_conversation(ask.state, cursor)  # 404: the list would begin anew
    found = await ask.smith.threads.list(owner=owner, before=cursor, limit=limit + 1)
    page, waits = found[:limit], dict[str, str]()
    for run in [each.run for each in await ask.state.open_runs.all()]:
        what = "question" if run.questions else "review" if v.awaits_review(run) else ""
        if what:
            waits[run.options.thread or run.id] = what  # one that was adopted has the run's id
    rows = [{**conversation_row(each), "waits": waits.get(each.thread, "")} for each in page]
    return {"items": rows, "next": page[-1].thread if len(found) > len(page) else None}


@route("GET /v1/conversations/{id:path}", "look", answer=ConversationView)
async def show(ask: Ask, *, after: b.Number = 0, wait_s: b.Seconds = 0.0) -> Answer:
    """Shows a conversation; with `after`, once it has more, or the time is up."""
    state = ask.state
    found = await read_conversation(state, ask.path("id"))
    if wait_s and found.last <= after:
        await state.wait(state.smith.threads.wait(found.id, after=after), wait_s)
        found = await read_conversation(state, found.id)
    runs, questions = list[v.JsonObject](), list[v.JsonObject]()
    for name in found.runs:
        try:
            run, summary = await state.smith.runs.journals.listed(name)
        except PlansmithError:
            continue  # removed: the messages still name it
        has_answer = run.status.over and not run.damage
        answer = answer_text(await state.smith.get(name)) if has_answer else ""
        runs.append({**v.run_row(summary), "answer": clip(answer, _ANSWER)})
        questions += [{**v.question_view(run, q), "run": name} for q in run.questions.values()]
    short = found.summary
    return v.view(
        ConversationView,
        found,
        messages=[await _message(state, each) for each in found.messages],
        runs=runs,
        questions=questions,
        summary=short and {"upto": short.upto, "text": short.text, "model": short.model},
        created_at=found.opened_at,
    )


async def _message(state: ServerState, each: ThreadMessage) -> v.JsonObject:
    reading, asked = each.reading, ""
    if reading is not None and reading.kind == "answer":
        with suppress(PlansmithError):  # removed or damaged: the name of the question is left
            for event in await state.smith.store.events(reading.run):
                body = event.body
                if isinstance(body, QuestionAsked) and body.question == reading.question:
                    asked = asked or body.text
    return v.view(
        MessageView,
        each,
        by={"kind": each.by.kind, "name": each.by.name},
        question=reading.question if reading else "",
        asked=asked,
        value=reading.value if reading else None,
        judge=reading.judge if reading else None,
        reason=reading.reason if reading else "",
        reply=each.reply and {name: getattr(each.reply, name) for name in ("text", "run", "step")},
    )


async def read_conversation(state: ServerState, name: str) -> ThreadState:
    """Returns a conversation, or that of a run; raises 404 if there is none."""
    if len(name) <= 200 and name.isprintable():
        found: ThreadState = await state.smith.threads.read(name)
        if found.last or found.runs:
            return found
    raise not_found("conversation", name)


async def open_conversation(
    state: ServerState, name: str, *, fixed: bool = False
) -> tuple[ServerState, Thread]:
    """Returns a conversation and the state with the Plansmith that continues it.

    That is the one of its last run's team, unless it is `fixed`.
    """
    thread: Thread = await state.smith.thread("" if name in NEW else name)
    if fixed or not thread.runs:
        return state, thread
    try:
        own = await state.for_run(thread.runs[-1])
    except HttpProblem:
        own = state  # the run was removed
    return own, thread if own is state else await own.smith.thread(thread.id)


async def say_in(
    state: ServerState, thread: Thread, text: str, *, by: Actor, **options: Any
) -> Turn:
    """Says something; its run is planned, changed or continued in the background."""
    turn = await thread.say(text, by=by, plan=False, **options)
    state.conversations.look()
    for each in (*turn.earlier, turn):
        if each.run is None or each.kind in ANSWERED:
            continue
        if each.kind == "change":
            plan = thread.plan if each is turn else thread.plan_left
            await state.background.until_journaled(each.run.id, plan(each))
        else:
            state.background.go_on(each.run.id)
    return turn


async def take_back(state: ServerState, thread: Thread, number: int, *, by: Actor) -> Turn:
    """Takes back what a message was taken for; the run in its place continues."""
    background, message = state.background, thread.state.message(number)
    run = message.run if message is not None else ""
    is_ours = bool(run) and background.knows(run)
    if is_ours and await state.smith.runs.journals.load_or_none(run):
        await background.halt_planning(run)
    try:
        turn = await thread.undo(number, by=by, plan=False)
    finally:
        state.conversations.look()
        left = await state.smith.runs.journals.load_or_none(run) if is_ours else None
        if left is not None and goes_on(left.run):
            background.go_on(run)
    if turn.run is not None and turn.run.id != run:
        await state.smith.runs.ask_for_review(turn.run.id, Sentence("review.continues"))
        background.go_on(turn.run.id)
    return turn


async def turn_view(state: ServerState, thread: Thread, turn: Turn) -> v.JsonObject:
    """Returns the run of a message, and what the message was taken for."""
    if turn.run is None:
        raise not_found("run of message", str(turn.number))
    own = await state.for_run(turn.run.id, acts=False)
    view = await own.run_view(turn.run.id)
    return {**view, "conversation": turn.thread, "message": taken_for(thread, turn)}


def taken_for(thread: Thread, turn: Turn) -> v.JsonObject:
    """Returns what a message was taken for, and the answer that it got at once."""
    message = thread.state.message(turn.number)
    reading = message.reading if message else None
    reply = message.reply if message else None
    asked, step = reading.question if reading else "", reply.step if reply else ""
    return v.view(v.TakenView, turn, question=asked, step=step)
