"""Opens, lists and deletes threads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final

from plansmith.errors import NotFound, Refused
from plansmith.plan import events as e
from plansmith.plan.sentence import Sentence
from plansmith.runs.journals import delete_run
from plansmith_planner.threads import entries as t
from plansmith_planner.threads.store import ThreadHeadline
from plansmith_planner.threads.thread import Thread, ThreadBackend

_ID_LENGTH: Final = 200


class Threads(ThreadBackend):
    """Opens, lists and deletes threads; `smith.threads`.

    Examples:
        >>> from plansmith import Plansmith
        >>> smith = Plansmith("rules")
        >>> thread = await smith.threads.open()
        >>> turn = await thread.say("What is 2 + 3?")
        >>> [each.title for each in await smith.threads.list()]
        ['What is 2 + 3?']
    """

    async def open(self, thread: str = "") -> Thread:
        """Returns a thread, or begins one; nothing is stored before the first message.

        Args:
            thread: The id of the thread, or of a run; empty begins a thread.

        Raises:
            Refused: This cannot be the id of a thread.
        """
        name = thread or self.runs.journals.new_id()
        # No address of a web page can end in one that is only dots: browsers take it for a folder.
        if len(name) > _ID_LENGTH or not name.strip(" .") or not name.isprintable():
            hint = Sentence("use at most {most} letters and digits on one line", most=_ID_LENGTH)
            raise Refused(Sentence("this cannot be the id of a thread"), hint=hint)
        state = await self.read(name)
        self.runs.journals.require_here(Sentence("the thread {name}", name=name), state.folder)
        return Thread(self, state)

    async def read(self, thread: str) -> t.ThreadState:
        """Returns a thread, or that of a run, of whatever folder; an unknown one is empty.

        Args:
            thread: The id of the thread, or of a run.
        """
        state = await self.store.read(thread)
        if state.last:
            return state
        belongs = await self.store.thread_of(thread)
        if belongs:
            return await self.store.read(belongs)
        events = await self.runs.store.events(thread)
        if not events:
            return state
        run = (await self.runs.journals.load_verified(thread)).run
        if run.options.thread:
            return await self.store.read(run.options.thread)
        # A run of no thread is the first of a new one.
        owner, title = events[0].by.label, t.short_title(run.request)
        return t.ThreadState(thread, owner, title, run.folder, runs=(thread,), adopted=thread)

    async def shorten(self, thread: str, *, upto: int) -> None:
        """Has what no longer fits summarised, before a message is planned."""
        await self.summarised(await self.store.read(thread), upto=upto)

    async def list(
        self, *, owner: str | None = None, before: str = "", limit: int = 50
    ) -> Sequence[ThreadHeadline]:
        """Returns threads, newest activity first.

        Args:
            owner: Only the threads of this person or program.
            before: Only threads after this one in the list: the last one of the page before.
            limit: How many at most.
        """
        return await self.store.threads(owner=owner, before=before, limit=limit)

    async def wait(self, thread: str, *, after: int) -> None:
        """Returns when a thread has an entry after the number, whoever wrote it.

        Args:
            thread: The id of the thread.
            after: The number of the last entry that is known.
        """
        await self.store.wait_thread(thread, after=after)

    async def last(self) -> Thread:
        """Returns the thread of this folder in which something was said last.

        Raises:
            NotFound: There is no thread yet.
        """
        for each in await self.list(limit=200):
            if self.runs.journals.is_here(each.folder):
                return await self.open(each.thread)
        hint = Sentence("leave --thread out to begin one")
        raise NotFound(Sentence("there is no thread yet"), hint=hint)

    async def delete(self, thread: str, *, by: e.Who = "") -> int:
        """Deletes a thread and its runs; returns how many runs.

        Args:
            thread: The id of the thread.
            by: Who acts.

        Raises:
            NotFound: There is no such thread.
            Refused: One of its runs is not over, or the store cannot delete.
        """
        state = await self.store.read(thread)
        if not state.last:
            hint = Sentence("`smith.threads.list()` lists them")
            raise NotFound(Sentence("there is no thread {name}", name=thread), hint=hint)
        self.require_owner(state, e.actor(by))
        runs = [each.run for each in await self.memory.digests(state.runs)]
        open_ = [run.id for run in runs if not run.status.over]
        if open_:
            hint = Sentence("cancel it first: plansmith runs cancel {run}", run=open_[0])
            raise Refused(Sentence("run {run} of this thread is not over", run=open_[0]), hint=hint)
        deleted = sum([await delete_run(self.runs.journals, run, by=by) for run in state.runs])
        await self.store.remove_thread(thread)
        return deleted

    async def delete_before(self, moment: datetime, *, by: e.Who = "") -> int:
        """Deletes the threads whose last message is older and whose runs are over.

        Args:
            moment: The time to compare with.
            by: Who acts.
        """
        found = [each.thread async for each in self.store.all_threads() if each.updated < moment]
        deleted = 0
        for name in found:
            with suppress(Refused):  # a run of it is still open
                await self.delete(name, by=by)
                deleted += 1
        return deleted
