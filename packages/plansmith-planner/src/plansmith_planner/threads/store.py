"""Keeps threads in a store: their entries, a headline of each, and the thread of each run.

All are documents. An entry is one of kind `thread_entry`, labelled with its thread; the headline
(`thread`) is labelled with the owner; `thread_run` tells to which thread a run belongs.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, Literal, NamedTuple

from plansmith.clock import SystemClock
from plansmith.errors import JournalDamaged, StaleWriter
from plansmith.plan.event_body import moment
from plansmith.plan.events import SYSTEM, Actor
from plansmith.plan.run import Run
from plansmith.plan.sentence import Sentence
from plansmith.ports import Clock, Document, Finding, Store
from plansmith_planner.threads import entries as t

_THREAD: Final = "thread"
_ENTRY: Final = "thread_entry"
_RUN: Final = "thread_run"
# Whoever speaks, these are not their words.
_OURS: Final = (t.MessageRead, t.ReplyGiven, t.ThreadSummarised)


_UNKNOWN: Final = datetime(1970, 1, 1, tzinfo=UTC)  # when a damaged thread was last used


class ThreadHeadline(NamedTuple):
    """A thread in a list; `last` is the number of its last entry."""

    thread: str
    owner: str
    title: str
    folder: str
    messages: int
    last: int
    updated: datetime


class ThreadStore:
    """The threads of a store; if two write the same number, one wins."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        # The threads that were read last, each with its last entry: the next look begins there.
        self._known: dict[str, tuple[t.ThreadState, str]] = {}

    async def read(self, thread: str) -> t.ThreadState:
        """Returns the present state of a thread; an unknown one is empty."""
        state, _ = await self._present(thread)
        return state

    async def _present(self, thread: str) -> tuple[t.ThreadState, Document | None]:
        """Returns the state of a thread, and the document of its headline."""
        head = await self._store.document(_THREAD, thread)
        # It stays known meanwhile: all who wait for a thread read it at the same time.
        known, last = self._known.get(thread, (t.ThreadState(thread), ""))
        entries = await self._entries(thread, head, max(known.last - 1, 0)) if last else []
        if not entries or t.entry_text(entries[0]) != last:
            # Another one with this name, or the first look: from the beginning.
            known, entries = t.ThreadState(thread), await self._entries(thread, head, 0)
        state = t.fold_thread(known, entries[1:] if known.last else entries)
        self._known.pop(thread, None)
        if entries:
            self._known[thread] = state, t.entry_text(entries[-1])
        if len(self._known) > 64:
            del self._known[next(iter(self._known))]
        return state, head

    async def append(
        self, state: t.ThreadState, *bodies: t.AnyThreadBody, by: Actor = SYSTEM
    ) -> t.ThreadState | None:
        """Appends entries after the last one of this state; None if somebody else came first."""
        entries: list[t.ThreadEntry] = []
        at, thread = self._clock.now(), state.id
        for number, body in enumerate(bodies, start=state.last + 1):
            who = SYSTEM if isinstance(body, _OURS) else by
            entries.append(t.ThreadEntry(thread=thread, number=number, at=at, by=who, body=body))
        return await self.read(state.id) if await self.append_entries(entries) else None

    async def add(self, thread: str, *bodies: t.AnyThreadBody, by: Actor = SYSTEM) -> t.ThreadState:
        """Appends entries wherever the thread ends."""
        while True:
            after = await self.append(await self.read(thread), *bodies, by=by)
            if after is not None:
                return after

    async def append_entries(self, entries: Sequence[t.ThreadEntry]) -> bool:
        """Stores entries that follow the last one of their thread, all or none.

        False if another one came first.
        """
        if not entries:
            return True
        thread, first, rows = entries[0].thread, entries[0].number, list[Document]()
        for number, entry in enumerate(entries, start=first):
            if (entry.thread, entry.number) != (thread, number):
                message = Sentence(
                    "entry {number} of thread {thread} does not follow the one before it",
                    number=entry.number,
                    thread=entry.thread,
                )
                hint = Sentence("read the thread again and decide again")
                raise StaleWriter(message, hint=hint)
            body, place = t.entry_text(entry), f"{number:09}"
            rows.append(Document(_ENTRY, f"{thread} {number}", 1, body, label=thread, place=place))
        state, head = await self._present(thread)
        if first != state.last + 1:
            return False
        for run in dict.fromkeys(map(t.runs_named, entries)):
            # The first thread that names a run keeps it.
            if run and not await self.thread_of(run):
                rows.append(Document(_RUN, run, 1, "{}", label=thread, run=run))
        after = t.fold_thread(state, entries)
        rows.append(_head_document(after, (head.version if head else 0) + 1))
        return await self._store.put_documents(rows)

    async def thread_entries(self, thread: str, *, after: int = 0) -> Sequence[t.ThreadEntry]:
        """Returns the entries of a thread after a number; none for an unknown thread."""
        head = await self._store.document(_THREAD, thread)
        return await self._entries(thread, head, max(after, 0))

    async def _entries(self, thread: str, head: Document | None, after: int) -> list[t.ThreadEntry]:
        if head is None:
            return []
        # The head first: an entry that comes meanwhile is one more, never one that is missing.
        place = (f"{after:09}", f"{thread} {after}") if after else None
        found = await self._store.documents(_ENTRY, label=thread, after=place)
        entries: list[t.ThreadEntry] = []
        for number, document in enumerate(found, start=after + 1):
            if document.place != f"{number:09}":
                raise _damaged("journal.entry_missing", thread=thread, number=number)
            entry = None if document.altered else t.read_entry(document.body)
            if entry is None or (entry.thread, entry.number) != (thread, number):
                raise _damaged("journal.entry_altered", thread=thread, number=number)
            entries.append(entry)
        if not head.altered and after + len(entries) < _read_headline(head).last:
            raise _damaged("journal.thread_end", thread=thread)
        return entries

    async def threads(
        self, *, owner: str | None = None, before: str = "", limit: int
    ) -> Sequence[ThreadHeadline]:
        """Returns threads, newest activity first; `before` is the last one of the page before.

        If that one was removed meanwhile, the list begins anew.
        """
        last = await self._store.document(_THREAD, before) if before else None
        after = (last.place, last.name) if last else None
        found = await self._store.documents(
            _THREAD, label=owner, state="", after=after, newest=True, limit=limit
        )
        return [await self._headline(each) for each in found]

    async def all_threads(self) -> AsyncIterator[ThreadHeadline]:
        before = ""
        while page := await self.threads(before=before, limit=200):
            for each in page:
                yield each
            before = page[-1].thread

    async def thread_of(self, run: str) -> str:
        """Returns the thread that a run belongs to; empty if it belongs to none."""
        found = await self._store.document(_RUN, run)
        return found.label if found else ""

    async def remove_thread(self, thread: str) -> bool:
        """Removes all entries of a thread; false if there is none."""
        return bool(await self._store.remove_documents(_THREAD, [thread], labelled=[_ENTRY, _RUN]))

    async def wait_thread(self, thread: str, *, after: int) -> None:
        """Returns when the thread has an entry after the number, whoever wrote it."""
        while True:
            head = await self._store.document(_THREAD, thread)
            if head is not None and (await self._headline(head)).last > after:
                return
            await self._store.wait_document(_THREAD, thread, version=head.version if head else 0)

    async def check(self, thread: str) -> Finding | None:
        """Reads a thread; makes its headline anew if that does not agree with its entries."""
        subject = f"thread {thread}"
        try:
            state, head = await self._present(thread)
        except JournalDamaged as damage:
            hint = Sentence("restore the store from a backup; its runs are not affected")
            return Finding("error", subject, damage.message, hint)
        if head is None:
            return None
        went_on = not head.altered and _read_headline(head).last != state.last
        document = _head_document(state, head.version)
        if went_on or head == document:
            return None
        await self._store.put_documents([document._replace(version=head.version + 1)])
        text = Sentence("its line in lists did not agree with its entries, and was made again")
        return Finding("warning", subject, text)

    async def _headline(self, document: Document) -> ThreadHeadline:
        """Reads a headline; one that was altered is made of its entries again."""
        if document.altered:
            state = t.ThreadState(document.name, owner=document.label)
            with suppress(JournalDamaged):
                state = await self.read(document.name)
            document = _head_document(state, document.version)
        return _read_headline(document)


