"""A journal that is read while it is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plansmith.clock import SystemClock
from plansmith.engine.journal import Journal
from plansmith.plan import events as e
from plansmith.plan.data import Content, Json
from plansmith.store.memory import MemoryStore


class ReadAtOnce(MemoryStore):
    """Lets the journal read back what it writes, before it hears that it is written."""

    journal: Journal

    async def append(
        self, events: Sequence[e.Event], values: Sequence[Json | Content] = (), **told: Any
    ) -> None:
        await super().append(events, values, **told)
        await self.journal.catch_up()


async def test_a_journal_that_catches_up_while_it_writes_takes_no_event_twice() -> None:
    store = ReadAtOnce()
    store.journal = journal = Journal("r", store=store, clock=SystemClock())
    await journal.append(e.RunCreated(request="x"), by=e.Actor(kind="person"))
    await journal.append(e.RunPaused(reason="so"))
    await journal.append(e.RunResumed())
    assert [event.number for event in journal.events] == [1, 2, 3]
    assert journal.run.last == journal.events[-1]
    assert not journal.run.paused
