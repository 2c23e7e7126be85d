"""Tools and agents of other people: shown whole, approved by hash on the page, usable at once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.servers.a2a_desk import Desk
from tests.unit.server.house import serving

FRIENDLY = str(Path(__file__).parents[4] / "tests" / "servers" / "friendly.py")


async def test_a_server_and_its_tools_are_approved_as_they_were_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    friendly = {"command": sys.executable, "args": [FRIENDLY]}
    async with serving(
        tmp_path, settings={"mcp": {"servers": {"friendly": friendly}}}, settings_tools=True
    ) as house:
        [waiting] = [
            each for each in (await house.get("/v1/tools"))["items"] if not each["approved"]
        ]
        assert waiting["kind"] == "server"
        assert FRIENDLY in waiting["text"]
        inbox = await house.get("/v1/inbox")
        assert [each["kind"] for each in inbox["items"]] == ["tool"]
        body = {"server": waiting["name"], "hash": "another"}
        assert (await house.post("/v1/tools/approve", body, 409))["code"] == "stale_decision"
        left = await house.post("/v1/tools/approve", body | {"hash": waiting["hash"]})
        add = next(each for each in left["items"] if each["name"].endswith(".add"))
        assert add["kind"] == "tool"
        body = {"server": add["name"], "hash": add["hash"]}
        await house.post("/v1/tools/approve", body)
        names = [
            each["name"] for each in (await house.get("/v1/tools"))["items"] if each["approved"]
        ]
        assert add["name"] in names


async def test_an_agent_works_the_moment_its_card_is_approved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    async with Desk().serving() as intake:
        agents = {"desk": {"url": intake.url, "effect": "read"}}
        async with serving(tmp_path, settings={"agents": agents}) as house:
            listed, card = (await house.get("/v1/agents"))["items"]
            assert (listed["name"], listed["enabled"]) == ("a2a.desk", False)
            assert (card["status"], card["card"]["name"]) == ("new", "The Desk")
            stale = {"name": "desk", "hash": "another"}
            assert (await house.post("/v1/agents/approve", stale, 409))["code"] == "stale_decision"
            approval = {"name": "desk", "hash": card["hash"]}
            assert (await house.post("/v1/agents/approve", approval))["status"] == "approved"
            step = {"id": "a", "kind": "agent", "agent": "a2a.desk", "task": "echo hello"}
            run = await house.begin(step, mode="read_only")
            run = await house.until(run["id"], "done")
            assert "hello" in str(run["steps"]["a"]["result"])
