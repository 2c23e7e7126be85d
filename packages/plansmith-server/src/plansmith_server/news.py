"""What the clients of the event stream are told: events, conversations, plans being written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from plansmith import ports as p
from plansmith.app import Plansmith
from plansmith.errors import PlansmithError, StoreAway
from plansmith.plan.data import json_text
from plansmith.plan.events import Event
from plansmith.plan.sentence import Sentence
from plansmith.plan.steps import AnyStep
from plansmith_planner.draft import StepStream
from plansmith_planner.stages import StageLine
from plansmith_planner.threads.store import ThreadHeadline, ThreadStore

# About how much is kept: of a longer journal, what is asked for next.
MAX_BYTES: Final = 16_000_000
_EVENT_BYTES: Final = 1_000


class EventReader:
    """The latest events of a store that were read; whoever is behind reads on from there."""

    def __init__(self, store: p.Store) -> None:
        self._store = store
        self._events: dict[tuple[str, int], Event] = {}
        self._texts: dict[tuple[str, int, str], str] = {}
        self._bytes = 0
        self._reading = asyncio.Lock()

    async def read(self, news: Sequence[p.News]) -> Mapping[p.News, Event]:
        """Returns the events that news tell of; a run that was deleted meanwhile has none."""
        async with self._reading:
            found: dict[p.News, Event] = {}
            gone: set[str] = set()
            for each in news:
                place = each.run, each.number
                if place not in self._events and each.run not in gone:
                    await self._read_on(*place)
                    gone |= {each.run} if place not in self._events else set()
                if place in self._events:
                    found[each] = self._events[place]
            return found

    async def _read_on(self, run: str, number: int) -> None:
        if self._bytes > MAX_BYTES // 2:
            self._events.clear()
            self._texts.clear()
            self._bytes = 0
        for event in await self._store.events(run, after=number - 1):
            self._events[run, event.number] = event
            self._bytes += len(event.body_text) + _EVENT_BYTES
            if self._bytes > MAX_BYTES:
                return

    def text(self, event: Event, position: int, language: str) -> str:
        place = event.run, event.number, language
        if place not in self._texts:
            data = event.shown_json(language) | {"position": position}
            text = json_text(data)
            if (event.run, event.number) not in self._events:
                return text
            self._texts[place] = text
            self._bytes += len(text)
        return self._texts[place]


async def follow_news(
    store: p.Store, clock: p.Clock, after: int, *, limit: int
) -> AsyncIterator[Sequence[p.News]]:
    """Yields the news of a store after a position for ever; waits for a store that is away."""
    while True:
        try:
            news = await store.news(after, limit=limit)
            if not news:
                await store.wait_news(after)
        except StoreAway:
            await clock.sleep(0.5)
            continue
        if news:
            yield news
            after = news[-1].position


_NEWEST: Final = 50
_LOOK_S: Final = 1.0  # how soon what another process says is noticed
Row = dict[str, Any]


def conversation_row(head: ThreadHeadline) -> Row:
    """Returns the row of a conversation in a list."""
    row = head._asdict()
    return {"id": row.pop("thread"), "updated_at": row.pop("updated"), **row}


class ConversationNews:
    """Compares the newest conversations with what was told, as long as somebody listens."""

    def __init__(self, smith: Plansmith) -> None:
        self._store = smith.store
        self._listeners: set[asyncio.Queue[Row]] = set()
        self._known: dict[str, ThreadHeadline] = {}
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    def look(self) -> None:
        """Has the conversations compared now: this process changed one."""
        self._changed.set()

    @contextmanager
    def listening(self) -> Generator[asyncio.Queue[Row]]:
        """Opens a queue of changed conversations, beginning with the newest as they are."""
        queue: asyncio.Queue[Row] = asyncio.Queue(200)
        for head in self._known.values():
            _put(queue, conversation_row(head))
        self._listeners.add(queue)
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(ThreadStore(self._store)))
        try:
            yield queue
        finally:
            self._listeners.discard(queue)
            if not self._listeners:
                self._watching.cancel()
                self._watching, self._known = None, {}

    async def _watch(self, store: ThreadStore) -> None:
        while True:
            self._changed.clear()
            with suppress(PlansmithError):  # the store is away: the next look tells
                self._tell(await store.threads(limit=_NEWEST))
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._changed.wait()

    def _tell(self, heads: Sequence[ThreadHeadline]) -> None:
        """Sends what is new, and what is gone from among those that would still be shown."""
        now = {head.thread: head for head in reversed(heads)}
        oldest = heads[-1].updated if len(heads) == _NEWEST else None
        rows = [
            {**conversation_row(head), "removed": True}
            for name, head in self._known.items()
            if name not in now and (oldest is None or head.updated >= oldest)
        ]
        for name, head in now.items():
            if name not in self._known or self._known[name].last != head.last:
                rows.append(conversation_row(head))
        self._known = now
        for queue in self._listeners:
            for row in rows:
                _put(queue, row)


def _put(queue: asyncio.Queue[Row], row: Row) -> None:
    """Drops the oldest of a full queue: what is told here can be read elsewhere."""
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(row)


_LETTERS_A_TOKEN: Final = 4
_run: Final[ContextVar[str]] = ContextVar("plansmith_run", default="")


@dataclass(slots=True)
class _Draft:
    began: float
    phase: str = ""
    about: str = ""
    steps: list[Any] = field(default_factory=list[Any])
    tokens: int = 0


class Drafts:
    """Collects the progress of planning and sends it to every listener.

    `otherwise` receives the texts that belong to no run.
    """

    def __init__(self, clock: p.Clock, otherwise: Callable[[str], None]) -> None:
        self._clock = clock
        self._otherwise = otherwise
        self._drafts: dict[str, _Draft] = {}
        self._listeners: set[asyncio.Queue[Row]] = set()

    @contextmanager
    def of(self, run: str) -> Generator[None]:
        """Assigns the planning inside the `with` block to a run."""
        mark = _run.set(run)
        try:
            yield
        finally:
            _run.reset(mark)
            self._drafts.pop(run, None)

    @contextmanager
    def listening(self) -> Generator[asyncio.Queue[Row]]:
        """Opens a queue of events, beginning with the current drafts."""
        queue: asyncio.Queue[Row] = asyncio.Queue(100)
        for run, draft in self._drafts.items():
            _put(queue, self._event(run, draft, text=draft.about, begins=True))
            for step in draft.steps:
                _put(queue, self._event(run, draft, step=step))
        self._listeners.add(queue)
        try:
            yield queue
        finally:
            self._listeners.discard(queue)

    def tell(self, text: str) -> None:
        """Records that a stage of planning begins; the text is `stage: details`."""
        draft = self.current
        if draft is None:
            self._otherwise(text)
            return
        if isinstance(text, StageLine):
            if not text.begins:
                return  # the model itself tells how far it is
            draft.phase, draft.about = text.stage, text.about
        else:
            draft.phase, _, about = text.partition(":")
            draft.about = about.strip()
        if draft.phase == "draft":
            draft.steps.clear()
        self.send(text=draft.about, begins=True)

    @property
    def current(self) -> _Draft | None:
        """What is drafted for the run that is being planned here."""
        run = _run.get()
        return self._drafts.setdefault(run, _Draft(self._clock.monotonic())) if run else None

    def send(self, **fields: Any) -> None:
        draft = self.current
        if draft is not None:
            event = self._event(_run.get(), draft, **fields)
            for queue in self._listeners:
                _put(queue, event)

    def _event(self, run: str, draft: _Draft, **more: Any) -> Row:
        elapsed = round((self._clock.monotonic() - draft.began) * 1000)
        head = {"run": run, "phase": draft.phase, "tokens": draft.tokens}
        return {**head, "elapsed_ms": elapsed, **more}

    def observed(self, model: p.ChatModel) -> p.ChatModel:
        return _ObservedModel(model, self, self._clock)


@dataclass(slots=True)
class _ObservedModel:
    model: p.ChatModel
    drafts: Drafts
    clock: p.Clock

    @property
    def name(self) -> str:
        return self.model.name

    async def stream(self, prompt: p.Prompt) -> AsyncIterator[p.Delta]:
        steps = StepStream(self._add_step)
        sent_at, letters, waiting = self.clock.monotonic(), 0, ""
        async for delta in self.model.stream(prompt):
            match delta:
                case p.TextDelta("", progress) if progress:
                    self._add_progress(progress)
                case p.TextDelta(text) | p.ArgumentsDelta(_, text):
                    letters += len(text)
                    waiting += text
                    steps.feed(text)
                    if self.clock.monotonic() - sent_at >= 0.1:
                        self._add_text(waiting, letters)
                        sent_at, waiting = self.clock.monotonic(), ""
                case p.ModelDone(usage, _):
                    counted = usage.input_tokens + usage.output_tokens
                    if (draft := self.drafts.current) is not None:
                        draft.tokens = counted or letters // _LETTERS_A_TOKEN
            yield delta
        self._add_text(waiting, letters)

    def _add_text(self, text: str, letters: int) -> None:
        draft = self.drafts.current
        if draft is not None and text:
            draft.tokens = max(draft.tokens, letters // _LETTERS_A_TOKEN)
            self.drafts.send(text=text)

    def _add_step(self, step: AnyStep) -> None:
        draft = self.drafts.current
        if draft is not None:
            draft.steps.append(step.to_json())
            self.drafts.send(step=step.to_json())

    def _add_progress(self, text: str) -> None:
        """Sends how far a slow model is: how much of the prompt it has read, how fast it writes."""
        fields: Mapping[str, Any] = text.fields if isinstance(text, Sentence) else {}
        more: dict[str, Any] = {}
        if "whole" in fields:
            more["share"] = round(100 * int(fields["done"]) / max(1, int(fields["whole"])))
        if "pace" in fields:
            more["pace"] = str(fields["pace"])
        self.drafts.send(progress=text, **more)
