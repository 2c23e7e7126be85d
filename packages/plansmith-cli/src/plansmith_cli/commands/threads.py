"""`plansmith threads`, and what other commands do in a conversation: find, describe, say."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from plansmith import Misconfigured, PlansmithError, QuestionAsked, Refused, Run
from plansmith.plan.data import Json
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.refs import value_text
from plansmith.plan.sentence import Sentence
from plansmith.text import clip, safe
from plansmith_cli.command_table import Exit
from plansmith_cli.describe import run_json, status_text
from plansmith_cli.keyboard import agrees
from plansmith_cli.options import JSON, TOOLS, positive
from plansmith_cli.questions import question_lines, waiting_lines
from plansmith_cli.session import SHORT, Session, say_stopped, session_command, store_command
from plansmith_cli.ui import output as ui
from plansmith_planner.threads.entries import ThreadMessage, ThreadState
from plansmith_planner.threads.reading import ASKED_BY_PLANS
from plansmith_planner.threads.store import ThreadStore

if TYPE_CHECKING:
    from plansmith_planner.threads.thread import Thread, Turn


_MOST: Final = 20
_KINDS: Final = {
    "answer": Sentence("answer"),
    "change": Sentence("change of the plan"),
    "request": Sentence("request"),
    "review": Sentence("decides nothing"),
    "unread": Sentence("not read yet"),
    "why": Sentence("why"),
}
THREAD: Final = (
    "--thread ID  say it in this conversation: the id of a thread or of a run, or last\n"
)


async def open_thread(session: Session, name: str | None) -> Thread:
    """Opens the thread of a name, see `_find`; without one a new thread."""
    if name is not None and not name.strip():  # as of a variable that is not set
        raise ui.wrong("the name of a thread is empty", "without --thread a new one begins")
    thread: Thread = await session.smith.thread(await _find(session, name) if name else "")
    return thread


async def _find(session: Session, name: str) -> str:
    """Returns a thread, given `last`, its id, how that begins, or the same of a run in it."""
    if name == "last":
        return await _last(session)
    store = ThreadStore(session.smith.store)
    if await store.thread_entries(name):
        return name
    found = [each.thread async for each in store.all_threads() if each.thread.startswith(name)]
    if len(found) == 1 and len(name) >= 4:
        return found[0]
    if found:
        more = Sentence("give more of the id: {ids}", ids=[*map(safe, found[:3])])
        count = len(found)
        raise ui.wrong("{count} threads begin with {name}", hint=more, count=count, name=repr(name))
    try:
        run = await session.find(name)
    except Misconfigured:
        raise ui.wrong(
            "there is no thread {name}", "plansmith threads lists them", name=repr(name)
        ) from None
    return await store.thread_of(run) or run


async def _last(session: Session) -> str:
    """Returns where something was said last in this folder: a thread, or a run without one.

    A run that a schedule made was asked for by nobody.
    """
    thread: Thread | None = None
    with suppress(Refused):
        thread = await session.smith.threads.last()
    updated = thread.state.updated_at if thread is not None else None
    async for each in session.runs_here():
        run, _ = await session.journals.listed(each.run)
        if run.created_at is None or run.origin.kind == "schedule":
            continue
        if updated is None or run.created_at > updated:
            return await ThreadStore(session.smith.store).thread_of(run.id) or run.id
        break
    if thread is None:
        raise ui.wrong("there is no thread in this folder", "plansmith threads lists them")
    return thread.id


async def reading_line(session: Session, thread: Thread, turn: Turn, *, undo: str) -> str:
    """Says what a message was taken for; empty where that is plain."""
    message, reason = thread.state.message(turn.number), safe(ui.own(turn.reason))
    reading = message.reading if message else None
    if reading is None or turn.kind == "review" or (turn.kind == "request" and not reason):
        return ""
    judged = Sentence(
        " (the model judged: {reason})" if turn.judge == "model" else " ({reason})", reason=reason
    )
    value, because = clip(safe(value_text(reading.value)), 80), judged if reason else ""
    if turn.kind == "answer":
        asked = [each.body for each in await session.smith.store.events(reading.run)]
        texts = [
            each.text
            for each in asked
            if isinstance(each, QuestionAsked) and each.question == reading.question
        ]
        return ui.own_text(
            "Taken as the answer “{value}” to “{question}”{because}; {undo} takes it back.",
            value=value,
            question=clip(safe(ui.own(texts[-1] if texts else reading.question)), 80),
            because=because,
            undo=undo,
        )
    if turn.kind == "change":
        return ui.own_text(
            "Taken as: {kind}{because}; {undo} takes it back.",
            kind=_KINDS[turn.kind],
            because=because,
            undo=undo,
        )
    return ui.own_text("Taken as: {kind}{because}.", kind=_KINDS[turn.kind], because=because)


async def say_in(
    session: Session, thread: Thread, text: str, options: dict[str, Any], *, undo: str = ""
) -> Turn:
    """Says something in a thread, tells what it was taken for, and has it planned.

    What is interrupted before it was read is taken back.
    """
    try:
        with session.lines.moving():
            turn = await thread.say(text, by=session.by, plan=False, **options)
    except asyncio.CancelledError:
        await _withdraw(session, thread)
        raise
    session.say(*waiting_in([each.run for each in turn.earlier if each.run is not None]))
    undo = undo or session.command("threads", "undo", turn.thread, str(turn.number))
    if taken := await reading_line(session, thread, turn, undo=undo):
        session.tell(ui.dim(taken))
    with session.lines.moving():
        for each in turn.earlier:
            await thread.plan_left(each)
        return await thread.plan(turn)


async def runs_of(session: Session, state: ThreadState) -> list[Run]:
    """Returns the last runs of a thread, oldest first; deleted ones are left out."""
    found: list[Run] = []
    for name in state.runs[-20:]:
        with suppress(PlansmithError):
            run, _ = await session.journals.listed(name)
            found += [run] if run.created_at is not None else []
    return found


def is_asked_by_plan(asked: QuestionAsked) -> bool:
    """Whether a message may answer a question; what guards an effect has its own prompt."""
    return asked.kind in ASKED_BY_PLANS


def waiting_in(runs: Sequence[Run]) -> Iterator[str]:
    """Yields what waits for the person in the runs of a thread, and how to go on with it."""
    for run in runs:
        if run.status.over:
            continue
        name = {"run": run.id[:SHORT], "request": clip(safe(run.request), 60)}
        asked = [each for each in run.questions.values() if is_asked_by_plan(each)]
        for each in asked:
            yield from question_lines(each, run)
        if isinstance(next_move(run), AwaitReview):
            yield Sentence(
                "The plan for “{request}” ({run}) waits for your approval: /plan shows it.", **name
            )
        elif not asked:
            yield Sentence("“{request}” ({run}) has not ended: /go goes on.", **name)


def message_lines(messages: Sequence[ThreadMessage], runs: Sequence[Run]) -> Iterator[str]:
    """Yields messages and what came of them."""
    known = {run.id: run for run in runs}
    for each in messages:
        who, name = clip(safe(each.by.label), 30), each.run[:SHORT]
        parts = [ui.own_text("taken back")] if each.undone else []
        parts += [ui.own(_KINDS[each.kind or "unread"])]
        if each.run in known:
            name += f" {status_text(known[each.run])}"
        yield f"{each.number:>4}  {each.at:%Y-%m-%d %H:%M}  {who}: {clip(safe(each.text), 200)}"
        yield f"      → {' · '.join([*parts, name] if name else parts)}"
        if each.reply is not None:
            yield f"        {clip(safe(ui.own(each.reply.text)), 400)}"


def state_lines(state: ThreadState, runs: Sequence[Run]) -> Iterator[str]:
    """Yields the name of a thread, its summary, if there is one, and its messages."""
    yield f"{safe(state.id)}  {clip(safe(state.title), 100)}"
    if state.summary is not None:
        text = clip(safe(state.summary.text), 400)
        yield Sentence(
            "summary of the messages up to {upto}: {text}", upto=state.summary.upto, text=text
        )
    with_message = {each.run for each in state.messages}
    first = state.messages[0].at if state.messages else None
    alone = [run for run in runs if run.id not in with_message]
    before = [run for run in alone if first is None or (run.created_at or first) < first]
    yield from run_lines(before)
    yield from message_lines(state.messages, runs)
    yield from run_lines(alone[len(before) :])


def run_lines(runs: Sequence[Run]) -> Iterator[str]:
    """Yields one line for each run."""
    width = max((len(status_text(run)) for run in runs), default=0)
    for run in runs:
        yield f"{run.id}  {status_text(run):<{width}}  {clip(safe(run.request), 80)}"


def turn_json(turn: Turn) -> dict[str, Json]:
    """Returns what came of a message as JSON, without its run."""
    return ui.json_of(turn, "thread kind judge reason text", message=turn.number)


def turn_and_run_json(turn: Turn, run: Run | None, session: Session, code: int) -> dict[str, Json]:
    """Returns a turn as JSON with its run and the exit code that a command would have."""
    fields: dict[str, Any] = turn_json(turn)
    return fields | {"run": run_json(run, session) if run else None, "exit": int(code)}


async def say_request(
    session: Session, options: dict[str, Any], run: Callable[..., Awaitable[int]]
) -> int:
    """Says the request of a command in its `--thread`, and has `run` run what comes of it.

    There it may also be an answer, a change of a plan, or ask why.
    """
    thread = await open_thread(session, session.args.thread)
    try:
        turn = await say_in(session, thread, session.args.request, options)
    except asyncio.CancelledError:
        say_stopped(session)
        raise
    session.thread, session.turn = turn.thread, turn_json(turn)
    if turn.run is None or turn.kind == "why":
        if session.args.json:
            ui.print_json(turn_and_run_json(turn, turn.run, session, Exit.OK))
        else:
            ui.print_prose(turn.text)
        return Exit.OK
    if turn.kind == "review":
        session.say(safe(turn.text))
    session.use_team_of(turn.run)
    return await run(session, turn.run, fresh=turn.kind == "request")


async def _withdraw(session: Session, thread: Thread) -> None:
    """Takes back a message that was interrupted before anybody had read it."""
    await thread.refresh()
    last = thread.history[-1] if thread.history else None
    if last is not None and last.reading is None and not last.undone:
        await thread.undo(last.number, by=session.by)


async def _list(session: Session) -> None:
    known = [each async for each in ThreadStore(session.smith.store).all_threads()]
    found = known[: session.args.limit or _MOST][::-1]
    here, width = (
        session.journals.folder,
        max((len(safe(each.thread)) for each in found), default=0),
    )
    lines = (
        f"{safe(each.thread):<{width}}  {each.updated:%Y-%m-%d %H:%M}"
        f"  {each.messages:>3}  {clip(safe(each.title), 80)}"
        f"{f'  ({safe(each.folder)})' if each.folder not in ('', here) else ''}"
        for each in found
    )
    rows = [
        ui.json_of(
            each, "title owner folder messages", id=each.thread, updated_at=each.updated.isoformat()
        )
        for each in found
    ]
    none = Sentence(
        "there are no conversations; plansmith chat begins one, ask --thread "
        "last goes on with the last request"
    )
    session.print_list(rows, lines, none)


async def _show(session: Session) -> None:
    state = await _state(session)
    runs = await runs_of(session, state)
    if session.args.json:
        ui.print_json(_json(state))
        return
    ui.print_lines(state_lines(state, runs))
    for run in runs:
        if not run.status.over:
            session.say(*await waiting_lines(run, session))


async def _state(session: Session) -> ThreadState:
    state: ThreadState = await session.smith.threads.read(await _find(session, session.args.thread))
    return state


def _json(state: ThreadState) -> dict[str, Json]:
    messages = [
        ui.json_of(
            message,
            "at kind run undone",
            message=message.number,
            by=message.by.label,
            said=message.text,
            **{
                name: getattr(message.reading, name) if message.reading else ""
                for name in ("question", "judge", "reason")
            },
            text=message.reply.text if message.reply else "",
            step=message.reply.step if message.reply else "",
        )
        for message in state.messages
    ]
    summary = ui.json_of(state.summary, "upto text") if state.summary else None
    names = "id title owner folder runs opened_at updated_at"
    return ui.json_of(state, names, messages=messages, summary=summary)


async def _undo(session: Session) -> None:
    thread = await open_thread(session, session.args.thread)
    turn = await thread.undo(session.args.number, by=session.by)
    if session.args.json:
        ui.print_json(turn_and_run_json(turn, turn.run, session, Exit.OK))
        return
    ui.print_text(turn.text)
    if turn.run is not None and not turn.run.status.over:
        session.say(*await waiting_lines(turn.run, session))


async def _delete(session: Session) -> None:
    state = await _state(session)
    if not state.last:
        raise ui.wrong(
            "run {run} has no thread", "only conversations are deleted here", run=state.id
        )
    prompt = ui.own_text(
        "Delete “{title}” with {messages} messages and {runs} runs for good? y = yes, Enter = no: ",
        title=clip(safe(state.title), 80),
        messages=len(state.messages),
        runs=len(state.runs),
    )
    if not session.given("yes") and not agrees(prompt, asks=session.has_person):
        raise ui.refused("nothing was deleted", "--yes deletes without asking")
    runs = await session.smith.threads.delete(state.id, by=session.by)
    message = Sentence("deleted: {thread}, with {runs} runs", thread=safe(state.id), runs=runs)
    session.say_as({"deleted": state.id, "runs": runs}, message)


_FLAGS: Final = f"--limit LIMIT  how many to list (default: {_MOST})\n"
_ID: Final = "THREAD  a thread: its id, how that begins, a run in it, or last\n"
_NAMED: Final[dict[str, Any]] = {"thread": {"metavar": "ID"}}
LIST = store_command(_FLAGS + JSON, _list, only_reads=True, limit=positive)
SHOW = store_command(JSON + _ID, _show, only_reads=True, **_NAMED)
UNDO = session_command(
    TOOLS + JSON + _ID + "NUMBER  the number of the message\n",
    _undo,
    number=positive,
    **_NAMED,
)
DELETE = store_command(JSON + _ID + "--yes  delete without asking\n", _delete, **_NAMED)
