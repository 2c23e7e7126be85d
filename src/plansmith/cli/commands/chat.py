"""`plansmith chat`: a conversation, line by line."""

from __future__ import annotations

import argparse

from plansmith.cli.command_table import Command
from plansmith.cli.commands.ask import add_planning, prepare, request_options
from plansmith.cli.commands.chat_slash import COMMANDS, come_back, is_command, run_command
from plansmith.cli.commands.chat_turns import Chat
from plansmith.cli.exit_codes import Exit
from plansmith.cli.line_editor import LineEditor, LineHistory, completions
from plansmith.cli.options import add_running, warn
from plansmith.cli.session import Session, in_session
from plansmith.cli.threads import add_thread, open_thread
from plansmith.cli.ui.output import dim
from plansmith.config import state_folder
from plansmith.errors import Misconfigured, PlansmithError
from plansmith.plan.sentence import Sentence


def _configure(parser: argparse.ArgumentParser) -> None:
    what = "the first message; more follow, line by line"
    parser.add_argument("request", metavar="REQUEST", nargs="?", help=what)
    add_thread(parser)
    add_planning(parser)
    add_running(parser)


def _main(args: argparse.Namespace) -> int:
    async def work(session: Session) -> int:
        thread = await open_thread(session, args.thread)
        as_json, args.json = args.json, False  # each turn prints its own
        chat = Chat(session, thread, options=request_options(session), as_json=as_json)
        return await _talk(chat, args.request)

    if args.jsonl:
        raise Misconfigured(Sentence("error.chat_no_events"), hint=Sentence("error.chat_json"))
    prepare(args)
    return in_session(args, work)


async def _talk(chat: Chat, first: str | None) -> int:
    editor = LineEditor(
        LineHistory(state_folder() / "chat_history"),
        lambda typed: completions(typed, commands=COMMANDS, options=chat.options()),
        warn=warn,
    )
    if editor.asks:
        await chat.show_last()
        chat.session.tell(dim(chat.session.words["chat_begin"]))
    code = await _take_lines(chat, editor, first or "")
    chat.session.tell(*come_back(chat))
    return chat.code if code is None else code


async def _take_lines(chat: Chat, editor: LineEditor, line: str | None) -> int | None:
    """Takes lines until the person leaves; returns the exit code, None for that of the last."""
    hit = False  # whether Ctrl-C was pressed, and nothing else since
    words, notice = chat.session.words, ""
    while True:
        try:
            if line:
                if not await _take(chat, line):
                    break
                hit = chat.code == Exit.INTERRUPTED
            shown, notice = notice, ""
            line = chat.prompts.take()
            line = line or editor.read(words["you"], notice=shown, drops=bool(chat.open))
            hit = False
        except KeyboardInterrupt:
            if hit or not editor.asks:
                return Exit.INTERRUPTED
            hit, line = True, ""
            notice = f"\n{words['chat_leaves']}\n"
        if line is None:
            if editor.asks:
                chat.session.say("")
            break
    return Exit.OK if editor.asks else None


async def _take(chat: Chat, line: str) -> bool:
    """Takes one line; returns False if the person leaves."""
    text = line.strip()
    try:
        if is_command(text):
            return await run_command(chat, text)
        if text:
            await chat.say(text[1:] if text.startswith("//") else text)
    except PlansmithError as error:
        chat.failed(error)
    finally:
        await chat.look()
    return True


COMMAND = Command(_configure, _main)
