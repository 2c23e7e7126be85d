"""Routes of conversations: list, show, say, take back, remove."""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from typing import Final

from starlette.responses import Response

from plansmith.errors import PlansmithError, Refused
from plansmith.plan.data import Json
from plansmith.plan.events import QuestionAsked
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.plan.thread import ThreadMessage, ThreadState
from plansmith.text import clip
from plansmith_planner.threads.memory import answer_text
from plansmith_server import conversations as talk
from plansmith_server.conversation_news import conversation_row
from plansmith_server.errors import not_found
from plansmith_server.openapi import Answer, Ask, Nothing
from plansmith_server.schemas import requests as b
from plansmith_server.serialize import awaits_review, moment, question_view, run_row
from plansmith_server.state import ServerState
from plansmith_server.team.auth import need_scope

_ANSWER: Final = 600


async def said(
    ask: Ask, given: b.RequestOptions, text: str, *, conversation: str
) -> dict[str, Json]:
    """Says something in a conversation; answers with the run and what the message was."""
    team = ask.server_state.for_team(given.team, given.database)
    key = ask.header("idempotency-key")
    known = f"{ask.grant.name} {key}" if key else ""
    if known and conversation in talk.NEW:  # sent again, it begins no second one
        conversation = sha256(known.encode()).hexdigest()[:32]
    server_state, thread = await talk.open_conversation(team, conversation, fixed=bool(given.team))
    again = bool(known) and any(each.key == known for each in thread.history)
    if (thread.runs or thread.state.last) and not again:
        # The message may be the answer to a question.
        need_scope(ask.request.scope, "answer")
    turn = await talk.say(server_state, thread, text, by=ask.by, key=known, **given.options())
    return await talk.turn_view(server_state, thread, turn)


async def message(ask: Ask, given: b.NewMessage) -> Answer:
    """Says something in a conversation that has begun, or about a run."""
    found = await talk.read_conversation(ask.server_state, ask.path("id"))
    return await said(ask, given, given.text, conversation=found.id)


async def undone(ask: Ask, _: Nothing) -> Answer:
    """Takes back what a message was taken for."""
    number = ask.path("number")
    found = await talk.read_conversation(ask.server_state, ask.path("id"))
    said = found.message(int(number[:18])) if number.isascii() and number.isdigit() else None
    if said is None:
        raise not_found("message", number)
    if said.reading is None:
        hint = Sentence("the next message of the conversation takes it up")
        raise Refused(
            Sentence(
                "message {number} has done nothing yet: nothing is to be undone", number=number
            ),
            hint=hint,
        )
    server_state, thread = await talk.open_conversation(ask.server_state, found.id)
    turn = await talk.undo(server_state, thread, int(number), by=ask.by)
    return await talk.turn_view(server_state, thread, turn)


async def remove(ask: Ask, _: Nothing) -> Answer:
    """Cancels what is open in a conversation, and removes it with its runs."""
    found = await talk.read_conversation(ask.server_state, ask.path("id"))
    if not found.last:
        raise not_found("conversation", found.id)  # a run without one: it is removed as a run
    await talk.remove(ask.server_state, found, by=ask.by)
    return Response(status_code=204)


async def listing(ask: Ask, given: b.ConversationQuery) -> Answer:
    """Lists conversations, newest activity first."""
    found = await ask.server_state.smith.threads.list(
        owner=given.owner, before=given.cursor, limit=given.limit + 1
    )
    page = found[: given.limit]
    waits = await _waiting(ask.server_state)
    items: list[Json] = [
        {**conversation_row(each), "waits": waits.get(each.thread, "")} for each in page
    ]
    return {"items": items, "next": page[-1].thread if len(found) > len(page) else None}


async def _waiting(server_state: ServerState) -> dict[str, str]:
    """Returns the conversations in which a question or a plan waits for a person."""
    found: dict[str, str] = {}
    for listed in await server_state.open_runs.all():
        run = listed.run
        what = "question" if run.questions else "review" if awaits_review(run) else ""
        if what:
            found[run.options.thread or run.id] = what  # one that was adopted has the run's id
    return found


async def show(ask: Ask, given: b.ConversationWait) -> Answer:
    """Returns a conversation; with `after`, once it has more, or the time is up."""
    server_state = ask.server_state
    found = await talk.read_conversation(server_state, ask.path("id"))
    if given.wait_s and found.last <= given.after:
        news = server_state.smith.threads.wait(found.id, after=given.after)
        await server_state.wait(news, given.wait_s)
        found = await talk.read_conversation(server_state, found.id)
    return await _view(server_state, found)


async def _view(server_state: ServerState, state: ThreadState) -> dict[str, Json]:
    runs: list[Json] = []
    questions: list[Json] = []
    for name in state.runs:
        try:
            run, summary = await server_state.smith.runs.journals.listed(name)
        except PlansmithError:
            continue  # removed: the messages still name it
        runs.append({**run_row(summary), "answer": await _answer(server_state, run)})
        questions += [{**question_view(run, each), "run": name} for each in run.questions.values()]
    return {
        "id": state.id,
        "title": state.title,
        "owner": state.owner,
        "folder": state.folder,
        "messages": [
            {**_message_view(each), "asked": await _asked(server_state, each)}
            for each in state.messages
        ],
        "runs": runs,
        "questions": questions,
        "summary": {**state.summary._asdict()} if state.summary else None,
        "created_at": moment(state.opened_at),
        "updated_at": moment(state.updated_at),
        "last": state.last,
    }


async def _answer(server_state: ServerState, run: Run) -> str:
    """Returns the beginning of what a run told the person."""
    if run.damage or not run.status.over:
        return ""
    return clip(answer_text(await server_state.smith.get(run.id)), _ANSWER)


async def _asked(server_state: ServerState, message: ThreadMessage) -> str:
    """Returns the text of the question that a message answered."""
    reading = message.reading
    if reading is None or reading.kind != "answer":
        return ""
    with suppress(PlansmithError):  # removed or damaged: the name of the question is left
        for event in await server_state.smith.store.events(reading.run):
            body = event.body
            if isinstance(body, QuestionAsked) and body.question == reading.question:
                return body.text
    return ""


def _message_view(each: ThreadMessage) -> dict[str, Json]:
    reading, reply = each.reading, each.reply
    return {
        "number": each.number,
        "at": moment(each.at),
        "by": {"kind": each.by.kind, "name": each.by.name},
        "text": each.text,
        "kind": each.kind,
        "run": each.run,
        "question": reading.question if reading else "",
        "value": reading.value if reading else None,
        "judge": reading.judge if reading else None,
        "reason": reading.reason if reading else "",
        "reply": {"text": reply.text, "run": reply.run, "step": reply.step} if reply else None,
        "undone": each.undone,
        "instead": each.instead,
    }
