"""S1: each due instant starts exactly one run, with two real processes, and through `kill -9`."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from tests import forked
from tests.crash.halting import halting_store
from tests.crash.scheduler import PLAN, START, FastClock
from tests.crash.worker import Service
from tests.postgres import store_url
from tests.waiting import until

from plansmith.app import Plansmith
from plansmith.plan.schedules import FireState, Schedule
from plansmith.plan.timing import Timing

ROOT = Path(__file__).parents[2]


class Scene:
    """A store with one schedule, a service, and processes that keep it."""

    def __init__(self, store: str, folder: Path) -> None:
        self.store = store
        self.folder = folder
        self.zero = time.time()

    def smith(self) -> Plansmith:
        store, clock = halting_store(self.store), FastClock(self.zero)
        return Plansmith(tools=[Service(self.folder)], store=store, clock=clock)

    async def add(self, timing: Timing) -> Schedule:
        smith = self.smith()
        schedule = await smith.schedules.create(
            timing=timing, plan=PLAN, approve=PLAN.hash, overlap="queue", missed="all"
        )
        await smith.close()
        return schedule

    async def keeper(self, calls: int, when: str = "never") -> Process:
        words = (self.store, str(self.folder), str(self.zero), str(calls), when)
        return await forked.create_subprocess_exec(
            *(sys.executable, "-m", "tests.crash.scheduler", *words),
            cwd=ROOT,
            stdout=PIPE,
            stderr=PIPE,
        )

    def calls(self) -> Counter[str]:
        return Counter(key for _, _, key in Service(self.folder).calls)


async def ended(process: Process) -> int:
    async with asyncio.timeout(120):
        out = await process.communicate()
    assert process.returncode in (0, -signal.SIGKILL), out
    return process.returncode or 0


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_two_processes_on_one_store_start_each_instant_once(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    scene = Scene(store_url(kind, request), tmp_path)
    schedule = await scene.add(Timing(every_minutes=1))
    keepers = [await scene.keeper(4) for _ in range(2)]
    assert [await ended(each) for each in keepers] == [0, 0]
    smith = scene.smith()
    rows = await smith.schedules.shelf.fires(schedule.id, limit=1000)
    runs = list(await smith.store.runs())
    await smith.close()
    fired = [each for each in rows if each.run]
    # Whoever is stopped may leave behind what it has only just claimed.
    assert {each.state for each in fired} <= {FireState.DONE, FireState.QUEUED, FireState.CLAIMED}
    done = [each for each in fired if each.state is FireState.DONE]
    assert Counter(runs) == Counter(each.run for each in done)
    assert all(
        (each.due - schedule.created) % timedelta(minutes=1) == timedelta(0) for each in rows
    )
    assert sum(scene.calls().values()) == len(done) >= 4
    assert set(scene.calls().values()) == {1}


@pytest.mark.parametrize("when", ["claim", "create", "call"])
async def test_a_process_killed_in_mid_fire_leaves_one_run_that_is_finished(
    when: str, tmp_path: Path
) -> None:
    scene = Scene(f"sqlite:///{tmp_path / 'store.db'}", tmp_path)
    at = START + timedelta(minutes=1)
    schedule = await scene.add(Timing(once_at=at.isoformat()))
    assert await ended(await scene.keeper(9, when)) == -signal.SIGKILL
    smith = scene.smith()
    [row] = await smith.schedules.shelf.fires(schedule.id, limit=9)
    assert row.state.open

    async def is_done() -> bool:
        await smith.schedules.tick()
        await smith.schedules.carried()
        [row] = await smith.schedules.shelf.fires(schedule.id, limit=9)
        return row.state is FireState.DONE

    await until(is_done)
    assert list(await smith.store.runs()) == [row.run]
    await smith.close()
    # A call that was cut off is made again under its own key: the service tells them apart.
    assert len(scene.calls()) == 1
    assert sum(scene.calls().values()) == (2 if when == "call" else 1)
