"""Plans in the formats of other systems over HTTP and MCP: sent, asked for, checked, shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.test_server_mcp import DECIDED, call, client, refused
from tests.unit.server.house import serving

from plansmith.testing import ScriptedModel

SAGE: list[dict[str, Any]] = [
    {"type": "tool", "name": "weather", "arguments": {"city": "Oslo"}},
    {"type": "reply", "text": "Tell it."},
]
REFUSED: dict[str, Any] = {
    "tasks": [{"title": "Pay", "query": "pay", "agent_name": "desk", "pattern": "daily"}],
    "adequate": False,
    "reason": "no account",
}


async def test_a_plan_in_a_dialect_is_sent_or_planned_reviewed_run_and_shown_in_it(
    tmp_path: Path,
) -> None:
    model = ScriptedModel("It is fine.", DECIDED, SAGE)
    async with serving(tmp_path, model=model) as house:
        body = {"request": "the weather", "plan": SAGE, "dialect": "sage"}
        run = await house.post("/v1/runs", body, 202)
        assert run["plan"]["goal"] == "the weather"
        where = f"/v1/runs/{run['id']}/plan"
        answer = await house.get(where, params={"dialect": "sage"})
        assert (answer["plan"], answer["hash"]) == (SAGE, run["hash"])
        assert {each["code"] for each in answer["lost"]} == {"PS017"}  # its goal
        await house.approve(await house.until(run["id"], "reviewing"))
        await house.until(run["id"], "done")
        with_results = await house.get(where, params={"dialect": "sage", "results": True})
        assert with_results["plan"]["observations"][0]["result"]["city"] == "Oslo"
        run = await house.post("/v1/runs", {"request": "the weather", "dialect": "sage"}, 202)
        await house.until(run["id"], "reviewing")
        where = f"/v1/runs/{run['id']}/plan"
        assert (await house.get(where, params={"dialect": "sage"}))["plan"] == SAGE
        assert '"type": "reply"' in model.prompts[2][0].text


async def test_the_mcp_tools_plan_check_start_and_show_in_a_dialect(tmp_path: Path) -> None:
    model = ScriptedModel(DECIDED, SAGE)
    async with serving(tmp_path, model=model) as house, client(house) as made:
        planned = await call(made, "plan_create", request="the weather", dialect="sage")
        assert planned["plan"] == SAGE
        assert planned["lost"]
        checked = await call(made, "plan_validate", plan=SAGE, dialect="sage")
        assert checked["usable"]
        assert [each["kind"] for each in checked["plan"]["steps"]] == ["tool", "reply"]
        started = await call(made, "run_start", plan=SAGE[:1], dialect="sage")
        await call(made, "run_status", run=started["run"], wait_s=20)
        answer = await call(
            made, "plan_show", run=started["run"], dialect="openmanus", results=True
        )
        assert answer["plan"]["step_statuses"] == ["completed"]
        assert answer["dialect"] == "openmanus"
        checked = await call(made, "plan_validate", plan=REFUSED, dialect="valuecell")
        assert not checked["usable"]
        assert "pattern" in json.dumps(checked["problems"])
        error = await refused(made, "run_start", plan=REFUSED, dialect="valuecell")
        assert "pattern" in error
        assert "go with a plan" in await refused(made, "run_start", run="x", dialect="sage")
        assert "'sage'" in await refused(made, "plan_validate", plan={}, dialect="klingon")
