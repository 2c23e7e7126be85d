"""The commands of a chat that begin with a slash."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from plansmith.cli import describe, threads
from plansmith.cli.exit_codes import Exit
from plansmith.cli.interactive import stoppable
from plansmith.cli.ui import terminal_markdown
from plansmith.cli.ui.output import print_line_json, print_lines, use_colour
from plansmith.errors import Misconfigured, Refused
from plansmith.plan.next_move import AwaitReview, Paused, next_move
from plansmith.plan.sentence import Sentence, did_you_mean
from plansmith.report.build import load_report
from plansmith.report.markdown import to_markdown
from plansmith.text import clip, safe

if TYPE_CHECKING:
    from plansmith.cli.commands.chat_turns import Chat
    from plansmith.plan.run import Run

_DIGITS: Final = 10


def is_command(line: str) -> bool:
    """Whether a line is a command: not if it begins with a path, or with two slashes."""
    first = line.split(maxsplit=1)[0] if line.strip() else ""
    return first.startswith("/") and "/" not in first[1:]


async def run_command(chat: Chat, line: str) -> bool:
    """Runs a command; returns False if the person leaves."""
    name, _, rest = line.strip().partition(" ")
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS, otherwise=Sentence("error.slash_help"))
        raise Misconfigured(Sentence("error.slash_unknown", name=name), hint=hint)
    if name == "/quit":
        return False
    chat.code = Exit.OK
    await COMMANDS[name](chat, rest.strip())
    return True


def _show(chat: Chat, command: str, lines: list[str]) -> None:
    if chat.as_json:
        print_line_json({"command": command, "text": "\n".join(lines), "exit": 0})
    else:
        print_lines(lines)


async def _help(chat: Chat, _: str) -> None:
    _show(chat, "/help", chat.session.words["chat_help"].split("\n"))


async def _quit(chat: Chat, _: str) -> None:
    del chat


async def _undo(chat: Chat, rest: str) -> None:
    number = await _to_undo(chat, rest)
    turn = await stoppable(chat.thread.undo(number, by=chat.session.by))
    if turn is None:
        chat.tell(Exit.INTERRUPTED, chat.session.words["chat_leaves"])
        return
    if not chat.as_json:
        print_lines([safe(turn.text)])
    if turn.run is None or turn.kind == "request":
        chat.end(turn, turn.run, Exit.OK)
        return
    done = await chat.go_on(turn.run)
    chat.end(turn, done.run, done.code)


async def _to_undo(chat: Chat, rest: str) -> int:
    if rest:
        if not (rest.isascii() and rest.isdigit() and len(rest) < _DIGITS):
            wrong = Sentence("error.no_message_number", text=repr(rest))
            raise Misconfigured(wrong, hint=Sentence("error.thread_lists"))
        return int(rest)
    await chat.thread.refresh()
    for each in reversed(chat.thread.history):
        ours = each.by.label == chat.session.by
        if ours and not each.undone and each.kind not in ("why", "review"):
            return each.number
    raise Refused(Sentence("error.none_to_undo"), hint=Sentence("error.undo_number"))


async def _why(chat: Chat, rest: str) -> None:
    if not chat.thread.runs:
        raise Refused(Sentence("error.none_planned"), hint=Sentence("error.say_wish"))
    await chat.say(chat.session.words["chat_why"].format(about=rest).strip())


async def _plan(chat: Chat, _: str) -> None:
    """Shows the plan that waits for a decision and asks for it, else the newest plan."""
    runs = [run for run in await _newest(chat) if run.plan is not None]
    waiting = [run for run in runs if isinstance(next_move(run), AwaitReview)]
    if waiting:
        await _run(chat, "/plan", waiting[0])
    elif runs:
        whole = await chat.session.smith.get(runs[0].id)
        _show(chat, "/plan", list(describe.run_lines(whole, chat.session)))
    else:
        raise Refused(Sentence("error.plan_none_yet"), hint=Sentence("error.say_wish"))


async def _report(chat: Chat, rest: str) -> None:
    """Shows the whole report of a run that is over, the newest if none is named."""
    found = [run for run in await _newest(chat) if run.status.over and run.id.startswith(rest)]
    if not found:
        none = Sentence("error.none_over")
        raise Refused(Sentence("error.run_not_over", run=rest) if rest else none)
    whole = await load_report(chat.session.smith.store, found[0].id)
    text = to_markdown(whole, brief=True)
    if chat.as_json or not sys.stdout.isatty():
        _show(chat, "/report", text.rstrip().split("\n"))
    else:
        sys.stdout.write(terminal_markdown.rendered(text, colour=use_colour(sys.stdout)))


async def _go(chat: Chat, rest: str) -> None:
    """Goes on with a run that was stopped, or asks again what it waits for."""
    runs = [run for run in await _newest(chat) if not run.status.over]
    found = [run for run in runs if run.id.startswith(rest)]
    if not found:
        none = Sentence("error.none_waiting")
        raise Refused(Sentence("error.run_not_open", run=rest) if rest else none)
    run = found[0]
    if next_move(run) == Paused():
        run = await chat.session.smith.resume(run.id, by=chat.session.by)
    await _run(chat, "/go", run)


async def _run(chat: Chat, command: str, run: Run) -> None:
    done = await chat.go_on(run)
    chat.code = done.code
    if chat.as_json:
        told = {"command": command, "run": describe.run_json(done.run, chat.session)}
        print_line_json(told | {"exit": int(done.code)})


async def _runs(chat: Chat, _: str) -> None:
    runs = await threads.runs_of(chat.session, (await chat.thread.refresh()).state)
    _show(chat, "/runs", list(threads.run_lines(runs, chat.session)))


async def _thread(chat: Chat, _: str) -> None:
    state = (await chat.thread.refresh()).state
    runs = await threads.runs_of(chat.session, state)
    lines = [f"{safe(state.id)}  {clip(safe(state.title), 100)}"]
    lines += threads.state_lines(state, runs, chat.session)
    _show(chat, "/thread", lines)


async def _new(chat: Chat, _: str) -> None:
    chat.session.say(*come_back(chat))
    chat.begin(await chat.session.smith.thread())
    _show(chat, "/new", [safe(chat.thread.id)])


async def _newest(chat: Chat) -> list[Run]:
    state = (await chat.thread.refresh()).state
    return (await threads.runs_of(chat.session, state))[::-1]


def come_back(chat: Chat) -> list[str]:
    """Returns how to come back to a thread in which something was said."""
    if not chat.thread.state.last:
        return []
    lang = chat.session.args.lang
    chosen = ("--lang", lang) if lang else ()
    command = chat.session.command("chat", "--thread", chat.thread.id, *chosen)
    return [chat.session.words["come_back"], f"  {safe(command)}"]


COMMANDS: Final[dict[str, Callable[[Chat, str], Awaitable[None]]]] = {
    "/help": _help,
    "/undo": _undo,
    "/why": _why,
    "/plan": _plan,
    "/report": _report,
    "/go": _go,
    "/runs": _runs,
    "/thread": _thread,
    "/new": _new,
    "/quit": _quit,
}
