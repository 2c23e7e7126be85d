"""Stores return many values at once, each checked against its hash."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.contract.durable_stores import AnyStore

from plansmith.engine.journal import ManyValuesStore, load_results
from plansmith.errors import JournalDamaged
from plansmith.plan.data import Json, content_hash
from plansmith.plan.run import Run, StepState, StepStatus
from plansmith.store.sqlite import SqliteStore
from plansmith.store.urls import open_store


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
async def test_many_values_come_in_their_order_as_objects_of_their_own(
    address: Callable[[str], str], kind: str
) -> None:
    values: list[Json] = [None, 1.5, "text", {"a": [1]}, [], "x" * 5000]
    url = address(kind)
    store = opened(url)
    digests = [await store.put(each) for each in values]
    if kind != "memory":  # nothing is still in its cache
        await store.close()
        store = opened(url)
    assert isinstance(store, ManyValuesStore)
    assert await store.get_many(digests[::-1]) == values[::-1]
    assert await store.get_many([]) == []
    new = await store.put("new")
    assert await store.get_many([new, digests[2]]) == ["new", "text"]  # one is cached, one is not
    for _ in range(2):
        first, second = await store.get_many([digests[3]] * 2)
        assert isinstance(first, dict)
        first["a"] = 2
        assert second == {"a": [1]}
        assert await store.get_many([digests[3]]) == [{"a": [1]}]
        await store.put({"a": [1]})  # from now on cached
    gone = content_hash("gone")
    with pytest.raises(JournalDamaged, match=f"no value is stored under {gone}"):
        await store.get_many([digests[0], gone])
    await store.close()


def opened(url: str) -> AnyStore:
    made = open_store(url)
    assert isinstance(made, AnyStore)
    return made


async def test_an_altered_one_of_many_values_is_damage_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = SqliteStore(path)
    good, bad = await store.put("good"), await store.put("bad")
    await store.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE contents SET body = '\"BAD\"' WHERE hash = ?", (bad,))
    connection.commit()
    connection.close()
    store = SqliteStore(path)
    with pytest.raises(JournalDamaged, match=f"the value stored under {bad} was altered"):
        await store.get_many([good, bad])
    assert await store.get_many([good]) == ["good"]
    await store.close()


async def test_more_values_than_a_query_has_parameters_are_many_values(tmp_path: Path) -> None:
    connection = sqlite3.connect(":memory:")
    most = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
    connection.close()
    store = SqliteStore(tmp_path / "store.db")
    digest = await store.put("there")
    await store.close()
    store = SqliteStore(tmp_path / "store.db")
    many = [digest, *(f"{number:064x}" for number in range(most + 1))]
    with pytest.raises(JournalDamaged, match=f"no value is stored under {many[1]}"):
        await store.get_many(many)
    await store.close()


async def test_the_results_of_a_run_are_read_from_stores_without_many_values_too(
    tmp_path: Path,
) -> None:
    class OneByOne:
        """A store without `get_many`, as programs may have written one."""

        def __init__(self, store: SqliteStore) -> None:
            self.append, self.events, self.wait, self.get = (
                *(store.append, store.events),
                *(store.wait, store.get),
            )

    store = SqliteStore(tmp_path / "store.db")
    steps = {
        f"s{place}": StepState(status=StepStatus.DONE, result_hash=await store.put(place % 2))
        for place in range(4)
    }
    run = Run(id="r", steps=steps | {"open": StepState()})
    expected = {"s0": 0, "s1": 1, "s2": 0, "s3": 1}
    assert await load_results(store, run) == expected
    assert await load_results(OneByOne(store), run) == expected
    await store.close()
