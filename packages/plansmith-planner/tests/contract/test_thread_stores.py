"""What every store does with threads, and what the durable ones do beyond that."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.contract.threads import entry, story
from tests.postgres import Server

from plansmith.errors import JournalDamaged, StaleWriter
from plansmith.plan.data import Json
from plansmith.plan.events import Actor, RunFinished, next_event
from plansmith.ports import Document, Finding, Store
from plansmith.store.memory import MemoryStore
from plansmith.store.urls import open_store
from plansmith.testing.contracts import journal
from plansmith_cli.doctor import diagnose
from plansmith_planner.threads.entries import (
    MessageAdded,
    MessageRead,
    ThreadOpened,
    ThreadState,
    fold_thread,
)
from plansmith_planner.threads.store import ThreadHeadline, ThreadStore

_numbers = itertools.count(1)


class ThreadKeeper(ThreadStore):
    """The threads of a store, and the store itself for runs."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.store = store


def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        server: Server = request.getfixturevalue("postgres_server")
        return server.new_database(f"threads_{next(_numbers)}")
    return "memory" if request.param == "memory" else f"sqlite:///{tmp_path / 'runs.db'}"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ThreadKeeper]:
    made = open_store(_url(request, tmp_path))
    yield ThreadKeeper(made)
    await made.close()


async def test_entries_of_a_thread_come_back_as_they_were_appended(store: ThreadKeeper) -> None:
    entries = story("trip")
    assert await store.append_entries(entries[:3])
    assert await store.append_entries(entries[3:])
    found = await store.thread_entries("trip")
    assert list(found) == entries
    assert fold_thread(ThreadState("trip"), found) == fold_thread(ThreadState("trip"), entries)
    assert list(await store.thread_entries("trip", after=6)) == entries[6:]
    assert list(await store.thread_entries("trip", after=-1)) == entries
    assert list(await store.thread_entries("trip", after=99)) == []
    assert list(await store.thread_entries("another")) == []


async def test_a_thread_made_anew_with_the_name_of_a_removed_one_has_nothing_of_it(
    store: ThreadKeeper,
) -> None:
    reader = ThreadStore(store.store)
    await store.append_entries(story("trip", owner="ada"))
    assert (await reader.read("trip")).owner == "ada"
    await store.remove_thread("trip")
    assert (await reader.read("trip")).messages == ()
    await store.append_entries(story("trip", owner="ada"))
    await reader.read("trip")
    await store.remove_thread("trip")
    await store.append_entries(story("trip", owner="bob", minute=5))
    found = await reader.read("trip")
    assert (found.owner, found) == ("bob", await ThreadStore(store.store).read("trip"))


async def test_entries_that_do_not_follow_the_last_of_their_thread_are_refused_together(
    store: ThreadKeeper,
) -> None:
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


async def test_threads_are_listed_by_their_newest_activity_and_by_owner(
    store: ThreadKeeper,
) -> None:
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


async def test_the_headline_of_a_thread_says_what_its_fold_says(store: ThreadKeeper) -> None:
    entries = story("trip")
    for each in entries:
        assert await store.append_entries([each])
        state = fold_thread(ThreadState("trip"), await store.thread_entries("trip"))
        [listed] = await store.threads(limit=2)
        assert listed == ThreadHeadline(
            "trip", state.owner, state.title, state.folder, len(state.messages), state.last, each.at
        )
    [listed] = await store.threads(limit=2)
    assert listed.title == "Where is it warm? “暖” ✓"


async def test_hostile_texts_in_a_thread_change_nothing_but_themselves(store: ThreadKeeper) -> None:
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


async def test_a_run_is_found_in_the_thread_that_named_it_first(store: ThreadKeeper) -> None:
    await store.append_entries([entry("one", 1, ThreadOpened(adopts="adopted"))])
    await store.append_entries(story("trip"))
    again = MessageRead(message=2, kind="request", run="trip-run")
    opening = [entry("two", 1, ThreadOpened()), entry("two", 2, MessageAdded(text="again"))]
    await store.append_entries([*opening, entry("two", 3, again)])
    runs = ("adopted", "trip-run", "trip-later", "none")
    found = [await store.thread_of(run) for run in runs]
    assert found == ["one", "trip", "trip", ""]


async def test_a_removed_thread_takes_its_entries_and_no_run(store: ThreadKeeper) -> None:
    await store.store.append(journal("trip-run", 3))
    await store.append_entries(story("trip"))
    await store.append_entries(story("other"))
    assert await store.remove_thread("trip")
    assert not await store.remove_thread("trip")
    assert not await store.remove_thread("never")
    assert list(await store.thread_entries("trip")) == []
    assert await _names(store) == ["other"]
    assert [await store.thread_of(f"{each}-run") for each in ("trip", "other")] == ["", "other"]
    assert list(await store.store.events("trip-run")) == journal("trip-run", 3)
    # Whoever still had it in hand does not bring half of it back.
    assert not await store.append_entries([entry("trip", 9, MessageAdded(text="still here?"))])
    assert await store.append_entries(story("trip")[:1])


async def _names(
    store: ThreadStore, *, owner: str | None = None, before: str = "", limit: int = 9
) -> list[str]:
    return [each.thread for each in await store.threads(owner=owner, before=before, limit=limit)]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return _url(request, tmp_path)


