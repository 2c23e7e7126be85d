"""Runs outlive the server, those of teams too: they go on where they were, nothing done twice."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.crash.test_several_servers import approve
from tests.crash.test_several_servers import serving as process_of
from tests.unit.cli.test_team import BY_CITY, DATA
from tests.unit.server.house import House, Silent, Tools, plan, serving, tool_step

from plansmith import Plansmith
from plansmith.ports import Delta, Prompt
from plansmith.testing import ScriptedModel
from plansmith_cli.config import Settings
from plansmith_cli.teams import data

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


GO = {"decision": "plan", "reason": "", "query": "", "answer": ""}


class Cast:
    """A model that plays every part; what it says follows from what it is asked."""

    name = "cast"

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        text = "\n".join(message.text for message in prompt.messages)
        parts: dict[str, object] = {
            "decide what a request needs": GO,
            "You write plans": DATA,
            "You write one SQL": {"sql": BY_CITY, "reason": ""},
            "You word the answer": "It is told [step:chart].",
        }
        answer = next(each for needle, each in parts.items() if needle in text)
        async for delta in ScriptedModel(answer).stream(prompt):
            yield delta


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a database, in which all processes of a test work."""
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect(tmp_path / "shop.db") as shop:
        shop.executescript(
            "CREATE TABLE customers (name TEXT, city TEXT);"
            "INSERT INTO customers VALUES ('Ada', 'Oslo'), ('Bob', 'Oslo'), ('Cid', 'Bergen');"
        )
    shop.close()
    return tmp_path


def settings(place: Path, **more: Any) -> Settings:
    return Settings.model_validate({"store": f"sqlite:///{place / 'runs.db'}", **more})


async def drawn(place: Path, **more: Any) -> str:
    """A run of the data team that waits for approval, left by the process that made it."""
    own = settings(place)
    async with data(own, database="sqlite:///shop.db", model=Cast(), **more) as team:
        run = await team.plan("Customers by city?", by="ada")
    return run.id


def house(place: Path) -> Any:
    return serving(place, store="file", model=Cast())


async def approved(house: House, run_id: str) -> Any:
    run = await house.get(f"/v1/runs/{run_id}")
    await house.approve(run)
    return await house.until(run_id, "done", "partly_done", "failed")


async def test_a_plan_of_a_team_runs_beside_an_ordinary_run(place: Path) -> None:
    (place / "charts").mkdir()
    run_id = await drawn(place, folder=place / "charts")
    async with house(place) as server:
        plain = await server.begin(tool_step("a"), mode="read_only")
        run = await approved(server, run_id)
        assert run["status"] == "done"
        assert (place / "charts" / "customers.svg").is_file()  # in the folder of the team
        assert (await server.until(plain["id"], "done"))["steps"]["a"]["status"] == "done"
        again = await server.post(f"/v1/runs/{run_id}/rerun", status=202)
        assert (await approved(server, again["id"]))["status"] == "done"


async def test_a_run_whose_team_cannot_be_made_is_paused_with_the_reason(place: Path) -> None:
    own = settings(place)
    async with data(own, database="sqlite:///shop.db", model=Cast()) as team:
        run = await team.plan("Customers by city?", by="ada")
        assert run.plan is not None
        await team.decide(run.id, approve=run.plan.hash, by="ada")
    (place / "shop.db").rename(place / "moved.db")
    async with house(place) as server:
        held = await server.until(run.id, "paused")
        assert "there is no database shop.db" in held["reason"]
        (place / "moved.db").rename(place / "shop.db")
        await server.post(f"/v1/runs/{run.id}/resume")
        assert (await server.until(run.id, "done"))["status"] == "done"
