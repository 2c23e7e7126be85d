"""`plansmith threads`: lists, shows, undoes and deletes conversations."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import islice
from typing import Final

from plansmith.cli.command_table import Command
from plansmith.cli.commands.runs import shortest
from plansmith.cli.describe import waiting_lines
from plansmith.cli.exit_codes import Exit
from plansmith.cli.options import add_json, add_store_alone, add_tools, positive
from plansmith.cli.questions import agrees
from plansmith.cli.session import Session, in_session
from plansmith.cli.threads import (
    find_thread,
    headlines,
    message_json,
    open_thread,
    runs_of,
    state_lines,
    thread_store,
    turn_with_run,
)
from plansmith.cli.ui.output import print_json, print_lines, print_text
from plansmith.errors import Misconfigured, Refused
from plansmith.plan.data import Json
from plansmith.plan.sentence import Sentence
from plansmith.plan.thread import ThreadState, fold_thread
from plansmith.text import clip, safe
from plansmith.threads.store import ThreadHeadline

_MOST: Final = 20
_WRITES: Final = ("undo", "delete")


def _configure(parser: argparse.ArgumentParser) -> None:
    _add_flags(parser)
    actions = parser.add_subparsers(dest="action", metavar="list|show|undo|delete")
    parser.set_defaults(action="list")

    def add(name: str, what: str) -> argparse.ArgumentParser:
        # A flag before the name of the action counts as well.
        made = actions.add_parser(name, help=what, argument_default=argparse.SUPPRESS)
        _add_flags(made, tools=name == "undo")
        if name != "list":
            told = "a thread: its id, how that begins, a run in it, or last"
            made.add_argument("thread", metavar="ID", help=told)
        return made

    add("list", "list threads, the last one at the end")
    add("show", "show what was said in a thread, and what came of it")
    undo = add("undo", "take back what a message was taken for")
    undo.add_argument("number", metavar="NUMBER", type=positive, help="the number of the message")
    delete = add("delete", "delete a thread and its runs")
    delete.add_argument("--yes", action="store_true", help="delete without asking")


def _add_flags(parser: argparse.ArgumentParser, *, tools: bool = False) -> None:
    parser.add_argument("--limit", type=positive, help=f"how many to list (default: {_MOST})")
    (add_tools if tools else add_store_alone)(parser)
    add_json(parser)


def _main(args: argparse.Namespace) -> int:
    work = {"list": _list, "show": _show, "undo": _undo, "delete": _delete}[args.action]
    return in_session(args, work, only_reads=args.action not in _WRITES)


async def _list(session: Session) -> int:
    args = session.args
    known = [each async for each in headlines(thread_store(session))]
    found = [*islice(known, args.limit or _MOST)][::-1]
    if args.json:
        print_json([_row_json(each) for each in found])
    elif found:
        length = shortest({each.thread for each in known})
        print_lines(_table(found, length, session.journals.folder))
    else:
        session.say(session.words["no_threads"])
    return Exit.OK


def _table(found: Sequence[ThreadHeadline], length: int, here: str) -> list[str]:
    width = max(len(safe(each.thread[:length])) for each in found)
    return [
        f"{safe(each.thread[:length]):<{width}}  {each.updated:%Y-%m-%d %H:%M}"
        f"  {each.messages:>3}  {clip(safe(each.title), 80)}{_place(each, here)}"
        for each in found
    ]


def _place(each: ThreadHeadline, here: str) -> str:
    return f"  ({safe(each.folder)})" if each.folder not in ("", here) else ""


def _row_json(each: ThreadHeadline) -> dict[str, Json]:
    return {
        "id": each.thread,
        "title": each.title,
        "owner": each.owner,
        "folder": each.folder,
        "messages": each.messages,
        "updated_at": each.updated.isoformat(),
    }


async def _show(session: Session) -> int:
    state = await _state(session)
    runs = await runs_of(session, state)
    if session.args.json:
        print_json(_json(state))
        return Exit.OK
    print_lines([f"{safe(state.id)}  {clip(safe(state.title), 100)}"])
    print_lines(state_lines(state, runs, session))
    for run in runs:
        if not run.status.over:
            session.say(*waiting_lines(run, session))
    return Exit.OK


async def _state(session: Session) -> ThreadState:
    """Returns the thread that the command names, wherever its folder is."""
    name = await find_thread(session, session.args.thread)
    entries = await thread_store(session).thread_entries(name)
    if entries:
        return fold_thread(name, entries)
    return (await session.smith.thread(name)).state  # a run of its own


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


async def _undo(session: Session) -> int:
    thread = await open_thread(session, session.args.thread)
    turn = await thread.undo(session.args.number, by=session.by)
    if session.args.json:
        print_json(turn_with_run(turn, turn.run, session, Exit.OK))
        return Exit.OK
    print_text(turn.text)
    if turn.run is not None and not turn.run.status.over:
        session.say(*waiting_lines(turn.run, session))
    return Exit.OK


async def _delete(session: Session) -> int:
    args = session.args
    state = await _state(session)
    if not state.last:
        hint = Sentence("error.threads_deleted_only")
        raise Misconfigured(Sentence("error.run_threadless", run=state.id), hint=hint)
    if not vars(args).get("yes") and not _is_sure(session, state):
        raise Refused(Sentence("error.thread_kept"), hint=Sentence("error.yes_deletes"))
    runs = await session.smith.threads.delete(state.id, by=session.by)
    if args.json:
        print_json({"deleted": state.id, "runs": runs})
    else:
        session.say(session.words["thread_deleted"].format(thread=safe(state.id), runs=runs))
    return Exit.OK


def _is_sure(session: Session, state: ThreadState) -> bool:
    if not session.has_person:
        return False
    asks = session.words["thread_delete"].format(
        title=clip(safe(state.title), 80), messages=len(state.messages), runs=len(state.runs)
    )
    return agrees(asks)


COMMAND = Command(_configure, _main)
