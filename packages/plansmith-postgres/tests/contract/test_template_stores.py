"""What every store does with templates."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.postgres import Server

from plansmith.errors import JournalDamaged, JournalError
from plansmith.store.memory import MemoryStore
from plansmith.store.sqlite import SqliteStore
from plansmith.templates.store import TemplateStore
from plansmith_postgres.store import PostgresStore

Store = MemoryStore | SqliteStore | PostgresStore
_numbers = itertools.count(1)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TemplateStore]:
    made: Store = MemoryStore()
    if request.param == "sqlite":
        made = SqliteStore(tmp_path / "store.db")
    elif request.param == "postgres":
        server: Server = request.getfixturevalue("postgres_server")
        made = PostgresStore(server.new_database(f"templates_{next(_numbers)}"))
    yield TemplateStore(made)
    await made.close()


async def test_versions_count_up_and_the_last_one_again_is_no_new_one(store: TemplateStore) -> None:
    assert await store.keep("a", {"n": 1}) == 1
    assert await store.keep("a", {"n": 2}) == 2
    assert await store.keep("a", {"n": 2}) == 2
    assert await store.keep("a", {"n": 1}) == 3
    assert await store.keep("天气", ["x" * 1000]) == 1
    assert list(await store.kept()) == [
        ("a", 1, False, {"n": 1}),
        ("a", 2, False, {"n": 2}),
        ("a", 3, False, {"n": 1}),
        ("天气", 1, False, ["x" * 1000]),
    ]


async def test_removed_versions_stay_and_their_numbers_are_not_reused(
    store: TemplateStore,
) -> None:
    for number in range(3):
        await store.keep("a", number)
    assert await store.drop("a", 2) == 1
    assert await store.drop("a", 2) == 0
    assert await store.drop("b") == 0
    assert await store.drop("a") == 2
    assert await store.keep("a", "new") == 4
    kept = await store.kept()
    assert [(version, removed) for _, version, removed, _ in kept] == [
        *[(1, True), (2, True), (3, True)],
        (4, False),
    ]


async def test_many_who_save_at_once_get_numbers_of_their_own(store: TemplateStore) -> None:
    numbers = await asyncio.gather(*(store.keep("a", {"n": n}) for n in range(12)))
    assert sorted(numbers) == list(range(1, 13))


async def test_what_is_kept_is_there_in_the_next_process(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "store.db")
    await TemplateStore(first).keep("a", {"n": 1})
    await first.close()
    with pytest.raises(JournalError, match="closed"):
        await TemplateStore(first).kept()
    second = SqliteStore(tmp_path / "store.db")
    assert list(await TemplateStore(second).kept()) == [("a", 1, False, {"n": 1})]
    await second.close()


async def test_an_altered_template_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    await TemplateStore(store).keep("a", {"n": 1})
    await store.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE records SET body = ?", ('{"n":2}',))
    connection.commit()
    connection.close()
    again = SqliteStore(path)
    with pytest.raises(JournalDamaged, match="altered"):
        await TemplateStore(again).kept()
    await again.close()
