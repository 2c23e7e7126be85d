"""What the stores that outlive a process promise beyond the port's contract."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import pytest

from plansmith.errors import JournalDamaged, JournalError, StaleWriter
from plansmith.plan.data import Json, canonical_hash
from plansmith.plan.events import (
    Actor,
    AnyBody,
    Event,
    PlanProposed,
    RunCreated,
    RunFinished,
    StepReused,
    next_event,
    verify_chain,
)
from plansmith.plan.plan import Plan
from plansmith.store.memory import MemoryStore
from plansmith.store.sqlite import SqliteStore
from plansmith.testing.contracts import journal, on_new_store
from plansmith.verify import verify
from plansmith_postgres.store import PostgresStore

Store = SqliteStore | PostgresStore
AnyStore = MemoryStore | Store
Story = Callable[[Store], Awaitable[None]]
START = datetime(2026, 1, 1, tzinfo=UTC)
# A shorter text would stand in the place of its hash.
LONG = "x" * 64


def finished_run(run: str, *, result: Json, at: datetime = START) -> list[Event]:
    """A run of one step, with its result."""
    plan = Plan.model_validate({"goal": "measure", "steps": [{"id": "a", "tool": "look"}]})
    bodies: Sequence[AnyBody] = (
        RunCreated(request="measure"),
        PlanProposed(plan=plan),
        StepReused(step="a", result=canonical_hash(result), run="another"),
        RunFinished(status="done"),
    )
    events: list[Event] = []
    for body in bodies:
        last = events[-1] if events else None
        events.append(next_event(body, run=run, by=Actor(kind="system"), at=at, last=last))
    return events


class DurableStoreContract:
    """For stores with groups, heads, followers and retention; give `open_store`."""

    def open_store(self, *, now: datetime = START) -> Store:
        """The store; every call opens the same one."""
        raise NotImplementedError

    def test_everything_is_there_when_the_store_is_opened_again(self) -> None:
        async def write(store: Store) -> None:
            await store.append(journal("a", 40), [{"n": LONG}])

        async def read(store: Store) -> None:
            events = await store.events("a")
            assert list(events) == journal("a", 40)
            verify_chain(events)
            assert await store.get(canonical_hash({"n": LONG})) == {"n": LONG}
            await store.append(journal("a", 41)[40:])

        self._play(write)
        self._play(read)

    def test_a_position_never_comes_twice_even_if_the_newest_run_goes(self) -> None:
        seen: list[int] = []

        async def write(store: Store) -> None:
            await store.append(journal("a", 2))
            await store.append(journal("b", 3))
            seen.append((await store.news())[-1].position)
            assert await store.delete_run("b")

        async def go_on(store: Store) -> None:
            await store.append(journal("c", 1))
            assert [each.run for each in await store.news(seen[0])] == ["c"]

        self._play(write)
        self._play(go_on)

    @on_new_store
    async def test_a_conflict_fails_its_own_caller_only(self, store: Store) -> None:
        await store.append(journal("a", 2))
        appends = [store.append(journal(f"r{number}", 3)) for number in range(20)]
        appends.insert(7, store.append(journal("a", 2)[1:], [{"never": LONG}]))
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
        assert [type(each) for each in outcomes if each] == [StaleWriter]
        assert len(await store.runs()) == 21
        with pytest.raises(JournalDamaged):
            await store.get(canonical_hash({"never": LONG}))

    @on_new_store
    async def test_an_event_of_another_history_is_refused(self, store: Store) -> None:
        ours = journal("a", 2)
        other = next_event(RunCreated(request="other"), run="a", by=ours[0].by, at=ours[0].at)
        theirs = next_event(ours[1].body, run="a", by=ours[0].by, at=ours[0].at, last=other)
        await store.append(ours[:1])
        with pytest.raises(StaleWriter):
            await store.append([theirs])
        with pytest.raises(StaleWriter):
            await store.append([ours[1], ours[1]])
        assert list(await store.events("a")) == ours[:1]

    @on_new_store
    async def test_a_follower_is_told_by_another_store(self, store: Store) -> None:
        other = self.open_store()
        events = journal("a", 3)
        try:
            waiting = [asyncio.ensure_future(store.wait("a", after=n)) for n in (0, 1)]
            await other.append(events[:1])
            await waiting[0]
            assert not waiting[1].done()
            await other.append(events[1:])
            await waiting[1]
            await store.wait("a", after=2)
            assert list(await store.events("a", after=1)) == events[1:]
        finally:
            await other.close()

    @on_new_store
    async def test_a_follower_goes_home_when_the_store_closes(self, store: Store) -> None:
        waiting = asyncio.ensure_future(store.wait("a"))
        given_up = asyncio.ensure_future(store.wait("a"))
        await asyncio.sleep(0)
        given_up.cancel()
        await store.runs()
        await store.close()
        with pytest.raises(JournalError):
            await waiting

    @on_new_store
    async def test_followers_that_cannot_be_woken_stop_no_commit(self, store: Store) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        store._queue._on_settled = Mock(side_effect=RuntimeError("that loop is closed"))
        for run in "abc":
            await asyncio.wait_for(store.append(journal(run, 1)), 30)
        assert list(await store.runs()) == [*"abc"]

    @on_new_store
    async def test_a_deleted_run_is_gone_and_its_name_is_free(self, store: Store) -> None:
        await store.append(journal("a", 20))
        await store.append(journal("b", 20))
        assert await store.delete_run("a")
        assert not await store.delete_run("a")
        assert list(await store.runs()) == ["b"]
        with pytest.raises(StaleWriter):
            await store.append(journal("a", 21)[20:])
        await store.append(journal("a", 2))
        assert list(await store.events("a")) == journal("a", 2)
        assert list(await store.events("b")) == journal("b", 20)

    def test_a_run_is_deleted_only_as_it_was_seen_and_its_tombstone_stays(self) -> None:
        stone: Json = {"run": "a", "callee": "pay"}

        async def story(store: Store) -> None:
            await store.append(journal("a", 20))
            assert not await store.delete_run("a", last=19, tombstones=[stone])
            assert (await store.tombstones(), len(await store.events("a"))) == ([], 20)
            assert await store.delete_run("a", last=20, tombstones=[stone])
            await store.append(journal("a", 2))

        async def later(store: Store) -> None:
            assert await store.tombstones() == [stone]
            assert await store.delete_run("a")
            assert (await store.tombstones(), await store.missing()) == ([stone], [])

        self._play(story)
        self._play(later)

    @on_new_store
    async def test_changes_at_the_same_time_do_not_get_into_each_other(self, store: Store) -> None:
        names = [f"r{number}" for number in range(12)]
        for name in names:
            await store.append(journal(name, 3))
        found = await asyncio.gather(
            *(store.delete_run(name) for name in names[:6]),
            store.set_aside(names[6], 2, []),
            *(store.claim(name, "me") for name in names[7:]),
            store.prune(START),
            store.append(journal("new", 2), ["kept"]),
        )
        assert found[:7] == [*[True] * 6, 1]
        assert [getattr(each, "owner", None) for each in found[7:12]] == ["me"] * 5
        assert list(await store.runs()) == [*names[6:], "new"]
        claimed = [(name, claim.owner) for name, claim in await store.claims()]
        assert claimed == sorted((name, "me") for name in names[7:])
        assert await store.missing() == []

    def test_retention_takes_old_finished_runs_and_the_values_only_they_used(self) -> None:
        async def write(store: Store) -> None:
            await store.append(finished_run("old", result=f"only old {LONG}"), [f"only old {LONG}"])
            await store.append(finished_run("older", result=f"shared {LONG}"), [f"shared {LONG}"])
            await store.append(journal("open", 3))
            later = START + timedelta(days=20)
            await store.append(finished_run("young", result=f"shared {LONG}", at=later))

        async def prune(store: Store) -> None:
            assert await store.unmentioned() == 0
            old = await store.over_before(START + timedelta(days=10))
            assert [await store.delete_run(each) for each in old] == [True, True]
            assert await store.prune(START + timedelta(days=10)) == 1
            assert list(await store.runs()) == ["open", "young"]
            assert await verify(store, "young") == 4
            with pytest.raises(JournalDamaged):
                await store.get(canonical_hash(f"only old {LONG}"))
            assert await store.prune(START) == 0

        self._play(write)
        self._play(prune, now=START + timedelta(days=30))

    def test_retention_spares_a_value_that_was_put_again_for_an_event_to_come(self) -> None:
        async def write(store: Store) -> None:
            await store.append(finished_run("old", result=f"again {LONG}"), [f"again {LONG}"])

        async def prune(store: Store) -> None:
            digest = await store.put(f"again {LONG}")
            assert await store.prune(START + timedelta(days=29)) == 0
            assert await store.get(digest) == f"again {LONG}"

        self._play(write)
        self._play(prune, now=START + timedelta(days=30))

    def test_values_of_rows_that_are_set_aside_can_still_be_read(self) -> None:
        events = finished_run("a", result=f"made {LONG}")
        # A fact is told again behind the repair, by its hash alone.
        [reused] = [each.body for each in events if isinstance(each.body, StepReused)]
        fact = next_event(reused, run="a", by=events[0].by, at=START, last=events[0])

        async def repair(store: Store) -> None:
            await store.append(events, [f"made {LONG}"])
            assert await store.set_aside("a", 1, [fact]) == 3

        async def read(store: Store) -> None:
            assert list(await store.events("a")) == [events[0], fact]
            await store.prune(START)
            assert await store.get(canonical_hash(f"made {LONG}")) == f"made {LONG}"
            kept = await store._query("SELECT body FROM set_aside ORDER BY id", {})
            assert [(each.body_text.decode(),) for each in events[1:]] == kept

        self._play(repair)
        self._play(read, now=START + timedelta(days=30))

    @on_new_store
    async def test_a_closed_store_says_so(self, store: Store) -> None:
        await store.append(journal("a", 1))
        await store.close()
        for use in (store.append(journal("a", 2)[1:]), store.events("a"), store.put(1)):
            with pytest.raises(JournalError, match="closed"):
                await use

    @on_new_store
    async def test_what_was_asked_for_before_closing_is_kept(self, store: Store) -> None:
        appends = [asyncio.ensure_future(store.append(journal(f"{n}", 3))) for n in range(9)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*appends)
        again = self.open_store()
        assert len(await again.runs()) == 9
        await again.close()

    def _play(self, story: Story, *, now: datetime = START) -> None:
        async def scene() -> None:
            store = self.open_store(now=now)
            try:
                await story(store)
            finally:
                await store.close()

        asyncio.run(scene())
