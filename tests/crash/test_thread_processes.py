"""One thread written by several real processes, some of them killed, on one SQLite file."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests import forked
from tests.contract.threads import story

from plansmith.plan.thread import ThreadState, fold_thread
from plansmith.store.doctor import diagnose
from plansmith.store.sqlite import SqliteStore
from plansmith_planner.threads.store import ThreadStore, check_threads

ROOT = Path(__file__).parents[2]
MANY = 1_000_000


async def writer(url: str, name: str, count: int) -> asyncio.subprocess.Process:
    return await forked.create_subprocess_exec(
        *(sys.executable, "-m", "tests.crash.thread_writer", url, "trip", name, str(count)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )


async def test_processes_that_write_one_thread_at_once_keep_it_in_order_and_lose_nothing(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    store = SqliteStore(tmp_path / "runs.db")
    assert await ThreadStore(store).append_entries(story("trip")[:1])
    follower = asyncio.ensure_future(ThreadStore(store).wait_thread("trip", after=40))
    killed = await writer(url, "killed", MANY)
    others = [await writer(url, name, 15) for name in ("ann", "bob")]
    assert killed.stdout is not None
    acknowledged = [await killed.stdout.readline() for _ in range(5)]
    killed.kill()
    acknowledged += (await killed.stdout.read()).splitlines()
    told = [(await each.communicate())[0].splitlines() for each in others]
    await asyncio.wait_for(follower, 60)
    state = fold_thread(ThreadState("trip"), await ThreadStore(store).thread_entries("trip"))
    said = {each.number: each.text for each in state.messages}
    names = ["killed", "ann", "bob"]
    for name, lines in zip(names, (acknowledged, *told), strict=True):
        # A line that a kill cut off is not acknowledged.
        for number, turn in (line.split() for line in lines if len(line.split()) == 2):
            assert said[int(number)] == f"{name} {int(turn)}"
    assert sum(text.startswith("ann") for text in said.values()) == 15
    assert sum(text.startswith("bob") for text in said.values()) == 15
    # All or none: no message without what it was taken for.
    assert all(each.run == each.text.replace(" ", "-") for each in state.messages)
    assert await ThreadStore(store).thread_of("bob-14") == "trip"
    [listed] = await ThreadStore(store).threads(limit=2)
    assert (listed.messages, listed.last) == (len(said), state.last)
    await store.close()
    assert "error" not in {each.level for each in await diagnose(url, checks=[check_threads])}
