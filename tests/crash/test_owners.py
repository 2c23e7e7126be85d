"""One owner a run: a process that lives keeps its runs, a dead one loses them, be it stopped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.commands import typed
from tests.waiting import until

from plansmith import Plan, RunStatus, tool
from plansmith.app import Plansmith
from plansmith.clock import SystemClock
from plansmith.engine.ownership import Owners
from plansmith.engine.processes import lives_here, this_process
from plansmith.errors import RunBusy
from plansmith.store.sqlite import SqliteStore
from plansmith_cli.wiring import python_tools

PLAN: dict[str, Any] = {
    "goal": "slow, then quick",
    "steps": [
        {"id": "a", "kind": "tool", "tool": "slow", "inputs": {"name": "a"}},
        {"id": "b", "kind": "tool", "tool": "quick", "inputs": {"name": "b"}, "after": ["a"]},
    ],
}
# The same as the server of these tests has, and the first one acts: doing it twice shows.
TOOLS = '''
import os, time
from pathlib import Path
from plansmith import tool

HERE = Path(os.environ["HERE"])

def note(name):
    with (HERE / "calls").open("a") as file:
        file.write(name + "\\n")

@tool(effect="write")
def slow(name: str) -> str:
    """Act, then wait for a file."""
    note(name)
    while not (HERE / "go").exists():
        time.sleep(0.02)
    return name

@tool(effect="write")
def quick(name: str) -> str:
    """Act at once."""
    note(name)
    return name
'''


class Folder:
    """A store, tools and a file of effects that several processes share."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self._capsys = path, capsys
        self.url = f"sqlite:///{path / 'runs.db'}"
        (path / "tools.py").write_text(TOOLS)
        os.environ["HERE"] = str(path)

    @property
    def calls(self) -> list[str]:
        file = self.path / "calls"
        return file.read_text().split() if file.exists() else []

    async def approved(self) -> str:
        """An approved run that nobody has begun."""
        tools = python_tools(self.path / "tools.py")
        async with Plansmith(tools=tools, store=self.url) as smith:
            plan = Plan.model_validate(PLAN)
            run = await smith.submit(plan)
            await smith.decide(run.id, approve=plan.hash, by="ada")
        return run.id

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        """A command as a process of its own."""
        return await forked.create_subprocess_exec(
            *(sys.executable, "-m", "plansmith_cli", *words, "--store", self.url),
            *("--no-input", "--tools", str(self.path / "tools.py")),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=os.environ | {"HERE": str(self.path), "XDG_DATA_HOME": str(self.path / "data")},
            cwd=self.path,
        )

    async def told(self, *words: str) -> tuple[int | None, str]:
        """What a command says, and its exit code."""
        process = await self.start(*words)
        async with asyncio.timeout(120):
            out, err = await process.communicate()
        return process.returncode, (out + err).decode()

    async def looked(self, *words: str) -> str:
        """What a command says that only reads; it needs no process of its own."""
        home = {"PATH": os.environ["PATH"], "HOME": str(self.path), "PLANSMITH_STORE": self.url}
        command = partial(typed, *words, folder=self.path, environment=home, capsys=self._capsys)
        told = await asyncio.to_thread(command)
        assert told.code == 0, told.err
        return told.out + told.err


@pytest.fixture
async def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Folder]:
    made = Folder(tmp_path, capsys)
    yield made
    (tmp_path / "go").touch()


async def test_a_run_of_a_living_process_is_taken_by_no_other_even_while_that_is_stopped(
    folder: Folder,
) -> None:
    run = await folder.approved()
    first = await folder.start("go", run)
    await until(lambda: folder.calls == ["a"])
    first.send_signal(signal.SIGSTOP)
    (folder.path / "go").touch()
    for words in (("go", run), ("go", "--all")):
        code, text = await folder.told(*words)
        assert code == 5, text
        assert f"is being run by process {first.pid}" in text
    assert folder.calls == ["a"]
    first.send_signal(signal.SIGCONT)
    async with asyncio.timeout(120):
        await first.communicate()
    assert first.returncode == 0
    assert folder.calls == ["a", "b"]
    code, text = await folder.told("go", run)
    assert (code, folder.calls) == (0, ["a", "b"]), text


async def test_a_run_whose_process_died_is_interrupted_and_its_lost_call_is_asked_about(
    folder: Folder,
) -> None:
    run = await folder.approved()
    first = await folder.start("go", run)
    await until(lambda: folder.calls == ["a"])
    living = await folder.looked("runs")
    first.kill()
    await first.communicate()
    dead = await folder.looked("runs")
    assert "running" in living
    assert "interrupted" not in living
    assert "interrupted" in dead
    assert "running" not in dead
    assert "Its process has ended" in await folder.looked("show", run)
    assert '"interrupted": true' in await folder.looked("show", run, "--json")
    (folder.path / "go").touch()
    code, text = await folder.told("go", run)
    assert code == 5
    assert "unknown:a" in text
    code, text = await folder.told("answer", run, "unknown:a", "done", "--go")
    assert code == 0, text
    assert folder.calls == ["a", "b"]


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
