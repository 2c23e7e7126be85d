"""What a store of templates does with its records; those are tested with every store."""

from __future__ import annotations

import pytest

from plansmith.store.memory import MemoryStore
from plansmith.templates.book import TemplateStore


@pytest.fixture
def shelf() -> TemplateStore:
    return TemplateStore(MemoryStore())


async def test_versions_count_up_and_the_last_one_again_is_no_new_one(shelf: TemplateStore) -> None:
    assert await shelf.keep("a", {"n": 1}) == 1
    assert await shelf.keep("a", {"n": 2}) == 2
    assert await shelf.keep("a", {"n": 2}) == 2
    assert await shelf.keep("a", {"n": 1}) == 3
    assert await shelf.keep("天气", ["x" * 1000]) == 1
    assert list(await shelf.kept()) == [
        ("a", 1, False, {"n": 1}),
        ("a", 2, False, {"n": 2}),
        ("a", 3, False, {"n": 1}),
        ("天气", 1, False, ["x" * 1000]),
    ]


async def test_removed_versions_stay_and_their_numbers_are_not_reused(
    shelf: TemplateStore,
) -> None:
    for number in range(3):
        await shelf.keep("a", number)
    assert await shelf.drop("a", 2) == 1
    assert await shelf.drop("a", 2) == 0
    assert await shelf.drop("b") == 0
    assert await shelf.drop("a") == 2
    assert await shelf.keep("a", "new") == 4
    kept = await shelf.kept()
    assert [(version, removed) for _, version, removed, _ in kept] == [
        *[(1, True), (2, True), (3, True)],
        (4, False),
    ]
