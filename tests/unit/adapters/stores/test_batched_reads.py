"""Values by content hash: what was just kept is at hand, and the rest is read together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from plansmith.adapters.stores import batched_reads as module
from plansmith.adapters.stores.batched_reads import BatchedReads, ValueCache
from plansmith.errors import JournalDamaged, JournalError
from plansmith.plan.data import Json, content_of


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
    found = await asyncio.gather(*map(ValueCache(shelf.read).get, shelf.digests))
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


async def test_one_who_no_longer_waits_does_not_disturb_the_others() -> None:
    shelf = Shelf("a", "b")
    values = ValueCache(shelf.read)
    impatient = asyncio.ensure_future(values.get(shelf.digests[0]))
    patient = asyncio.ensure_future(values.get(shelf.digests[1]))
    await asyncio.sleep(0)
    impatient.cancel()
    assert await patient == "b"
    assert impatient.cancelled()


def test_a_loop_that_ended_in_the_middle_keeps_nobody_waiting() -> None:
    shelf = Shelf("a")
    values = ValueCache(shelf.read)

    async def leave() -> None:
        task = asyncio.ensure_future(values.get(shelf.digests[0]))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    assert asyncio.run(values.get(shelf.digests[0])) == "a"


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


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_whoever_waits_when_the_store_is_closed_is_told_so(turns: int) -> None:
    shelf = Shelf("a")
    values = ValueCache(shelf.read)
    waiting = asyncio.ensure_future(values.get(shelf.digests[0]))
    for _ in range(turns):
        await asyncio.sleep(0)
    await values.close()
    if turns:
        with pytest.raises(JournalError, match="closed"):
            await waiting
    else:
        assert await waiting == "a"


async def test_what_is_damaged_of_one_does_not_keep_the_others_from_theirs() -> None:
    async def ask(keys: Sequence[str]) -> Mapping[str, str]:
        if "broken" in keys:
            raise JournalDamaged("a page is unreadable")
        return {key: key.upper() for key in keys}

    together = BatchedReads(ask)
    found = await asyncio.gather(
        *(together.get(key) for key in ("a", "broken", "b")), return_exceptions=True
    )
    assert [found[0], found[2]] == ["A", "B"]
    assert isinstance(found[1], JournalDamaged)
