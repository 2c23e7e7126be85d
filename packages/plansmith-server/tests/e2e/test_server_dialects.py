"""Plans in the formats of other systems over HTTP and MCP: sent, asked for, checked, shown."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from tests.e2e.test_server_mcp import DECIDED, call, client, refused
from tests.unit.server.house import House, serving

from plansmith.formats.dialect import dialect_names
from plansmith.ports import Delta, Prompt, TextDelta
from plansmith.testing import Answer, ScriptedModel

SAGE: list[dict[str, Any]] = [
    {"type": "tool", "name": "weather", "arguments": {"city": "Oslo"}},
    {"type": "reply", "text": "Tell it."},
]
REFUSED: dict[str, Any] = {
    "tasks": [{"title": "Pay", "query": "pay", "agent_name": "desk", "pattern": "daily"}],
    "adequate": False,
    "reason": "no account",
}


async def ended(house: House, body: Any, **query: Any) -> Any:
    run = await house.post("/v1/runs", body, 202)
    await house.until(run["id"], "reviewing", "failed")
    return await house.get(f"/v1/runs/{run['id']}/plan", params=query)


async def test_a_plan_in_a_dialect_is_sent_reviewed_run_and_shown_in_it(tmp_path: Path) -> None:
    model = ScriptedModel("It is fine.")
    async with serving(tmp_path, model=model) as house:
        body = {"request": "the weather", "plan": SAGE, "dialect": "sage"}
        run = await house.post("/v1/runs", body, 202)
        assert run["plan"]["goal"] == "the weather"
        where = f"/v1/runs/{run['id']}/plan"
        shown = await house.get(where, params={"dialect": "sage"})
        assert (shown["plan"], shown["hash"]) == (SAGE, run["hash"])
        assert {each["code"] for each in shown["lost"]} == {"PS017"}  # its goal
        await house.approve(await house.until(run["id"], "reviewing"))
        await house.until(run["id"], "done")
        with_results = await house.get(where, params={"dialect": "sage", "results": True})
        assert with_results["plan"]["observations"][0]["result"]["city"] == "Oslo"


async def test_a_request_with_a_dialect_is_planned_in_it(tmp_path: Path) -> None:
    model = ScriptedModel(DECIDED, SAGE)
    async with serving(tmp_path, model=model) as house:
        shown = await ended(house, {"request": "the weather", "dialect": "sage"}, dialect="sage")
        assert shown["plan"] == SAGE
        assert '"type": "reply"' in model.prompts[1][0].text


async def test_every_dialect_can_be_asked_for_and_tells_what_it_cannot_hold(house: House) -> None:
    run = await house.begin({"id": "a", "kind": "ask", "question": "Which?"})
    where = f"/v1/runs/{run['id']}/plan?dialect=deerflow"
    shown = await house.get(where)
    assert [each["step"] for each in shown["lost"]].count("a") == 1
    assert all(each["message"] and each["code"] == "PS017" for each in shown["lost"])
    chinese = await house.get(where, headers={"Accept-Language": "zh"})
    assert any("ask" in each["message"] and "步骤" in each["message"] for each in chinese["lost"])
    for name in dialect_names():
        shown = await house.get(f"/v1/runs/{run['id']}/plan", params={"dialect": name})
        assert shown["dialect"] == name
        assert isinstance(shown["plan"], (dict, list))
    answers = [
        await house.client.post("/v1/runs", json={"request": "x", "dialect": "klingon"}),
        await house.client.post("/v1/plans/check", json={"plan": {}, "dialect": "klingon"}),
        await house.client.get(f"/v1/runs/{run['id']}/plan", params={"dialect": "klingon"}),
    ]
    for answer in answers:
        assert answer.status_code == 422
        assert all(name in answer.json()["detail"] for name in dialect_names())


async def test_a_plan_is_checked_refused_and_edited_in_a_dialect(house: House) -> None:
    bad = [{"type": "tool", "name": "wether", "arguments": {"city": 5}}, SAGE[1] | {"tone": "kind"}]
    run = await house.begin({"id": "a", "kind": "ask", "question": "Which?"})
    for where in ("/v1/plans/check", f"/v1/runs/{run['id']}/plan/check"):
        view = await house.post(where, {"plan": bad, "dialect": "sage"})
        assert {"PS101", "PS013"} <= {each["code"] for each in view["problems"]}
        assert [each["kind"] for each in view["plan"]["steps"]] == ["tool", "reply"]
    assert [each["id"] for each in (await house.get("/v1/runs"))["items"]] == [run["id"]]
    response = await house.client.post("/v1/runs", json={"plan": REFUSED, "dialect": "valuecell"})
    told = response.json()
    assert (response.status_code, told["code"]) == (422, "invalid_plan")
    assert "pattern" in json.dumps(told["problems"])
    run = await house.post("/v1/runs", {"plan": SAGE, "dialect": "sage"}, 202)
    changed = [SAGE[0] | {"arguments": {"city": "Rome"}}, SAGE[1]]
    answer = await house.client.put(
        f"/v1/runs/{run['id']}/plan",
        json={"plan": changed, "dialect": "sage"},
        headers={"If-Match": f'"{run["hash"]}"'},
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["plan"]["steps"][0]["inputs"] == {"city": "Rome"}


class Cast:
    """A model that plays every part of a team by what it is asked."""

    name = "cast"

    def __init__(self, plan: Any, *work: Answer | str) -> None:
        self.plan = plan
        self.work = ScriptedModel(*work)

    async def stream(self, prompt: Prompt) -> AsyncIterator[Delta]:
        schema = prompt.schema or {}
        title, fields = schema.get("title"), schema.get("properties")
        if isinstance(fields, dict) and "decision" in fields:
            yield TextDelta(json.dumps(DECIDED))
        elif isinstance(title, str) and title.endswith(" plan"):
            yield TextDelta(json.dumps(self.plan))
        elif isinstance(fields, dict) and "score" in fields:
            yield TextDelta(json.dumps({"score": 9, "missing": []}))
        else:
            async for delta in self.work.stream(prompt):
                yield delta


async def test_a_team_that_lacks_something_is_told_before_anything_is_made(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        for body, word in [
            ({"team": "data"}, "needs a database"),
            ({"database": "shop"}, "needs a database"),
            ({"team": "data", "database": "shop"}, "there is no database 'shop'"),
            ({"team": "data", "database": "sqlite:///secret.db"}, "there is no database"),
            ({"team": "research"}, "no sources to research"),
        ]:
            answer = await house.client.post("/v1/runs", json={"request": "x", **body})
            assert answer.status_code in (409, 422), answer.text
            assert word in answer.json()["detail"]
        assert (await house.get("/v1/runs"))["items"] == []


NL2SQL = {
    "thought_process": "Count, then say it.",
    "execution_plan": [
        {
            "step": 1,
            "tool_to_use": "SQL_GENERATE_NODE",
            "tool_parameters": {"instruction": "customers by city"},
        },
        {
            "step": 2,
            "tool_to_use": "REPORT_GENERATOR_NODE",
            "tool_parameters": {"summary_and_recommendations": "say it"},
        },
    ],
}


async def test_a_question_to_a_database_is_planned_and_run_as_nl2sql(tmp_path: Path) -> None:
    shop = sqlite3.connect(tmp_path / "shop.db")
    shop.executescript("CREATE TABLE customers (city TEXT); INSERT INTO customers VALUES ('Oslo');")
    shop.close()
    sql = json.dumps(
        {"sql": "SELECT city, COUNT(*) AS n FROM customers GROUP BY city", "reason": ""}
    )
    model = Cast(NL2SQL, sql, "One, in Oslo.")
    databases = {"shop": f"sqlite:///{tmp_path / 'shop.db'}"}
    settings = {"builtin": {"databases": databases}}
    async with serving(tmp_path, model=model, settings=settings) as house:
        body = {"request": "Customers by city?", "dialect": "spring", "team": "data"}
        run = await house.post("/v1/runs", body | {"database": "shop"}, 202)
        seen = await house.until(run["id"], "reviewing", "failed")
        assert seen["status"] == "reviewing", seen["reason"]
        where = f"/v1/runs/{run['id']}/plan"
        assert (await house.get(where, params={"dialect": "spring"}))["plan"] == NL2SQL
        await house.approve(seen)
        await house.until(run["id"], "done")
        shown = await house.get(where, params={"dialect": "spring", "results": True})
        rows = shown["plan"]["SQL_EXECUTE_NODE_OUTPUT"]["step_1"]["rows"]
        assert "Oslo" in json.dumps(rows)


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
        shown = await call(made, "plan_show", run=started["run"], dialect="openmanus", results=True)
        assert shown["plan"]["step_statuses"] == ["completed"]
        assert shown["dialect"] == "openmanus"
        checked = await call(made, "plan_validate", plan=REFUSED, dialect="valuecell")
        assert not checked["usable"]
        assert "pattern" in json.dumps(checked["problems"])
        told = await refused(made, "run_start", plan=REFUSED, dialect="valuecell")
        assert "pattern" in told
        assert "go with a plan" in await refused(made, "run_start", run="x", dialect="sage")
        assert "'sage'" in await refused(made, "plan_validate", plan={}, dialect="klingon")
