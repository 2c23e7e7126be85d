"""Several servers on one PostgreSQL: each shows and decides every run, one of them executes it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tests import forked
from tests.postgres import Server
from tests.unit.server.house import plan
from tests.waiting import until
from tests.worker_processes import TOOLS

STEPS = (
    {"id": "a", "kind": "tool", "tool": "act", "inputs": {"name": "a"}},
    {"id": "q", "kind": "ask", "question": "Go on?"},
    {"id": "b", "kind": "tool", "tool": "act", "inputs": {"name": "b"}, "after": ["a", "q"]},
)


@dataclass
class Machine:
    """A server that seems to be on a machine of its own."""

    process: asyncio.subprocess.Process
    client: httpx.AsyncClient

    async def is_ready(self) -> bool:
        return (await self.client.get("/readyz")).status_code == 200

    async def run(self, run: str) -> Any:
        return (await self.client.get(f"/v1/runs/{run}")).json()

    async def post(self, path: str, body: Any) -> Any:
        answer = await self.client.post(path, json=body)
        assert answer.status_code < 300, answer.text
        return answer.json()

    async def follow(self, run: str, wanted: str, *, after: int = 0) -> list[str]:
        """Follow a run until an event of a type; return the types."""
        types: list[str] = []
        where: dict[str, str | int] = {"run": run, "after": after}
        async with self.client.stream("GET", "/v1/events", params=where) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: ") and "body" in line:
                    types.append(json.loads(line[6:])["body"]["type"])
                    if types[-1] == wanted:
                        return types
        return types


@contextlib.asynccontextmanager
async def serving(folder: Path, url: str, name: str, *options: str) -> AsyncIterator[Machine]:
    home = folder / "config" / "plansmith"
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text("[run]\nlease_s = 3\n")
    process = await forked.create_subprocess_exec(
        *(sys.executable, "-m", "plansmith_cli", "serve", "--no-browser", "--port", "0"),
        *("--token-file", str(folder / f"token-{name}"), "--store", url),
        *("--tools", str(folder / "tools.py"), "--model", "demo", *options),
        stderr=asyncio.subprocess.PIPE,
        env=os.environ
        | {"HERE": str(folder), "PLANSMITH_MACHINE": name}
        | {"XDG_DATA_HOME": str(folder / "data"), "XDG_CONFIG_HOME": str(folder / "config")},
        cwd=folder,
    )
    assert process.stderr is not None
    line = (await process.stderr.readline()).decode()
    found = re.search(r"(http://[^/]+)/\?token=\S+", line)
    assert found, line + (await process.stderr.read()).decode()
    log = (folder / f"log-{name}").open("wb")

    async def drain() -> None:
        assert process.stderr is not None
        async for each in process.stderr:
            log.write(each)
            log.flush()

    draining = asyncio.create_task(drain())
    headers = {"Authorization": f"Bearer {(folder / f'token-{name}').read_text().strip()}"}
    try:
        async with httpx.AsyncClient(
            verify=False, base_url=found[1], headers=headers, timeout=200
        ) as client:
            yield Machine(process, client)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(signal.SIGTERM)
            await process.wait()
        await draining
        log.close()


@contextlib.asynccontextmanager
async def two(folder: Path, url: str, *options: str) -> AsyncIterator[tuple[Machine, Machine]]:
    """Two servers that start at the same time."""
    (folder / "tools.py").write_text(TOOLS)
    first, second = (serving(folder, url, name, *options) for name in ("one", "two"))
    made = await asyncio.gather(first.__aenter__(), second.__aenter__())
    try:
        for each in made:
            await until(each.is_ready)
        yield made[0], made[1]
    finally:
        (folder / "go-a").touch()
        (folder / "go-b").touch()
        await asyncio.gather(first.__aexit__(*[None] * 3), second.__aexit__(*[None] * 3))


def effects(folder: Path) -> list[str]:
    lines = (folder / "effects").read_text().splitlines() if (folder / "effects").exists() else []
    return [line.split()[0] for line in lines]


async def begun(machine: Machine) -> str:
    run = await machine.post("/v1/runs", {"plan": plan(*STEPS)})
    return str(run["id"])


async def approve(machine: Machine, run: str) -> None:
    decision = {"approve": (await machine.run(run))["hash"]}
    await machine.post(f"/v1/runs/{run}/decision", decision)


def keeper(server: Server, database: str) -> str:
    """The machine whose server fires the schedules now."""
    query = "SELECT owner FROM claims WHERE run LIKE E'\\nschedules%'"
    found = server.sql(f"SET search_path TO plansmith; {query}", database=database)
    return found.split(" ")[0] if found else ""


async def test_a_run_is_decided_and_followed_at_any_server_and_executed_by_one(
    tmp_path: Path, postgres_server: Server
) -> None:
    url = postgres_server.new_database("two_servers")
    async with two(tmp_path, url) as (one, other), asyncio.timeout(280):
        run = await begun(one)
        await approve(other, run)
        seen = await one.follow(run, "question_asked")
        assert "plan_approved" in seen
        await until(lambda: effects(tmp_path) == ["a"])
        # The other one is in the middle of a call: the answer reaches it through the store.
        await one.post(f"/v1/runs/{run}/answers", {"question": "q", "answer": "yes"})
        following = asyncio.create_task(one.follow(run, "run_finished"))
        refused = await one.client.post(f"/v1/runs/{run}/resume", json={})
        assert refused.status_code == 409
        assert "on the machine two" in refused.json()["detail"]
        (tmp_path / "go-a").touch()
        (tmp_path / "go-b").touch()
        seen = await following
        assert (await one.run(run))["status"] == "done"
        assert seen.count("step_done") == 3
        assert effects(tmp_path) == ["a", "b"]
        assert keeper(postgres_server, "two_servers") in ("one", "two")


async def test_a_killed_server_hands_its_runs_and_the_schedules_to_the_other(
    tmp_path: Path, postgres_server: Server
) -> None:
    url = postgres_server.new_database("killed_server")
    async with two(tmp_path, url) as (one, other), asyncio.timeout(280):
        machines = {"one": one, "two": other}
        await until(lambda: bool(keeper(postgres_server, "killed_server")))
        name = keeper(postgres_server, "killed_server")
        dies = machines.pop(name)
        [(left, stays)] = machines.items()
        run = await begun(stays)
        await approve(dies, run)
        await until(lambda: effects(tmp_path) == ["a"])
        dies.process.kill()
        await dies.process.wait()
        await stays.follow(run, "step_unknown")
        await until(lambda: keeper(postgres_server, "killed_server") == left)
        answers = {"unknown:a": "done", "q": "yes"}
        for question, value in answers.items():
            await stays.post(f"/v1/runs/{run}/answers", {"question": question, "answer": value})
        (tmp_path / "go-b").touch()
        await stays.follow(run, "run_finished")
        assert effects(tmp_path) == ["a", "b"]
