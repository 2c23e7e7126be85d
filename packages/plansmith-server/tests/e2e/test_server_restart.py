"""Runs outlive the server: stopped, killed, started again, they go on and nothing is done twice."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

from tests.crash.test_several_servers import approve
from tests.crash.test_several_servers import serving as process_of
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


async def test_a_killed_server_goes_on_where_it_was(tmp_path: Path) -> None:
    steps = [
        {"id": "a", "kind": "tool", "tool": "quick", "inputs": {"name": "a"}},
        {"id": "b", "kind": "tool", "tool": "slow", "inputs": {"name": "b"}, "after": ["a"]},
        {"id": "c", "kind": "tool", "tool": "quick", "inputs": {"name": "c"}, "after": ["b"]},
    ]
    (tmp_path / "tools.py").write_text(TOOLS)
    url = f"sqlite:///{tmp_path / 'runs.db'}"
    async with process_of(tmp_path, url, "one") as server, asyncio.timeout(120):
        run = str((await server.post("/v1/runs", {"plan": plan(*steps)}))["id"])
        await approve(server, run)
        await server.follow(run, "step_progressed")
        server.process.kill()
        await server.process.wait()
    (tmp_path / "go").touch()
    async with process_of(tmp_path, url, "one") as server, asyncio.timeout(120):
        await server.follow(run, "run_finished")
        assert (await server.run(run))["status"] == "done"
        server.process.send_signal(signal.SIGTERM)
        assert await server.process.wait() == 0
    # What was recorded is not done again; the read that was cut off is.
    assert (tmp_path / "calls").read_text().split() == ["a", "b", "b", "c"]
