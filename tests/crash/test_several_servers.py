"""Several servers on one PostgreSQL: each shows and decides every run, one of them executes it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tests.postgres import Server
from tests.unit.server.house import plan
from tests.waiting import until
from tests.worker_processes import Workers

STEPS = (
    {"id": "a", "kind": "tool", "tool": "act", "inputs": {"name": "a"}},
    {"id": "q", "kind": "ask", "question": "Go on?"},
    {"id": "b", "kind": "tool", "tool": "act", "inputs": {"name": "b"}, "after": ["a", "q"]},
)


@dataclass
class Machine:
    """A server that seems to be on a machine of its own."""

    workers: Workers
    process: asyncio.subprocess.Process
    client: httpx.AsyncClient

    async def is_ready(self) -> bool:
        return (await self.client.get("/readyz")).status_code == 200

    async def run(self, run: str) -> Any:
        return (await self.client.get(f"/v1/runs/{run}")).json()

    async def until(self, run: str, status: str) -> Any:
        """The run once it stands so."""

        async def is_there() -> bool:
            return bool((await self.run(run))["status"] == status)

        await until(is_there)
        return await self.run(run)

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


async def started(workers: Workers, name: str, *options: str) -> Machine:
    """A server, once it has told its address."""
    token = workers.folder / f"token-{name}"
    words = ("serve", "--no-browser", "--port", "0", "--token-file", str(token), *options)
    process = await workers.begin_logged(name, *words)
    link = re.compile(r"(http://[^/]+)/\?token=\S+\n")
    await until(lambda: bool(link.search(workers.log(process))) or process.returncode is not None)
    found = link.search(workers.log(process))
    assert found, workers.log(process)
    headers = {"Authorization": f"Bearer {token.read_text().strip()}"}
    client = httpx.AsyncClient(verify=False, base_url=found[1], headers=headers, timeout=200)
    return Machine(workers, process, client)


@contextlib.asynccontextmanager
async def serving(folder: Path, url: str, name: str, *options: str) -> AsyncIterator[Machine]:
    machine = await started(Workers(folder, url, lease_s=3), name, *options)
    try:
        async with machine.client:
            yield machine
    finally:
        if machine.process.returncode is None:
            machine.process.send_signal(signal.SIGCONT)
            machine.process.send_signal(signal.SIGTERM)
            await machine.process.wait()


@contextlib.asynccontextmanager
async def two(folder: Path, url: str, *options: str) -> AsyncIterator[tuple[Machine, Machine]]:
    """Two servers that start at the same time."""
    first, second = (serving(folder, url, name, *options) for name in ("one", "two"))
    made = await asyncio.gather(first.__aenter__(), second.__aenter__())
    try:
        for each in made:
            await until(each.is_ready)
        yield made[0], made[1]
    finally:
        made[0].workers.let("a", "b")
        await asyncio.gather(first.__aexit__(*[None] * 3), second.__aexit__(*[None] * 3))


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
        await until(lambda: one.workers.effects == ["a"])
        # The other one is in the middle of a call: the answer reaches it through the store.
        await one.post(f"/v1/runs/{run}/answers", {"question": "q", "answer": "yes"})
        following = asyncio.create_task(one.follow(run, "run_finished"))
        refused = await one.client.post(f"/v1/runs/{run}/resume", json={})
        assert refused.status_code == 409
        assert "on the machine two" in refused.json()["detail"]
        one.workers.let("a", "b")
        seen = await following
        assert (await one.run(run))["status"] == "done"
        assert seen.count("step_done") == 3
        assert one.workers.effects == ["a", "b"]
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
        await until(lambda: stays.workers.effects == ["a"])
        dies.process.kill()
        await dies.process.wait()
        await stays.follow(run, "step_unknown")
        await until(lambda: keeper(postgres_server, "killed_server") == left)
        answers = {"unknown:a": "done", "q": "yes"}
        for question, value in answers.items():
            await stays.post(f"/v1/runs/{run}/answers", {"question": question, "answer": value})
        stays.workers.let("b")
        await stays.follow(run, "run_finished")
        assert stays.workers.effects == ["a", "b"]
