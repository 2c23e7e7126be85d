"""One owner a run: who lost its claim writes and calls nothing; a dead process loses its runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.crash.halting import halting_store
from tests.crash.worker import Service, act_twice
from tests.postgres import store_url
from tests.waiting import until
from tests.worker_processes import Workers, acting, approved

from plansmith import Plan, RunStatus, tool
from plansmith.app import Plansmith
from plansmith.clock import SystemClock
from plansmith.engine.ownership import Ownership
from plansmith.engine.processes import lives_here, this_process
from plansmith.errors import RunBusy
from plansmith.plan import events as e
from plansmith.ports import Heartbeat
from plansmith.store.sqlite import SqliteStore
from plansmith.store_ports import ProcessInfo
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
    forced = await world.execute(run, "force", machine="two", lease_s=60)
    assert await output_of(forced) == "asking\n"
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
    far = Heartbeat("far - - 1 1", ProcessInfo("server"), "1", 20.0)
    await store.renew_lease(far)
    await store.claim("r", far.process)
    ownership = Ownership(store, clock)
    with pytest.raises(RunBusy, match="the machine far"):
        await ownership.claim("r")
    now += timedelta(hours=hours)
    taking = asyncio.create_task(ownership.claim("r"))
    await until(lambda: clock.sleepers > 0)
    await store.renew_lease(far)  # it lives, and renews its lease as ever
    await clock.advance(20)
    with pytest.raises(RunBusy):
        await taking
    # One that stays silent is dead, whatever the clocks say.
    now += timedelta(hours=hours)
    taking = asyncio.create_task(ownership.claim("r"))
    await until(lambda: taking.done() or clock.sleepers > 0)
    await clock.advance(20)
    held, _ = await taking
    claim = await store.claim_of("r")
    assert claim is not None
    assert (claim.owner, claim.term) == (ownership.me(), held.term)
    await store.close()


class Folder(Workers):
    """A folder whose runs are executed by commands."""

    async def approved(self) -> str:
        """An approved run that nobody has begun; its second step acts at once."""
        self.let("b")
        async with self.smith() as smith:
            return await approved(smith, acting("a", "b"))

    async def execute(self, *words: str) -> asyncio.subprocess.Process:
        """A command as a process of its own."""
        own = ("--no-input", "--tools", str(self.folder / "tools.py"))
        pipes: dict[str, Any] = {
            "stdout": asyncio.subprocess.PIPE,
            "stderr": asyncio.subprocess.PIPE,
        }
        return await self.begin(*words, *(own if words[0] != "show" else ()), **pipes)

    async def listed(self) -> tuple[str, bool]:
        """The status of the one run in the list of runs, and whether it is interrupted."""
        _, [run] = await self.command("runs")
        return run["status"], run["interrupted"]

    async def output_of(self, *words: str) -> tuple[int | None, str]:
        """What a command says, and its exit code."""
        process = await self.execute(*words)
        async with asyncio.timeout(120):
            out, err = await process.communicate()
        return process.returncode, (out + err).decode()


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path, f"sqlite:///{tmp_path / 'runs.db'}")
    yield made
    made.let()


async def test_a_run_of_a_living_process_is_taken_by_no_other_even_while_that_is_stopped(
    folder: Folder,
) -> None:
    run = await folder.approved()
    first = await folder.execute("go", run)
    await until(lambda: folder.effects == ["a"])
    first.send_signal(signal.SIGSTOP)
    folder.let()
    for words in (("go", run), ("go", "--all")):
        code, text = await folder.output_of(*words)
        assert code == 5, text
        assert f"is being run by process {first.pid}" in text
    assert folder.effects == ["a"]
    first.send_signal(signal.SIGCONT)
    async with asyncio.timeout(120):
        await first.communicate()
    assert first.returncode == 0
    assert folder.effects == ["a", "b"]
    code, text = await folder.output_of("go", run)
    assert (code, folder.effects) == (0, ["a", "b"]), text


async def test_a_run_whose_process_died_is_interrupted_and_its_lost_call_is_asked_about(
    folder: Folder,
) -> None:
    run = await folder.approved()
    first = await folder.execute("go", run)
    await until(lambda: folder.effects == ["a"])
    living = await folder.listed()
    first.kill()
    await first.communicate()
    assert (living, await folder.listed()) == (("running", False), ("running", True))
    assert "Its process has ended" in (await folder.output_of("show", run))[1]
    assert (await folder.command("runs", "--status", "interrupted"))[1][0]["id"] == run
    assert f"plansmith go {run} goes on" in (await folder.output_of("answer", run, "done"))[1]
    folder.let()
    code, text = await folder.output_of("go", run)
    assert code == 5
    assert "unknown:s0" in text
    code, text = await folder.output_of("answer", run, "unknown:s0", "done", "--go")
    assert code == 0, text
    assert folder.effects == ["a", "b"]


async def test_a_program_that_opens_a_store_twice_runs_each_run_once(tmp_path: Path) -> None:
    calls: list[str] = []
    inside, leave = asyncio.Event(), asyncio.Event()

    @tool(effect="write")
    async def charge() -> str:
        """Act once."""
        calls.append("charge")
        inside.set()
        await leave.wait()
        return "charged"

    url = f"sqlite:///{tmp_path / 'runs.db'}"
    plan = Plan.model_validate({"goal": "pay", "steps": [{"id": "a", "tool": "charge"}]})
    async with Plansmith(tools=[charge], store=url) as second:
        async with Plansmith(tools=[charge], store=url) as first:
            run = await first.submit(plan)
            await first.decide(run.id, approve=plan.hash)
            running = asyncio.create_task(first.run(run.id))
            await inside.wait()
            with pytest.raises(RunBusy, match=f"process {os.getpid()}") as busy:
                await second.run(run.id)
            assert "close that one" in busy.value.hint  # not: stop that process, which is this one
            assert await second.runs.resume_all() == []
            # A renewal that looks at all its claims.
            await second.runs.journals.ownership.announce(ProcessInfo("server"))
            leave.set()
            assert (await running).status is RunStatus.DONE
            left = await first.submit(plan)
            await first.runs.journals.ownership.claim(left.id)
        # What a closed one still owns is free for the others.
        await second.decide(left.id, approve=plan.hash)
        assert (await second.run(left.id)).status is RunStatus.DONE
    assert calls == ["charge", "charge"]


async def test_a_store_that_was_opened_often_knows_its_last_opening_as_over(tmp_path: Path) -> None:
    @tool(effect="read")
    def look() -> str:
        """See."""
        return "seen"

    plan = Plan.model_validate({"goal": "see", "steps": [{"id": "a", "tool": "look"}]})
    for _ in range(5):
        async with Plansmith(tools=[look], store=f"sqlite:///{tmp_path / 'runs.db'}") as smith:
            assert (await smith.do(plan)).status is RunStatus.DONE
    store = SqliteStore(tmp_path / "runs.db")
    [last] = await store.processes()
    assert last.lease_s == 0
    assert await Ownership(store, SystemClock()).liveness.dead([last.process]) == {last.process}
    await store.close()


async def test_many_runs_that_ask_at_once_renew_the_lease_of_their_process_once(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    ownership = Ownership(store, SystemClock())
    held = await asyncio.gather(*(ownership.claim(f"run {n}") for n in range(50)))
    [once] = await store.processes()
    await asyncio.gather(*(claim.confirm() for claim, _ in held))
    [twice] = await store.processes()
    assert (once.renewals, twice.renewals) == (1, 2)
    ownership.close()
    await store.close()


def owner_of(process: int) -> str:
    """A process of this machine as an owner."""
    stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return f"{this_process().rsplit(' ', 2)[0]} {process} {stat[19]}"


def test_an_owner_is_told_from_a_later_process_with_its_number_and_from_other_machines() -> None:
    machine, began = this_process().rsplit(" ", 1)
    assert lives_here(this_process())
    assert not lives_here(f"{machine} {int(began) + 1}")
    assert not lives_here(f"elsewhere {this_process().split(' ', 1)[1]}")
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    # Not waited for yet: a zombie runs nothing.
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PID, dead, os.WEXITED | os.WNOWAIT)
    assert not lives_here(owner_of(dead))
    os.waitpid(dead, 0)
