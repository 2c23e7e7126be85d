"""Real workers on a real PostgreSQL, and a file of effects that tells what was done."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import forked
from tests.waiting import until

from plansmith.app import Plansmith
from plansmith.plan.plan import Plan
from plansmith.plan.run import Run
from plansmith.store.urls import open_store
from plansmith_cli.wiring import python_tools
from plansmith_postgres.queue import DbosQueue

TOOLS = '''
import asyncio, os
from pathlib import Path
from plansmith import tool
from plansmith.ports import Call

HERE = Path(os.environ["HERE"])

@tool(effect="write")
async def act(name: str, call: Call, seconds: float = 0.0) -> str:
    """Act; take some seconds, or wait for a file."""
    with (HERE / "effects").open("a") as file:
        file.write(f"{name} {os.getpid()} {call.key}\\n")
    if seconds:
        await asyncio.sleep(seconds)
    while not (seconds or (HERE / "go").exists() or (HERE / f"go-{name}").exists()):
        await asyncio.sleep(0.02)
    return name
'''


def acting(*names: str, seconds: float = 0.0, ask: bool = False) -> Plan:
    """A plan that acts once for each name, in this order; it may ask before the last one."""
    steps: list[dict[str, Any]] = []
    for name in names:
        after = [steps[-1]["id"]] if steps else []
        if ask and name == names[-1]:
            steps.append({"id": "q", "kind": "ask", "question": "Go on?", "after": after})
            after = ["q"]
        inputs = {"name": name, "seconds": seconds}
        step = {"id": f"s{len(steps)}", "kind": "tool", "tool": "act"}
        steps.append({**step, "inputs": inputs, "after": after})
    return Plan.model_validate({"goal": f"act for {' '.join(names)}", "steps": steps})


@dataclass
class Workers:
    """A folder with tools, a store, and the workers that were started on it."""

    folder: Path
    url: str
    lease_s: float = 2.0
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not (self.folder / "tools.py").exists():
            (self.folder / "tools.py").write_text(TOOLS)
        home = self.folder / "config" / "plansmith"
        home.mkdir(parents=True, exist_ok=True)
        (home / "config.toml").write_text(f"[run]\nlease_s = {self.lease_s}\n")
        os.environ["HERE"] = str(self.folder)  # the tools are read in this process too

    @property
    def environment(self) -> Mapping[str, str]:
        return os.environ | {
            "HERE": str(self.folder),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
        }

    def smith(self) -> Plansmith:
        """A program that shares the store and the folder; it creates and decides, no more."""
        tools = python_tools(self.folder / "tools.py")
        return Plansmith(tools=tools, store=open_store(self.url), folder=self.folder)

    def queue(self) -> DbosQueue:
        return DbosQueue(self.url, str(self.folder.resolve()))

    async def begin(
        self, *words: str, machine: str = "", is_forked: bool = True, **options: Any
    ) -> asyncio.subprocess.Process:
        """Start a command of plansmith on the store, as if on a machine of this name."""
        made = forked.create_subprocess_exec if is_forked else asyncio.create_subprocess_exec
        return await made(
            *(sys.executable, "-m", "plansmith_cli", *words, "--store", self.url),
            env={**self.environment, **({"PLANSMITH_MACHINE": machine} if machine else {})},
            cwd=self.folder,
            **options,
        )

    async def begin_logged(
        self, machine: str, *words: str, tools: str = "tools.py", is_forked: bool = True
    ) -> asyncio.subprocess.Process:
        """Start a command that goes on for long; what it prints for people is its log."""
        log = self.folder / f"log-{machine}-{len(self.processes)}"
        words = (*words, "--tools", str(self.folder / tools), "--model", "rules")
        with log.open("wb") as out:
            process = await self.begin(*words, machine=machine, is_forked=is_forked, stderr=out)
        self.processes.append(process)
        self.logs.append(log)
        return process

    async def start(
        self, machine: str, *options: str, ready: bool = True, **how: Any
    ) -> asyncio.subprocess.Process:
        """Start a worker that seems to be on a machine of its own; wait until it takes runs."""
        process = await self.begin_logged(machine, "serve", "worker", *options, **how)
        if ready:
            await until(lambda: "SIGTERM" in self.log(process) or process.returncode is not None)
            assert process.returncode is None, self.log(process)
        return process

    async def command(self, *words: str) -> tuple[int, Any]:
        """Run a command of plansmith; return its exit code and its JSON."""
        process = await self.begin(*words, "--json", stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
        return process.returncode or 0, json.loads(out)

    def log(self, process: asyncio.subprocess.Process) -> str:
        return self.logs[self.processes.index(process)].read_text()

    @property
    def effects(self) -> list[str]:
        """The names that were acted for, in this order."""
        return [line.split()[0] for line in self._lines()]

    @property
    def doers(self) -> set[int]:
        """The processes that acted."""
        return {int(line.split()[1]) for line in self._lines()}

    @property
    def keys(self) -> list[str]:
        """The key of each call."""
        return [line.split()[2] for line in self._lines()]

    def _lines(self) -> Sequence[str]:
        file = self.folder / "effects"
        return file.read_text().splitlines() if file.exists() else []

    def let(self, *names: str) -> None:
        for name in names or ("",):
            (self.folder / (f"go-{name}" if name else "go")).touch()

    async def stop_all(self) -> None:
        """End what is left, however it stands."""
        self.let()
        for process in self.processes:
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                await process.wait()


async def approved(smith: Plansmith, plan: Plan) -> str:
    """Create a run and approve its plan, as a person does at another process."""
    run = await smith.submit(plan)
    await smith.decide(run.id, approve=plan.hash, by="ada")
    return run.id


async def status(smith: Plansmith, *runs: str) -> list[str]:
    """The statuses of runs."""
    found: list[Run] = [(await smith.runs.journals.load_verified(run)).run for run in runs]
    return [run.status.value for run in found]


async def all_are(smith: Plansmith, wanted: str, *runs: str) -> bool:
    """Whether all of these runs have a status."""
    return set(await status(smith, *runs)) == {wanted}
