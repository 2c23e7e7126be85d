"""The API for programs: probes, waiting, filters, examples, errors of each route, the page."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import httpx
from tests.unit.server.house import House, Silent, plan, serving, tool_step

from plansmith.testing import ScriptedModel
from plansmith_server.app import ROUTES

PLAN = plan(tool_step("oslo"), goal="Weather in Oslo")
DECIDED = {"decision": "plan", "reason": "", "query": "the weather in Oslo", "answer": ""}


async def test_a_probe_without_a_token_learns_that_the_server_lives(tmp_path: Path) -> None:
    async with serving(tmp_path) as house, httpx.AsyncClient(base_url=house.url) as probe:
        for headers in ({}, {"Host": "10.1.2.3:8080"}, {"Host": "evil.example"}):
            answer = await probe.get("/healthz", headers=headers)
            assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
            assert "set-cookie" not in answer.headers
        assert (await probe.head("/healthz")).status_code == 200
        probed = await probe.get("/readyz", headers={"Host": "10.1.2.3:8080"})
        assert (probed.status_code, probed.json()) == (200, {"status": "ok"})
        assert (await house.get("/readyz"))["open_runs"] == 0
        house.server_state.ready = False
        probed = await probe.get("/readyz")
        assert (probed.status_code, probed.json()) == (503, {"status": "not ready"})
        assert "resum" in (await house.client.get("/readyz")).text
        wrong = {"Authorization": "Bearer x"}
        assert (await probe.get("/readyz", headers=wrong)).status_code == 401
        for path in (
            "/readyz/",
            "/metrics",
            "/healthz/",
            "/healthz/x",
            "/version",
            "/docs",
            "/openapi.json",
        ):
            assert (await probe.get(path)).status_code == 401, path
        assert (await probe.post("/healthz")).status_code == 401


async def test_who_waits_gets_the_run_when_it_needs_a_person_or_is_over(tmp_path: Path) -> None:
    model = ScriptedModel(DECIDED, PLAN, DECIDED, PLAN)
    async with serving(tmp_path, model=model) as house:
        waits: dict[str, Any] = {"params": {"wait": 60}}
        made = await house.post("/v1/runs", {"request": "the weather in Oslo"}, 202, **waits)
        assert made["status"] == "reviewing"
        body = {"plan": plan(tool_step("a")), "mode": "read_only"}
        assert (await house.post("/v1/runs", body, 202, **waits))["status"] == "done"
        slow = await house.begin(tool_step("a", "slow"), tool_step("b", after=["a"]))
        await house.approve(slow)
        await house.tools.began["slow"].wait()
        await house.post(f"/v1/runs/{slow['id']}/pause")
        house.tools.gate.set()
        await house.until(slow["id"], "paused")
        path = f"/v1/runs/{slow['id']}/resume"
        assert (await house.post(path, **waits))["status"] == "done"
        talk = {"request": "the weather in Oslo", "conversation": "new"}
        said = await house.post("/v1/runs", talk, 202, **waits)
        assert (said["status"], said["message"]["kind"]) == ("reviewing", "request")


async def test_a_wait_ends_when_its_time_is_up_or_the_server_stops(tmp_path: Path) -> None:
    model = Silent()
    async with serving(tmp_path, model=model) as house:
        asked = {"request": "what nobody answers"}
        short = await house.post("/v1/runs", asked, 202, params={"wait": 0.01})
        assert short["status"] in ("triaging", "planning")
        for wrong in ("61", "-1", "soon"):
            answer = await house.client.post("/v1/runs", params={"wait": wrong}, json=asked)
            assert answer.status_code == 422
        model.began.clear()
        waiting = asyncio.create_task(house.post("/v1/runs", asked, 202, params={"wait": 60}))
        await model.began.wait()
        house.server_state.closing.set()
        assert (await waiting)["status"] in ("triaging", "planning")


async def test_the_page_of_the_api_shows_every_route_and_runs_no_script(house: House) -> None:
    answer = await house.client.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; style-src 'sha256-")
    assert "unsafe" not in policy
    text = answer.text
    assert "<script" not in text
    assert "://" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    for each in ROUTES:
        assert f'id="{each.name}"' in text, each.name
    assert "Needs no token." in text
    assert "Which files mention invoices?" in text
