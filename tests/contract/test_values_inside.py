"""Small values are stored in the rows of their events, and are found there by their hash."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.postgres import Server

from plansmith import tool
from plansmith.adapters.stores.doctor import diagnose, verify
from plansmith.adapters.stores.packing import LARGEST_INSIDE, ref_of
from plansmith.adapters.stores.postgres import PostgresStore
from plansmith.adapters.stores.sqlite import SqliteStore
from plansmith.app import Plansmith
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
from plansmith.plan.plan import Plan

Store = SqliteStore | PostgresStore
START = datetime(2026, 1, 1, tzinfo=UTC)
_numbers = itertools.count(1)


@pytest.fixture(params=["sqlite", "postgres"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Store]:
    """Opens the same store again and again; a month later than its events."""
    later = START + timedelta(days=30)
    if request.param == "sqlite":
        return lambda: SqliteStore(tmp_path / "store.db", now=lambda: later)
    server: Server = request.getfixturevalue("postgres_server")
    dsn = server.new_database(f"inside_{next(_numbers)}")
    return lambda: PostgresStore(dsn, now=lambda: later)


@pytest.fixture
async def store(opening: Callable[[], Store]) -> AsyncIterator[Store]:
    made = opening()
    yield made
    await made.close()


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


async def test_a_small_value_is_in_its_row_and_a_large_one_is_not(
    opening: Callable[[], Store],
) -> None:
    small, large = "x" * (LARGEST_INSIDE - 2), "x" * (LARGEST_INSIDE - 1)
    first = opening()
    events, values = run_of("a", small, large)
    await first.append(events, values)
    assert await first.unmentioned() == 0
    await first.close()
    again = opening()
    for value in (small, large):
        assert await again.get(content_hash(value)) == value
    assert list(await again.events("a")) == events
    # Only what is in a table of its own can be left over.
    await again.delete_run("a")
    assert await again.unmentioned() == 2
    await again.close()


async def test_two_values_whose_hashes_begin_alike_are_told_apart(
    opening: Callable[[], Store],
) -> None:
    one, two = 69235, 95303
    assert ref_of(content_hash(one)) == ref_of(content_hash(two))
    first = opening()
    await first.append(*run_of("a", one, "same"))
    with pytest.raises(JournalDamaged, match="no value is stored"):
        await first.get(content_hash(two))
    await first.append(*run_of("b", two, "same"))
    await first.close()
    again = opening()
    assert await again.get(content_hash(one)) == one
    assert await again.get(content_hash(two)) == two
    assert await again.get(content_hash("same")) == "same"
    await again.close()


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


async def test_retention_removes_values_together_with_their_run(store: Store) -> None:
    await store.append(*run_of("a", {"x": 1}, "made"))
    pruned = await store.prune(START + timedelta(days=1))
    assert (pruned.runs, pruned.values) == (1, 2)
    for value in ({"x": 1}, "made"):
        with pytest.raises(JournalDamaged, match="no value is stored"):
            await store.get(content_hash(value))


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


@tool(effect="read")
def look(x: int) -> str:
    """See."""
    return f"seen {x}"


@pytest.mark.parametrize(
    "change",
    [
        "value = '\"forged\"'",
        "value = NULL",
        "value = value || ' '",
        "value = CAST(x'22ff22' AS text)",
        "value = x'22ff22'",
    ],
)
async def test_a_value_that_was_altered_inside_its_row_is_damage_of_the_event(
    change: str, tmp_path: Path
) -> None:
    path = tmp_path / "store.db"
    steps = [{"id": "a", "tool": "look", "inputs": {"x": 1}}, {"id": "q", "question": "Go on?"}]
    plan = Plan.model_validate({"goal": "look", "steps": steps})
    async with Plansmith(tools=[look], store=SqliteStore(path)) as smith:
        run, other = [(await smith.run((await smith.submit(plan)).id)).id for _ in range(2)]
    file = sqlite3.connect(path, isolation_level=None)
    assert file.execute("SELECT count(*) FROM contents").fetchone() == (0,)
    step_done = "(SELECT type FROM event_types WHERE name = 'step_done')"
    file.execute(f"UPDATE events SET {change} WHERE run = 1 AND type = {step_done}")
    file.close()
    told = {each.subject for each in await diagnose(f"sqlite:///{path}") if each.level == "error"}
    assert told == {f"run {run}"}
    async with Plansmith(tools=[look], store=SqliteStore(path)) as smith:
        assert "was altered" in (await smith.get(run)).damage
        assert (await smith.get(other)).steps["a"].result == "seen 1"
        repaired = await smith.runs.journals.repair(run, by="ada")
        assert repaired.paused
        await smith.resume(run, by="ada")
        again = await smith.run(run)
        # A read is called again; what the altered row said is used nowhere.
        assert again.steps["a"].result == "seen 1"
        assert await verify(smith.store, run)
