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


async def test_what_was_running_planned_or_approved_goes_on_after_a_restart(tmp_path: Path) -> None:
    tools, silent = Tools(), Silent()
    async with serving(tmp_path, store="sqlite", tools=tools, model=silent) as house:
        steps = [tool_step("a"), tool_step("b", "slow", after=["a"]), tool_step("c", after=["b"])]
        run = await house.begin(*steps)
        await house.approve(run)
        await tools.began["slow"].wait()
        waiting = await house.begin(tool_step("m", "mail"))
        decided = await house.begin(tool_step("m", "mail", inputs={"city": "Rome"}))
        planned = await house.post("/v1/runs", {"request": "x"}, 202)
        await silent.began.wait()
    tools.gate.set()
    async with Plansmith(store=f"sqlite:///{tmp_path / 'runs.db'}", tools=[Tools()]) as other:
        await other.decide(decided["id"], approve=decided["hash"], by="ann")
    model = ScriptedModel(DECIDED, plan(tool_step("a")))
    async with serving(tmp_path, store="sqlite", tools=tools, model=model) as house:
        await house.until(run["id"], "done")
        await house.until(decided["id"], "done")
        planned = await house.until(planned["id"], "reviewing")
        assert [step["id"] for step in planned["plan"]["steps"]] == ["a"]
        assert [name for name, _ in tools.calls].count("weather") == 2  # a and c, once each
        assert [given for name, given in tools.calls if name == "mail"] == [{"city": "Rome"}]
        assert (await house.get(f"/v1/runs/{waiting['id']}"))["status"] == "reviewing"


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
