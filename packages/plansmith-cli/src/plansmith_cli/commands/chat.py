"""`plansmith chat`: a conversation, line by line; what is said, what comes of it, what is shown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from plansmith import Misconfigured, PlansmithError, QuestionAsked, Run
from plansmith.plan.next_move import AwaitReview, Paused, next_move
from plansmith.plan.sentence import Sentence, did_you_mean
from plansmith.report.build import load_report
from plansmith.report.markdown import to_markdown
from plansmith.text import clip, safe, visible
from plansmith_cli import describe
from plansmith_cli.command_table import Exit, exit_for
from plansmith_cli.commands import threads
from plansmith_cli.commands.ask import PLANNING, TYPED, prepare, request_options
from plansmith_cli.commands.schedule_view import offer_schedule
from plansmith_cli.commands.threads import is_asked_by_plan, runs_of, waiting_in
from plansmith_cli.interactive import (
    Executed,
    Prompts,
    Stop,
    is_new,
    run_to_rest,
    show_plan,
    stoppable,
)
from plansmith_cli.keyboard import Choice, is_at_terminal, read_message
from plansmith_cli.options import RUNNING
from plansmith_cli.parser import command
from plansmith_cli.questions import waiting_lines
from plansmith_cli.session import Session, in_session
from plansmith_cli.ui import output as ui
from plansmith_cli.ui.terminal import LANGUAGE

if TYPE_CHECKING:
    from plansmith_planner.threads.thread import Thread, Turn


class ChatPrompts(Prompts):
    """Asks for decisions at prompts; what is typed there and decides nothing is a message."""

    asks_again = False  # any other text is a message
    typed = ""

    @property
    def approve(self) -> str:
        return ui.own_text(
            "Run this plan? y = yes, n = reject it, e = edit it, Enter = not now, "
            "or say what to change: "
        )

    def is_answered_elsewhere(self, asked: QuestionAsked) -> bool:
        return is_asked_by_plan(asked)

    def postpone(self, session: Session, run: Run, choice: Choice) -> None:
        self.typed = choice.text
        if not choice.text:
            super().postpone(session, run, choice)


class Chat:
    """One thread, and what is shown of it; `code` is the exit code of the last message."""

    def __init__(
        self, session: Session, thread: Thread, *, options: dict[str, Any], as_json: bool
    ) -> None:
        self.session = session
        self.as_json = as_json
        self.prompts = ChatPrompts()
        self.code: int = Exit.OK
        self._options = options
        self.begin(thread)

    def begin(self, thread: Thread) -> None:
        self.thread = thread
        self.open: list[Run] = []
        self._seen = thread.state.last

    async def runs(self) -> list[Run]:
        return (await runs_of(self.session, (await self.thread.refresh()).state))[::-1]

    async def look(self) -> list[Run]:
        """Reads the runs of the thread, and which of them are not over."""
        runs = await runs_of(self.session, self.thread.state)
        self.open = [run for run in runs if not run.status.over]
        return runs

    async def show_last(self) -> None:
        """Shows the last messages and what waits, for a person who comes back."""
        runs, state = await self.look(), self.thread.state
        if state.messages or runs:
            last = threads.message_lines(state.messages[-4:], runs)
            lines = last if state.messages else threads.run_lines(runs)
            self.session.say(clip(safe(state.title), 100), *lines, *waiting_in(self.open))

    async def say(self, text: str) -> None:
        session, thread = self.session, self.thread
        session.lines.restart(session.locale)
        turn = await stoppable(threads.say_in(session, thread, text, self._options, undo="/undo"))
        # What others said since the last message here.
        since, self._seen = self._seen, (await thread.refresh()).state.last
        last = thread.history[-1] if thread.history else None
        for other in thread.history[:-1]:
            if not other.undone and other.number > since:
                session.say(ui.dim(f"{safe(other.by.label)}: {clip(safe(other.text), 200)}"))
        if turn is not None:
            await self._show_outcome(turn)
        elif last is None or last.undone:
            self.tell(
                Exit.INTERRUPTED,
                Sentence("Stopped. The message was taken back: nothing was done with it."),
            )
        else:
            self.tell(Exit.INTERRUPTED, _stopped_message(last.run))

    async def _show_outcome(self, turn: Turn) -> None:
        """Shows the answer that a message got at once, and runs the run it is about."""
        session, run, code = self.session, turn.run, Exit.OK
        asked = run.questions.values() if run is not None else ()
        if turn.kind in ("why", "review") and not self.as_json:
            decides = (
                turn.kind == "review"
                and session.has_person
                and not any(map(is_asked_by_plan, asked))
            )
            hint = ui.own_text(
                "A message approves nothing and rejects nothing: decide at the prompt below."
            )
            ui.print_prose(hint if decides else turn.text)
            sys.stdout.flush()
        if turn.kind == "why" and session.has_person:
            session.say(*waiting_in(self.open[-1:]))
        elif run is not None and turn.kind != "why":
            rest = await self.go_on(run, fresh=turn.kind == "request")
            run, code = rest.run, rest.code
        self.end(turn, run, code)

    def end(self, turn: Turn, run: Run | None, code: int) -> None:
        """Notes how a message ended."""
        fields = threads.turn_and_run_json(turn, run, self.session, code) if self.as_json else {}
        self.print_json(code, **fields)

    async def go_on(self, run: Run, *, fresh: bool = False) -> Executed:
        """Runs a run as far as it goes now, asks the person, and shows the result."""
        session, smith, language = self.session, self.session.smith, LANGUAGE.get()
        session.use_team_of(run)
        session.use_language_of(run)
        try:
            if is_new(run) and await offer_schedule(session, run) is not None:
                return Executed(await session.smith.get(run.id), Stop.ITSELF)
            show_plan(session, run)
            rest = await run_to_rest(session, run.id, fresh=fresh, prompts=self.prompts)
            await describe.print_end(session, rest.run, silent=self.as_json)
            sys.stdout.flush()
            if rest.run.status.over:
                return rest
            if rest.stop is Stop.DETACHED:
                session.say(_stopped_message(rest.run.id))
            elif session.has_person and not self.prompts.typed:
                session.say(*waiting_in([rest.run]))
            elif not self.prompts.typed:
                session.say(*await waiting_lines(rest.run, session))
            return rest
        finally:
            session.smith = smith
            LANGUAGE.set(language)

    def print_json(self, code: int, **fields: Any) -> None:
        """Notes how a line ended; prints it as JSON where that is wanted."""
        self.code = code
        if self.as_json:
            ui.print_line_json({**fields, "exit": int(code)})

    def tell(self, code: int, line: Sentence) -> None:
        if not self.as_json:
            self.session.say(line)
        self.print_json(code, thread=self.thread.id, text=ui.own(line))

    def show(self, name: str, lines: Sequence[str]) -> None:
        if not self.as_json:
            ui.print_lines(lines)
        self.print_json(Exit.OK, command=name, text="\n".join(map(ui.own, lines)))

    async def show_run(self, name: str, run: Run) -> None:
        done = await self.go_on(run)
        fields = describe.run_json(done.run, self.session) if self.as_json else None
        self.print_json(done.code, command=name, run=fields)

    def failed(self, error: PlansmithError) -> None:
        """Shows why a line could not be taken; the conversation goes on."""
        code = exit_for(error)
        sys.stderr.write(visible(f"plansmith: {ui.error_text(error, self.session.locale)}\n"))
        fields = {"code": code.name.lower(), "kind": type(error).__name__, "exit": int(code)}
        fields |= {"message": error.message, "hint": error.hint}
        self.print_json(code, thread=self.thread.id, error=fields)

    def return_lines(self) -> list[str]:
        """Returns how to come back to a thread in which something was said."""
        if not self.thread.state.last:
            return []
        lang = self.session.args.lang
        chosen = ("--lang", lang) if lang else ()
        typed = self.session.command("chat", "--thread", self.thread.id, *chosen)
        return [Sentence("To come back to this conversation:"), f"  {safe(typed)}"]


def _stopped_message(run: str) -> Sentence:
    return Sentence(
        "Stopped. The run {run} is kept: /go goes on, Ctrl-C again or Ctrl-D leaves.", run=run
    )


HELP: Final = Sentence(
    "Each line is a message: a request, the answer to a question, a change "
    "of the plan, or why.\n"
    "A plan is approved at its own prompt only; no message approves "
    "anything.\n"
    "/undo [NUMBER]  take back what a message was taken for\n"
    "/plan           show the newest plan; the one that waits asks for your "
    "decision\n"
    "/report [RUN]   show all that was found, done and decided for an answer\n"
    "/go [RUN]       go on with a run that was stopped, or see what it asks\n"
    "/thread         show what was said, with numbers, and the runs\n"
    "/new            begin another conversation\n"
    "/quit           leave (Ctrl-D, or Ctrl-C twice)\n"
    "A message that begins with a slash: type two."
)


async def _help(chat: Chat, _: str) -> None:
    chat.show("/help", ui.own(HELP).split("\n"))


async def _undo(chat: Chat, rest: str) -> None:
    turn = await stoppable(chat.thread.undo(await _to_undo(chat, rest), by=chat.session.by))
    if turn is None:
        chat.tell(Exit.INTERRUPTED, Sentence("Ctrl-C again or Ctrl-D leaves."))
        return
    if not chat.as_json:
        ui.print_text(turn.text)
    if turn.run is None or turn.kind == "request":
        chat.end(turn, turn.run, Exit.OK)
        return
    done = await chat.go_on(turn.run)
    chat.end(turn, done.run, done.code)


async def _to_undo(chat: Chat, rest: str) -> int:
    if rest:
        if not (rest.isascii() and rest.isdigit() and len(rest) < 10):
            raise ui.wrong(
                "{text} is no number of a message", "/thread lists them", text=repr(rest)
            )
        return int(rest)
    await chat.thread.refresh()
    for each in reversed(chat.thread.history):
        ours = each.by.label == chat.session.by
        if ours and not each.undone and each.kind not in ("why", "review"):
            return each.number
    raise ui.refused("there is nothing of yours to undo", "/undo NUMBER takes any message back")


async def _plan(chat: Chat, _: str) -> None:
    """Shows the plan that waits for a decision and asks for it, else the newest plan."""
    runs = [run for run in await chat.runs() if run.plan is not None]
    waiting = [run for run in runs if isinstance(next_move(run), AwaitReview)]
    if waiting:
        await chat.show_run("/plan", waiting[0])
    elif runs:
        whole = await chat.session.smith.get(runs[0].id)
        chat.show("/plan", [*describe.run_lines(whole, chat.session)])
    else:
        raise ui.refused("there is no plan yet", "say what should be done")


async def _report(chat: Chat, rest: str) -> None:
    """Shows the whole report of a run that is over, the newest if none is named."""
    found = [run for run in await chat.runs() if run.status.over and run.id.startswith(rest)]
    if not found:
        raise ui.refused("no run {run} is over here" if rest else "nothing is over yet", run=rest)
    store, locale = chat.session.smith.store, chat.session.locale
    text = to_markdown(await load_report(store, found[0].id, locale=locale), brief=True)
    if chat.as_json:
        chat.show("/report", text.rstrip().split("\n"))
    else:
        ui.print_markdown(text)


async def _go(chat: Chat, rest: str) -> None:
    """Goes on with a run that was stopped, or asks again what it waits for."""
    found = [run for run in await chat.runs() if not run.status.over and run.id.startswith(rest)]
    if not found:
        raise ui.refused(
            "there is no run {run}" if rest else "nothing waits in this thread", run=rest
        )
    run = found[0]
    if next_move(run) == Paused():
        run = await chat.session.smith.resume(run.id, by=chat.session.by)
    await chat.show_run("/go", run)


async def _thread(chat: Chat, _: str) -> None:
    runs = (await chat.runs())[::-1]
    chat.show("/thread", [*threads.state_lines(chat.thread.state, runs)])


async def _new(chat: Chat, _: str) -> None:
    chat.session.say(*chat.return_lines())
    chat.begin(await chat.session.smith.thread())
    chat.show("/new", [safe(chat.thread.id)])


async def _quit(_: Chat, __: str) -> None:
    raise EOFError


COMMANDS: Final[dict[str, Callable[[Chat, str], Awaitable[None]]]] = {
    "/help": _help,
    "/undo": _undo,
    "/plan": _plan,
    "/report": _report,
    "/go": _go,
    "/thread": _thread,
    "/new": _new,
    "/quit": _quit,
}


def is_command(line: str) -> bool:
    """Whether a line is a command: not if it begins with a path, or with two slashes."""
    first = line.split(maxsplit=1)[0] if line.strip() else ""
    return first.startswith("/") and "/" not in first[1:]


async def _take(chat: Chat, line: str) -> None:
    """Takes one line: a command or a message; raises EOFError if the person leaves."""
    text = line.strip()
    try:
        if is_command(text):
            name, _, rest = text.partition(" ")
            if name not in COMMANDS:
                hint = did_you_mean(name, COMMANDS, otherwise=Sentence("/help lists the commands"))
                raise Misconfigured(Sentence("there is no command {name}", name=name), hint=hint)
            if name != "/quit":
                chat.code = Exit.OK
            await COMMANDS[name](chat, rest.strip())
        elif text:
            await chat.say(text[1:] if text.startswith("//") else text)
    except PlansmithError as error:
        chat.failed(error)
    finally:
        await chat.look()


async def _take_lines(chat: Chat, line: str | None) -> int | None:
    """Takes lines until the person leaves; returns the exit code, None for that of the last."""
    asks = is_at_terminal()
    was_interrupted = False  # whether Ctrl-C was pressed, and nothing else since
    notice = ""
    while line is not None:
        try:
            if line:
                await _take(chat, line)
                was_interrupted = chat.code == Exit.INTERRUPTED
            pending, notice = notice, ""
            line, chat.prompts.typed = chat.prompts.typed, ""
            line = line or read_message(ui.own_text("you> "), notice=pending, drops=bool(chat.open))
            was_interrupted = False
        except KeyboardInterrupt:
            if was_interrupted or not asks:
                return Exit.INTERRUPTED
            was_interrupted, line = True, ""
            notice = f"\n{ui.own_text('Ctrl-C again or Ctrl-D leaves.')}\n"
        except EOFError:
            return Exit.OK if asks else None
    if asks:
        chat.session.say("")
    return Exit.OK if asks else None


def _main(args: argparse.Namespace) -> int | None:
    async def work(session: Session) -> int:
        thread = await threads.open_thread(session, args.thread)
        as_json, args.json = args.json, False  # each turn prints its own
        chat = Chat(session, thread, options=request_options(session), as_json=as_json)
        if is_at_terminal():
            await chat.show_last()
            hint = ui.own_text(
                "Say what you want. /help lists commands, Ctrl-C stops, Ctrl-D leaves."
            )
            session.tell(ui.dim(hint))
        code = await _take_lines(chat, args.request or "")
        session.tell(*chat.return_lines())
        return chat.code if code is None else code

    if args.jsonl:
        raise ui.wrong("a chat prints no events", "--json prints each turn as JSON")
    prepare(args)
    return in_session(args, work)


_REQUEST: Final = "[REQUEST]  the first message; more follow, line by line\n"
COMMAND = command(_REQUEST + threads.THREAD + PLANNING + RUNNING, _main, **TYPED)
