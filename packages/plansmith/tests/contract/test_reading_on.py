"""A SQLite store reads on behind the event that it checked last, as long as that is still there."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plansmith.errors import JournalDamaged
from plansmith.plan.events import Actor, AnyBody, Event, RunCreated, RunPaused, next_events
from plansmith.store.sqlite import SqliteStore

AT = datetime(2026, 1, 1, tzinfo=UTC)


def following(last: Event | None, *bodies: AnyBody) -> list[Event]:
    entries = [(body, Actor(kind="system")) for body in bodies]
    return next_events(entries, run="a", at=AT, last=last)


def paused(*reasons: str) -> Sequence[AnyBody]:
    return [RunPaused(reason=each) for each in reasons]


def alter(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    assert connection.execute(statement).rowcount == 1
    connection.commit()
    connection.close()


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[tuple[SqliteStore, SqliteStore]]:
    """Two stores over one file, as of two processes."""
    path = tmp_path / "store.db"
    made = SqliteStore(path), SqliteStore(path)
    yield made
    for each in made:
        await each.close()


async def test_reading_on_finds_what_another_process_wrote(
    stores: tuple[SqliteStore, SqliteStore],
) -> None:
    reader, writer = stores
    events = following(None, RunCreated(request="r"), *paused("1", "2"))
    await writer.append(events)
    assert await reader.events("a") == events
    for count in (1, 3, 20):
        more = following(events[-1], *paused(*map(str, range(count))))
        await writer.append(more)
        assert await reader.events("a", after=len(events)) == more
        events += more
    assert await reader.events("a", after=len(events)) == []
    assert await reader.events("a") == events


async def test_reading_on_after_a_repair_by_another_process_reads_what_is_there_now(
    stores: tuple[SqliteStore, SqliteStore],
) -> None:
    reader, writer = stores
    events = following(None, RunCreated(request="r"), *paused("1", "2"))
    await writer.append(events)
    await reader.events("a")
    other = following(events[1], *paused("other", "more"))
    await writer.set_aside("a", 2, other)
    assert await reader.events("a", after=3) == other[1:]


async def test_reading_on_refuses_an_altered_event_behind_the_one_checked(
    stores: tuple[SqliteStore, SqliteStore], tmp_path: Path
) -> None:
    reader, writer = stores
    events = following(None, RunCreated(request="r"), *paused("1"))
    await writer.append(events)
    await reader.events("a")
    await writer.append(following(events[-1], *paused("2")))
    body = """UPDATE events SET body = replace(body, '"2"', '"3"') WHERE number = 3"""
    alter(tmp_path / "store.db", body)
    with pytest.raises(JournalDamaged, match="event 3 of run a was altered"):
        await reader.events("a", after=2)


async def test_reading_on_refuses_a_journal_whose_checked_event_has_another_hash(
    stores: tuple[SqliteStore, SqliteStore], tmp_path: Path
) -> None:
    reader, writer = stores
    await writer.append(following(None, RunCreated(request="r"), *paused("1")))
    await reader.events("a")
    alter(tmp_path / "store.db", "UPDATE events SET hash = x'00' WHERE number = 2")
    with pytest.raises(JournalDamaged):
        await reader.events("a", after=2)


async def test_reading_on_in_a_run_that_was_deleted_finds_nothing(
    stores: tuple[SqliteStore, SqliteStore],
) -> None:
    reader, writer = stores
    await writer.append(following(None, RunCreated(request="r")))
    await reader.events("a")
    await writer.delete_run("a")
    assert await reader.events("a", after=1) == []
    events = following(None, RunCreated(request="another"), *paused("1"))
    await writer.append(events)
    assert await reader.events("a", after=1) == events[1:]
