"""A thread: an ordered list of messages and runs with one owner, folded from its entries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec

from plansmith.errors import JournalDamaged
from plansmith.plan import event_body
from plansmith.plan.event_body import Count, FrozenStruct, JsonField, Moment, Positive, ShownField
from plansmith.plan.events import Actor
from plansmith.plan.run_options import NO_OPTIONS, OWN_REQUEST, Origin, RunOptions
from plansmith.plan.sentence import Sentence

# `review`: it sounds like an approval, which no message can give.
MessageKind = Literal["request", "answer", "change", "why", "review"]
Judge = Literal["person", "rules", "model"]
_TITLE: Final = 80


class ThreadBody(event_body.EventBody, frozen=True, tag_field="type", tag=event_body.type_name):
    """What happened in a thread; it is stored with its type in it."""


class ThreadOpened(ThreadBody, frozen=True, kw_only=True):
    """A thread begins; `adopts` is a run that was made without one and is its first."""

    owner: str = ""
    title: str = ""
    folder: str = ""
    adopts: str = ""


class MessageAdded(ThreadBody, frozen=True, kw_only=True):
    """Somebody said something; what it means is read afterwards.

    `key` is the client's own name for the message: one that is sent again is the same message.
    `options` and `origin` are those of the run, should it be a request: whoever creates it.
    `asked` names the questions that were open when it was said: it can answer no others.
    """

    text: str
    key: str = ""
    asked: tuple[str, ...] = ()
    options: RunOptions = NO_OPTIONS
    origin: Origin = OWN_REQUEST


class MessageRead(ThreadBody, frozen=True):
    """What a message was taken for, who judged that and why; stored before anything is done.

    A `request` makes the run `run`; an `answer` is the `value` for a `question` of it; a `change`
    asks for another plan of it; `why` asks about it. Only what is stored has the `message`.
    """

    kind: MessageKind
    run: str = ""
    question: str = ""
    value: JsonField = None
    judge: Judge = "rules"
    reason: ShownField = ""
    message: Count = 0
    tokens: Count = 0
    cost: str = ""


class ReplyGiven(ThreadBody, frozen=True):
    """A message was answered at once; `step` is the step of `run` that the answer is about."""

    text: ShownField
    run: str = ""
    step: str = ""
    message: Count = 0


class MessageUndone(ThreadBody, frozen=True, kw_only=True):
    """A person took back what a message was taken for; `run` goes on in its place."""

    message: Positive
    run: str = ""


class RunJoined(ThreadBody, frozen=True, kw_only=True):
    """A run of the thread was repeated or continued as another one, which stands for it now."""

    run: str
    message: Positive


class ThreadSummarised(ThreadBody, frozen=True, kw_only=True):
    """The messages up to `upto` in short; later requests read this instead of them."""

    upto: Positive
    text: str
    model: str = ""
    tokens: Count = 0
    cost: str = ""


_MessageBody = MessageRead | ReplyGiven | MessageUndone | RunJoined
AnyThreadBody = ThreadOpened | MessageAdded | _MessageBody | ThreadSummarised


class ThreadEntry(
    FrozenStruct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """One entry of a thread; they are numbered from 1."""

    thread: str
    number: Positive
    at: Moment
    by: Actor
    body: Annotated[AnyThreadBody, msgspec.Meta(title="body")]


_decoder: Final = msgspec.json.Decoder(ThreadEntry, dec_hook=event_body.read_field)


def entry_text(entry: ThreadEntry) -> str:
    """Returns an entry as JSON text, as stores keep it."""
    return event_body.encode_body(entry).decode()


def read_entry(text: str | bytes) -> ThreadEntry:
    """Reads what `entry_text` wrote; raises `JournalDamaged` if it is something else."""
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, ValueError) as error:
        raise JournalDamaged(
            Sentence("an entry of a thread cannot be read: {error}", error=error)
        ) from None


def runs_named(entry: ThreadEntry) -> str:
    """Returns the run that an entry adds to its thread, or an empty text."""
    body = entry.body
    if isinstance(body, ThreadOpened):
        return body.adopts
    if isinstance(body, MessageRead):
        return body.run if body.kind == "request" else ""
    return body.run if isinstance(body, MessageUndone | RunJoined) else ""


@dataclass(frozen=True, slots=True)
class ThreadMessage:
    """One message of a thread; `reading` is None as long as it is not decided what it means.

    `instead` is the run that stands for its run now: after an undo, or repeated or continued.
    """

    number: int
    at: datetime
    by: Actor
    text: str
    key: str = ""
    reading: MessageRead | None = None
    reply: ReplyGiven | None = None
    undone: bool = False
    instead: str = ""
    options: RunOptions = NO_OPTIONS
    origin: Origin = OWN_REQUEST
    asked: tuple[str, ...] = ()

    @property
    def kind(self) -> MessageKind | None:
        return self.reading.kind if self.reading else None

    @property
    def run(self) -> str:
        """The run that the message made, answered, changed or asked about."""
        return self.reading.run if self.reading else ""


@dataclass(frozen=True, slots=True)
class ThreadState:
    """A thread as of its entry `last`."""

    id: str
    owner: str = ""
    title: str = ""
    folder: str = ""
    last: int = 0
    messages: tuple[ThreadMessage, ...] = ()
    runs: tuple[str, ...] = ()
    adopted: str = ""
    summary: ThreadSummarised | None = None
    opened_at: datetime | None = None
    updated_at: datetime | None = None
    by_number: dict[int, int] = field(default_factory=dict[int, int], repr=False, compare=False)

    def message(self, number: int) -> ThreadMessage | None:
        at = self.by_number.get(number)
        return None if at is None else self.messages[at]

    def before(self, number: int) -> ThreadState:
        """Returns the thread as the message with this number found it."""
        earlier = tuple(each for each in self.messages if each.number < number)
        made = {self.adopted, *(each.run for each in earlier), *(each.instead for each in earlier)}
        known = tuple(run for run in self.runs if run in made)
        summary = self.summary if self.summary and self.summary.upto < number else None
        return replace(self, messages=earlier, runs=known, summary=summary)


def fold_thread(state: ThreadState, entries: Iterable[ThreadEntry]) -> ThreadState:
    """Returns the state after more entries; raises `JournalDamaged` if one is missing."""
    thread, runs, changes = state.id, dict.fromkeys(state.runs), dict[str, Any]()
    messages = {each.number: each for each in state.messages}
    last, opened_at, updated_at = state.last, state.opened_at, state.updated_at
    for entry in entries:
        last += 1
        if entry.number != last or entry.thread != thread:
            raise JournalDamaged(Sentence("journal.entry_missing", number=last, thread=thread))
        opened_at, updated_at = opened_at or entry.at, entry.at
        if run := runs_named(entry):
            runs[run] = None
        match entry.body:
            case ThreadOpened(owner=owner, title=title, folder=folder, adopts=adopted):
                changes |= {"owner": owner, "title": title, "folder": folder, "adopted": adopted}
            case ThreadSummarised() as summary:
                changes["summary"] = summary
            case MessageAdded(text=text) as body:
                message = ThreadMessage(entry.number, entry.at, entry.by, text, body.key)
                messages[entry.number] = replace(
                    message, options=body.options, origin=body.origin, asked=body.asked
                )
            case body:
                known = messages.get(body.message)
                if known is None:
                    about = {"thread": thread, "number": body.message}
                    why = Sentence("the thread {thread} has no message {number}", **about)
                    raise JournalDamaged(why)
                messages[body.message] = _changed(known, body)
    first = next(iter(messages.values()), None)
    title = changes.pop("title", state.title) or (short_title(first.text) if first else "")
    return replace(
        state,
        title=title,
        last=last,
        opened_at=opened_at,
        updated_at=updated_at,
        messages=tuple(messages.values()),
        runs=tuple(runs),
        by_number={number: at for at, number in enumerate(messages)},
        **changes,
    )


def _changed(known: ThreadMessage, body: _MessageBody) -> ThreadMessage:
    match body:
        case MessageRead():
            return replace(known, reading=body)
        case ReplyGiven():
            return replace(known, reply=body)
        case MessageUndone(run=run):
            return replace(known, undone=True, instead=run)
        case RunJoined(run=run):
            return replace(known, instead=run)


def short_title(text: str) -> str:
    """Returns the first words of a message as the title of its thread."""
    line = " ".join(text.split())
    return line if len(line) <= _TITLE else f"{line[:_TITLE].rstrip()}…"


def open_messages(state: ThreadState) -> Sequence[ThreadMessage]:
    """Returns the messages that were stored but not read, because a process died."""
    return [each for each in state.messages if each.reading is None and not each.undone]
