"""`plansmith chat`: a conversation, line by line; what is said, what comes of it, what is shown."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from plansmith.errors import Misconfigured, PlansmithError, Refused
from plansmith.files import state_folder
from plansmith.plan.data import Json
from plansmith.plan.events import QuestionAsked
from plansmith.plan.next_move import AwaitReview, Paused, next_move
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence, did_you_mean, in_language
from plansmith.report.build import load_report
from plansmith.report.markdown import to_markdown
from plansmith.text import clip, safe, visible
from plansmith_cli import describe
from plansmith_cli.commands.ask import PLANNING, TYPED, prepare, request_options
from plansmith_cli.commands.schedule_view import offer_schedule
from plansmith_cli.commands.threads import (
    THREAD,
    is_said,
    message_lines,
    open_thread,
    run_lines,
    runs_of,
    state_lines,
    taken_line,
    turn_with_run,
    waiting_in,
    withdraw,
)
from plansmith_cli.consent import waiting_lines
from plansmith_cli.exit_codes import Exit, exit_for
from plansmith_cli.interactive import (
    Executed,
    Prompts,
    Stop,
    is_new,
    print_end,
    run_to_rest,
    show_plan,
    stoppable,
)
from plansmith_cli.keyboard import LineEditor, LineHistory, completions
from plansmith_cli.options import RUNNING, warn
from plansmith_cli.parser import command
from plansmith_cli.questions import Choice
from plansmith_cli.session import Session, in_session
from plansmith_cli.ui.output import dim, print_line_json, print_markdown, print_prose
from plansmith_cli.ui.words import error_text

if TYPE_CHECKING:
    from plansmith_planner.threads.thread import Thread
    from plansmith_planner.threads.turn import Turn

_SHOWN_AGAIN: Final = 4
_DIGITS: Final = 10


class ChatPrompts(Prompts):
    """Asks for decisions at prompts; what is typed there and decides nothing is a message."""

    asks_again = False  # any other text is a message

    def __init__(self) -> None:
        self.typed = ""

    def approve(self, session: Session) -> str:
        """Returns the prompt under a plan."""
        return session.own_text(
            "Run this plan? y = yes, n = reject it, e = edit it, Enter = not now, "
            "or say what to change: "
        )

    def leaves(self, asked: QuestionAsked) -> bool:
        """Tells whether the next message may answer the question."""
        return is_said(asked)

    def put_off(self, session: Session, run: Run, choice: Choice) -> None:
        """Keeps what was typed as the next message."""
        self.typed = choice.text
        if not choice.text:
            super().put_off(session, run, choice)


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
        """Takes another thread up."""
        self.thread = thread
        self.open: list[Run] = []
        self._seen = thread.state.last

    async def runs(self) -> list[Run]:
        """Returns the runs of the thread as it is now, newest first."""
        return (await runs_of(self.session, (await self.thread.refresh()).state))[::-1]

    async def look(self) -> None:
        """Reads which runs of the thread are not over."""
        runs = await runs_of(self.session, self.thread.state)
        self.open = [run for run in runs if not run.status.over]

    async def show_last(self) -> None:
        """Shows the last messages and what waits, for a person who comes back."""
        await self.look()
        session, state = self.session, self.thread.state
        runs = await runs_of(session, state)
        if not state.messages and not runs:
            return
        last = message_lines(state.messages[-_SHOWN_AGAIN:], runs, session)
        session.say(
            clip(safe(state.title), 100),
            *(last if state.messages else run_lines(runs, session)),
            *waiting_in(self.open, session),
        )

    def options(self) -> Iterator[str]:
        """Yields the options of questions that the next message may answer."""
        for run in self.open:
            for asked in run.questions.values():
                yield from asked.options if is_said(asked) else ()

    async def say(self, text: str) -> None:
        """Says something, and runs what comes of it."""
        session, thread = self.session, self.thread
        session.restart_clock()
        with session.planning():
            turn = await stoppable(thread.say(text, by=session.by, plan=False, **self._options))
        if turn is None:
            await withdraw(session, thread)
            self.tell(
                Exit.INTERRUPTED,
                Sentence("Stopped. The message was taken back: nothing was done with it."),
            )
            return
        self._show_others(turn)
        if taken := await taken_line(session, thread, turn, undo="/undo"):
            session.tell(dim(taken))
        with session.planning():
            for each in turn.earlier:
                await stoppable(thread.plan_left(each))
            planned = await stoppable(thread.plan(turn))
        if planned is not None:
            await self._come_of(planned)
            return
        if turn.run is not None:
            session.say(_kept(turn.run))
        self.end(turn, turn.run, Exit.INTERRUPTED)

    async def _come_of(self, turn: Turn) -> None:
        """Shows the answer that a message got at once, and runs the run it is about."""
        session = self.session
        asked = turn.run.questions.values() if turn.run is not None else ()
        if turn.kind in ("why", "review") and not self.as_json:
            decides = turn.kind == "review" and session.has_person and not any(map(is_said, asked))
            print_prose(
                session.own_text(
                    "A message approves nothing and rejects nothing: decide at the prompt below."
                )
                if decides
                else turn.text
            )
            sys.stdout.flush()
        run, code = turn.run, Exit.OK
        if turn.kind == "why" and session.has_person:
            session.say(*waiting_in(self.open[-1:], session))
        elif run is not None and turn.kind != "why":
            rest = await self.go_on(run, fresh=turn.kind == "request")
            run, code = rest.run, rest.code
        self.end(turn, run, code)

    def end(self, turn: Turn, run: Run | None, code: int) -> None:
        """Notes how a message ended; prints it as JSON where that is wanted."""
        self.code = code
        if self.as_json:
            print_line_json(turn_with_run(turn, run, self.session, code))

    async def go_on(self, run: Run, *, fresh: bool = False) -> Executed:
        """Runs a run as far as it goes now, asks the person, and shows the result."""
        session = self.session
        smith, locale = session.smith, session.locale
        session.use_team_of(run)
        session.use_language_of(run)
        try:
            if is_new(run) and await offer_schedule(session, run) is not None:
                return Executed(await session.smith.get(run.id), Stop.ITSELF)
            show_plan(session, run)
            rest = await run_to_rest(session, run.id, fresh=fresh, prompts=self.prompts)
            await print_end(session, rest.run, silent=self.as_json)
            sys.stdout.flush()
            session.say(*await self._rest_lines(rest))
            return rest
        finally:
            session.smith, session.locale = smith, locale

    async def _rest_lines(self, rest: Executed) -> list[str]:
        if rest.run.status.over:
            return []
        if rest.stop is Stop.DETACHED:
            return [_kept(rest.run)]
        if self.prompts.typed:
            return []
        if self.session.has_person:
            return [*waiting_in([rest.run], self.session)]
        return await waiting_lines(rest.run, self.session)

    def tell(self, code: int, line: Sentence) -> None:
        """Shows what became of a line that made no turn."""
        self.code = code
        if self.as_json:
            told = in_language(line, self.session.locale)
            print_line_json({"thread": self.thread.id, "text": told, "exit": int(code)})
        else:
            self.session.say(line)

    def show(self, name: str, lines: Sequence[str]) -> None:
        """Shows what a command found."""
        if self.as_json:
            told = "\n".join(in_language(line, self.session.locale) for line in lines)
            print_line_json({"command": name, "text": told, "exit": 0})
        else:
            self.session.print(*lines)

    def failed(self, error: PlansmithError) -> None:
        """Shows why a line could not be taken; the conversation goes on."""
        self.code = code = exit_for(error)
        sys.stderr.write(visible(f"plansmith: {error_text(error, self.session.locale)}\n"))
        if self.as_json:
            told: dict[str, Json] = {
                "code": code.name.lower(),
                "kind": type(error).__name__,
                "message": error.message,
                "hint": error.hint,
                "exit": int(code),
            }
            print_line_json({"thread": self.thread.id, "error": told, "exit": int(code)})

    def _show_others(self, turn: Turn) -> None:
        """Shows what others said since the last message here, and what was left over."""
        since, self._seen = self._seen, self.thread.state.last
        for each in self.thread.history:
            if not each.undone and since < each.number < turn.number:
                self.session.say(dim(f"{safe(each.by.label)}: {clip(safe(each.text), 200)}"))
        left = [each.run for each in turn.earlier if each.run is not None]
        self.session.say(*waiting_in(left, self.session))


def _kept(run: Run) -> Sentence:
    return Sentence(
        "Stopped. The run {run} is kept: /go goes on, Ctrl-C again or Ctrl-D leaves.", run=run.id
    )


def is_command(line: str) -> bool:
    """Whether a line is a command: not if it begins with a path, or with two slashes."""
    first = line.split(maxsplit=1)[0] if line.strip() else ""
    return first.startswith("/") and "/" not in first[1:]


async def run_command(chat: Chat, line: str) -> bool:
    """Runs a command; returns False if the person leaves."""
    name, _, rest = line.strip().partition(" ")
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS, otherwise=Sentence("/help lists the commands"))
        raise Misconfigured(Sentence("there is no command {name}", name=name), hint=hint)
    if name == "/quit":
        return False
    chat.code = Exit.OK
    await COMMANDS[name](chat, rest.strip())
    return True


HELP: Final = Sentence(
    "Each line is a message: a request, the answer to a question, a change "
    "of the plan, or why.\n"
    "A plan is approved at its own prompt only; no message approves "
    "anything.\n"
    "/undo [NUMBER]  take back what a message was taken for\n"
    "/why [WORDS]    ask why the plan or a result is as it is\n"
    "/plan           show the newest plan; the one that waits asks for your "
    "decision\n"
    "/report [RUN]   show all that was found, done and decided for an answer\n"
    "/go [RUN]       go on with a run that was stopped, or see what it asks\n"
    "/runs           list the runs of this conversation\n"
    "/thread         show what was said, with numbers\n"
    "/new            begin another conversation\n"
    "/quit           leave (Ctrl-D, or Ctrl-C twice)\n"
    "A message that begins with a slash: type two."
)


async def _help(chat: Chat, _: str) -> None:
    chat.show("/help", in_language(HELP, chat.session.locale).split("\n"))


async def _quit(_: Chat, __: str) -> None:
    """Is looked for before."""


async def _undo(chat: Chat, rest: str) -> None:
    turn = await stoppable(chat.thread.undo(await _to_undo(chat, rest), by=chat.session.by))
    if turn is None:
        chat.tell(Exit.INTERRUPTED, Sentence("Ctrl-C again or Ctrl-D leaves."))
        return
    if not chat.as_json:
        chat.session.print(safe(turn.text))
    if turn.run is None or turn.kind == "request":
        chat.end(turn, turn.run, Exit.OK)
        return
    done = await chat.go_on(turn.run)
    chat.end(turn, done.run, done.code)


async def _to_undo(chat: Chat, rest: str) -> int:
    if rest:
        if not (rest.isascii() and rest.isdigit() and len(rest) < _DIGITS):
            wrong = Sentence("{text} is no number of a message", text=repr(rest))
            raise Misconfigured(wrong, hint=Sentence("/thread lists them"))
        return int(rest)
    await chat.thread.refresh()
    for each in reversed(chat.thread.history):
        ours = each.by.label == chat.session.by
        if ours and not each.undone and each.kind not in ("why", "review"):
            return each.number
    raise Refused(
        Sentence("there is nothing of yours to undo"),
        hint=Sentence("/undo NUMBER takes any message back"),
    )


async def _why(chat: Chat, rest: str) -> None:
    if not chat.thread.runs:
        raise Refused(
            Sentence("nothing was planned here yet"), hint=Sentence("say what should be done")
        )
    await chat.say(chat.session.own_text("why {about}?", about=rest).strip())


async def _plan(chat: Chat, _: str) -> None:
    """Shows the plan that waits for a decision and asks for it, else the newest plan."""
    runs = [run for run in await chat.runs() if run.plan is not None]
    waiting = [run for run in runs if isinstance(next_move(run), AwaitReview)]
    if waiting:
        await _run(chat, "/plan", waiting[0])
    elif runs:
        whole = await chat.session.smith.get(runs[0].id)
        chat.show("/plan", [*describe.run_lines(whole, chat.session)])
    else:
        raise Refused(Sentence("there is no plan yet"), hint=Sentence("say what should be done"))


async def _report(chat: Chat, rest: str) -> None:
    """Shows the whole report of a run that is over, the newest if none is named."""
    found = [run for run in await chat.runs() if run.status.over and run.id.startswith(rest)]
    if not found:
        none = Sentence("nothing is over yet")
        raise Refused(Sentence("no run {run} is over here", run=rest) if rest else none)
    text = to_markdown(await load_report(chat.session.smith.store, found[0].id), brief=True)
    if chat.as_json:
        chat.show("/report", text.rstrip().split("\n"))
    else:
        print_markdown(text)


async def _go(chat: Chat, rest: str) -> None:
    """Goes on with a run that was stopped, or asks again what it waits for."""
    found = [run for run in await chat.runs() if not run.status.over and run.id.startswith(rest)]
    if not found:
        none = Sentence("nothing waits in this thread")
        raise Refused(Sentence("there is no run {run}", run=rest) if rest else none)
    run = found[0]
    if next_move(run) == Paused():
        run = await chat.session.smith.resume(run.id, by=chat.session.by)
    await _run(chat, "/go", run)


async def _run(chat: Chat, name: str, run: Run) -> None:
    done = await chat.go_on(run)
    chat.code = done.code
    if chat.as_json:
        shown = describe.run_json(done.run, chat.session)
        print_line_json({"command": name, "run": shown, "exit": int(done.code)})


async def _runs(chat: Chat, _: str) -> None:
    chat.show("/runs", [*run_lines((await chat.runs())[::-1], chat.session)])


async def _thread(chat: Chat, _: str) -> None:
    runs, state = (await chat.runs())[::-1], chat.thread.state
    head = f"{safe(state.id)}  {clip(safe(state.title), 100)}"
    chat.show("/thread", [head, *state_lines(state, runs, chat.session)])


async def _new(chat: Chat, _: str) -> None:
    chat.session.say(*come_back(chat))
    chat.begin(await chat.session.smith.thread())
    chat.show("/new", [safe(chat.thread.id)])


def come_back(chat: Chat) -> list[str]:
    """Returns how to come back to a thread in which something was said."""
    if not chat.thread.state.last:
        return []
    lang = chat.session.args.lang
    chosen = ("--lang", lang) if lang else ()
    typed = chat.session.command("chat", "--thread", chat.thread.id, *chosen)
    return [Sentence("To come back to this conversation:"), f"  {safe(typed)}"]


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


def _main(args: argparse.Namespace) -> int | None:
    async def work(session: Session) -> int:
        thread = await open_thread(session, args.thread)
        as_json, args.json = args.json, False  # each turn prints its own
        chat = Chat(session, thread, options=request_options(session), as_json=as_json)
        return await _talk(chat, args.request)

    if args.jsonl:
        raise Misconfigured(
            Sentence("a chat prints no events"), hint=Sentence("--json prints each turn as JSON")
        )
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
        chat.session.tell(
            dim(
                chat.session.own_text(
                    "Say what you want. /help lists commands, Ctrl-C stops, Ctrl-D leaves."
                )
            )
        )
    code = await _take_lines(chat, editor, first or "")
    chat.session.tell(*come_back(chat))
    return chat.code if code is None else code


async def _take_lines(chat: Chat, editor: LineEditor, line: str | None) -> int | None:
    """Takes lines until the person leaves; returns the exit code, None for that of the last."""
    hit = False  # whether Ctrl-C was pressed, and nothing else since
    session, notice = chat.session, ""
    while True:
        try:
            if line:
                if not await _take(chat, line):
                    break
                hit = chat.code == Exit.INTERRUPTED
            shown, notice = notice, ""
            line, chat.prompts.typed = chat.prompts.typed, ""
            line = line or editor.read(
                session.own_text("you> "), notice=shown, drops=bool(chat.open)
            )
            hit = False
        except KeyboardInterrupt:
            if hit or not editor.asks:
                return Exit.INTERRUPTED
            hit, line = True, ""
            notice = f"\n{session.own_text('Ctrl-C again or Ctrl-D leaves.')}\n"
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


_REQUEST: Final = "[REQUEST]  the first message; more follow, line by line\n"
COMMAND = command(_REQUEST + THREAD + PLANNING + RUNNING, _main, **TYPED)
