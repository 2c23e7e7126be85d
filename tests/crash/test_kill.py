"""kill -9 at every event of a 20-step plan, of two at once, and of schedules: one start each."""

from __future__ import annotations

import asyncio
import os
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
from tests.crash.worker import Service, approve_what_is_seen, twenty_steps
from tests.postgres import store_url
from tests.waiting import until
from tests.worker_processes import approved

from plansmith import RunStatus, StepStatus
from plansmith.app import Plansmith
from plansmith.plan.events import RunFinished, StepDone, verify_chain
from plansmith.plan.timing import Timing
from plansmith.schedules.schedule import FireState, Schedule
from plansmith.store.sqlite import SqliteStore

ROOT = Path(__file__).parents[2]
ORDINARY = [0, 1, 3, 6, 10, 15]
LONG = bool(os.environ.get("PLANSMITH_LONG"))
BOUNDARIES = range(26) if LONG else ORDINARY
# In a preview come its begin, a read, the read's end and what it shows; then the approval.
PREVIEWED = range(32) if LONG else [0, 1, 2, 3, 4, 5, 9]


def smith(folder: Path) -> Plansmith:
    return Plansmith(tools=[Service(folder)], store=SqliteStore(folder / "store.db"))


def command(folder: Path, run: str, *options: str) -> list[str]:
    """A process that executes the run."""
    store = f"sqlite:///{folder / 'store.db'}"
    return [sys.executable, "-m", "tests.crash.worker", store, str(folder), run, *options]


@pytest.mark.parametrize("when", ["kill_before", "kill"])
@pytest.mark.parametrize(
    ("appends", "previewed"),
    [*((at, False) for at in BOUNDARIES), *((at, True) for at in PREVIEWED)],
)
async def test_a_killed_run_ends_or_asks_and_repeats_nothing_blindly(
    appends: int, previewed: bool, when: str, tmp_path: Path
) -> None:
    async with smith(tmp_path) as app:
        plan = twenty_steps()
        run_id = (await app.submit(plan)).id if previewed else await approved(app, plan)
    words = ["preview"] if previewed else []
    dies = command(tmp_path, run_id, f"{when}={appends + 1}", *words)
    first = forked.run(dies, cwd=ROOT, capture_output=True, text=True, check=False)
    assert first.returncode == -signal.SIGKILL or first.stdout == "done\n"

    app = smith(tmp_path)
    recorded = [e.body for e in await app.store.events(run_id) if isinstance(e.body, StepDone)]
    if previewed:
        await approve_what_is_seen(app, run_id)
    run = await app.runs.run(run_id)
    assert run.status in (RunStatus.DONE, RunStatus.ASKING)
    for question in run.questions:
        assert run.steps[question.removeprefix("unknown:")].status is StepStatus.UNKNOWN
        await app.answer(run_id, question, "done")
    run = await app.runs.run(run_id)
    assert run.status is RunStatus.DONE

    events = list(await app.store.events(run_id))
    await app.close()
    verify_chain(events)
    done = Counter(e.body.step for e in events if isinstance(e.body, StepDone))
    assert done == Counter({step.id: 1 for step in twenty_steps().steps})
    for body in recorded:
        assert run.steps[body.step].result_hash == body.result

    calls = Counter(map(tuple, Service(tmp_path).calls))
    known = {body.step for body in recorded}
    for (name, tool, _), count in calls.items():
        if tool == "write":
            assert count == 1
        if name in known:
            assert count == 1
    assert len({key for _, _, key in calls}) == len(calls)


@pytest.mark.parametrize("round_", range(20 if LONG else 2))
async def test_two_executors_record_each_result_once(round_: int, tmp_path: Path) -> None:
    plan = twenty_steps()
    async with smith(tmp_path) as app:
        run_id = await approved(app, plan)
    rivals = [
        await forked.create_subprocess_exec(
            *command(tmp_path, run_id), cwd=ROOT, stdout=PIPE, stderr=PIPE
        )
        for _ in range(2)
    ]
    async with asyncio.timeout(120):
        outputs = [await rival.communicate() for rival in rivals]
    assert [rival.returncode for rival in rivals] == [0, 0], outputs

    app, run = smith(tmp_path), None
    for _ in range(30):
        run = await app.runs.run(run_id)
        if run.status.over:
            break
        for question in list(run.questions):
            await app.answer(run_id, question, "done", by="ada")
    assert run is not None
    assert run.status is RunStatus.DONE
    events = list(await app.store.events(run_id))
    await app.close()
    verify_chain(events)
    done = Counter(event.body.step for event in events if isinstance(event.body, StepDone))
    assert done == Counter({step.id: 1 for step in plan.steps})
    assert sum(isinstance(event.body, RunFinished) for event in events) == 1


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
    rows = await smith.schedules.store.fires(schedule.id, limit=1000)
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
    [row] = await smith.schedules.store.fires(schedule.id, limit=9)
    assert row.state.open

    async def is_done() -> bool:
        await smith.schedules.tick()
        await smith.schedules.carried()
        [row] = await smith.schedules.store.fires(schedule.id, limit=9)
        return row.state is FireState.DONE

    await until(is_done)
    assert list(await smith.store.runs()) == [row.run]
    await smith.close()
    # A call that was cut off is made again under its own key: the service tells them apart.
    assert len(scene.calls()) == 1
    assert sum(scene.calls().values()) == (2 if when == "call" else 1)
