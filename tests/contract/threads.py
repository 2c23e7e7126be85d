"""What threads promise over any store, as a class to inherit in a test module."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from plansmith.errors import StaleWriter
from plansmith.plan.data import Json
from plansmith.plan.events import Actor
from plansmith.plan.thread import (
    AnyThreadBody,
    MessageAdded,
    MessageRead,
    MessageUndone,
    ReplyGiven,
    ThreadEntry,
    ThreadOpened,
    ThreadState,
    ThreadSummarised,
    fold_thread,
)
from plansmith.ports import PlanStore
from plansmith.testing.contracts import journal
from plansmith_planner.threads.store import ThreadHeadline, ThreadStore

_START = datetime(2026, 1, 1, tzinfo=UTC)
_PERSON = Actor(kind="person", name="ann")


class ThreadKeeper(ThreadStore):
    """The threads of a store, and the store itself for runs."""

    def __init__(self, store: PlanStore) -> None:
        super().__init__(store)
        self.store = store


def entry(thread: str, number: int, body: AnyThreadBody, *, minute: int = 0) -> ThreadEntry:
    """Returns one entry of a thread, said by a person at a minute."""
    at = _START + timedelta(minutes=minute, microseconds=number)
    return ThreadEntry(thread=thread, number=number, at=at, by=_PERSON, body=body)


def story(thread: str, *, owner: str = "ann", minute: int = 0) -> list[ThreadEntry]:
    """Returns a thread with every kind of entry; its runs are named after it."""
    run, later = f"{thread}-run", f"{thread}-later"
    bodies: Sequence[AnyThreadBody] = (
        ThreadOpened(owner=owner, folder="/srv/ann/旅行"),
        MessageAdded(text="Where is it warm?\n“暖” ✓", key="k1"),
        MessageRead(message=2, kind="request", run=run),
        MessageAdded(text="Rome"),
        MessageRead(message=4, kind="answer", run=run, question="q1", value={"city": ["Rome"]}),
        MessageUndone(message=4, run=later),
        ReplyGiven(message=4, text="because it is warm", run=run, step="look"),
        ThreadSummarised(upto=4, text="They want to go where it is warm.", tokens=7),
    )
    return [entry(thread, at, body, minute=minute) for at, body in enumerate(bodies, start=1)]


class ThreadStoreContract:
    """Tests for stores that keep threads; define `make_store`."""

    def make_store(self) -> PlanStore:
        """Returns a new, empty store."""
        raise NotImplementedError

    def test_entries_of_a_thread_come_back_as_they_were_appended(self) -> None:
        async def scenario(store: ThreadKeeper) -> None:
            entries = story("trip")
            assert await store.append_entries(entries[:3])
            assert await store.append_entries(entries[3:])
            found = await store.thread_entries("trip")
            assert list(found) == entries
            assert fold_thread(ThreadState("trip"), found) == fold_thread(
                ThreadState("trip"), entries
            )
            assert list(await store.thread_entries("trip", after=6)) == entries[6:]
            assert list(await store.thread_entries("trip", after=-1)) == entries
            assert list(await store.thread_entries("trip", after=99)) == []
            assert list(await store.thread_entries("another")) == []

        self._with_store(scenario)

    def test_entries_that_do_not_follow_the_last_of_their_thread_are_refused_together(self) -> None:
        async def scenario(store: ThreadKeeper) -> None:
            entries = story("trip")
            assert await store.append_entries(())
            assert not await store.append_entries(entries[1:2])
            assert await store.append_entries(entries[:3])
            for late in (entries[:1], entries[2:3], entries[1:6], entries[4:]):
                assert not await store.append_entries(late)
            for broken in ([entries[3], entries[5]], [entries[3], story("other")[4]]):
                with pytest.raises(StaleWriter):
                    await store.append_entries(broken)
            assert list(await store.thread_entries("trip")) == entries[:3]
            assert list(await store.thread_entries("other")) == []
            assert await store.thread_of("trip-later") == ""

        self._with_store(scenario)

    def test_of_two_writers_of_the_same_entry_of_a_thread_exactly_one_wins(self) -> None:
        async def scenario(store: ThreadKeeper) -> None:
            entries = story("trip")
            assert await store.append_entries(entries[:1])
            # The very same entry at the same moment, too: both were said.
            rivals = [entries[1:3] for _ in range(5)]
            outcomes = await asyncio.gather(*map(store.append_entries, rivals))
            assert sorted(outcomes) == [False] * 4 + [True]
            assert list(await store.thread_entries("trip")) == entries[:3]
            [listed] = await store.threads(limit=5)
            assert (listed.messages, listed.last) == (1, 3)

        self._with_store(scenario)

    def test_threads_are_listed_by_their_newest_activity_and_by_owner(self) -> None:
        async def scenario(store: ThreadKeeper) -> None:
            for minute, (thread, owner) in enumerate([("a", "ann"), ("b", "bob"), ("c", "ann")]):
                await store.append_entries(story(thread, owner=owner, minute=minute))
            assert await _names(store) == ["c", "b", "a"]
            await store.append_entries([entry("a", 9, MessageAdded(text="and now?"), minute=7)])
            assert await _names(store) == ["a", "c", "b"]
            assert await _names(store, owner="ann") == ["a", "c"]
            assert await _names(store, owner="") == []
            assert await _names(store, limit=2) == ["a", "c"]
            assert await _names(store, before="c") == ["b"]
            assert await _names(store, owner="ann", before="a") == ["c"]
            assert await _names(store, before="b") == []

        self._with_store(scenario)

    def test_pages_of_threads_that_were_active_at_one_moment_leave_none_out(self) -> None:
        async def scenario(store: ThreadKeeper) -> None:
            for number in range(7):
                await store.append_entries(story(f"t{number}"))
            seen: list[str] = []
            while page := await _names(store, before=seen[-1] if seen else "", limit=3):
                seen += page
            assert sorted(seen) == [f"t{number}" for number in range(7)]

        self._with_store(scenario)

    def test_a_page_of_threads_behind_a_removed_one_begins_anew(self) -> None:
        async def scenario(store: ThreadKeeper) -> None:
            for minute, thread in enumerate("abc"):
                await store.append_entries(story(thread, minute=minute))
            assert await store.remove_thread("b")
            assert await _names(store, before="b") == ["c", "a"]

        self._with_store(scenario)

    def test_the_headline_of_a_thread_says_what_its_fold_says(self) -> None:
        async def scenario(store: ThreadKeeper) -> None:
            entries = story("trip")
            for each in entries:
                assert await store.append_entries([each])
                state = fold_thread(ThreadState("trip"), await store.thread_entries("trip"))
                [listed] = await store.threads(limit=2)
                assert listed == ThreadHeadline(
                    "trip",
                    state.owner,
                    state.title,
                    state.folder,
                    len(state.messages),
                    state.last,
                    each.at,
                )
            [listed] = await store.threads(limit=2)
            assert listed.title == "Where is it warm? “暖” ✓"

        self._with_store(scenario)

    def test_hostile_texts_in_a_thread_change_nothing_but_themselves(self) -> None:
        async def scenario(store: ThreadKeeper) -> None:
            text = "'); DROP TABLE threads; --\x00\x1b[31m:thread %(thread)s %s {} ? \\u0000"
            name = "o'brien; :owner %s"
            entries = [
                entry(name, 1, ThreadOpened(owner=name, folder="a\x00b")),
                entry(name, 2, MessageAdded(text=text)),
            ]
            assert await store.append_entries(entries)
            assert await store.append_entries(story("trip"))
            assert list(await store.thread_entries(name)) == entries
            [listed] = await store.threads(owner=name, limit=5)
            assert (listed.thread, listed.messages) == (name, 1)
            assert listed.title.startswith("'); DROP TABLE threads; --")

        self._with_store(scenario)

    def test_a_run_is_found_in_the_thread_that_named_it_first(self) -> None:
        async def scenario(store: ThreadKeeper) -> None:
            await store.append_entries([entry("one", 1, ThreadOpened(adopts="adopted"))])
            await store.append_entries(story("trip"))
            again = MessageRead(message=2, kind="request", run="trip-run")
            said = [entry("two", 1, ThreadOpened()), entry("two", 2, MessageAdded(text="again"))]
            await store.append_entries([*said, entry("two", 3, again)])
            runs = ("adopted", "trip-run", "trip-later", "none")
            found = [await store.thread_of(run) for run in runs]
            assert found == ["one", "trip", "trip", ""]

        self._with_store(scenario)

    def test_a_removed_thread_takes_its_entries_and_no_run(self) -> None:
        async def scenario(store: ThreadKeeper) -> None:
            await store.store.append(journal("trip-run", 3))
            await store.append_entries(story("trip"))
            await store.append_entries(story("other"))
            assert await store.remove_thread("trip")
            assert not await store.remove_thread("trip")
            assert not await store.remove_thread("never")
            assert list(await store.thread_entries("trip")) == []
            assert await _names(store) == ["other"]
            assert [await store.thread_of(f"{each}-run") for each in ("trip", "other")] == [
                "",
                "other",
            ]
            assert list(await store.store.events("trip-run")) == journal("trip-run", 3)
            # Whoever still had it in hand does not bring half of it back.
            assert not await store.append_entries(
                [entry("trip", 9, MessageAdded(text="still here?"))]
            )
            assert await store.append_entries(story("trip")[:1])

        self._with_store(scenario)

    def test_waiting_for_a_thread_ends_with_its_next_entry_and_no_other(self) -> None:
        async def scenario(store: ThreadKeeper) -> None:
            entries = story("trip")
            await store.append_entries(entries[:2])
            await asyncio.wait_for(store.wait_thread("trip", after=1), 30)
            waiting = asyncio.ensure_future(store.wait_thread("trip", after=2))
            new = asyncio.ensure_future(store.wait_thread("new", after=0))
            for _ in range(5):
                await asyncio.sleep(0)
            # Of another thread, and of a run of that name.
            await store.append_entries(story("other"))
            await store.store.append(journal("trip", 5))
            assert not waiting.done()
            await store.append_entries(entries[2:])
            await asyncio.wait_for(waiting, 30)
            assert not new.done()
            await store.append_entries(story("new"))
            await asyncio.wait_for(new, 30)

        self._with_store(scenario)

    def test_an_entry_of_a_thread_cannot_be_changed_from_outside(self) -> None:
        async def scenario(store: ThreadKeeper) -> None:
            cities: list[Json] = ["Rome"]
            said = [entry("trip", 1, ThreadOpened()), entry("trip", 2, MessageAdded(text="Rome"))]
            read = MessageRead(
                message=2, kind="answer", run="r", question="q", value={"city": cities}
            )
            await store.append_entries([*said, entry("trip", 3, read)])
            cities.append("Oslo")
            [found] = await store.thread_entries("trip", after=2)
            assert isinstance(found.body, MessageRead)
            assert found.body.value == {"city": ["Rome"]}

        self._with_store(scenario)

    def _with_store(self, scenario: Callable[[ThreadKeeper], Awaitable[None]]) -> None:
        async def play() -> None:
            store = self.make_store()
            try:
                await scenario(ThreadKeeper(store))
            finally:
                await store.close()

        asyncio.run(play())


async def _names(
    store: ThreadStore, *, owner: str | None = None, before: str = "", limit: int = 9
) -> list[str]:
    return [each.thread for each in await store.threads(owner=owner, before=before, limit=limit)]
