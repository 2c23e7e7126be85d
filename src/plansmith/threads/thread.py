"""One thread: what was said in it, and what the next message does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from plansmith.engine.progress import spending
from plansmith.errors import Refused, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.run import RunStatus
from plansmith.plan.sentence import Sentence, in_language
from plansmith.plan.thread import (
    Judge,
    MessageKind,
    MessageRead,
    MessageSaid,
    MessageUndone,
    Reading,
    ReplyGiven,
    ThreadMessage,
    ThreadReply,
    ThreadState,
    open_messages,
)
from plansmith.planner.context.locales import locale_of
from plansmith.planner.request import PlanRequest
from plansmith.ports import Usage
from plansmith.threads.judging import judge
from plansmith.threads.reading import guess, read_by_rules
from plansmith.threads.situation import Situation, situation_of
from plansmith.threads.undoing import undo
from plansmith.threads.why import why

if TYPE_CHECKING:
    from plansmith.plan.run import Run
    from plansmith.threads.desk import ThreadDesk

_OTHERS_S: Final = 20.0  # how long another process may take to read a message before ours
_MOST_TEXT: Final = 100_000
PLANS: Final = frozenset({"request", "answer", "change"})


class Turn(NamedTuple):
    """What came of a message: a run, or an answer at once in `text`.

    `kind` is what the message was taken for, `judge` and `reason` say by whom and why; `undo`
    takes that back.
    """

    thread: str
    number: int
    kind: MessageKind
    run: Run | None = None
    text: str = ""
    judge: Judge = "rules"
    reason: str = ""


class Thread:
    """An ordered list of messages and runs with one owner.

    What it shows is as of the last `say`, `undo` or `refresh` here.
    """

    def __init__(self, desk: ThreadDesk, state: ThreadState) -> None:
        self._desk = desk
        self._runs = desk.runs
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
        found = await self._desk.book.read(self.id)
        self.state = found if found.last else self.state
        return self

    async def say(
        self, text: str, *, by: e.Who = "", key: str = "", plan: bool = True, **options: Any
    ) -> Turn:
        """Says something: a request, an answer, a change of a plan, or why.

        A plan is never approved this way. `key` is your own name for the message: said again, it
        does nothing more. With `plan=False` no plan is made yet: `plan` makes it. `options` are
        those of `Plansmith.plan`, for a new request.
        """
        who = e.actor(by)
        _check(text)
        PlanRequest(text, **options).options()  # a wrong one is told before anything is stored
        async with self._desk.lock(self.id):
            said = await self._store_message(text, who, key)
            for earlier in await self._left_before(said.number):
                await self._act(earlier, await self._read(earlier, {}), {})
            turn = await self._act(said, await self._read(said, options), options)
        return await self.plan(turn) if plan else turn

    async def plan(self, turn: Turn) -> Turn:
        """Makes or changes the plan that a message asked for; returns the run as it is then."""
        if turn.run is None or turn.kind not in PLANS:
            return turn
        said = self._message(turn.number)
        if turn.kind != "change":
            self.state = await self._desk.summarised(self.state, upto=turn.number)
            return self._turn(turn.number, await self._runs.planned(turn.run))
        if turn.run.status.over or await self._is_changed(said, turn.run):
            return turn
        run = await self._runs.editing.request_changes(turn.run.id, said.text, by=said.by)
        return self._turn(turn.number, run)

    async def undo(self, number: int, *, by: e.Who = "") -> Turn:
        """Takes back what a message was taken for; the run of the turn goes on in its place.

        Refused where something was changed because of it.
        """
        who = e.actor(by)
        async with self._desk.lock(self.id):
            await self.refresh()
            self._desk.require_owner(self.state, who)
            said = self.state.message(number)
            if said is None:
                raise Refused(f"the thread {self.id} has no message {number} to undo")
            if said.undone:
                raise Refused(f"message {number} was undone before")
            # One that nobody has read yet has done nothing: it is only left out.
            instead = await undo(said.reading, self._runs, by=who) if said.reading else None
            done = MessageUndone(message=number, run=instead.id if instead else "")
            self.state, _ = await self._desk.book.add(self.id, done, by=who)
        text = in_language(Sentence("thread.undone"), locale_of(said.text, ""))
        if instead is None:
            return Turn(self.id, number, "request", text=text)
        return self._turn(number, instead)._replace(text=text)

    async def _store_message(self, text: str, who: e.Actor, key: str) -> ThreadMessage:
        body = MessageSaid(text=text, key=key)
        while True:
            await self.refresh()
            self._desk.require_owner(self.state, who)
            known = [each for each in self.state.messages if key and each.key == key]
            if known:
                return known[0]
            opening = self._desk.opening(self.state, who)
            after = await self._desk.book.append(self.state, *opening, body, by=who)
            if after is not None:
                number = self.state.last + len(opening) + 1
                self.state = after
                return self._message(number)

    async def _left_before(self, number: int) -> list[ThreadMessage]:
        """Returns earlier messages that nobody has read or acted on, because a process died.

        Another process that is still at it gets time to finish.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_OTHERS_S):
                while self._unread(number):
                    await self._desk.book.store.wait_thread(self.id, after=self.state.last)
                    await self.refresh()
        last = [each for each in self.state.messages if each.number < number][-1:]
        begun = [each for each in last if each.kind == "request" and not each.undone]
        lost = [each for each in begun if not await self._runs.store.events(each.run)]
        return [*self._unread(number), *lost]

    def _unread(self, number: int) -> list[ThreadMessage]:
        return [each for each in open_messages(self.state) if each.number < number]

    async def _read(self, said: ThreadMessage, options: dict[str, Any]) -> Reading:
        """Decides what a message is for, and stores that before anything is done."""
        now = await situation_of(self.state.before(said.number), self._runs, by=said.by)
        while (message := self._message(said.number)).reading is None:
            found, usage = await self._judged(said, now, str(options.get("locale", "")))
            run = found.run or (self._runs.journals.new_id() if found.kind == "request" else "")
            body = MessageRead(
                message=said.number,
                kind=found.kind,
                run=run,
                question=found.question,
                value=found.value,
                judge=found.judge,
                reason=found.reason,
                **spending(usage),
            )
            after = await self._desk.book.append(self.state, body)
            if after is None:
                await self.refresh()
            else:
                self.state = after
        assert message.reading is not None  # noqa: S101
        return message.reading

    async def _judged(
        self, said: ThreadMessage, now: Situation, locale: str
    ) -> tuple[Reading, Usage]:
        certain = read_by_rules(said.text, now)
        if certain is not None:
            return certain, Usage()
        guessed = guess(said.text, now)
        if guessed.reading.kind == "why" and await self._why(said, now) is None:
            return Reading("request"), Usage()
        model = None if guessed.sure else self._runs.planner.judging_model
        if model is None:
            return guessed.reading, Usage()
        language = locale_of(said.text, locale)
        prompts = self._runs.planner.prompts
        judged = await judge(said.text, now, model=model, locale=language, prompts=prompts)
        return judged.reading or guessed.reading, judged.usage

    async def _why(self, said: ThreadMessage, now: Situation) -> ThreadReply | None:
        digests = await self._desk.memory.digests([run.id for run in now.runs])
        return why(said.text, digests)

    async def _act(self, said: ThreadMessage, reading: Reading, options: dict[str, Any]) -> Turn:
        """Does what a message was read as; what is done already is not done again."""
        match reading.kind:
            case "request":
                run = await self._create(said, reading, options)
            case "answer":
                run = await self._answer(said, reading)
            case "change":
                run = await self._runs.journals.get(reading.run)
            case "why" | "review":
                return await self._reply(said, reading)
        return self._turn(said.number, run)

    async def _create(self, said: ThreadMessage, reading: Reading, options: dict[str, Any]) -> Run:
        """Creates the run of a request; the same one if that was begun before."""
        place = {"thread": self.id, "message": said.number}
        request = PlanRequest(said.text, **options | place)
        with suppress(StaleWriter):
            await self._runs.create(
                said.text,
                options=request.options(),
                locale=request.locale,
                run_id=reading.run,
                by=said.by,
            )
        return await self._runs.journals.get(reading.run)

    async def _answer(self, said: ThreadMessage, reading: Reading) -> Run:
        run = await self._runs.journals.get(reading.run)
        if reading.question not in run.questions:
            return run
        try:
            return await self._runs.answer(reading.run, reading.question, reading.value, by=said.by)
        except StaleDecision:
            return await self._runs.journals.get(reading.run)

    async def _is_changed(self, said: ThreadMessage, run: Run) -> bool:
        """Tells whether the change that a message asks for was asked for already."""
        events = await self._runs.store.events(run.id)
        return any(
            isinstance(each.body, e.ChangesAsked)
            and each.body.text == said.text
            and each.at >= said.at
            for each in events
        )

    async def _reply(self, said: ThreadMessage, reading: Reading) -> Turn:
        """Answers at once: why something is so, or that a message approves nothing."""
        if said.reply is None:
            now = await situation_of(self.state.before(said.number), self._runs, by=said.by)
            if reading.kind == "why":
                found = await self._why(said, now) or ThreadReply(Sentence("thread.not_known"))
            else:
                found = _not_by_message(reading, now)
            body = ReplyGiven(
                message=said.number, text=found.text, run=found.run or reading.run, step=found.step
            )
            self.state, _ = await self._desk.book.add(self.id, body)
        reply = self._message(said.number).reply
        about = reply.run if reply is not None else reading.run
        run = await self._runs.journals.get(about) if about else None
        return self._turn(said.number, run)

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
        assert found is not None  # noqa: S101
        return found


def _check(text: str) -> None:
    if not text.strip():
        raise Refused("the message is empty", hint="say what should be done")
    if len(text) > _MOST_TEXT:
        hint = "put long texts into a file of the folder, and name the file"
        raise Refused(f"the message is longer than {_MOST_TEXT:,} characters", hint=hint)


def _not_by_message(reading: Reading, now: Situation) -> ThreadReply:
    """Says how to decide what no message decides."""
    if reading.question:
        waiting = [*now.decisions, *now.questions]
        asked = next((each for each in waiting if each.question.question == reading.question), None)
        text = asked.question.text if asked else reading.question
        name = reading.question
        said = Sentence("thread.answer_there", question=text, run=reading.run, name=name)
        return ThreadReply(said, reading.run)
    return ThreadReply(Sentence("thread.approve_there", run=reading.run), reading.run)
