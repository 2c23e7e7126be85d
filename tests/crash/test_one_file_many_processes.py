"""A server, commands and a schedule on one SQLite file while any of them is killed or stopped."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.crash.test_several_servers import Machine, started
from tests.worker_processes import Workers

from plansmith import Plan
from plansmith.app import Plansmith
from plansmith.plan.timing import Timing
from plansmith.store.doctor import diagnose, verify

ROOT = Path(__file__).parents[2]
SEED = int(os.environ.get("PLANSMITH_SEED", "12"))
TURNS, MANY_TURNS = 10, 6000
STEPS: list[dict[str, Any]] = [
    {
        "id": f"s{number}",
        "kind": "tool",
        "tool": "act",
        "inputs": {"name": f"n{number}", "seconds": 0.05},
        "after": [f"s{number - 1}"] if number else [],
    }
    for number in range(4)
]
PLAN = Plan.model_validate({"goal": "leave four marks", "steps": STEPS})
HAPPENS = ["post"] * 6 + ["run"] * 2 + ["fire"] + ["kill"] * 3 + ["stop"] * 2
Process = asyncio.subprocess.Process


class Story(Workers):
    """The processes, the file of effects, and the dice."""

    def __init__(self, folder: Path, seed: int) -> None:
        (folder / "plan.json").write_text(PLAN.model_dump_json(exclude_defaults=True))
        super().__init__(folder, f"sqlite:///{folder / 'runs.db'}", lease_s=20)
        self.dice = random.Random(seed)
        self.acknowledged: set[str] = set()
        self.server: Machine | None = None
        self.others: list[Process] = []
        self.kills = 0
        self.first = ["kill", "post", "fire", "post", "run", "post"]

    async def spawn(self, *words: str) -> None:
        closed: dict[str, Any] = dict.fromkeys(
            ("stdin", "stdout", "stderr"), asyncio.subprocess.DEVNULL
        )
        tools = ("--tools", str(self.folder / "tools.py"))
        self.others.append(await self.begin(*words, *tools, **closed))

    async def serve(self) -> Machine:
        """The server; it is started if there is none."""
        if self.server is None or self.server.process.returncode is not None:
            if self.server is not None:
                await self.server.client.aclose()
            self.server = await started(self, "")
            self.server.client.timeout = httpx.Timeout(10)
        return self.server

    async def post(self, client: httpx.AsyncClient) -> None:
        """A run over HTTP; what was answered is acknowledged."""
        with suppress(httpx.HTTPError):
            made = await client.post("/v1/runs", json={"plan": PLAN.to_json()})
            if made.status_code == 202:
                run = made.json()
                self.acknowledged.add(run["id"])
                path = f"/v1/runs/{run['id']}/decision"
                await client.post(path, json={"approve": run["hash"]})

    async def turn(self, schedule: str) -> None:
        """One thing that happens: a run begins somewhere, or a process is hit."""
        server = await self.serve()
        # Each of them once, and then as it falls.
        match self.first.pop() if self.first else self.dice.choice(HAPPENS):
            case "post":
                await self.post(server.client)
            case "run":
                await self.spawn("run", "plan.json", "--approve-plan", PLAN.hash, "--no-input")
            case "fire":
                await self.spawn("schedule", "run-now", schedule)
            case "kill":
                self.hit(signal.SIGKILL)
            case _:
                await self.stop_a_while()
        self.others = [each for each in self.others if each.returncode is None]
        await asyncio.sleep(self.dice.uniform(0.0, 0.6))

    def hit(self, how: signal.Signals) -> Process | None:
        processes = [*self.others, *([self.server.process] if self.server else [])]
        alive = [each for each in processes if each.returncode is None]
        if not alive:
            return None
        victim = self.dice.choice(alive)
        with suppress(ProcessLookupError):
            victim.send_signal(how)
            self.kills += how is signal.SIGKILL
        return victim

    async def stop_a_while(self) -> None:
        """A process that is stopped keeps its runs, and goes on with them."""
        victim = self.hit(signal.SIGSTOP)
        await asyncio.sleep(self.dice.uniform(0.1, 0.8))
        if victim is not None:
            with suppress(ProcessLookupError):
                victim.send_signal(signal.SIGCONT)

    async def end(self) -> None:
        """Let the commands end and kill the server."""
        async with asyncio.timeout(120):
            for each in self.others:
                await each.wait()
        await self.stop_all()
        if self.server is not None:
            await self.server.client.aclose()


async def settle(story: Story, smith: Plansmith) -> None:
    """Go on with all that was left, and answer by what really happened."""
    for _ in range(50):
        await smith.runs.resume_all()
        waiting = [each for each in await smith.runs() if not each.status.over]
        begun = [run for run in waiting if run.questions or run.is_approved]
        if not begun:
            return
        for run in begun:
            for question in run.questions:
                key = run.steps[question.removeprefix("unknown:")].key
                word = "done" if key in story.keys else "retry"
                await smith.answer(run.id, question, word, by="ada")
            await smith.runs.run(run.id)
    pytest.fail("some run is stuck")


async def play(folder: Path, turns: int, seed: int) -> None:
    story = Story(folder, seed)
    async with story.smith() as smith:
        made = await smith.schedules.create(
            timing=Timing(every_minutes=600),
            plan=PLAN,
            approve=PLAN.hash,
            overlap="allow",
            by="ada",
        )
    for _ in range(turns):
        await story.turn(made.id)
    await story.end()

    async with story.smith() as smith:
        await settle(story, smith)
        known = {run.id: run for run in await smith.runs()}
        marks = Counter(story.keys)
        assert story.acknowledged <= known.keys(), "an acknowledged run is lost"
        assert {key.split("/")[0] for key in marks} <= known.keys(), "a run that acted is lost"
        assert set(marks.values()) <= {1}, "something was done twice"
        for run in known.values():
            assert not run.damage
            await verify(smith.store, run.id)
            if run.is_approved:
                assert run.status.value == "done"
                assert sum(key.startswith(run.id) for key in marks) == len(STEPS)
    findings = await diagnose(story.url)
    assert all(found.level != "error" for found in findings), findings
    assert story.kills
    assert len(known) >= len(story.acknowledged) > 1


@pytest.mark.timeout(900)
async def test_a_server_commands_and_a_schedule_on_one_file_lose_nothing_when_killed(
    tmp_path: Path,
) -> None:
    await play(tmp_path, TURNS, SEED)


@pytest.mark.long
async def test_they_lose_nothing_in_an_hour_either(tmp_path: Path) -> None:
    await play(tmp_path, MANY_TURNS, SEED + 1)
