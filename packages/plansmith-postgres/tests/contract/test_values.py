"""Values are stored once under their hash, as long as an event mentions them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.contract.durable_stores import Store

from plansmith.errors import JournalDamaged, StaleWriter
from plansmith.plan.data import Content, Json, content_hash, content_of
from plansmith.plan.events import (
    Actor,
    AnyBody,
    Event,
    RunCreated,
    RunFinished,
    StepDone,
    StepReused,
    StepStarted,
    next_event,
)
from plansmith.store.sqlite import SqliteStore
from plansmith_postgres.store import PostgresStore

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def opening(url: str) -> Callable[[], Store]:
    """Opens the same store again and again, each time a month later."""
    months = itertools.count()

    def opened() -> Store:
        now = START + timedelta(days=30 * next(months))
        if url.startswith("sqlite"):
            return SqliteStore(Path(url.removeprefix("sqlite:///")), now=lambda: now)
        return PostgresStore(url, now=lambda: now)

    return opened


def chained(run: str, *bodies: AnyBody, last: Event | None = None) -> list[Event]:
    events: list[Event] = []
    for body in bodies:
        last = next_event(body, run=run, by=Actor(kind="system"), at=START, last=last)
        events.append(last)
    return events


def run_of(run: str, inputs: Json, result: Json) -> tuple[list[Event], list[Content]]:
    """A run of one call, with its inputs and its result."""
    given, made = content_of(inputs), content_of(result)
    key = f"{run}/a/{given.digest[:16]}"
    events = chained(
        run,
        RunCreated(request="measure"),
        StepStarted(step="a", key=key, inputs=given.digest, callee="look"),
        StepDone(step="a", result=made.digest, size=len(made.text)),
        RunFinished(status="done"),
    )
    return events, [given, made]


async def test_a_value_outlives_its_run_while_another_run_mentions_it(
    opening: Callable[[], Store],
) -> None:
    first = opening()
    await first.append(*run_of("a", {"x": 1}, "made once"))
    reused = StepReused(step="a", result=content_hash("made once"), run="a")
    await first.append(chained("b", RunCreated(request="again"), reused))
    assert await first.delete_run("a")
    assert not await first.delete_run("a")
    await first.close()
    again = opening()
    await again.prune(START + timedelta(days=1))
    assert await again.get(content_hash("made once")) == "made once"
    with pytest.raises(JournalDamaged, match="no value is stored"):
        await again.get(content_hash({"x": 1}))
    await again.close()


async def test_values_of_rows_that_are_set_aside_can_still_be_read(
    opening: Callable[[], Store],
) -> None:
    first = opening()
    events, values = run_of("a", {"x": 1}, "made")
    await first.append(events, values)
    # The facts are told again behind the repair, by their hashes alone.
    facts = chained("a", *(each.body for each in events[1:3]), last=events[0])
    assert await first.set_aside("a", 1, facts) == 3
    await first.close()
    again = opening()
    assert list(await again.events("a")) == [events[0], *facts]
    for value in ({"x": 1}, "made"):
        assert await again.get(content_hash(value)) == value
    kept = [body.decode() for _, body in await again.aside("a")]
    assert [each.body_text.decode() for each in events[1:]] == kept
    other = chained("a", RunCreated(request="of another journal"))[0]
    with pytest.raises(StaleWriter):
        await again.set_aside("a", 1, chained("a", RunFinished(status="done"), last=other))
    await again.close()
