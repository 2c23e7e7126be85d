"""What a thread remembers: its conversation for a planner, and results that plans may use."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from plansmith.errors import JournalDamaged
from plansmith.plan.earlier import results_of
from plansmith.plan.thread import RunJoined
from plansmith_planner.threads.digest import RunDigest, conversation
from plansmith_planner.threads.situation import MOST_RUNS
from plansmith_planner.threads.store import ThreadBook

if TYPE_CHECKING:
    from plansmith.plan.earlier import EarlierResult
    from plansmith.plan.events import Actor
    from plansmith.plan.run import Run
    from plansmith.plan.run_options import RunOptions
    from plansmith.plan.thread import ThreadState
    from plansmith.ports import Message
    from plansmith.runs.journals import Journals


class ThreadMemory:
    """Reads threads and their runs for whoever plans the next request."""

    def __init__(self, journals: Journals) -> None:
        self._journals = journals
        self.book = ThreadBook(journals.store, journals.clock)

    async def digests(self, names: Sequence[str]) -> list[RunDigest]:
        """Returns runs with their results and events; those that are gone are left out."""
        found: list[RunDigest] = []
        for name in names:
            journal = await self._journals.readable(name)
            if journal is None:
                continue
            with suppress(JournalDamaged):  # a result is gone
                whole = await self._journals.whole(journal)
                found.append(RunDigest(whole, tuple(journal.events)))
        return found

    async def runs(self, names: Sequence[str]) -> list[Run]:
        """Returns runs with their results; those that are gone are left out."""
        return [each.run for each in await self.digests(names)]

    async def results(self, thread: str, message: int | None) -> Sequence[EarlierResult]:
        """Returns the results that a plan for a message may use: those of earlier messages."""
        state = (await self.book.read(thread)).before(message or 1)
        return results_of(await self.runs(state.runs[-MOST_RUNS:]))

    async def before(self, thread: str, message: int | None) -> Sequence[Message]:
        """Returns the conversation before a message."""
        state = await self.book.read(thread)
        asking = state.message(message or 1)
        return await self.said(state.before(message or 1), reader=asking.by if asking else None)

    async def join(self, run: str, options: RunOptions) -> None:
        """Adds a run that repeats or continues one of a thread to that thread."""
        state = await self.book.read(options.thread)
        known = state.message(options.message or 0)
        if known is not None and run not in state.runs:
            await self.book.add(options.thread, RunJoined(run=run, message=known.number))

    async def said(self, state: ThreadState, *, reader: Actor | None = None) -> tuple[Message, ...]:
        """Returns the conversation of a thread as messages for a model, for what `reader` asks."""
        digests = await self.digests(state.runs[-MOST_RUNS:])
        return conversation(state, {each.run.id: each for each in digests}, reader=reader)
