"""Processor time until a program can use the library, and of commands that people wait for."""

from __future__ import annotations

import asyncio
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lab.bench.runner_process import RIVALS
from plansmith import Plan, Plansmith, read_plan, tool

READY: Final = "Plansmith, ready to use"
HELP: Final = "plansmith --help"
RUNS: Final = "plansmith runs"
_OWN: Final[Mapping[str, Sequence[str]]] = {
    "import plansmith": ("-c", "import plansmith"),
    READY: ("-c", "from plansmith import Plansmith; Plansmith(store='memory')"),
    HELP: ("-m", "plansmith_cli", "--help"),
    RUNS: ("-m", "plansmith_cli", "runs"),
}
_RIVALS: Final[Mapping[str, Sequence[str]]] = {
    "import langgraph.graph": ("-c", "import langgraph.graph"),
    "import dbos": ("-c", "import dbos"),
}


def startup(folder: Path, *, rivals: bool) -> dict[str, list[float]]:
    """Milliseconds of processor time beyond a bare interpreter, in turns."""
    store = f"sqlite:///{folder / 'startup.db'}"
    asyncio.run(_make_runs(store))
    commands = {name: (sys.executable, *rest) for name, rest in _OWN.items()}
    if rivals:
        commands |= {name: (str(RIVALS), *rest) for name, rest in _RIVALS.items()}
    for name in _OWN:
        _cpu_ms(commands[name], folder, store)  # what is compiled and cached once
    found: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(5):
        bare = {python: _cpu_ms((python, "-c", ""), folder, store) for python in _pythons(commands)}
        for name, command in commands.items():
            if turn < 3 or name in _OWN:
                found[name].append(_cpu_ms(command, folder, store) - bare[command[0]])
    return found


async def _make_runs(store: str) -> None:
    @tool(effect="read")
    def look(at: str) -> str:
        """Looks somewhere."""
        return at

    step = {"id": "s", "tool": "look", "inputs": {"at": "home"}}
    plan = read_plan({"goal": "Look", "steps": [step]})
    assert isinstance(plan, Plan)
    async with Plansmith(tools=[look], store=store) as smith:
        for _ in range(10):
            await smith.run((await smith.submit(plan)).id)


def _pythons(commands: Mapping[str, Sequence[str]]) -> set[str]:
    return {command[0] for command in commands.values()}


def _cpu_ms(command: Sequence[str], folder: Path, store: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command,
        cwd=folder,
        env=os.environ | {"PLANSMITH_STORE": store},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1000
