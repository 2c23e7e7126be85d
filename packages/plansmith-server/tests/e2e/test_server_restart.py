"""Runs outlive the server: stopped, killed, started again, they go on and nothing is done twice."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
from tests import forked
from tests.unit.server.house import Silent, Tools, plan, serving, tool_step

from plansmith import Plansmith
from plansmith.testing import ScriptedModel

DECIDED = {"decision": "plan", "reason": "", "query": "x", "answer": ""}


async def test_a_run_goes_on_after_a_graceful_restart(tmp_path: Path) -> None:
    tools = Tools()
    async with serving(tmp_path, store="sqlite", tools=tools) as house:
        steps = [tool_step("a"), tool_step("b", "slow", after=["a"]), tool_step("c", after=["b"])]
        run = await house.begin(*steps)
        await house.approve(run)
        await tools.began["slow"].wait()
        waiting = await house.begin(tool_step("m", "mail"))
    tools.gate.set()
    async with serving(tmp_path, store="sqlite", tools=tools) as house:
        run = await house.until(run["id"], "done")
        assert [name for name, _ in tools.calls].count("weather") == 2  # a and c, once each
        assert (await house.get(f"/v1/runs/{waiting['id']}"))["status"] == "reviewing"


async def test_planning_that_was_cut_off_begins_again(tmp_path: Path) -> None:
    silent = Silent()
    async with serving(tmp_path, store="sqlite", model=silent) as house:
        run = await house.post("/v1/runs", {"request": "x"}, 202)
        await silent.began.wait()
    model = ScriptedModel(DECIDED, plan(tool_step("a")))
    async with serving(tmp_path, store="sqlite", model=model) as house:
        run = await house.until(run["id"], "reviewing")
        assert [step["id"] for step in run["plan"]["steps"]] == ["a"]


async def test_what_was_approved_but_not_started_starts(tmp_path: Path) -> None:
    async with serving(tmp_path, store="sqlite") as house:
        run = await house.begin(tool_step("a", "mail"))
        left = await house.begin(tool_step("a"), mode="review")
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    async with Plansmith(store=store, tools=[Tools()]) as other:
        await other.decide(run["id"], approve=run["hash"], by="ann")
    async with serving(tmp_path, store="sqlite") as house:
        await house.until(run["id"], "done")
        assert house.tools.calls == [("mail", {"city": "Oslo"})]
        assert (await house.get(f"/v1/runs/{left['id']}"))["status"] == "reviewing"


TOOLS = '''
import os, time
from pathlib import Path
from plansmith import tool
from plansmith.ports import Call

HERE = Path(os.environ["HERE"])

@tool(effect="read")
def slow(name: str, call: Call) -> str:
    """Wait for a file."""
    with (HERE / "calls").open("a") as file:
        file.write(name + "\\n")
    call.progress("waiting")
    while not (HERE / "go").exists():
        time.sleep(0.02)
    return name

@tool(effect="read")
def quick(name: str) -> str:
    """Answer at once."""
    with (HERE / "calls").open("a") as file:
        file.write(name + "\\n")
    return name
'''


@contextlib.asynccontextmanager
async def command(
    folder: Path, *, port: int = 0, tools: str = TOOLS
) -> AsyncIterator[tuple[Any, httpx.AsyncClient]]:
    """`plansmith serve` as a process of its own."""
    (folder / "tools.py").write_text(tools)
    process = await forked.create_subprocess_exec(
        *(sys.executable, "-m", "plansmith_cli", "serve", "--no-browser", "--port", str(port)),
        *("--token-file", str(folder / "token"), "--store", f"sqlite:///{folder / 'runs.db'}"),
        *("--tools", str(folder / "tools.py"), "--model", "demo"),
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"HERE": str(folder), "XDG_DATA_HOME": str(folder / "data")},
        cwd=folder,
    )
    assert process.stderr is not None
    line = (await process.stderr.readline()).decode()
    found = re.search(r"(http://[^/]+)/\?token=\S+", line)
    assert found, line + (await process.stderr.read()).decode()
    # Read on, so that the process never waits for us.
    draining = asyncio.create_task(process.stderr.read())
    headers = {"Authorization": f"Bearer {(folder / 'token').read_text().strip()}"}
    try:
        async with httpx.AsyncClient(
            verify=False, base_url=found[1], headers=headers, timeout=120
        ) as client:
            yield process, client
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            await process.wait()
        await draining


async def events_of(client: httpx.AsyncClient, run_id: str, wanted: str) -> None:
    """Follow a run until an event of a type."""
    async with client.stream("GET", "/v1/events", params={"run": run_id, "after": 0}) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: ") and wanted in line:
                body = json.loads(line[6:]).get("body", {})
                if body.get("type") == wanted:
                    return


async def begun(client: httpx.AsyncClient, *steps: dict[str, Any]) -> str:
    """The id of a run of a plan, which is approved."""
    run: dict[str, str] = (await client.post("/v1/runs", json={"plan": plan(*steps)})).json()
    where = f"/v1/runs/{run['id']}/decision"
    (await client.post(where, json={"approve": run["hash"]})).raise_for_status()
    return run["id"]


async def test_a_killed_server_goes_on_where_it_was(tmp_path: Path) -> None:
    steps = [
        {"id": "a", "kind": "tool", "tool": "quick", "inputs": {"name": "a"}},
        {"id": "b", "kind": "tool", "tool": "slow", "inputs": {"name": "b"}, "after": ["a"]},
        {"id": "c", "kind": "tool", "tool": "quick", "inputs": {"name": "c"}, "after": ["b"]},
    ]
    async with command(tmp_path) as (process, client):
        run = await begun(client, *steps)
        async with asyncio.timeout(120):
            await events_of(client, run, "step_progressed")
        process.kill()
        await process.wait()
    (tmp_path / "go").touch()
    async with command(tmp_path) as (process, client):
        async with asyncio.timeout(120):
            await events_of(client, run, "run_finished")
        done = (await client.get(f"/v1/runs/{run}")).json()
        assert done["status"] == "done"
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    # What was recorded is not done again; the read that was cut off is.
    assert (tmp_path / "calls").read_text().split() == ["a", "b", "b", "c"]


async def test_a_second_server_leaves_the_runs_of_the_first_alone(tmp_path: Path) -> None:
    slow = {"id": "b", "kind": "tool", "tool": "slow", "inputs": {"name": "b"}}
    quick = {"id": "a", "kind": "tool", "tool": "quick", "inputs": {"name": "a"}}
    async with command(tmp_path) as (process, first), asyncio.timeout(120):
        run = await begun(first, slow)
        await events_of(first, run, "step_progressed")
        async with command(tmp_path) as (_, second):
            while (await second.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - over HTTP
                await asyncio.sleep(0.01)
            assert (await second.get(f"/v1/runs/{run}")).json()["status"] == "running"
            # What is decided there is done there, and seen here.
            await events_of(first, await begun(second, quick), "run_finished")
            assert (tmp_path / "calls").read_text().split() == ["b", "a"]
            process.kill()
            await process.wait()
            (tmp_path / "go").touch()
            await events_of(second, run, "run_finished")
    assert (tmp_path / "calls").read_text().split() == ["b", "a", "b"]  # cut off, done there
