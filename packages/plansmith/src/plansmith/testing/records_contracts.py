"""Contract tests for stores that keep records, as a class to inherit in a test module."""

from __future__ import annotations

import asyncio
from typing import Protocol

from plansmith.ports import JournalStore, Record, Records
from plansmith.testing.contracts import journal, on_new_store


class RecordStore(Records, JournalStore, Protocol):
    """A store of runs and records."""

    async def delete_run(self, run: str) -> bool:
        """Deletes a run."""
        ...

    async def close(self) -> None:
        """Closes the store."""
        ...


def record(name: str, version: int = 1, *, kind: str = "note", **more: str) -> Record:
    """Returns a version of a record."""
    return Record(kind, name, version, f'{{"text":"{name} {version} \u6696"}}', **more)  # type: ignore[arg-type]


class RecordsContract:
    """Tests for stores that keep records; define `make_store`."""

    def make_store(self) -> RecordStore:
        """Returns a new, empty store."""
        raise NotImplementedError

    @on_new_store
    async def test_a_record_comes_back_as_it_was_put(self, store: RecordStore) -> None:
        put = record("a", label="'; --", place="%s :kind", state="open", run="r")
        assert await store.put_records([put])
        assert await store.put_records([])
        assert await store.record("note", "a") == put
        assert await store.record("note", "b") is None
        assert await store.record("other", "a") is None

    @on_new_store
    async def test_a_version_is_followed_only_by_the_next(self, store: RecordStore) -> None:
        assert not await store.put_records([record("a", 2)])
        assert await store.put_records([record("a")])
        assert await store.put_records([record("a", 2)])
        for version in (1, 2, 4):
            assert not await store.put_records([record("a", version)])
        assert await store.record("note", "a") == record("a", 2)

    @on_new_store
    async def test_records_are_put_together_or_not_at_all(self, store: RecordStore) -> None:
        await store.put_records([record("b")])
        assert not await store.put_records([record("a"), record("b"), record("c")])
        assert list(await store.records("note")) == [record("b")]
        assert await store.put_records([record("a"), record("b", 2)])
        assert list(await store.records("note")) == [record("a"), record("b", 2)]

    @on_new_store
    async def test_of_many_who_write_one_version_exactly_one_wins(self, store: RecordStore) -> None:
        rivals = [record("a", label=f"{number}") for number in range(9)]
        won = await asyncio.gather(*(store.put_records([each]) for each in rivals))
        assert sum(won) == 1
        assert list(await store.records("note")) == [rivals[won.index(True)]]

    @on_new_store
    async def test_lists_choose_by_label_and_state_and_sort_by_place(
        self, store: RecordStore
    ) -> None:
        a = record("a", place="3", label="x")
        b = record("b", place="1", label="y", state="open")
        c = record("c", place="2", label="x", state="open")
        d = record("d", place="2", label="x")
        await store.put_records([a, b, c, d, record("a", kind="other", place="0", label="x")])
        assert list(await store.records("note")) == [b, c, d, a]
        assert list(await store.records("note", newest=True)) == [a, d, c, b]
        assert list(await store.records("note", label="x")) == [c, d, a]
        assert list(await store.records("note", state="open")) == [b, c]
        assert list(await store.records("note", label="x", state="")) == [d, a]
        assert list(await store.records("note", newest=True, limit=2)) == [a, d]
        assert list(await store.records("note", after=("2", "c"))) == [d, a]
        assert list(await store.records("note", after=("2", "d"), newest=True)) == [c, b]
        assert list(await store.records("none")) == []

    @on_new_store
    async def test_removed_records_take_those_that_are_labelled_with_their_names(
        self, store: RecordStore
    ) -> None:
        parts = [record(f"{of}{n}", kind="part", label=of) for of in "ab" for n in (1, 2)]
        await store.put_records([record("a"), record("b"), record("c"), *parts])
        assert await store.remove_records("note", ["a", "none"], labelled=["part"]) == 1
        assert list(await store.records("note")) == [record("b"), record("c")]
        assert list(await store.records("part")) == parts[2:]
        assert await store.remove_records("note", []) == 0
        assert await store.remove_records("note", ["b"]) == 1
        assert list(await store.records("part")) == parts[2:]
        assert await store.put_records([record("a")])

    @on_new_store
    async def test_a_record_of_a_run_is_deleted_with_the_run(self, store: RecordStore) -> None:
        await store.append(journal("r", 2))
        kept = record("b")
        await store.put_records([record("a", run="r"), kept])
        assert await store.delete_run("r")
        assert list(await store.records("note")) == [kept]

    @on_new_store
    async def test_waiting_for_a_record_ends_with_its_next_version_and_no_other(
        self, store: RecordStore
    ) -> None:
        await store.put_records([record("a")])
        await asyncio.wait_for(store.wait_record("note", "a", version=0), 30)
        waiting = asyncio.ensure_future(store.wait_record("note", "a", version=1))
        new = asyncio.ensure_future(store.wait_record("note", "b", version=0))
        for _ in range(5):
            await asyncio.sleep(0)
        await store.put_records([record("a", kind="other"), record("a", 2, kind="more")])
        await store.append(journal("a", 5))
        assert not waiting.done()
        await store.put_records([record("a", 2)])
        await asyncio.wait_for(waiting, 30)
        assert not new.done()
        await store.put_records([record("b")])
        await asyncio.wait_for(new, 30)
