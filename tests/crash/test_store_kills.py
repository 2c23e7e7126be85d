"""Real processes that write and die, or write against each other, on both durable stores."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests import forked
from tests.postgres import Server

from plansmith.plan.events import verify_chain
from plansmith.store.doctor import verify
from plansmith.store.sqlite import SqliteStore
from plansmith.store.urls import open_store
from plansmith_postgres.store import PostgresStore

WRITER = Path(__file__).with_name("store_writer.py")
KILLS = 40 if os.environ.get("PLANSMITH_LONG") else 3
_numbers = itertools.count(1)


@pytest.fixture(params=["sqlite", "sqlite?synchronous=normal", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    kind, _, query = str(request.param).partition("?")
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}?{query}"
    server: Server = request.getfixturevalue("postgres_server")
    return server.new_database(f"crash_{next(_numbers)}")


def start(url: str, mode: str, name: str = "") -> subprocess.Popen[str]:
    command = [sys.executable, str(WRITER), url, mode, name]
    return forked.Popen(command, stdout=subprocess.PIPE, text=True)


def killed_after(acknowledgements: int, url: str) -> list[str]:
    """What a writer that is killed after so many lines had acknowledged by then."""
    with start(url, "write") as writer:
        assert writer.stdout is not None
        lines = list(itertools.islice(writer.stdout, acknowledgements))
        writer.kill()
        # A line cut off by the kill was not acknowledged to anyone.
        lines += [line for line in writer.stdout if line.endswith("\n")]
    return lines


def durable(url: str) -> SqliteStore | PostgresStore:
    store = open_store(url)
    assert isinstance(store, SqliteStore | PostgresStore)
    return store


def test_what_was_acknowledged_survives_a_kill_and_nothing_is_half_there(url: str) -> None:
    dice = random.Random(url.partition(":")[0])
    acknowledged: dict[str, int] = {}

    async def look() -> None:
        store = durable(url)
        try:
            for run, number in acknowledged.items():
                count = await verify(store, run)
                assert count >= number
                assert count % 2 == 0, "one event of a pair"
            assert await store.unmentioned() == 0, "a value without its event"
        finally:
            await store.close()

    for _ in range(KILLS):
        for line in killed_after(dice.randint(1, 400), url):
            run, number = line.split()
            assert int(number) > acknowledged.get(run, 0)
            acknowledged[run] = int(number)
        asyncio.run(look())
    assert acknowledged


def test_of_two_processes_exactly_one_wins_each_number(url: str) -> None:
    rivals = [start(url, "race", name) for name in ("one", "two", "three")]
    wins = [line.split()[1] for rival in rivals for line in rival.communicate()[0].splitlines()]
    assert [rival.returncode for rival in rivals] == [0, 0, 0]
    assert sorted(map(int, wins)) == list(range(1, 61))

    async def look() -> None:
        store = durable(url)
        events = await store.events("race")
        assert len(events) == 60
        verify_chain(events)
        await store.close()

    asyncio.run(look())


def test_a_full_disk_is_a_named_error_and_what_was_kept_stays(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    writer = start(url, "fill")
    *kept, last = writer.communicate()[0].splitlines()
    assert last == "error StoreAway True"
    assert kept

    async def look() -> None:
        store = durable(url)
        for line in kept:
            await store.get(line.split()[1])
        assert await verify(store, "full") == 1
        await store.put("there is room again")
        await store.close()

    asyncio.run(look())
