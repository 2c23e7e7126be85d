"""One thread: what was said in it, and what the next message does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from plansmith.engine.answers import ONLY_PERSONS
from plansmith.engine.progress import spending
from plansmith.errors import PlansmithError, Refused, RunBusy, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.run import RunStatus
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.thread import (
    AnyThreadBody,
    MessageRead,
    MessageUndone,
    Reading,
    ReplyGiven,
    ThreadMessage,
    ThreadReply,
    ThreadState,
    open_messages,
)
from plansmith.ports import Usage
from plansmith.runs.intake import NewRun
from plansmith_planner.language.locales import locale_of
from plansmith_planner.threads import reading as r
from plansmith_planner.threads.turn import PLANS, Turn, message_added, not_by_message
from plansmith_planner.threads.undoing import change_asked, undo
from plansmith_planner.threads.why import why

if TYPE_CHECKING:
    from plansmith.plan.run import Run
    from plansmith.plan.run_options import Origin
    from plansmith.ports import Message
    from plansmith_planner.threads.backend import ThreadBackend

_OTHERS_S: Final = 20.0  # how long another process may take to read a message before ours

# Creates the run of a request: under the id that its message names, and for that message.
MakeRun = Callable[[ThreadMessage], Awaitable["Run"]]


class Thread:
    """An ordered list of messages and runs with one owner.

    What it shows is as of the last `say`, `undo` or `refresh` here.
    """

    def __init__(self, threads: ThreadBackend, state: ThreadState) -> None:
        self._threads = threads
        self._runs = threads.runs
        self.state = state

    @property
    def id(self) -> str:
        """The id of the thread."""
        return self.state.id

    @property
    def history(self) -> Sequence[ThreadMessage]:
        """The messages, oldest first."""
        return self.state.messages

    @property
    def runs(self) -> Sequence[str]:
        """The ids of the runs, oldest first."""
        return self.state.runs

    async def refresh(self) -> Thread:
        """Reads what others have said meanwhile; returns the thread."""
        self.state = await self._threads.present(self.state)
        return self

    async def said(self) -> Sequence[Message]:
        """Returns the conversation as a planner reads it."""
        return await self._threads.memory.said(self.state)

    async def say(
        self,
        text: str,
        *,
        by: e.Who = "",
        key: str = "",
        plan: bool = True,
        origin: Origin | None = None,
        **options: Any,
    ) -> Turn:
        """Says something: a request, an answer, a change of a plan, or why; it approves nothing.

        Args:
            text: The message.
            by: Who says it.
            key: Your own name for the message; said again, it does nothing more.
            plan: Whether a plan is made at once; if not, `thread.plan(turn)` makes it.
            origin: Where the run of a new request comes from.
            **options: Those of `Plansmith.plan`, for a new request.
        """
        who, body = e.actor(by), message_added(text, options, key=key, origin=origin)
        # Before its turn comes: it may wait for others, and their runs may ask meanwhile.
        state = await self._threads.present(self.state)
        body = body.replace(asked=(await r.situation_of(state, self._runs, by=who)).asked)
        async with self._threads.lock(self.id):
            self.state, number = await self._threads.add_message(state, body, who)
            said = self._message(number)
            if said.undone:  # the same key again
                return await self._undone(said)
            earlier: list[Turn] = []
            for each in await self._left_before(said.number):
                with suppress(PlansmithError):  # the reply says why, or it is tried again
                    earlier.append(await self._act(each, await self._read(each)))
            turn = await self._act(said, await self._read(said))
            turn = turn._replace(earlier=tuple(earlier))
        if not plan:
            return turn
        finished = [await self.plan_left(each) for each in earlier]
        return (await self.plan(turn))._replace(earlier=tuple(finished))

    async def in_turn(self, text: str, *, by: e.Who = "") -> Reading:
        """Reads the next message where it answers whatever was asked last, if anything was."""
        await self.refresh()
        return r.in_turn(text, await r.situation_of(self.state, self._runs, by=e.actor(by)))

    async def record(
        self,
        text: str,
        reading: Reading,
        *,
        by: e.Who = "",
        reply: str = "",
        make: MakeRun | None = None,
        origin: Origin | None = None,
        **options: Any,
    ) -> Turn:
        """Keeps a message that the program has read itself, and acts on it; `plan` plans.

        With a `reply` that is its answer, and nothing else is done. `make` creates the run of a
        request in a way of its own; `options` and `origin` are as for `say`.
        """
        body = message_added(text, options, origin=origin)
        if reading.kind == "request" and not (reading.run or reply):
            reading = reading._replace(run=self._runs.journals.new_id())
        async with self._threads.lock(self.id):
            if reading.kind == "answer":
                journal, name = await self._runs.journals.load(reading.run), reading.question
                key = r.open_question(journal, name)
                if not key:
                    raise Refused(
                        Sentence(
                            "run {run} has no open question '{name}'", run=journal.id, name=name
                        )
                    )
                body = body.replace(asked=(key,))

            def more(number: int) -> list[AnyThreadBody]:
                read = MessageRead(message=number, **reading._asdict())
                return [read, ReplyGiven(message=number, text=reply)] if reply else [read]

            self.state, number = await self._threads.add_message(
                self.state, body, e.actor(by), more
            )
            said = self._message(number)
            if reply:
                return self._turn(number, None)
            if make is not None:
                return self._turn(number, await make(said))
            return await self._act(said, reading)

    async def reply(self, number: int, text: str) -> None:
        """Keeps what a program has said to a message, such as why there is no plan for it."""
        said = self._message(number)
        if said.reply is None or said.reply.text != text:
            body = ReplyGiven(message=number, text=text, run=said.run)
            self.state = await self._threads.store.add(self.id, body)

    async def plan(self, turn: Turn, *, triaged: bool = False) -> Turn:
        """Makes or changes the plan that a message asked for, without triage if it is `triaged`."""
        if turn.run is None or turn.kind not in PLANS:
            return turn
        if turn.kind != "change":
            self.state = await self._threads.summarised(self.state, upto=turn.number)
            try:
                run = await self._runs.planned(turn.run, triaged=triaged)
            except StaleWriter:  # another client took the message for left behind, and was quicker
                run = (await self._runs.journals.load(turn.run.id)).run
            return self._turn(turn.number, run)
        said, events = self._message(turn.number), await self._runs.store.events(turn.run.id)
        if turn.run.status.over or change_asked(said, events) is not None:
            return turn
        run = await self._runs.editing.request_changes(turn.run.id, said.text, by=said.by)
        return self._turn(turn.number, run)

    async def plan_left(self, turn: Turn) -> Turn:
        """Plans what a process left behind; what cannot be planned is said in its reply."""
        try:
            return await self.plan(turn)
        except (RunBusy, StaleWriter, StaleDecision):  # another process is at it
            return turn
        except Refused as refused:
            await self.reply(turn.number, str(refused))
            return self._turn(turn.number, turn.run)

    async def undo(self, number: int, *, by: e.Who = "", plan: bool = True) -> Turn:
        """Undoes what a message led to; the run of the turn goes on in its place.

        Args:
            number: The number of the message.
            by: Who acts.
            plan: Whether the request of that run is planned at once.

        Raises:
            Refused: Something was changed because of it, or it was undone before.
        """
        who = e.actor(by)
        async with self._threads.lock(self.id):
            await self.refresh()
            self._threads.require_owner(self.state, who)
            said = self.state.message(number)
            if said is None:
                none = Sentence(
                    "the thread {thread} has no message {number} to undo",
                    thread=self.id,
                    number=number,
                )
                raise Refused(none)
            if said.undone:
                raise Refused(Sentence("message {number} was undone before", number=number))
            if who.kind != "person" and said.by.label != who.label:
                theirs = Sentence("message {number} is somebody else's", number=number)
                raise Refused(theirs, hint=ONLY_PERSONS)
            # One that nobody has read yet has done nothing: it is only left out.
            instead = await undo(said, said.reading, self._runs, by=who) if said.reading else None
            done = MessageUndone(message=number, run=instead.id if instead else "")
            self.state = await self._threads.store.add(self.id, done, by=who)
        if instead is not None and plan:
            await self._runs.planned(instead)
        return await self._undone(self._message(number))

    async def _undone(self, said: ThreadMessage) -> Turn:
        """Returns the turn of a message that was taken back: the run in its place."""
        text = in_language(Sentence("The message was taken back."), locale_of(said.text, ""))
        run = await self._runs.journals.get(said.instead) if said.instead else None
        return Turn(self.id, said.number, said.kind or "request", run, text)

    async def _left_before(self, number: int) -> list[ThreadMessage]:
        """Returns earlier messages that nobody has read or acted on, because a process died.

        Another process that is still at it gets time to finish.
        """

        def unread() -> dict[int, ThreadMessage]:
            return {each.number: each for each in open_messages(self.state) if each.number < number}

        with suppress(TimeoutError):
            async with asyncio.timeout(_OTHERS_S):
                while unread():
                    await self._threads.store.wait_thread(self.id, after=self.state.last)
                    await self.refresh()
        left = unread()
        before = [each for each in self.state.messages if each.number < number and not each.undone]
        for each in reversed(before):
            if each.reading is not None and not await self._is_lost(each, each.reading):
                break  # whoever did this one finished those before it
            left[each.number] = each
        return [left[number] for number in sorted(left)]

    async def _is_lost(self, said: ThreadMessage, reading: Reading) -> bool:
        """Tells whether nothing was done about a message that was read."""
        if not reading.run or said.reply is not None or reading.kind not in PLANS:
            return False
        events = await self._runs.store.events(reading.run)
        if reading.kind == "request":
            # One that was deleted since belongs to no thread.
            return not events and await self._threads.store.thread_of(reading.run) == self.id
        if not events:
            return False
        journal = await self._runs.journals.load(reading.run)
        if reading.kind == "answer":
            return r.open_question(journal, reading.question) in said.asked
        return not journal.run.status.over and change_asked(said, events) is None

    async def _read(self, said: ThreadMessage) -> Reading:
        """Decides what a message is for, and stores that before anything is done."""
        now = await self._situation(said)
        while (reading := self._message(said.number).reading) is None:
            found, usage = await self._judged(said, now)
            run = found.run or (self._runs.journals.new_id() if found.kind == "request" else "")
            read = found._replace(run=run)._asdict()
            body = MessageRead(message=said.number, **read, **spending(usage))
            after = await self._threads.store.append(self.state, body)
            self.state = after or await self._threads.present(self.state)
        return reading

    async def _judged(self, said: ThreadMessage, now: r.Situation) -> tuple[Reading, Usage]:
        certain = r.read_by_rules(said.text, now)
        if certain is not None:
            return certain, Usage()
        guessed = r.guess(said.text, now)
        if guessed.reading.kind == "why" and await self._why(said, now) is None:
            return Reading("request"), Usage()
        planner = None if guessed.sure else self._threads.planner
        model = planner.judging_model if planner else None
        if planner is None or model is None:
            return guessed.reading, Usage()
        judged, usage = await r.judge(
            said.text,
            now,
            model=model,
            clock=self._runs.clock,
            locale=locale_of(said.text, said.options.locale),
            prompts=planner.settings.prompts,
        )
        return judged or guessed.reading, usage

    async def _situation(self, said: ThreadMessage) -> r.Situation:
        """Returns what a message meets; it answers nothing that was asked after it was said."""
        now = await r.situation_of(self.state.before(said.number), self._runs, by=said.by)
        return now.seen_with(said.asked)

    async def _why(self, said: ThreadMessage, now: r.Situation) -> ThreadReply | None:
        return why(said.text, await self._threads.memory.digests([run.id for run in now.runs]))

    async def _act(self, said: ThreadMessage, reading: Reading) -> Turn:
        """Does what a message was read as; what is done already is not done again.

        What is refused, such as an answer that is none of the options, is said in its reply, too.
        """
        about = reading.run
        try:
            if reading.kind == "request":
                with suppress(StaleWriter):  # it was begun before
                    new = NewRun(
                        said.text,
                        options=said.options.replace(thread=self.id, message=said.number),
                        locale=said.options.locale,
                        run_id=reading.run,
                        origin=said.origin,
                        by=said.by,
                    )
                    await self._runs.create(new)
            elif reading.kind == "answer":
                journal = await self._runs.journals.load(reading.run)
                if r.open_question(journal, reading.question) in said.asked:
                    given = reading.question, reading.value
                    with suppress(StaleDecision):
                        await self._runs.answer(reading.run, *given, by=said.by)
            elif reading.kind in ("why", "review"):
                about = await self._reply(said, reading)
            run = await self._runs.journals.get(about) if about else None
        except Refused as refused:
            await self.reply(said.number, str(refused))
            raise
        return self._turn(said.number, run)

    async def _reply(self, said: ThreadMessage, reading: Reading) -> str:
        """Answers why something is so, or that a message approves nothing; returns the run."""
        if said.reply is None:
            now = await self._situation(said)
            if reading.kind == "review":
                found = not_by_message(reading, now)
            else:
                none = ThreadReply(Sentence("Nothing in the journal tells why."))
                found = await self._why(said, now) or none
            body = ReplyGiven(
                message=said.number, text=found.text, run=found.run or reading.run, step=found.step
            )
            self.state = await self._threads.store.add(self.id, body)
        reply = self._message(said.number).reply
        return reply.run if reply is not None else reading.run

    def _turn(self, number: int, run: Run | None) -> Turn:
        said = self._message(number)
        reading = said.reading
        assert reading is not None  # noqa: S101
        text = ""
        if said.reply is not None:
            text = in_language(said.reply.text, locale_of(said.text, ""))
        elif run is not None and run.status is RunStatus.ANSWERED:
            text = run.report
        return Turn(self.id, number, reading.kind, run, text, reading.judge, reading.reason)

    def _message(self, number: int) -> ThreadMessage:
        found = self.state.message(number)
        if found is None:
            gone = Sentence(
                "the thread {thread} was deleted meanwhile: begin another one", thread=self.id
            )
            raise Refused(gone)
        return found
