"""A conversation at a terminal or over a pipe: what is said, what comes of it, what is shown."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from plansmith.cli.commands.schedule_view import offer_schedule
from plansmith.cli.describe import waiting_lines
from plansmith.cli.ending import print_end
from plansmith.cli.exit_codes import Exit, exit_for
from plansmith.cli.interactive import (
    Executed,
    Stop,
    is_new,
    run_to_rest,
    show_plan,
    stoppable,
)
from plansmith.cli.reviewing import Prompts
from plansmith.cli.threads import (
    is_said,
    message_lines,
    run_lines,
    runs_of,
    taken_line,
    turn_with_run,
    waiting_in,
    withdraw,
)
from plansmith.cli.ui.output import dim, print_line_json, print_prose
from plansmith.cli.ui.words import error_text
from plansmith.text import clip, safe, visible

if TYPE_CHECKING:
    from plansmith.cli.questions import Choice
    from plansmith.cli.session import Session
    from plansmith.errors import PlansmithError
    from plansmith.plan.data import Json
    from plansmith.plan.events import QuestionAsked
    from plansmith.plan.run import Run
    from plansmith.threads.thread import Thread
    from plansmith.threads.turn import Turn

_SHOWN_AGAIN = 4


class ChatPrompts(Prompts):
    """Asks for decisions at prompts; what is typed there and decides nothing is a message."""

    approve = "chat_approve"
    asks_again = False  # any other text is a message

    def __init__(self) -> None:
        self.typed = ""

    def leaves(self, asked: QuestionAsked) -> bool:
        """Tells whether the next message may answer the question."""
        return is_said(asked)

    def put_off(self, session: Session, run: Run, choice: Choice) -> None:
        """Keeps what was typed as the next message."""
        self.typed = choice.text
        if not choice.text:
            super().put_off(session, run, choice)

    def take(self) -> str:
        """Returns what was typed at a prompt and decided nothing, once."""
        typed, self.typed = self.typed, ""
        return typed


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

    async def look(self) -> None:
        """Reads which runs of the thread are not over."""
        self.open = [
            run for run in await runs_of(self.session, self.thread.state) if not run.status.over
        ]

    async def show_last(self) -> None:
        """Shows the last messages and what waits, for a person who comes back."""
        await self.look()
        state, runs = self.thread.state, await runs_of(self.session, self.thread.state)
        if not state.messages and not runs:
            return
        self.session.say(clip(safe(state.title), 100))
        self.session.say(*message_lines(state.messages[-_SHOWN_AGAIN:], runs, self.session))
        if not state.messages:
            self.session.say(*run_lines(runs, self.session))
        self.session.say(*waiting_in(self.open, self.session))

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
            self.tell(Exit.INTERRUPTED, session.words["chat_withdrawn"])
            return
        self._show_others(turn)
        taken = await taken_line(session, thread, turn, undo="/undo")
        if taken:
            session.tell(dim(taken))
        with session.planning():
            for each in turn.earlier:
                await stoppable(thread.plan_left(each))
            planned = await stoppable(thread.plan(turn))
        if planned is None:
            self._show_stopped(turn)
        else:
            await self.come_of(planned)

    async def come_of(self, turn: Turn) -> None:
        """Shows the answer that a message got at once, and runs the run it is about."""
        if turn.kind in ("why", "review") and not self.as_json:
            print_prose(self._told(turn))
            sys.stdout.flush()
        run, code = turn.run, Exit.OK
        if turn.kind == "why" and self.session.has_person:
            self.session.say(*waiting_in(self.open[-1:], self.session))
        elif run is not None and turn.kind != "why":
            rest = await self.go_on(run, fresh=turn.kind == "request")
            run, code = rest.run, rest.code
        self.end(turn, run, code)

    def _told(self, turn: Turn) -> str:
        """Returns the answer to a message; where the prompt to decide at follows, it says so."""
        asked = turn.run.questions.values() if turn.run is not None else ()
        here = turn.kind == "review" and self.session.has_person and not any(map(is_said, asked))
        return self.session.words["chat_decide"] if here else turn.text

    def end(self, turn: Turn, run: Run | None, code: int) -> None:
        """Notes how a message ended; prints it as JSON where that is wanted."""
        self.code = code
        if self.as_json:
            print_line_json(turn_with_run(turn, run, self.session, code))

    async def go_on(self, run: Run, *, fresh: bool = False) -> Executed:
        """Runs a run as far as it goes now, asks the person, and shows the result."""
        session = self.session
        smith, words = session.smith, session.words
        session.use_team_of(run)
        session.use_language_of(run)
        try:
            if is_new(run) and await offer_schedule(session, run) is not None:
                return Executed(await session.smith.get(run.id), Stop.ITSELF)
            show_plan(session, run)
            rest = await run_to_rest(session, run.id, fresh=fresh, prompts=self.prompts)
            await self._show_rest(rest)
            return rest
        finally:
            session.smith, session.words = smith, words

    def tell(self, code: int, *lines: str) -> None:
        """Shows what became of a line that made no turn."""
        self.code = code
        if self.as_json:
            told: dict[str, Json] = {"thread": self.thread.id, "text": "\n".join(lines)}
            print_line_json(told | {"exit": int(code)})
        else:
            self.session.say(*lines)

    def failed(self, error: PlansmithError) -> None:
        """Shows why a line could not be taken; the conversation goes on."""
        code = exit_for(error)
        self.code = code
        shown = error_text(error, self.session.words["locale"])
        sys.stderr.write(visible(f"plansmith: {shown}\n"))
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
            if each.undone or not since < each.number < turn.number:
                continue
            self.session.say(dim(f"{safe(each.by.label)}: {clip(safe(each.text), 200)}"))
        left = [each.run for each in turn.earlier if each.run is not None]
        self.session.say(*waiting_in(left, self.session))

    def _show_stopped(self, turn: Turn) -> None:
        """Says that the request is kept although its planning was stopped."""
        words = self.session.words
        if turn.run is not None:
            self.session.say(words["chat_stopped"].format(run=turn.run.id))
        self.end(turn, turn.run, Exit.INTERRUPTED)

    async def _show_rest(self, rest: Executed) -> None:
        session, run = self.session, rest.run
        await print_end(session, run, silent=self.as_json)
        sys.stdout.flush()
        if rest.stop is Stop.DETACHED and not run.status.over:
            session.say(session.words["chat_stopped"].format(run=run.id))
        elif run.status.over or self.prompts.typed:
            return
        elif session.has_person:
            session.say(*waiting_in([run], session))
        else:
            session.say(*waiting_lines(run, session))
