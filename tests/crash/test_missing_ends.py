"""Events and runs that were written and are gone: noticed, and never taken for not having been."""

from __future__ import annotations

import asyncio
import itertools
import signal
import sqlite3
import sys
from pathlib import Path

import pytest
from tests import forked
from tests.postgres import Server

from plansmith.adapters.stores.doctor import diagnose, missing_runs, verify
from plansmith.adapters.stores.postgres import PostgresStore
from plansmith.adapters.stores.sqlite import SqliteStore
from plansmith.cli.main import main
from plansmith.errors import JournalDamaged
from plansmith.testing.contracts import journal

ROOT = Path(__file__).parents[2]
# One that writes, says so, and dies before anything of it is in the database itself.
WRITER = """
import asyncio, os, signal, sys
from plansmith.adapters.stores.sqlite import SqliteStore
from plansmith.testing.contracts import journal

async def main():
    store = SqliteStore(sys.argv[1])
    await store.append(journal("old", 5)[3:])
    await store.append(journal("new", 2))
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def write_and_die(path: Path) -> None:
    done = forked.run([sys.executable, "-c", WRITER, str(path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL


def lose_log(path: Path) -> None:
    """What a process does that takes itself for the last one."""
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink()


async def errors_of(path: Path) -> list[str]:
    found = await diagnose(f"sqlite:///{path}")
    return [f"{each.subject}: {each.message}" for each in found if each.level == "error"]


async def test_a_log_that_was_lost_with_the_ends_of_runs_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    await store.append(journal("old", 3))
    await store.append(journal("quiet", 3))
    await store.close()
    await asyncio.to_thread(write_and_die, path)
    lose_log(path)
    store = SqliteStore(path)
    with pytest.raises(JournalDamaged, match="event 4 of run old was written and is missing"):
        await store.events("old")
    with pytest.raises(JournalDamaged, match="run new was written and is missing"):
        await store.events("new")
    with pytest.raises(JournalDamaged, match="plansmith repair old"):
        await verify(store, "old")
    assert await verify(store, "quiet") == 3
    await store.close()
    errors = await errors_of(path)
    assert any("run new" in each for each in errors)
    assert any(each.startswith("run old") for each in errors)
    # Still so after it was looked at: a process that closes the store does not cover it up.
    assert await errors_of(path) == errors
    assert await asyncio.to_thread(main, ["verify", "--all", "--store", f"sqlite:///{path}"]) == 1


async def test_an_older_file_put_in_the_place_of_one_in_use_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    await store.append(journal("a", 3))
    await store.close()
    older = path.read_bytes()
    store = SqliteStore(path)
    await store.append(journal("a", 6)[3:])
    # Put back while a process still has the store.
    other = tmp_path / "other.db"
    other.write_bytes(older)
    other.replace(path)
    lose_log(path)
    again = SqliteStore(path)
    with pytest.raises(JournalDamaged, match="event 4 of run a was written and is missing"):
        await again.events("a")
    await again.close()


async def test_a_whole_run_that_was_deleted_by_hand_is_noticed_and_one_by_a_verb_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    for run in ("a", "b", "c"):
        await store.append(journal(run, 3))
    assert await store.delete_run("c")
    assert await missing_runs(store) == []
    await store.close()
    assert await errors_of(path) == []
    with sqlite3.connect(path) as file:
        file.execute("DELETE FROM events WHERE run = (SELECT id FROM runs WHERE name = 'b')")
        file.execute("DELETE FROM runs WHERE name = 'b'")
    file.close()
    assert any("1 of 2 runs" in each for each in await errors_of(path))


async def test_a_store_in_use_by_two_keeps_its_ends_until_the_last_one_closes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    one, two = SqliteStore(path), SqliteStore(path)
    await one.append(journal("a", 2))
    await two.append(journal("b", 2))
    await one.close()
    ends = tmp_path / "runs.db-ends"
    assert ends.stat().st_mode & 0o777 == 0o600
    await two.close()
    assert not ends.exists()


_numbers = itertools.count(1)


async def test_postgres_notices_a_missing_end_and_a_missing_run(postgres_server: Server) -> None:
    name = f"ends_{next(_numbers)}"
    store = PostgresStore(postgres_server.new_database(name))
    for run in ("a", "b", "c"):
        await store.append(journal(run, 20))
    assert await store.delete_run("c")
    assert await missing_runs(store) == []
    postgres_server.sql("DELETE FROM plansmith.events WHERE run = 1 AND number = 20", database=name)
    with pytest.raises(JournalDamaged, match="the end of run a is missing"):
        await store.events("a")
    with pytest.raises(JournalDamaged, match="the end of run a is missing"):
        await store.events("a", after=19)
    assert (await store.sound("a")).last == 20
    postgres_server.sql(
        "DELETE FROM plansmith.events WHERE run = 2; DELETE FROM plansmith.runs WHERE id = 2",
        database=name,
    )
    [found] = await missing_runs(store)
    assert "1 of 2 runs" in found.message
    await store.close()
