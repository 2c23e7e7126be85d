"""The simulated store behaves as a real one does, as long as nothing is wrong with it."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any, cast

import pytest
from lab.simulation.store import Connection, SharedStore, StoreServer, Weather
from lab.simulation.timeline import Timeline

from plansmith.errors import RunTakenOver, StoreAway
from plansmith.plan.events import Actor, RunPaused, next_event
from plansmith.ports import Heartbeat, JournalStore
from plansmith.store.sqlite import SqliteStore
from plansmith.store_ports import ProcessInfo
from plansmith.testing.contracts import JournalStoreContract, journal


class PromptStore(SharedStore):
    """No message takes time, so that any event loop can use it."""

    def __init__(self) -> None:
        rng = random.Random(1)
        super().__init__(Timeline(rng), rng)

    def delay(self) -> float:
        return 0.0


class TestSimulatedStore(JournalStoreContract):
    def make_store(self) -> JournalStore:
        return cast("JournalStore", Connection(PromptStore(), "m1 - - 1 0"))


def _beat(owner: str) -> Heartbeat:
    return Heartbeat(owner, ProcessInfo(), "1", 20.0)


async def _play_claims(store: Any, seed: int) -> list[Any]:
    """Claims, renewals and releases at random; terms as how many claims of the run came before."""
    dice, told = random.Random(seed), list[Any]()
    terms: dict[str, list[int]] = {"a": [], "b": []}
    for _ in range(60):
        run, owner = dice.choice("ab"), dice.choice(("m1 - - 1 0", "m2 - - 2 0"))
        deed, renewals = (
            dice.choice(("claim", "claim", "renew_lease", "release")),
            dice.choice((-1, 0, 1, 2)),
        )
        known = terms[run]
        # Now and then a term that is no longer the last one.
        term = known[-1 - (dice.random() < 0.3 and len(known) > 1)] if known else 0
        if deed == "renew_lease":
            await store.renew_lease(_beat(owner))
        elif deed == "release":
            await store.release(run, term, unfinished=dice.random() < 0.5)
        else:
            got = await store.claim(run, owner, instead_of=term, renewals=renewals)
            known += [got.term] if got.term not in known else []
        now = await store.claim_of(run)
        told.append((run, now and now.owner, now and known.index(now.term)))
        told.append(sorted((each.process, each.renewals) for each in await store.processes()))
    return told


@pytest.mark.parametrize("seed", range(20))
async def test_claims_and_leases_go_as_in_sqlite(seed: int, tmp_path: Path) -> None:
    real = SqliteStore(tmp_path / "store.db")
    simulated = Connection(PromptStore(), "m1 - - 1 0")
    assert await _play_claims(simulated, seed) == await _play_claims(real, seed)
    await real.close()


async def test_an_append_under_an_old_term_is_refused() -> None:
    server = StoreServer(lambda: 0.0)
    first = await server.claim("r", "one")
    events = journal("r", 1)
    await server.append(events, term=first.term)
    await server.claim("r", "two", instead_of=first.term)
    late = next_event(
        RunPaused(), run="r", by=Actor(kind="system"), at=events[0].at, last=events[0]
    )
    with pytest.raises(RunTakenOver):
        await server.append([late], term=first.term)
    assert len(await server.events("r")) == 1


def _lost(store: SharedStore) -> int:
    """Appends while answers are lost; returns how many events are stored after the error."""

    async def append(connection: Any) -> None:
        with pytest.raises(StoreAway):
            await connection.append(journal("r", 1))

    asyncio.run(append(Connection(store, "m1 - - 1 0")))
    return len(store.server.journals.get("r", ()))


def test_an_answer_that_is_lost_leaves_the_append_stored() -> None:
    store = PromptStore()
    store.change_weather(Weather(loses_answers=1.0))
    assert _lost(store) == 1


def test_a_full_store_refuses_to_write_and_can_be_read() -> None:
    store = PromptStore()
    store.change_weather(Weather(is_full=True))
    assert _lost(store) == 0
    connection: Any = Connection(store, "m1 - - 1 0")
    assert asyncio.run(connection.runs()) == []
