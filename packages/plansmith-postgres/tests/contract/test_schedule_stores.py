"""What every store does with schedules and their fires."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.postgres import Server

from plansmith import Plan
from plansmith.errors import JournalDamaged
from plansmith.plan.schedules import Fire, FireState, Schedule
from plansmith.plan.timing import Timing
from plansmith.schedules.store import ScheduleStore
from plansmith.store.memory import MemoryStore
from plansmith.store.sqlite import SqliteStore
from plansmith_postgres.store import PostgresStore

Store = MemoryStore | SqliteStore | PostgresStore
START = datetime(2026, 1, 1, tzinfo=UTC)
_numbers = itertools.count(1)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ScheduleStore]:
    made: Store = MemoryStore()
    if request.param == "sqlite":
        made = SqliteStore(tmp_path / "store.db")
    elif request.param == "postgres":
        server: Server = request.getfixturevalue("postgres_server")
        made = PostgresStore(server.new_database(f"schedules_{next(_numbers)}"))
    yield ScheduleStore(made)
    await made.close()


def schedule(name: str, **fields: object) -> Schedule:
    plan = Plan.model_validate({"goal": "天气", "steps": [{"id": "a", "tool": "look"}]})
    given = {
        "id": name,
        "name": f"schedule {name}",
        "timing": Timing(daily_at="09:30", timezone="Asia/Shanghai"),
        "plan": plan,
        "created": START,
        "settled": START,
        "watched": START,
    }
    return Schedule.model_validate(given | fields)


def fire(number: int, name: str = "a", **fields: object) -> Fire:
    at = START + timedelta(minutes=number, microseconds=number)
    given = {"schedule": name, "due": at, "at": at, "seen": at, "run": f"run-{number}"}
    return Fire.model_validate(given | fields)


async def test_schedules_come_back_as_they_were_kept_oldest_first(store: ScheduleStore) -> None:
    kept = [schedule("b"), schedule("a", removed=True), schedule("c", paused=True, reason="为什么")]
    for each in kept:
        assert await store.put_schedule(each)
    assert list(await store.schedules()) == [kept[1], kept[0], kept[2]]


async def test_a_version_is_followed_only_by_the_next(store: ScheduleStore) -> None:
    first = schedule("a")
    second = first.replace(version=2, reason="second")
    assert await store.put_schedule(first)
    assert await store.put_schedule(second)
    assert not await store.put_schedule(first.replace(version=2, reason="a rival"))
    assert not await store.put_schedule(first.replace(reason="again from the start"))
    assert not await store.put_schedule(first.replace(version=4, reason="too far"))
    assert await store.put_schedule(second), "what is there already is kept"
    assert list(await store.schedules()) == [second]


async def test_of_many_who_claim_an_instant_exactly_one_wins(store: ScheduleStore) -> None:
    rivals = [fire(1, run=f"rival-{number}") for number in range(12)]
    won = await asyncio.gather(*map(store.put_fire, rivals))
    assert sum(won) == 1
    assert list(await store.fires("a", limit=9)) == [rivals[won.index(True)]]


async def test_history_is_newest_first_and_limited(store: ScheduleStore) -> None:
    for number in (3, 1, 2):
        assert await store.put_fire(fire(number))
    assert await store.put_fire(fire(9, "b"))
    assert [each.run for each in await store.fires("a", limit=2)] == ["run-3", "run-2"]
    assert list(await store.fires("none", limit=2)) == []


async def test_open_fires_are_those_of_which_something_may_come(store: ScheduleStore) -> None:
    for number, state in enumerate(FireState):
        assert await store.put_fire(fire(number, state=state))
    open_ = [each.state for each in await store.open_fires()]
    assert open_ == [state for state in FireState if state.open]
    claimed = (await store.open_fires())[0]
    assert await store.put_fire(claimed.replace(version=2, state=FireState.DONE, ended=START))
    assert claimed.due not in [each.due for each in await store.open_fires()]


async def test_an_altered_schedule_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    first = SqliteStore(path)
    await ScheduleStore(first).put_schedule(schedule("a"))
    await ScheduleStore(first).put_fire(fire(1))
    await first.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE records SET body = ?", ('{"id":"a"}',))
    connection.commit()
    connection.close()
    again = SqliteStore(path)
    with pytest.raises(JournalDamaged, match="altered"):
        await ScheduleStore(again).schedules()
    with pytest.raises(JournalDamaged, match="altered"):
        await ScheduleStore(again).open_fires()
    await again.close()


async def test_retention_takes_old_fires_that_are_over_and_spares_the_newest(
    store: ScheduleStore,
) -> None:
    for number in range(110):
        state = FireState.RUNNING if number == 3 else FireState.DONE
        assert await store.put_fire(fire(number, state=state))
    assert await store.put_fire(fire(1, "rare", state=FireState.FAILED))
    assert await store.prune(START + timedelta(minutes=8)) == 7
    left = {each.due for each in await store.fires("a", limit=200)}
    assert left == {fire(number).due for number in (3, *range(8, 110))}
    assert len(await store.fires("rare", limit=9)) == 1
    assert await store.prune(START + timedelta(days=9)) == 2
    assert len(await store.fires("a", limit=200)) == 101
