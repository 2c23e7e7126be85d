"""Files that were cut, overwritten, locked or are something else: named errors, no wrong reads."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests import forked
from tests.postgres import store_url

from plansmith.errors import JournalDamaged, JournalError, Misconfigured, PlansmithError
from plansmith.plan.data import Json, canonical_hash
from plansmith.plan.events import Actor, Event, RunPaused, next_event, verify_chain
from plansmith.store.sqlite import SqliteStore
from plansmith.store.urls import open_store
from plansmith.testing.contracts import journal
from plansmith.verify import verify
from plansmith_cli.doctor import diagnose
from plansmith_postgres.store import PostgresStore

TRIES = 2000 if os.environ.get("PLANSMITH_LONG") else 40
RUNS = {f"run-{number}": journal(f"run-{number}", 60) for number in range(6)}
LAST = RUNS["run-3"][-1]
START = LAST.at
VALUES: list[Json] = [{"n": number, "text": "x" * number} for number in range(60, 120)]


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    store = SqliteStore(tmp_path / "store.db", synchronous="normal")
    for events in RUNS.values():
        await store.append(events, VALUES)
    await store.close()
    return tmp_path / "store.db"


async def reads(path: Path) -> tuple[list[Sequence[Event]], list[object], int]:
    """All that can still be read, and how many reads failed with an error of ours."""
    store = SqliteStore(path, timeout_s=0.1)
    journals: list[Sequence[Event]] = []
    values: list[object] = []
    failed = 0
    for run in RUNS:
        try:
            journals.append(await store.events(run))
        except PlansmithError:
            failed += 1
    further = next_event(RunPaused(), run="run-3", by=Actor(kind="system"), at=START, last=LAST)
    for use in (store.runs(), store.append([further], VALUES[:1])):
        try:
            await use
        except PlansmithError:
            failed += 1
    for value in VALUES:
        try:
            values.append(await store.get(canonical_hash(value)))
        except PlansmithError:
            failed += 1
    await store.close()
    return journals, values, failed


def is_right(events: Sequence[Event]) -> bool:
    """A whole journal, or none: half of one would make a runner do the other half again."""
    return not events or list(events) == RUNS[events[0].run]


def cut(whole: bytes) -> Iterator[bytes]:
    places = random.Random(1).sample(range(len(whole)), 15)
    return (whole[:length] for length in [*places, 0, 1, 99, 100, 4096, len(whole) - 1])


def overwritten(whole: bytes) -> Iterator[bytes]:
    dice = random.Random(2)
    for _ in range(TRIES):
        start = dice.randrange(len(whole))
        end = min(start + dice.choice([1, 1, 8, 300]), len(whole))
        yield whole[:start] + bytes(dice.randrange(256) for _ in range(start, end)) + whole[end:]


@pytest.mark.parametrize("damage", [cut, overwritten])
def test_a_damaged_file_is_never_read_wrong(
    path: Path, damage: Callable[[bytes], Iterator[bytes]]
) -> None:
    found: list[bool] = []
    for content in damage(path.read_bytes()):
        path.write_bytes(content)
        journals, values, failed = asyncio.run(reads(path))
        assert all(map(is_right, journals))
        assert all(value in VALUES for value in values)
        found.append(failed > 0)
    # A byte that is overwritten may belong to nothing; what was cut off is always missed.
    assert any(found) if damage is overwritten else all(found)


@pytest.mark.parametrize("content", [b"not a database at all " * 400, b"\x00" * 8192])
async def test_a_file_that_is_no_database_is_said_to_be_none(
    tmp_path: Path, content: bytes
) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    store = SqliteStore(path)
    for use in (store.append(journal("a", 1)), store.runs(), store.put(VALUES[0])):
        with pytest.raises(JournalDamaged, match="not a database"):
            await use
    await store.close()
    assert any(found.level == "error" for found in await diagnose(f"sqlite:///{path}"))
    assert path.read_bytes() == content


async def test_another_programs_database_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE theirs (a)")
    other.execute("PRAGMA user_version = 2")
    other.close()
    store = SqliteStore(path)
    with pytest.raises(Misconfigured, match="another program"):
        await store.append(journal("a", 1))
    await store.close()
    findings = await diagnose(f"sqlite:///{path}")
    assert any("not a store" in found.message for found in findings)


async def test_a_path_that_cannot_be_is_a_setting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file, not a folder")
    for path in (tmp_path / "file" / "store.db", tmp_path):
        store = SqliteStore(path)
        with pytest.raises(Misconfigured):
            await store.append(journal("a", 1))
        with pytest.raises(Misconfigured):
            await store.runs()
        await store.close()


async def test_a_locked_file_is_a_named_error_reads_go_on_and_so_does_the_store(path: Path) -> None:
    holder = sqlite3.connect(path, isolation_level=None)
    store = SqliteStore(path, timeout_s=0.02)
    assert len(await store.runs()) == len(RUNS)
    holder.execute("BEGIN IMMEDIATE")
    rivals = [store.append(journal("new", 1)), store.put(VALUES[0])]
    outcomes = await asyncio.gather(*rivals, return_exceptions=True)
    assert all(isinstance(each, JournalError) and "locked" in str(each) for each in outcomes)
    assert list(await store.events("run-1")) == RUNS["run-1"]
    findings = {found.subject: found for found in await diagnose(f"sqlite:///{path}")}
    assert findings["lock"].level == "warning"
    assert str(os.getpid()) in findings["lock"].message
    holder.execute("ROLLBACK")
    await store.append(journal("new", 1))
    await store.close()
    holder.close()


# Real processes that write and die, or write against each other, on both durable stores


WRITER = Path(__file__).with_name("store_writer.py")
KILLS = 40 if os.environ.get("PLANSMITH_LONG") else 3


@pytest.fixture(params=["sqlite", "sqlite?synchronous=normal", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    kind, _, query = str(request.param).partition("?")
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}?{query}"
    return store_url("postgres", request)


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


async def test_what_was_acknowledged_survives_a_kill_and_nothing_is_half_there(url: str) -> None:
    dice = random.Random(url.partition(":")[0])
    acknowledged: dict[str, int] = {}
    for _ in range(KILLS):
        for line in killed_after(dice.randint(1, 400), url):
            run, number = line.split()
            assert int(number) > acknowledged.get(run, 0)
            acknowledged[run] = int(number)
        store = durable(url)
        for run, last in acknowledged.items():
            count = await verify(store, run)
            assert count >= last
            assert count % 2 == 0, "one event of a pair"
        assert await store.unmentioned() == 0, "a value without its event"
        await store.close()
    assert acknowledged


async def test_of_two_processes_exactly_one_wins_each_number(url: str) -> None:
    rivals = [start(url, "race", name) for name in ("one", "two", "three")]
    wins = [line.split()[1] for rival in rivals for line in rival.communicate()[0].splitlines()]
    assert [rival.returncode for rival in rivals] == [0, 0, 0]
    assert sorted(map(int, wins)) == list(range(1, 61))
    store = durable(url)
    events = await store.events("race")
    assert len(events) == 60
    verify_chain(events)
    await store.close()
