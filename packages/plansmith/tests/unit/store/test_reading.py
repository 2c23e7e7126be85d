"""Values by content hash: what was just kept is at hand, and the rest is read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from plansmith.errors import JournalDamaged, JournalError
from plansmith.plan.data import Json, content_of
from plansmith.store import reading as module
from plansmith.store.reading import ValueCache


class Shelf:
    """What lies behind: values by key, and a note of every reading."""

    def __init__(self, *values: Json) -> None:
        self.digests = [content_of(value)[0] for value in values]
        self._kept = {digest: text.decode() for digest, text in map(content_of, values)}
        self.readings: list[int] = []
        self.is_lost = False

    async def read(self, keys: Sequence[str]) -> Mapping[str, object]:
        self.readings.append(len(keys))
        await asyncio.sleep(0)
        if self.is_lost:
            raise JournalError("the disk is gone")
        return {key: self._kept[key] for key in keys if key in self._kept}


async def test_what_was_just_kept_is_not_read_again() -> None:
    shelf = Shelf()
    values = ValueCache(shelf.read)
    digest, text = content_of({"a": [1]})
    values.keep([(digest, text)])
    first = await values.get(digest)
    assert first == {"a": [1]}
    assert isinstance(first, dict)
    first["a"] = "changed by its reader"
    assert await values.get(digest) == {"a": [1]}
    assert shelf.readings == []


async def test_values_asked_for_together_are_read_together() -> None:
    shelf = Shelf(*range(900), None)
    found = await ValueCache(shelf.read).get_many(shelf.digests)
    assert found == [*range(900), None]
    assert shelf.readings == [901]


async def test_a_value_that_nobody_has_is_told_to_the_one_who_asked() -> None:
    shelf = Shelf("here")
    values = ValueCache(shelf.read)
    missing = content_of("not here")[0]
    found = await asyncio.gather(
        *map(values.get, [missing, *shelf.digests, "no hash at all"]), return_exceptions=True
    )
    assert found[1] == "here"
    assert isinstance(found[0], JournalDamaged)
    assert isinstance(found[2], JournalDamaged)


async def test_everyone_learns_that_the_reading_failed_and_the_next_one_may_work() -> None:
    shelf = Shelf("a", "b")
    values = ValueCache(shelf.read)
    shelf.is_lost = True
    found = await asyncio.gather(*map(values.get, shelf.digests), return_exceptions=True)
    assert [str(each) for each in found] == ["the disk is gone"] * 2
    shelf.is_lost = False
    assert await values.get(shelf.digests[0]) == "a"


async def test_old_and_large_values_are_left_to_the_store() -> None:
    texts = [content_of(f"{number:0100}") for number in range(5)]
    large = content_of("x" * (module.LARGEST + 1))
    shelf = Shelf(*(f"{number:0100}" for number in range(5)), "x" * (module.LARGEST + 1))
    values = ValueCache(shelf.read, most=300)
    values.keep([*texts, large])
    for digest, _ in [*texts, large]:
        await values.get(digest)
    assert len(shelf.readings) == 4


@pytest.mark.parametrize("value", [None, "", 0, {"a": None}])
async def test_after_forgetting_all_is_read_again(value: Json) -> None:
    shelf = Shelf(value)
    values = ValueCache(shelf.read)
    values.keep([content_of(value)])
    values.forget()
    assert await values.get(shelf.digests[0]) == value
    assert shelf.readings == [1]
