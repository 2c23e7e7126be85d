"""Opens, lists, summarises and deletes threads, and tells a planner what came before."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from plansmith.engine.progress import spending
from plansmith.errors import Refused
from plansmith.plan import events as e
from plansmith.plan.thread import AnyThreadBody, ThreadOpened, ThreadState, ThreadSummarised
from plansmith.planner.context.history import Summariser, summarise
from plansmith.planner.context.token_budget import rough_count
from plansmith.threads.memory import ThreadMemory
from plansmith.threads.thread import Thread

if TYPE_CHECKING:
    from plansmith.ports import Message
    from plansmith.runs.service import RunService
    from plansmith.threads.store import ThreadHeadline

_KEPT_WHOLE: Final = 6  # messages; older ones are summarised when there is no room for them
_ID_LENGTH: Final = 200


class Threads:
    """Opens, lists and deletes threads; `smith.threads`."""

    def __init__(self, *, runs: RunService) -> None:
        self.runs = runs
        self.memory = ThreadMemory(runs.journals)
        self.book = self.memory.book
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def open(self, thread: str = "") -> Thread:
        """Returns a thread by its id, or by the id of a run in it; without an id a new one.

        The id of a run without a thread gives a thread of that one run. Nothing is stored before
        the first message.
        """
        name = thread or self.runs.journals.new_id()
        if len(name) > _ID_LENGTH or not name.strip() or not name.isprintable():
            hint = f"use at most {_ID_LENGTH} letters and digits on one line"
            raise Refused("this cannot be the id of a thread", hint=hint)
        state = await self.book.read(name)
        if not state.last:
            state = await self._of_run(name) or state
        self.runs.journals.require_here(f"the thread {name}", state.folder)
        return Thread(self, state)

    async def list(
        self, *, owner: str | None = None, before: str = "", limit: int = 50
    ) -> Sequence[ThreadHeadline]:
        """Returns threads, newest activity first; `before` is the last one of the page before."""
        return await self.book.store.threads(owner=owner, before=before, limit=limit)

    async def last(self) -> Thread:
        """Returns the thread of this folder in which something was said last."""
        for each in await self.list(limit=200):
            if self.runs.journals.is_here(each.folder):
                return await self.open(each.thread)
        raise Refused("there is no thread yet", hint="leave --thread out to begin one")

    async def delete(self, thread: str, *, by: e.Who = "") -> int:
        """Deletes a thread and its runs; returns how many runs. Runs must be over."""
        state = await self.book.read(thread)
        if not state.last:
            raise Refused(f"there is no thread {thread}")
        self.require_owner(state, e.actor(by))
        open_ = [run.id for run in await self.memory.runs(state.runs) if not run.status.over]
        if open_:
            hint = f"cancel it first: plansmith cancel {open_[0]}"
            raise Refused(f"run {open_[0]} of this thread is not over", hint=hint)
        delete = getattr(self.runs.store, "delete_run", None)
        deleted = 0
        for name in state.runs if delete is not None else ():
            deleted += bool(await delete(name))
        await self.book.store.remove_thread(thread)
        return deleted

    async def delete_before(self, moment: datetime, *, by: e.Who = "") -> int:
        """Deletes the threads whose last message is older and whose runs are over."""
        found, page = [], ""
        while heads := await self.list(before=page, limit=200):
            found += [each.thread for each in heads if each.updated < moment]
            page = heads[-1].thread
        deleted = 0
        for name in found:
            with suppress(Refused):  # a run of it is still open
                await self.delete(name, by=by)
                deleted += 1
        return deleted

    def lock(self, thread: str) -> asyncio.Lock:
        """Returns what lets one message of a thread be read at a time in this process."""
        lock = self._locks.get(thread)
        if lock is None:
            lock = self._locks[thread] = asyncio.Lock()
        return lock

    def require_owner(self, state: ThreadState, who: e.Actor) -> None:
        """Refuses a program that did not open the thread; persons share theirs."""
        if state.last and who.kind != "person" and state.owner != who.label:
            hint = "begin a conversation of your own"
            raise Refused(f"the thread {state.id} belongs to somebody else", hint=hint)

    def opening(self, state: ThreadState, who: e.Actor) -> list[AnyThreadBody]:
        """Returns the entry that opens a thread, if it is not open yet."""
        if state.last:
            return []
        adopts = state.runs[0] if state.runs else ""
        folder = self.runs.journals.folder
        return [ThreadOpened(owner=who.label, folder=folder, adopts=adopts)]

    async def _of_run(self, name: str) -> ThreadState | None:
        """Returns the thread of a run: the one it belongs to, or a new one with only this run."""
        belongs = await self.book.store.thread_of(name)
        if belongs:
            return await self.book.read(belongs)
        if not await self.runs.store.events(name):
            return None
        run = (await self.runs.journals.own(name)).run
        return ThreadState(name, folder=run.folder, runs=(name,), title=run.request)

    async def summarise(self, thread: Thread, *, upto: int) -> None:
        """Has a model shorten what no longer fits, once; the summary is kept and shown."""
        state = thread.state.before(upto)
        planner = self.runs.planner
        older = [each.number for each in state.messages][:-_KEPT_WHOLE]
        said = await self.memory.said(state)
        if not older or planner.judging_model is None or _fits(said, planner.context_tokens // 3):
            return
        last = older[-1]
        known = replace(state, messages=tuple(m for m in state.messages if m.number <= last))
        summariser = Summariser(planner.judging_model, self.runs.clock, prompts=planner.prompts)
        made = await summarise(
            await self.memory.said(known), words=planner.context_tokens // 12, summariser=summariser
        )
        if made is not None:
            body = ThreadSummarised(
                upto=last, text=made.text, model=summariser.model.name, **spending(made.usage)
            )
            thread.state, _ = await self.book.add(thread.id, body)


def _fits(said: Sequence[Message], tokens: int) -> bool:
    return rough_count("\n".join(each.text for each in said)) <= tokens
