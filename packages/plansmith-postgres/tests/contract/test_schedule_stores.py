"""What stores of schedules and templates do with records; those are tested with every store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from plansmith import Plan
from plansmith.plan.schedules import Fire, FireState, Schedule
from plansmith.plan.timing import Timing
from plansmith.schedules.store import ScheduleStore
from plansmith.store.memory import MemoryStore
from plansmith.templates.book import TemplateStore

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def shelf() -> ScheduleStore:
    return ScheduleStore(MemoryStore())


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
    given = {"schedule": name, "due": at, "at": at, "run": f"run-{number}"}
    return Fire.model_validate(given | fields)


async def test_retention_takes_old_fires_that_are_over_and_spares_the_newest(
    shelf: ScheduleStore,
) -> None:
    for number in range(110):
        state = FireState.RUNNING if number == 3 else FireState.DONE
        assert await shelf.put_fire(fire(number, state=state))
    assert await shelf.put_fire(fire(1, "rare", state=FireState.FAILED))
    assert await shelf.prune(START + timedelta(minutes=8)) == 7
    left = {each.due for each in await shelf.fires("a", limit=200)}
    assert left == {fire(number).due for number in (3, *range(8, 110))}
    assert len(await shelf.fires("rare", limit=9)) == 1
    assert await shelf.prune(START + timedelta(days=9)) == 2
    assert len(await shelf.fires("a", limit=200)) == 101


# Templates


@pytest.fixture
def templates() -> TemplateStore:
    return TemplateStore(MemoryStore())


async def test_versions_count_up_and_the_last_one_again_is_no_new_one(
    templates: TemplateStore,
) -> None:
    assert await templates.keep("a", {"n": 1}) == 1
    assert await templates.keep("a", {"n": 2}) == 2
    assert await templates.keep("a", {"n": 2}) == 2
    assert await templates.keep("a", {"n": 1}) == 3
    assert await templates.keep("天气", ["x" * 1000]) == 1
    assert list(await templates.kept()) == [
        ("a", 1, False, {"n": 1}),
        ("a", 2, False, {"n": 2}),
        ("a", 3, False, {"n": 1}),
        ("天气", 1, False, ["x" * 1000]),
    ]


async def test_removed_versions_stay_and_their_numbers_are_not_reused(
    templates: TemplateStore,
) -> None:
    for number in range(3):
        await templates.keep("a", number)
    assert await templates.drop("a", 2) == 1
    assert await templates.drop("a", 2) == 0
    assert await templates.drop("b") == 0
    assert await templates.drop("a") == 2
    assert await templates.keep("a", "new") == 4
    kept = await templates.kept()
    assert [(version, removed) for _, version, removed, _ in kept] == [
        *[(1, True), (2, True), (3, True)],
        (4, False),
    ]
