"""One thread: what was said in it, what the next message does, and how that is taken back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple
from weakref import WeakValueDictionary

from plansmith.engine.budget import spending
from plansmith.errors import PlansmithError, Refused, RunBusy, StaleDecision, StaleWriter
from plansmith.plan import events as e
from plansmith.plan.ids import root_of
from plansmith.plan.run import Run, RunStatus, StepStatus
from plansmith.plan.run_options import NO_OPTIONS, OWN_REQUEST, Origin, read_options
from plansmith.plan.sentence import Sentence, in_language
from plansmith.ports import Message, Usage
from plansmith.runs.decisions import ONLY_PERSONS
from plansmith.runs.editing import versions
from plansmith.runs.intake import NewRun
from plansmith.runs.service import RunService
from plansmith.text import SURROGATES
from plansmith_planner.context.history import summarise
from plansmith_planner.context.token_budget import rough_count
from plansmith_planner.language.locales import locale_of
from plansmith_planner.model_planner import ModelPlanner
from plansmith_planner.threads import entries as t
from plansmith_planner.threads import reading as r
from plansmith_planner.threads.memory import ThreadMemory, why

MAX_LENGTH: Final = 100_000
_KEPT_WHOLE: Final = 6  # messages; older ones are summarised when there is no room for them
_OTHERS_S: Final = 20.0  # how long another process may take to read a message before ours
_PLANS: Final = frozenset({"request", "answer", "change"})
_PUT_RIGHT: Final = Sentence("start a new request that puts it right")
_TAKEN_BACK: Final = Sentence("The message was taken back.")
_NOTHING_YET: Final = frozenset({StepStatus.WAITING, StepStatus.READY, StepStatus.SKIPPED})

# Creates the run of a request: under the id that its message names, and for that message.
MakeRun = Callable[[t.ThreadMessage], Awaitable[Run]]


class Turn(NamedTuple):
    """What came of a message: a run, or an answer at once in `text`.

    `kind` is what the message was taken for, `judge` and `reason` say by whom and why; `undo`
    takes that back. `earlier` are messages that a process left behind when it died: they were
    read before this one, and may need `plan`.
    """

    thread: str
    number: int
    kind: t.MessageKind
    run: Run | None = None
    text: str = ""
    judge: t.Judge = "rules"
    reason: str = ""
    earlier: tuple[Turn, ...] = ()


class ThreadBackend:
    """What all threads of a Plansmith share: store, memory, one message at a time, their owners."""

    def __init__(self, *, runs: RunService) -> None:
        self.runs = runs
        self.memory = ThreadMemory(runs.journals)
        self.store = self.memory.store
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def planner(self) -> ModelPlanner | None:
        """The planner, if it has models that can read messages."""
        planner = self.runs.planning.planner
        return planner if isinstance(planner, ModelPlanner) else None

    def lock(self, thread: str) -> asyncio.Lock:
        """Returns what lets one message of a thread be read at a time in this process."""
        return self._locks.setdefault(thread, asyncio.Lock())

    def require_owner(self, state: t.ThreadState, who: e.Actor) -> None:
        """Refuses a program that did not open the thread; persons share theirs."""
        begun = state.last or state.runs
        if begun and who.kind != "person" and state.owner != who.label:
            hint = Sentence("begin a conversation of your own")
            message = Sentence("the thread {thread} belongs to somebody else", thread=state.id)
            raise Refused(message, hint=hint)

    async def present(self, state: t.ThreadState) -> t.ThreadState:
        """Returns a thread as it is now; one of which nothing is stored yet, as it was."""
        found = await self.store.read(state.id)
        return found if found.last or state.last else state

    async def add_message(
        self,
        state: t.ThreadState,
        body: t.MessageAdded,
        who: e.Actor,
        more: Callable[[int], Sequence[t.AnyThreadBody]] = lambda _: (),
    ) -> tuple[t.ThreadState, int]:
        """Stores a message, and `more` given its number; one whose key is known stays as it is."""
        while True:  # nothing is stored after a state that is not the last
            self.require_owner(state, who)
            known = [each for each in state.messages if body.key and each.key == body.key]
            if known and known[0].text != body.text:
                hint = Sentence("use a key of its own for every message")
                raise Refused(Sentence("another message of this thread has this key"), hint=hint)
            if known:
                return state, known[0].number
            opening: list[t.ThreadOpened] = []
            if not state.last:
                # A thread of one run is stored with its first message.
                adopts, folder = "".join(state.runs[:1]), self.runs.journals.recorded_folder
                title = t.short_title(state.title) if adopts else ""
                who_opens = {"owner": state.owner or who.label, "title": title}
                opening = [t.ThreadOpened(**who_opens, folder=folder, adopts=adopts)]
            number = state.last + len(opening) + 1
            after = await self.store.append(state, *opening, body, *more(number), by=who)
            if after is not None:
                return after, number
            state = await self.present(state)

    async def summarised(self, state: t.ThreadState, *, upto: int) -> t.ThreadState:
        """Has a model shorten what no longer fits, once; returns the thread with the summary."""
        before, planner = state.before(upto), self.planner
        done = before.summary.upto if before.summary else 0
        older = [each.number for each in before.messages if each.number > done][:-_KEPT_WHOLE]
        model = planner.judging_model if planner else None
        if planner is None or model is None or not older or (done and len(older) < _KEPT_WHOLE):
            return state
        whole = "\n".join(each.text for each in await self.memory.conversation(before))
        if rough_count(whole) <= planner.settings.context_tokens // 3:
            return state
        made = await summarise(
            await self.memory.conversation(before.before(older[-1] + 1)),
            words=planner.settings.context_tokens // 12,
            model=model,
            clock=self.runs.clock,
            prompts=planner.settings.prompts,
        )
        if made is None:
            return state
        text, spent = made.text.strip(), spending(made.usage)
        body = t.ThreadSummarised(upto=older[-1], text=text, model=model.name, **spent)
        return await self.store.add(state.id, body)


class Thread:
    """An ordered list of messages and runs with one owner.

    What it shows is as of the last `say`, `undo` or `refresh` here.
    """

    def __init__(self, threads: ThreadBackend, state: t.ThreadState) -> None:
        self._threads = threads
        self._runs = threads.runs
        self.state = state

    @property
    def id(self) -> str:
        """The id of the thread."""
        return self.state.id

    @property
    def history(self) -> Sequence[t.ThreadMessage]:
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
        return await self._threads.memory.conversation(self.state)

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
        who, body = e.actor(by), _message_added(text, options, key=key, origin=origin)
        # Before its turn comes: it may wait for others, and their runs may ask meanwhile.
        state = await self._threads.present(self.state)
        body = body.replace(asked=(await r.situation_of(state, self._runs, by=who)).asked)
        async with self._threads.lock(self.id):
            self.state, number = await self._threads.add_message(state, body, who)
            message = self._message(number)
            if message.undone:  # the same key again
                return await self._undone(message)
            earlier: list[Turn] = []
            for each in await self._left_before(message.number):
                with suppress(PlansmithError):  # the reply says why, or it is tried again
                    earlier.append(await self._act(each, await self._read(each)))
            turn = await self._act(message, await self._read(message))
            turn = turn._replace(earlier=tuple(earlier))
        if not plan:
            return turn
        finished = [await self.plan_left(each) for each in earlier]
        return (await self.plan(turn))._replace(earlier=tuple(finished))

    async def in_turn(self, text: str, *, by: e.Who = "") -> t.MessageRead:
        """Reads the next message where it answers whatever was asked last, if anything was."""
        await self.refresh()
        return r.in_turn(text, await r.situation_of(self.state, self._runs, by=e.actor(by)))

    async def record(
        self,
        text: str,
        reading: t.MessageRead,
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
        body = _message_added(text, options, origin=origin)
        if reading.kind == "request" and not (reading.run or reply):
            reading = reading.replace(run=self._runs.journals.new_id())
        async with self._threads.lock(self.id):
            if reading.kind == "answer":
                run, name = reading.run, reading.question
                key = r.open_question(await self._runs.journals.load_verified(run), name)
                if not key:
                    none = Sentence("run {run} has no open question '{name}'", run=run, name=name)
                    raise Refused(none)
                body = body.replace(asked=(key,))

            def more(number: int) -> list[t.AnyThreadBody]:
                read = reading.replace(message=number)
                return [read, t.ReplyGiven(reply, message=number)] if reply else [read]

            added = await self._threads.add_message(self.state, body, e.actor(by), more)
            self.state, number = added
            message = self._message(number)
            if reply:
                return self._turn(number, None)
            if make is not None:
                return self._turn(number, await make(message))
            return await self._act(message, reading)

    async def reply(self, number: int, text: str) -> None:
        """Keeps what a program has said to a message, such as why there is no plan for it."""
        message = self._message(number)
        if message.reply is None or message.reply.text != text:
            body = t.ReplyGiven(message=number, text=text, run=message.run)
            self.state = await self._threads.store.add(self.id, body)

    async def plan(self, turn: Turn, *, triaged: bool = False) -> Turn:
        """Makes or changes the plan that a message asked for, without triage if it is `triaged`."""
        if turn.run is None or turn.kind not in _PLANS:
            return turn
        if turn.kind != "change":
            self.state = await self._threads.summarised(self.state, upto=turn.number)
            try:
                run = await self._runs.plan_if_next(turn.run, triaged=triaged)
            except StaleWriter:  # another client took the message for left behind, and was quicker
                run = (await self._runs.journals.load_verified(turn.run.id)).run
            return self._turn(turn.number, run)
        message, events = self._message(turn.number), await self._runs.store.events(turn.run.id)
        if turn.run.status.over or _change_asked(message, events) is not None:
            return turn
        run = await self._runs.editing.request_changes(turn.run.id, message.text, by=message.by)
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
        who, fields = e.actor(by), {"thread": self.id, "number": number}
        async with self._threads.lock(self.id):
            await self.refresh()
            self._threads.require_owner(self.state, who)
            message = self.state.message(number)
            if message is None:
                none = Sentence("the thread {thread} has no message {number} to undo", **fields)
                raise Refused(none)
            if message.undone:
                raise Refused(Sentence("message {number} was undone before", number=number))
            if who.kind != "person" and message.by.label != who.label:
                theirs = Sentence("message {number} is somebody else's", number=number)
                raise Refused(theirs, hint=ONLY_PERSONS)
            # One that nobody has read yet has done nothing: it is only left out.
            reading = message.reading
            instead = await _undo(message, reading, self._runs, who) if reading else None
            done = t.MessageUndone(message=number, run=instead.id if instead else "")
            self.state = await self._threads.store.add(self.id, done, by=who)
        if instead is not None and plan:
            await self._runs.plan_if_next(instead)
        return await self._undone(self._message(number))

    async def _undone(self, message: t.ThreadMessage) -> Turn:
        text = in_language(_TAKEN_BACK, locale_of(message.text, ""))
        run = await self._runs.journals.get(message.instead) if message.instead else None
        return Turn(self.id, message.number, message.kind or "request", run, text)

    async def _left_before(self, number: int) -> list[t.ThreadMessage]:
        """Returns earlier messages that nobody has read or acted on, because a process died.

        Another process that is still at it gets time to finish.
        """

        def unread() -> dict[int, t.ThreadMessage]:
            found = t.open_messages(self.state)
            return {each.number: each for each in found if each.number < number}

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

    async def _is_lost(self, message: t.ThreadMessage, reading: t.MessageRead) -> bool:
        """Tells whether nothing was done about a message that was read."""
        if not reading.run or message.reply is not None or reading.kind not in _PLANS:
            return False
        events = await self._runs.store.events(reading.run)
        if reading.kind == "request":
            # One that was deleted since belongs to no thread.
            return not events and await self._threads.store.thread_of(reading.run) == self.id
        if not events:
            return False
        journal = await self._runs.journals.load_verified(reading.run)
        if reading.kind == "answer":
            return r.open_question(journal, reading.question) in message.asked
        return not journal.run.status.over and _change_asked(message, events) is None

    async def _read(self, message: t.ThreadMessage) -> t.MessageRead:
        """Decides what a message is for, and stores that before anything is done."""
        now = await self._situation(message)
        while (reading := self._message(message.number).reading) is None:
            found, usage = await self._judged(message, now)
            run = found.run or (self._runs.journals.new_id() if found.kind == "request" else "")
            body = found.replace(run=run, message=message.number, **spending(usage))
            after = await self._threads.store.append(self.state, body)
            self.state = after or await self._threads.present(self.state)
        return reading

    async def _judged(
        self, message: t.ThreadMessage, now: r.Situation
    ) -> tuple[t.MessageRead, Usage]:
        certain = r.read_by_rules(message.text, now)
        if certain is not None:
            return certain, Usage()
        guessed, sure = r.guess(message.text, now)
        if guessed.kind == "why" and await self._why(message, now) is None:
            return t.MessageRead("request"), Usage()
        planner = None if sure else self._threads.planner
        model = planner.judging_model if planner else None
        if planner is None or model is None:
            return guessed, Usage()
        judged, usage = await r.judge(
            message.text,
            now,
            model=model,
            clock=self._runs.clock,
            locale=locale_of(message.text, message.options.locale),
            prompts=planner.settings.prompts,
        )
        return judged or guessed, usage

    async def _situation(self, message: t.ThreadMessage) -> r.Situation:
        """Returns what a message meets; it answers nothing that was asked after it was said."""
        now = await r.situation_of(self.state.before(message.number), self._runs, by=message.by)
        return now.seen_with(message.asked)

    async def _why(self, message: t.ThreadMessage, now: r.Situation) -> t.ReplyGiven | None:
        return why(message.text, await self._threads.memory.digests([run.id for run in now.runs]))

    async def _act(self, message: t.ThreadMessage, reading: t.MessageRead) -> Turn:
        """Does what a message was read as; what is done already is not done again.

        What is refused, such as an answer that is none of the options, is said in its reply, too.
        """
        about = reading.run
        try:
            if reading.kind == "request":
                new = NewRun(
                    message.text,
                    options=message.options.replace(thread=self.id, message=message.number),
                    locale=message.options.locale,
                    run_id=reading.run,
                    origin=message.origin,
                    by=message.by,
                )
                with suppress(StaleWriter):  # it was begun before
                    await self._runs.create(new)
            elif reading.kind == "answer":
                journal = await self._runs.journals.load_verified(reading.run)
                if r.open_question(journal, reading.question) in message.asked:
                    given = reading.question, reading.value
                    with suppress(StaleDecision):
                        await self._runs.answer(reading.run, *given, by=message.by)
            elif reading.kind in ("why", "review"):
                about = await self._reply(message, reading)
            run = await self._runs.journals.get(about) if about else None
        except Refused as refused:
            await self.reply(message.number, str(refused))
            raise
        return self._turn(message.number, run)

    async def _reply(self, message: t.ThreadMessage, reading: t.MessageRead) -> str:
        """Answers why something is so, or that a message approves nothing; returns the run."""
        if message.reply is None:
            now = await self._situation(message)
            if reading.kind == "review":
                found = t.ReplyGiven(r.not_by_message(reading, now), reading.run)
            else:
                none = t.ReplyGiven(Sentence("Nothing in the journal tells why."))
                found = await self._why(message, now) or none
            body = found.replace(run=found.run or reading.run, message=message.number)
            self.state = await self._threads.store.add(self.id, body)
        reply = self._message(message.number).reply
        return reply.run if reply is not None else reading.run

    def _turn(self, number: int, run: Run | None) -> Turn:
        message = self._message(number)
        reading = message.reading
        assert reading is not None  # noqa: S101
        text = ""
        if message.reply is not None:
            text = in_language(message.reply.text, locale_of(message.text, ""))
        elif run is not None and run.status is RunStatus.ANSWERED:
            text = run.report
        return Turn(self.id, number, reading.kind, run, text, reading.judge, reading.reason)

    def _message(self, number: int) -> t.ThreadMessage:
        found = self.state.message(number)
        if found is not None:
            return found
        raise Refused(
            Sentence("the thread {thread} was deleted meanwhile: begin another one", thread=self.id)
        )


def _message_added(
    text: str, options: Mapping[str, Any], *, key: str = "", origin: Origin | None = None
) -> t.MessageAdded:
    """Returns a message with the options of `Plansmith.plan`; refuses one that is no message."""
    if not text.strip():
        raise Refused(Sentence("the message is empty"), hint=Sentence("say what should be done"))
    if len(text) > MAX_LENGTH:
        long = Sentence("the message is longer than {most} characters", most=MAX_LENGTH)
        hint = Sentence("put long texts into a file of the folder, and name the file")
        raise Refused(long, hint=hint)
    if SURROGATES.search(text):
        hint = Sentence("send it as Unicode text")
        raise Refused(Sentence("the message holds half a character (a lone surrogate)"), hint=hint)
    given = read_options(options)
    kept = NO_OPTIONS if given == NO_OPTIONS else given
    return t.MessageAdded(text=text, key=key, options=kept, origin=origin or OWN_REQUEST)


def _change_asked(message: t.ThreadMessage, events: Sequence[e.Event]) -> e.Event | None:
    for each in events:
        asked = each.body.text if isinstance(each.body, e.ChangesAsked) else None
        if asked == message.text and each.at >= message.at:
            return each
    return None


async def _undo(
    message: t.ThreadMessage, reading: t.MessageRead, runs: RunService, by: e.Actor
) -> Run:
    """Undoes the effect of a message on its run; returns the run that goes on in its place.

    A request is cancelled. A change goes back to the plan before, if no other plan came after it.
    An answer is taken back in a new run that asks again and keeps what the answer has nothing to
    do with.
    """
    if reading.kind in ("why", "review") or not reading.run:
        raise Refused(Sentence("this message changed nothing: there is nothing to undo"))
    if reading.kind == "change":
        return await _change_back(message, reading.run, runs, by)
    if reading.kind == "answer":
        return await _ask_again(reading, runs, by)
    run = await runs.journals.get(reading.run)
    acted = _first_acting(run)
    if acted:
        hint = Sentence("plansmith runs cancel {run} stops what is left of it", run=run.id)
        refusal = Sentence("{acted} has run since: the request cannot be taken back", acted=acted)
        raise Refused(refusal, hint=hint)
    if run.status is RunStatus.CANCELLED:
        return run  # perhaps by a process that died before it had noted that
    if run.status.over:
        refusal = Sentence("run {run} is over: {status}", run=run.id, status=run.status)
        raise Refused(refusal, hint=_PUT_RIGHT)
    return await runs.cancel(run.id, by=by, reason=_TAKEN_BACK)


async def _ask_again(reading: t.MessageRead, runs: RunService, by: e.Actor) -> Run:
    journal = await runs.journals.load_to_write(reading.run)
    run, bodies = journal.run, [event.body for event in journal.events]
    asked = [each for each in bodies if isinstance(each, e.QuestionAsked)]
    step = next((each.step for each in asked if each.question == reading.question), None)
    acted = _first_acting(run)
    if acted:
        message = Sentence("{acted} has run since: the answer cannot be taken back", acted=acted)
        raise Refused(message, hint=_PUT_RIGHT)
    if not run.status.over:
        await runs.cancel(run.id, by=by, reason=_TAKEN_BACK)
    if step is None:
        old = await runs.journals.get(run.id)
        return await runs.journals.whole(await runs.editing.ask_again(old, by=by))
    return await runs.editing.retry(run.id, from_step=root_of(step), by=by)


async def _change_back(message: t.ThreadMessage, run_id: str, runs: RunService, by: e.Actor) -> Run:
    journal = await runs.journals.load_to_write(run_id)
    run, asked = journal.run, _change_asked(message, journal.events)
    later = [event for event in journal.events if asked and event.number > asked.number]
    made = next((each.number for each in later if isinstance(each.body, e.PlanProposed)), 0)
    if run.change_asked and later == []:
        hint = Sentence("undo it once the plan is made")
        raise Refused(Sentence("run {run} is being changed", run=run_id), hint=hint)
    found = versions(journal.events)
    if not made or (found.after is not None and found.after.number == made):
        return await runs.journals.whole(journal)  # no plan came of it, or it was undone by hand
    if found.current != made:
        hint = Sentence("take back what came after it first, or say what you want instead")
        raise Refused(Sentence("run {run} has got another plan since", run=run_id), hint=hint)
    begun = [each.body.step for each in later if isinstance(each.body, e.StepStarted)]
    acted = _first_acting(run, begun)
    if acted:
        refusal = Sentence("{acted} has run since: the change cannot be taken back", acted=acted)
        raise Refused(refusal, hint=_PUT_RIGHT)
    return await runs.editing.undo(run_id, by=by)


def _first_acting(run: Run, begun: Sequence[str] | None = None) -> str:
    """Returns a step that changes something and has begun; empty if none has."""
    if begun is None:
        begun = [name for name, state in run.steps.items() if state.status not in _NOTHING_YET]
    return next((name for name in begun if root_of(name) in run.acts), "")
