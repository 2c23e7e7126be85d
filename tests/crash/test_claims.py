"""A run is executed under one claim: who lost it writes nothing and calls nothing any more."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests import forked
from tests.crash.halting import halting_store
from tests.crash.worker import Service, act_twice
from tests.postgres import store_url
from tests.waiting import until
from tests.worker_processes import Workers, approved

from plansmith import RunStatus
from plansmith.app import Plansmith
from plansmith.claim_ports import Beat
from plansmith.engine.ownership import Owners
from plansmith.errors import RunBusy
from plansmith.plan import events as e
from plansmith.store.sqlite import SqliteStore
from plansmith.testing import FakeClock

ROOT = Path(__file__).parents[2]


class World(Workers):
    """A store, a file of effects, and processes that may seem to be on several machines."""

    def smith(self) -> Plansmith:
        return Plansmith(tools=[Service(self.folder)], store=halting_store(self.url))

    async def approved(self) -> str:
        async with self.smith() as smith:
            return await approved(smith, act_twice())

    async def execute(
        self, run: str, *options: str, machine: str, lease_s: float = 2
    ) -> asyncio.subprocess.Process:
        process = await forked.create_subprocess_exec(
            *(sys.executable, "-m", "tests.crash.worker"),
            *(self.url, str(self.folder), run, f"lease={lease_s}", *options),
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | {"PLANSMITH_MACHINE": machine},
            cwd=ROOT,
        )
        self.processes.append(process)
        return process

    async def finish(self, run: str, answer: str) -> None:
        """A person says how the call ended that was cut off, and the run goes on to its end."""
        async with self.smith() as smith:
            await smith.answer(run, "unknown:a", answer, by="ada")
            assert (await smith.run(run)).status is RunStatus.DONE
        assert self.effects == ["a", "b"]

    async def events(self, run: str) -> list[e.Event]:
        async with self.smith() as smith:
            return list(await smith.store.events(run))

    def is_stopped(self, process: asyncio.subprocess.Process) -> bool:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"


async def output_of(process: asyncio.subprocess.Process) -> str:
    async with asyncio.timeout(250):
        out, _ = await process.communicate()
    return out.decode()


async def taken_over(world: World, run: str) -> str:
    """Starts processes on another machine, one after the other, until one of them gets the run."""
    while (output := await output_of(await world.execute(run, machine="two"))).startswith("busy"):
        continue
    return output


@pytest.fixture(params=["sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path, store_url(request.param, request))
    yield made
    made.let("a", "b")
    await made.stop_all()


async def test_a_stopped_process_whose_run_was_taken_over_wakes_and_neither_writes_nor_calls(
    world: World,
) -> None:
    run = await world.approved()
    first = await world.execute(run, machine="one")
    await until(lambda: world.effects == ["a"])
    first.send_signal(signal.SIGSTOP)
    # Another machine takes it over once the lease is over: the call that was cut off is asked.
    assert await taken_over(world, run) == "asking\n"
    before = await world.events(run)
    assert isinstance(before[-1].body, e.QuestionAsked)
    world.let("a")
    first.send_signal(signal.SIGCONT)
    assert (await output_of(first)).startswith(("asking", "busy"))
    assert await world.events(run) == before
    assert world.effects == ["a"]
    world.let("b")
    await world.finish(run, "done")


async def test_a_process_stopped_between_the_start_of_a_step_and_its_call_does_not_call_later(
    world: World,
) -> None:
    run = await world.approved()
    # The first append begins the run and its first step.
    first = await world.execute(run, "stop=1", machine="one")
    await until(lambda: world.is_stopped(first))
    assert world.effects == []
    assert await taken_over(world, run) == "asking\n"
    first.send_signal(signal.SIGCONT)
    assert not (await output_of(first)).startswith("done")
    assert world.effects == []
    world.let("a", "b")
    await world.finish(run, "retry")


async def test_a_run_is_taken_by_force_from_a_process_in_the_middle_of_a_call(world: World) -> None:
    run = await world.approved()
    first = await world.execute(run, machine="one", lease_s=60)
    await until(lambda: world.effects == ["a"])
    other = await output_of(await world.execute(run, machine="two", lease_s=60))
    assert other.startswith("busy")
    assert f"process {first.pid} on the machine one" in other
    assert (
        await output_of(await world.execute(run, "force", machine="two", lease_s=60)) == "asking\n"
    )
    world.let("a", "b")
    assert not (await output_of(first)).startswith("done")
    assert world.effects == ["a"]
    events = await world.events(run)
    [resumed] = [each for each in events if isinstance(each.body, e.RunResumed)]
    assert isinstance(resumed.body, e.RunResumed)
    assert resumed.by == e.Actor(kind="person", name="ada")
    assert f"process {first.pid} on the machine one" in resumed.body.reason
    await world.finish(run, "done")


async def test_a_killed_process_of_another_machine_keeps_its_run_until_its_lease_is_over(
    world: World,
) -> None:
    run = await world.approved()
    first = await world.execute(run, machine="one", lease_s=30)
    await until(lambda: world.effects == ["a"])
    first.kill()
    await first.wait()
    assert (await output_of(await world.execute(run, machine="two"))).startswith("busy")
    # On its own machine it is known at once that it is dead.
    assert await output_of(await world.execute(run, machine="one")) == "asking\n"
    assert world.effects == ["a"]


async def test_a_program_cannot_take_a_run_from_a_living_process(tmp_path: Path) -> None:
    world = World(tmp_path, f"sqlite:///{tmp_path / 'runs.db'}")
    run = await world.approved()
    async with world.smith() as smith:
        await halting_store(world.url).claim(run, "m - - 1 1")
        robot = e.Actor(kind="program", name="robot")
        with pytest.raises(Exception, match="a program cannot take a run over"):
            await smith.resume(run, by=robot, force=True)


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_clock_that_jumps_makes_no_living_process_dead(hours: int, tmp_path: Path) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    store, clock = SqliteStore(tmp_path / "runs.db", now=lambda: now), FakeClock()
    far = Beat("far - - 1 1", "server", "1", 20.0)
    await store.beat(far)
    await store.claim("r", far.process)
    owners = Owners(store, clock)
    with pytest.raises(RunBusy, match="the machine far"):
        await owners.claim("r")
    now += timedelta(hours=hours)
    taking = asyncio.create_task(owners.claim("r"))
    await until(lambda: clock.sleepers > 0)
    await store.beat(far)  # it lives, and renews its lease as ever
    await clock.advance(20)
    with pytest.raises(RunBusy):
        await taking
    # One that stays silent is dead, whatever the clocks say.
    now += timedelta(hours=hours)
    taking = asyncio.create_task(owners.claim("r"))
    await until(lambda: taking.done() or clock.sleepers > 0)
    await clock.advance(20)
    fence = await taking
    claim = await store.claim_of("r")
    assert claim is not None
    assert (claim.owner, claim.term) == (owners.me(), fence.term)
    await store.close()
