"""`plansmith threads`, and what other commands do in a conversation: find, describe, say."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from plansmith.errors import Misconfigured, PlansmithError, Refused
from plansmith.plan.data import Json
from plansmith.plan.events import QuestionAsked
from plansmith.plan.next_move import AwaitReview, next_move
from plansmith.plan.refs import value_text
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.thread import ThreadMessage, ThreadState, fold_thread
from plansmith.ports import Records
from plansmith.runs.lists import RunLists
from plansmith.text import clip, safe
from plansmith_cli.command_table import Command
from plansmith_cli.consent import waiting_lines
from plansmith_cli.describe import run_json, status_text
from plansmith_cli.exit_codes import Exit
from plansmith_cli.options import JSON, STORE_ALONE, TOOLS, positive
from plansmith_cli.parser import Verb, add_options
from plansmith_cli.questions import agrees, question_lines
from plansmith_cli.session import Session, in_session, shortest
from plansmith_cli.ui.output import dim, print_json, print_prose, print_text
from plansmith_cli.ui.words import own_text
from plansmith_planner.threads.reading import ASKED_BY_PLANS
from plansmith_planner.threads.store import ThreadHeadline, ThreadStore

if TYPE_CHECKING:
    from plansmith_planner.threads.thread import Thread
    from plansmith_planner.threads.turn import Turn


_PAGE: Final = 200
_SHORTEST: Final = 4
_MOST_RUNS: Final = 20
_SHORT: Final = 13  # of an id, to tell a run from those of other milliseconds
_MOST: Final = 20


THREAD: Final = (
    "--thread ID  say it in this conversation: the id of a thread or of a run, or last\n"
)


def thread_name(given: str) -> str:
    """Returns the name of a thread; an empty one, as of an unset variable, names none."""
    if not given.strip():
        raise argparse.ArgumentTypeError(
            own_text("the name is empty; without --thread a new one begins")
        )
    return given


async def open_thread(session: Session, name: str | None) -> Thread:
    """Opens the thread of a name, see `find_thread`; without one a new thread."""
    found = await find_thread(session, name) if name else ""
    thread: Thread = await session.smith.thread(found)
    return thread


async def find_thread(session: Session, name: str) -> str:
    """Returns a thread, given `last`, its id, how that begins, or the same of a run in it."""
    if name == "last":
        return await _last_thread(session)
    store = ThreadStore(session.smith.store)
    if await store.thread_entries(name):
        return name
    found = [each.thread async for each in headlines(store) if each.thread.startswith(name)]
    if len(found) == 1 and len(name) >= _SHORTEST:
        return found[0]
    if found:
        hint = Sentence("give more of the id: {ids}", ids=[*map(safe, found[:3])])
        begin = Sentence("{count} threads begin with {name}", count=len(found), name=repr(name))
        raise Misconfigured(begin, hint=hint)
    try:
        run = await session.find(name)
    except Misconfigured:
        unknown = Sentence("there is no thread {name}", name=repr(name))
        raise Misconfigured(unknown, hint=Sentence("plansmith threads lists them")) from None
    return await store.thread_of(run) or run


async def _last_thread(session: Session) -> str:
    """Returns where something was said last in this folder: a thread, or a run without one."""
    thread: Thread | None = None
    with suppress(Refused):
        thread = await session.smith.threads.last()
    said = thread.state.updated_at if thread is not None else None
    run = await _last_asked(session)
    if run is not None and run.created_at is not None and (said is None or run.created_at > said):
        return await ThreadStore(session.smith.store).thread_of(run.id) or run.id
    if thread is None:
        none = Sentence("there is no thread in this folder")
        raise Misconfigured(none, hint=Sentence("plansmith threads lists them"))
    return thread.id


async def _last_asked(session: Session) -> Run | None:
    """Returns the newest run of this folder that somebody asked for, which no schedule did."""
    for each in await RunLists(session.journals).newest(limit=_PAGE):
        if session.journals.is_here(each.folder):
            run, _ = await session.journals.listed(each.run)
            if run.created_at is not None and run.origin.kind != "schedule":
                return run
    return None


async def headlines(store: ThreadStore) -> AsyncIterator[ThreadHeadline]:
    """Yields all threads, newest activity first."""
    before = ""
    while page := await store.threads(before=before, limit=_PAGE):
        for each in page:
            yield each
        before = page[-1].thread


async def thread_of(session: Session, run: Run) -> str:
    """Returns the thread that a run belongs to; empty if none."""
    if run.options.thread or not isinstance(session.smith.store, Records):
        return run.options.thread
    return await ThreadStore(session.smith.store).thread_of(run.id)


def turn_json(turn: Turn) -> dict[str, Json]:
    """Returns what came of a message as JSON, without its run."""
    return {
        "thread": turn.thread,
        "message": turn.number,
        "kind": turn.kind,
        "judge": turn.judge,
        "reason": turn.reason,
        "text": turn.text,
    }


def message_json(said: ThreadMessage) -> dict[str, Json]:
    """Returns a message of a thread as JSON."""
    read = said.reading
    return {
        "message": said.number,
        "at": said.at.isoformat(),
        "by": said.by.label,
        "said": said.text,
        "kind": said.kind,
        "run": said.run,
        "question": read.question if read else "",
        "judge": read.judge if read else "",
        "reason": read.reason if read else "",
        "text": said.reply.text if said.reply else "",
        "step": said.reply.step if said.reply else "",
        "undone": said.undone,
    }


async def taken_line(session: Session, thread: Thread, turn: Turn, *, undo: str) -> str:
    """Says what a message was taken for; empty where that is plain."""
    said = thread.state.message(turn.number)
    read = said.reading if said else None
    if said is None or read is None or turn.kind == "review":
        return ""
    reason = safe(in_language(turn.reason, session.locale))
    if turn.kind == "request" and not reason:
        return ""
    judged = Sentence(
        " (the model judged: {reason})" if turn.judge == "model" else " ({reason})", reason=reason
    )
    asked = await _question_text(session, read.run, read.question) if read.question else ""
    fields = {
        "because": judged if reason else "",
        "question": clip(safe(in_language(asked, session.locale)), 80),
        "value": clip(safe(value_text(read.value)), 80),
        "undo": undo,
    }
    match turn.kind:
        case "answer" if read.value != said.text.strip():  # in other words than it was said
            return session.own_text(
                "Taken as the answer “{value}” to “{question}”{because}; {undo} takes it back.",
                **fields,
            )
        case "answer":
            return session.own_text(
                "Taken as the answer to “{question}”{because}; {undo} takes it back.", **fields
            )
        case "change":
            return session.own_text(
                "Taken as a change of the plan{because}; {undo} takes it back.", **fields
            )
        case "request":
            return session.own_text(
                "Taken as a new request{because}; what waits stays open.", **fields
            )
        case _:
            return session.own_text("Taken as a question about what was done{because}.", **fields)


async def _question_text(session: Session, run: str, name: str) -> str:
    """Returns the text of a question that a run has asked; its name if nobody knows."""
    asked = [
        each.body.text
        for each in await session.smith.store.events(run)
        if isinstance(each.body, QuestionAsked) and each.body.question == name
    ]
    return asked[-1] if asked else name


async def runs_of(session: Session, state: ThreadState) -> list[Run]:
    """Returns the last runs of a thread, oldest first; deleted ones are left out."""
    found: list[Run] = []
    for name in state.runs[-_MOST_RUNS:]:
        with suppress(PlansmithError):
            run, _ = await session.journals.listed(name)
            found += [run] if run.created_at is not None else []
    return found


def is_said(asked: QuestionAsked) -> bool:
    """Whether a message may answer a question; what guards an effect has its own prompt."""
    return asked.kind in ASKED_BY_PLANS


def waiting_in(runs: Sequence[Run], session: Session) -> Iterator[str]:
    """Yields what waits for the person in the runs of a thread, and how to go on with it."""
    for run in runs:
        if run.status.over:
            continue
        name = {"run": run.id[:_SHORT], "request": clip(safe(run.request), 60)}
        asked = [each for each in run.questions.values() if is_said(each)]
        for each in asked:
            yield from question_lines(each, session, run)
        if isinstance(next_move(run), AwaitReview):
            yield Sentence(
                "The plan for “{request}” ({run}) waits for your approval: /plan shows it.", **name
            )
        elif not asked:
            yield Sentence("“{request}” ({run}) has not ended: /go goes on.", **name)


def message_lines(
    messages: Sequence[ThreadMessage], runs: Sequence[Run], session: Session
) -> Iterator[str]:
    """Yields messages and what came of them."""
    known = {run.id: run for run in runs}
    locale = session.locale
    for each in messages:
        who = clip(safe(each.by.label), 30)
        yield f"{each.number:>4}  {each.at:%Y-%m-%d %H:%M}  {who}: {clip(safe(each.text), 200)}"
        yield f"      → {_outcome(each, known.get(each.run), session)}"
        if each.reply is not None:
            yield f"        {clip(safe(in_language(each.reply.text, locale)), 400)}"


def state_lines(state: ThreadState, runs: Sequence[Run], session: Session) -> Iterator[str]:
    """Yields the summary of a thread, if there is one, and its messages."""
    if state.summary is not None:
        text = clip(safe(state.summary.text), 400)
        yield Sentence(
            "summary of the messages up to {upto}: {text}", upto=state.summary.upto, text=text
        )
    said = {each.run for each in state.messages}
    first = state.messages[0].at if state.messages else None
    alone = [run for run in runs if run.id not in said]
    before = [run for run in alone if first is None or (run.created_at or first) < first]
    yield from run_lines(before, session)
    yield from message_lines(state.messages, runs, session)
    yield from run_lines(alone[len(before) :], session)


_KINDS: Final = {
    "answer": Sentence("answer"),
    "change": Sentence("change of the plan"),
    "request": Sentence("request"),
    "review": Sentence("decides nothing"),
    "unread": Sentence("not read yet"),
    "why": Sentence("why"),
}


def _outcome(said: ThreadMessage, run: Run | None, session: Session) -> str:
    parts = [session.own_text("taken back")] if said.undone else []
    parts += [in_language(_KINDS[said.kind or "unread"], session.locale)]
    if said.run:
        name = said.run[:_SHORT]
        parts += [f"{name} {status_text(run, session)}" if run else name]
    return " · ".join(parts)


def run_lines(runs: Sequence[Run], session: Session) -> Iterator[str]:
    """Yields one line for each run."""
    width = max((len(status_text(run, session)) for run in runs), default=0)
    for run in runs:
        yield f"{run.id}  {status_text(run, session):<{width}}  {clip(safe(run.request), 80)}"


def turn_with_run(turn: Turn, run: Run | None, session: Session, code: int) -> dict[str, Json]:
    """Returns a turn as JSON with its run and the exit code that a command would have."""
    told: dict[str, Any] = turn_json(turn)
    return told | {"run": run_json(run, session) if run else None, "exit": int(code)}


async def say_request(
    session: Session, options: dict[str, Any], run: Callable[..., Awaitable[int]]
) -> int:
    """Says the request of a command in its `--thread`, and has `run` run what comes of it.

    There it may also be an answer, a change of a plan, or ask why.
    """
    thread = await open_thread(session, session.args.thread)
    try:
        turn = await _said(session, thread, options)
    except asyncio.CancelledError:
        await withdraw(session, thread)
        stopped = Sentence("Stopped here; what is done is kept. To go on:")
        session.say(stopped, f"  {session.command('go', 'last')}")
        raise
    if turn.run is None or turn.kind == "why":
        if session.args.json:
            print_json(turn_with_run(turn, turn.run, session, Exit.OK))
        else:
            print_prose(turn.text)
        return Exit.OK
    if turn.kind == "review":
        session.say(safe(turn.text))
    session.use_team_of(turn.run)
    return await run(session, turn.run, fresh=turn.kind == "request")


async def _said(session: Session, thread: Thread, options: dict[str, Any]) -> Turn:
    """Says the request, tells what it was taken for, and plans."""
    with session.planning():
        turn = await thread.say(session.args.request, by=session.by, plan=False, **options)
    undo = session.command("threads", "undo", turn.thread, str(turn.number))
    taken = await taken_line(session, thread, turn, undo=undo)
    if taken:
        session.tell(dim(taken))
    with session.planning():
        for each in turn.earlier:
            await thread.plan_left(each)
        turn = await thread.plan(turn)
    session.thread, session.turn = turn.thread, turn_json(turn)
    return turn


async def withdraw(session: Session, thread: Thread) -> None:
    """Takes back a message that was interrupted before anybody had read it."""
    await thread.refresh()
    last = thread.history[-1] if thread.history else None
    if last is not None and last.reading is None and not last.undone:
        await thread.undo(last.number, by=session.by)


async def _list(session: Session) -> None:
    known = [each async for each in headlines(ThreadStore(session.smith.store))]
    found = known[: session.args.limit or _MOST][::-1]
    length, here = shortest({each.thread for each in known}), session.journals.folder
    width = max((len(safe(each.thread[:length])) for each in found), default=0)
    lines = (
        f"{safe(each.thread[:length]):<{width}}  {each.updated:%Y-%m-%d %H:%M}"
        f"  {each.messages:>3}  {clip(safe(each.title), 80)}"
        f"{f'  ({safe(each.folder)})' if each.folder not in ('', here) else ''}"
        for each in found
    )
    none = Sentence(
        "there are no conversations; plansmith chat begins one, ask --thread "
        "last goes on with the last request"
    )
    session.print_list([*map(_row_json, found)], lines, none)


def _row_json(each: ThreadHeadline) -> dict[str, Json]:
    return {
        "id": each.thread,
        "title": each.title,
        "owner": each.owner,
        "folder": each.folder,
        "messages": each.messages,
        "updated_at": each.updated.isoformat(),
    }


async def _show(session: Session) -> None:
    state = await _state(session)
    runs = await runs_of(session, state)
    if session.args.json:
        print_json(_json(state))
        return
    head = f"{safe(state.id)}  {clip(safe(state.title), 100)}"
    session.print(head, *state_lines(state, runs, session))
    for run in runs:
        if not run.status.over:
            session.say(*await waiting_lines(run, session))


async def _state(session: Session) -> ThreadState:
    """Returns the thread that the command names, wherever its folder is."""
    name = await find_thread(session, session.args.thread)
    entries = await ThreadStore(session.smith.store).thread_entries(name)
    if entries:
        return fold_thread(ThreadState(name), entries)
    thread: Thread = await session.smith.thread(name)
    return thread.state  # a run of its own


def _json(state: ThreadState) -> dict[str, Json]:
    summary = state.summary
    return {
        "id": state.id,
        "title": state.title,
        "owner": state.owner,
        "folder": state.folder,
        "messages": [message_json(each) for each in state.messages],
        "runs": [*state.runs],
        "summary": {"upto": summary.upto, "text": summary.text} if summary else None,
        "opened_at": state.opened_at.isoformat() if state.opened_at else None,
        "updated_at": state.updated_at.isoformat() if state.updated_at else None,
    }


async def _undo(session: Session) -> None:
    thread = await open_thread(session, session.args.thread)
    turn = await thread.undo(session.args.number, by=session.by)
    if session.args.json:
        print_json(turn_with_run(turn, turn.run, session, Exit.OK))
        return
    print_text(turn.text)
    if turn.run is not None and not turn.run.status.over:
        session.say(*await waiting_lines(turn.run, session))


async def _delete(session: Session) -> None:
    args = session.args
    state = await _state(session)
    if not state.last:
        hint = Sentence("only conversations are deleted here")
        raise Misconfigured(Sentence("run {run} has no thread", run=state.id), hint=hint)
    if not vars(args).get("yes") and not _is_sure(session, state):
        raise Refused(
            Sentence("nothing was deleted"), hint=Sentence("--yes deletes without asking")
        )
    runs = await session.smith.threads.delete(state.id, by=session.by)
    if args.json:
        print_json({"deleted": state.id, "runs": runs})
    else:
        session.say(
            Sentence("deleted: {thread}, with {runs} runs", thread=safe(state.id), runs=runs)
        )


def _is_sure(session: Session, state: ThreadState) -> bool:
    return session.has_person and agrees(
        session.own_text(
            "Delete “{title}” with {messages} messages and {runs} runs for good? "
            "y = yes, Enter = no: ",
            title=clip(safe(state.title), 80),
            messages=len(state.messages),
            runs=len(state.runs),
        )
    )


_FLAGS: Final = f"--limit LIMIT  how many to list (default: {_MOST})\n"
_ID: Final = "THREAD  a thread: its id, how that begins, a run in it, or last\n"
_LOOKS: Final = _FLAGS + STORE_ALONE + JSON
_VERBS: Final = {
    "list": Verb(_list, "list threads, the last one at the end", _LOOKS),
    "show": Verb(_show, "show what was said in a thread, and what came of it", _LOOKS + _ID),
    "undo": Verb(
        _undo,
        "take back what a message was taken for",
        _FLAGS + TOOLS + JSON + _ID + "NUMBER  the number of the message\n",
    ),
    "delete": Verb(
        _delete, "delete a thread and its runs", _LOOKS + _ID + "--yes  delete without asking\n"
    ),
}


def _configure(parser: argparse.ArgumentParser) -> None:
    typed: dict[str, Any] = {"limit": positive, "number": positive, "thread": {"metavar": "ID"}}
    add_options(parser, _LOOKS, **typed)
    parser.set_defaults(work=_list)
    actions = parser.add_subparsers(dest="action", metavar="|".join(_VERBS))
    for name, each in _VERBS.items():
        # A flag before the name of the action counts as well.
        made = actions.add_parser(name, help=each.told, argument_default=argparse.SUPPRESS)
        add_options(made, each.text, **typed)
        made.set_defaults(work=each.work)


def _main(args: argparse.Namespace) -> int | None:
    return in_session(args, args.work, only_reads=args.work in (_list, _show))


COMMAND = Command(_configure, _main)