async def test_a_thread_outlives_its_runs(url: str) -> None:
    store = open_store(url)
    assert not isinstance(store, MemoryStore)
    for run in ("trip-run", "trip-later"):
        events = journal(run, 1)
        body, by = RunFinished(status="done"), Actor(kind="system")
        at = datetime(2026, 1, 1, tzinfo=UTC)
        await store.append([*events, next_event(body, run=run, by=by, at=at, last=events[-1])])
    await ThreadStore(store).append_entries(story("trip"))
    assert await store.delete_run("trip-later")
    assert await store.delete_run("trip-run")
    assert list(await store.runs()) == []
    assert list(await ThreadStore(store).thread_entries("trip")) == story("trip")
    # Otherwise its message would look like one that nobody has acted on.
    assert await ThreadStore(store).thread_of("trip-later") == ""
    await store.close()


async def test_followers_of_a_thread_hear_of_entries_of_another_store(url: str) -> None:
    mine, theirs = open_store(url), open_store(url)
    await ThreadStore(mine).append_entries(story("trip")[:1])
    waiting = asyncio.ensure_future(ThreadStore(mine).wait_thread("trip", after=3))
    news = asyncio.ensure_future(mine.wait_news(0))
    assert await ThreadStore(theirs).append_entries(story("trip")[1:3])
    assert await ThreadStore(theirs).append_entries(story("trip")[3:5])
    await asyncio.wait_for(waiting, 30)
    assert not news.done(), "a thread is no event of a run"
    news.cancel()
    await mine.close()
    await theirs.close()


class _Counting(MemoryStore):
    """Counts the documents that are read in lists."""

    read = 0

    async def documents(self, kind: str, **which: Any) -> Sequence[Document]:
        await asyncio.sleep(0)  # as a store on a disk lets others go on
        found = await super().documents(kind, **which)
        self.read += len(found)
        return found


async def test_many_who_wait_for_a_thread_do_not_read_all_of_it_at_each_message() -> None:
    store = _Counting()
    threads = ThreadStore(store)
    said = [MessageAdded(text="Rome") for _ in range(300)]
    state = await threads.add("trip", ThreadOpened(), *said)
    waiting = [
        asyncio.ensure_future(threads.wait_thread("trip", after=state.last)) for _ in range(20)
    ]
    await asyncio.sleep(0)
    store.read = 0
    await threads.add("trip", MessageAdded(text="Oslo"))
    await asyncio.wait_for(asyncio.gather(*waiting), 30)
    await asyncio.gather(*(threads.read("trip") for _ in range(20)))
    assert store.read < 100


async def _findings(url: str) -> dict[str, Finding]:
    return {each.subject: each for each in await diagnose(url)}


async def test_the_doctor_says_which_thread_is_damaged_and_puts_its_headline_right(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    store = open_store(url)
    for thread in ("altered", "cut", "holed", "listed", "whole"):
        await ThreadStore(store).append_entries(story(thread))
    await store.close()
    assert (await _findings(url))["threads"].message == "5 threads read, 0 damaged"
    with closing(sqlite3.connect(tmp_path / "runs.db")) as file, file:
        file.execute(
            "UPDATE documents SET body = replace(body, 'Rome', 'Oslo') WHERE name = 'altered 4'"
        )
        file.execute("DELETE FROM documents WHERE name = 'cut 8'")
        file.execute("DELETE FROM documents WHERE name = 'holed 2'")
        file.execute("UPDATE documents SET label = 'eve', body = '{}' WHERE name = 'listed'")
    found = await _findings(url)
    messages = {name: found[f"thread {name}"].message for name in ("altered", "cut", "holed")}
    assert messages == {
        "altered": "entry 4 of thread altered was altered",
        "cut": "the end of thread cut is missing",
        "holed": "entry 2 of thread holed is missing",
    }
    assert found["thread listed"].level == "warning"
    assert found["threads"].message == "5 threads read, 3 damaged"
    store = open_store(url)
    assert [each.thread for each in await ThreadStore(store).threads(owner="eve", limit=9)] == []
    with pytest.raises(JournalDamaged, match="was altered"):
        await ThreadStore(store).thread_entries("altered")
    assert list(await ThreadStore(store).thread_entries("altered", after=4)) == story("altered")[4:]
    # One damaged thread can still be removed, and keeps no other from being read.
    assert await ThreadStore(store).remove_thread("altered")
    assert list(await ThreadStore(store).thread_entries("whole")) == story("whole")
    await store.close()


async def test_an_entry_of_a_thread_cannot_be_changed_from_outside(store: ThreadKeeper) -> None:
    cities: list[Json] = ["Rome"]
    opening = [entry("trip", 1, ThreadOpened()), entry("trip", 2, MessageAdded(text="Rome"))]
    read = MessageRead(message=2, kind="answer", run="r", question="q", value={"city": cities})
    await store.append_entries([*opening, entry("trip", 3, read)])
    cities.append("Oslo")
    [found] = await store.thread_entries("trip", after=2)
    assert isinstance(found.body, MessageRead)
    assert found.body.value == {"city": ["Rome"]}
