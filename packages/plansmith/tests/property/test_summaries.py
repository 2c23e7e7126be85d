"""The status and the summary that are stored with an event are those of the journal, always."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from tests.property.test_running import MortalStore, stories, tell

from plansmith.clock import SystemClock
from plansmith.engine.journal import Journal
from plansmith.plan.data import Content, Json
from plansmith.plan.events import Event
from plansmith.plan.fold import fold
from plansmith.plan.run import Run, RunStatus
from plansmith.plan.summary import Headline, times_of
from plansmith.ports import JournalStore
from plansmith.store.sqlite import SqliteStore


async def summary_of(store: JournalStore, run: str) -> Any:
    return (await Journal.load(run, store=store, clock=SystemClock())).summary()


async def need_true(store: JournalStore, headline: Headline, events: Sequence[Event]) -> None:
    """What a store tells of a run is what its events say."""
    run = fold(events)
    assert headline.status == run.status
    assert headline.last == len(events)
    assert headline.summary is None or headline.summary == await summary_of(store, headline.run)
    if headline.summary is None:
        assert headline.status == RunStatus.RUNNING
        return
    assert headline.summary.times == times_of(events)
    assert headline.summary.working == is_working(run)
    assert (headline.summary.tokens, headline.summary.money) == (run.tokens, run.money)
    assert headline.summary.questions == tuple(run.questions)
    assert sum(map(len, headline.summary.calls.values())) <= len(run.steps)


def is_working(run: Run) -> bool:
    unplanned = run.plan is None and not run.questions and not run.paused
    return not run.status.over and bool(run.calls_open or unplanned)


class Watched(MortalStore):
    """Compares after every append what is told of the run with its journal."""

    async def append(
        self, events: Sequence[Event], values: Sequence[Json | Content] = (), **options: Any
    ) -> None:
        await super().append(events, values, **options)
        [headline] = await self.headlines(limit=1)
        await need_true(self, headline, await self.events(headline.run))


@given(stories())
async def test_after_every_append_a_run_is_told_as_its_journal_says(story: dict[str, Any]) -> None:
    _, store, run, _ = await tell(story, Watched())
    [headline] = await store.headlines(limit=1)
    assert headline.summary is not None
    assert headline.status == run.status


@given(stories())
@settings(max_examples=15)
async def test_a_summary_in_a_file_is_that_of_the_journal_after_a_restart(
    story: dict[str, Any],
) -> None:
    _, source, run, _ = await tell(story)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.db"
        store = SqliteStore(path, synchronous="normal")
        journal = Journal(run.id, store=store, clock=SystemClock())
        for event in await source.events(run.id):
            await journal.append((event.body, event.by), at=event.at)
        await store.close()
        store = SqliteStore(path)
        [headline] = await store.headlines(limit=1)
        await need_true(store, headline, await store.events(run.id))
        assert headline.summary == await summary_of(source, run.id)
        assert await store.open_runs() == []
        await store.close()
