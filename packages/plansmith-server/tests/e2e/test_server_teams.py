"""A server goes on with the runs of teams: their agents are made again from what the run says."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.test_team import BY_CITY, DATA
from tests.unit.server.house import House, serving, tool_step

from plansmith.ports import Delta, Prompt
from plansmith.testing import ScriptedModel
from plansmith_cli.config import Settings
from plansmith_cli.teams import data

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
