"""One owner a run: a process that lives keeps its runs, a dead one loses them, be it stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import until
from tests.worker_processes import Workers, acting, approved

from plansmith import Plan, RunStatus, tool
from plansmith.app import Plansmith
from plansmith.clock import SystemClock
from plansmith.engine.ownership import Owners
from plansmith.engine.processes import lives_here, this_process
from plansmith.errors import RunBusy
from plansmith.store.sqlite import SqliteStore


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
            await second.runs.journals.owners.serve()  # a renewal that looks at all its claims
            leave.set()
            assert (await running).status is RunStatus.DONE
            left = await first.submit(plan)
            await first.runs.journals.owners.claim(left.id)
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
    [last] = await store.beats()
    assert last.lease_s == 0
    assert await Owners(store, SystemClock()).dead([last.process]) == {last.process}
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
