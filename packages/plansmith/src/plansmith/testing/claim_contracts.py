"""Contract tests for stores that know which process executes a run, to inherit in a test module."""

from __future__ import annotations

import asyncio

import pytest

from plansmith.errors import RunTakenOver, StaleWriter
from plansmith.ports import Heartbeat, Store
from plansmith.store_ports import ProcessInfo
from plansmith.testing.contracts import journal, on_new_store


class ClaimsContract:
    """Tests for stores that know which process executes a run; define `make_store`."""

    def make_store(self) -> Store:
        raise NotImplementedError

    @on_new_store
    async def test_of_two_claims_one_wins_and_only_the_owner_lets_go(self, store: Store) -> None:
        [winner] = set(await asyncio.gather(*(store.claim("r", f"owner-{n}") for n in range(8))))
        assert await store.claim_of("r") == winner
        assert list(await store.claims(owner=winner.owner)) == [("r", winner)]
        await store.release("r", winner.term + 100)
        assert await store.claim_of("r") == winner
        assert await store.claim("r", "late", instead_of=winner.term + 100) == winner
        takers = await asyncio.gather(
            *(store.claim("r", f"taker-{n}", instead_of=winner.term) for n in range(8))
        )
        [taker] = set(takers)
        assert taker.term > winner.term
        await store.release("r", taker.term)
        assert await store.claim_of("r") is None

    @on_new_store
    async def test_an_append_under_an_old_term_is_refused_and_stores_nothing(
        self, store: Store
    ) -> None:
        events = journal("r", 5)
        await store.append(events[:1])
        old = await store.claim("r", "one")
        await store.append(events[1:2], term=old.term)
        new = await store.claim("r", "two", instead_of=old.term)
        assert new.term > old.term
        with pytest.raises(RunTakenOver):
            await store.append(events[2:3], ["a value"], term=old.term)
        assert list(await store.events("r")) == events[:2]
        # A decision is made by any process at any time.
        await store.append(events[2:3])
        await store.append(events[3:4], term=new.term)
        await store.release("r", new.term)
        with pytest.raises(RunTakenOver):
            await store.append(events[4:5], term=new.term)
        later = await store.claim("r", "one")
        assert later.term > new.term
        with pytest.raises(RunTakenOver):
            await store.append(events[4:5], term=old.term)

    @on_new_store
    async def test_a_run_may_be_claimed_before_its_first_event(self, store: Store) -> None:
        events, claim = journal("r", 3), await store.claim("r", "one")
        for event in events[:2]:
            await store.append([event], term=claim.term)
        later = await store.claim("r", "two", instead_of=claim.term)
        assert later.last in (0, 2)  # 0: the store does not tell
        with pytest.raises(RunTakenOver):
            await store.append(events[2:], term=claim.term)
        assert list(await store.events("r")) == events[:2]

    @on_new_store
    async def test_of_an_append_and_a_takeover_at_the_same_time_one_comes_first(
        self, store: Store
    ) -> None:
        for number in range(20):
            run = f"r{number}"
            events = journal(run, 4)
            await store.append(events[:1])
            old = await store.claim(run, "one")
            taken, *written = await asyncio.gather(
                store.claim(run, "two", instead_of=old.term),
                store.append(events[1:2], term=old.term),
                store.append(events[1:3], term=old.term),
                return_exceptions=True,
            )
            assert not isinstance(taken, BaseException)
            assert taken.owner == "two"
            kept = list(await store.events(run))
            assert kept in (events[:1], events[:2], events[:3])
            assert len(kept) == 1 or None in written
            assert all(isinstance(each, RunTakenOver | StaleWriter | None) for each in written)
            with pytest.raises(RunTakenOver):
                await store.append(journal(run, 5)[len(kept) : len(kept) + 1], term=old.term)

    @on_new_store
    async def test_a_silent_process_that_renews_its_lease_at_the_last_moment_keeps_its_run(
        self, store: Store
    ) -> None:
        heartbeat = Heartbeat("far - - 1 1", ProcessInfo("server"), "1", 20.0)
        await store.renew_lease(heartbeat)
        if not (heartbeats := await store.processes()):
            return  # one process alone has it
        [seen] = heartbeats
        held = await store.claim("r", heartbeat.process)
        await store.renew_lease(heartbeat)
        assert await store.claim("r", "me", instead_of=held.term, renewals=seen.renewals) == held
        [seen] = await store.processes()
        assert (
            await store.claim("r", "me", instead_of=held.term, renewals=seen.renewals)
        ).owner == "me"