async def thread_of(store: Store, run: Run) -> str:
    """Returns the thread that a run belongs to; empty if it belongs to none."""
    return run.options.thread or await ThreadStore(store).thread_of(run.id)


async def needed_by_threads(store: Store, runs: Collection[str], before: datetime) -> set[str]:
    """Returns those of the runs that belong to a conversation that goes on.

    It does until its last message is older than `before`, and all of its runs are over.
    """
    threads = ThreadStore(store)
    alive = {await threads.thread_of(run) for run in await store.open_runs()}
    alive |= {head.thread async for head in threads.all_threads() if head.updated >= before}
    alive.discard("")
    return {run for run in runs if await threads.thread_of(run) in alive} if alive else set()


def _head_document(state: t.ThreadState, version: int) -> Document:
    fields = {"title": state.title, "folder": state.folder, "messages": len(state.messages)}
    body = json.dumps({**fields, "last": state.last})
    place = moment((state.updated_at or _UNKNOWN).astimezone(UTC))
    return Document(_THREAD, state.id, version, body, label=state.owner, place=place)


def _read_headline(document: Document) -> ThreadHeadline:
    fields, updated = json.loads(document.body), datetime.fromisoformat(document.place)
    return ThreadHeadline(document.name, document.label, updated=updated, **fields)


def _damaged(code: str, **fields: Any) -> JournalDamaged:
    hint = Sentence("`plansmith store doctor` says what is damaged, and what can be done about it")
    return JournalDamaged(Sentence(code, **fields), hint=hint)


async def check_threads(store: Store) -> list[Finding]:
    """Reads all threads, and stores the right headlines instead of wrong ones."""
    threads = ThreadStore(store)
    listed = [each.thread async for each in threads.all_threads()]
    findings = [found for each in listed if (found := await threads.check(each)) is not None]
    damaged = sum(found.level == "error" for found in findings)
    level: Literal["ok", "warning"] = "warning" if findings else "ok"
    fields = {"count": len(listed), "damaged": damaged}
    summary = Sentence("{count} threads read, {damaged} damaged", **fields)
    return [*findings[:20], Finding(level, "threads", summary)] if listed else []
