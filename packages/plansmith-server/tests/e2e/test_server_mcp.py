"""The MCP server with the real client, in both eras, and the formats of other systems."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from tests import forked
from tests.unit.server.house import FLIGHT, House, TripModel, TripTools, plan, serving, tool_step

from plansmith.plan.events import Actor
from plansmith.store.urls import open_store
from plansmith.testing import ScriptedModel
from plansmith_server.handshake import handshake_answer

TOOLS = {
    "plan_create",
    "plan_preview",
    "plan_show",
    "plan_validate",
    "run_start",
    "run_status",
    "run_result",
    "run_answer",
    "planning",
}
OSLO = {"city": "Oslo"}
DECIDED = {"decision": "plan", "reason": "", "query": "x", "answer": ""}


@contextlib.asynccontextmanager
async def client(house: House, mode: Any = "auto") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {house.new_token('helper', 'mcp')}"}
    async with httpx2.AsyncClient(headers=headers, timeout=120) as web:
        transport = streamable_http_client(f"{house.url}/mcp", http_client=web)
        async with Client(transport, mode=mode) as made:
            yield made


async def call(made: Client, tool: str, **arguments: Any) -> Any:
    result = await made.call_tool(tool, arguments)
    text = "".join(getattr(each, "text", "") for each in result.content)
    assert not result.is_error, text
    return result.structured_content if result.structured_content is not None else text


async def refused(made: Client, tool: str, **arguments: Any) -> str:
    result = await made.call_tool(tool, arguments)
    assert result.is_error
    return "".join(getattr(each, "text", "") for each in result.content)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_plan_is_made_started_and_its_result_read(tmp_path: Path, mode: str) -> None:
    model = ScriptedModel(DECIDED, plan(tool_step("a")))
    async with serving(tmp_path, model=model) as house, client(house, mode) as made:
        hints = {each.name: each.annotations for each in (await made.list_tools()).tools}
        assert set(hints) == TOOLS
        for name in ("plan_create", "run_start", "run_answer"):
            # Clients that may not ask refuse what may destroy something, or reach anywhere.
            hint = hints[name]
            assert hint is not None
            flags = (hint.read_only_hint, hint.destructive_hint, hint.open_world_hint)
            assert flags == (False, False, False)
        planned = await call(made, "plan_create", request="the weather")
        assert planned["plan"]["steps"][0]["id"] == "a"
        assert house.server_state.background.busy == 0  # planned, and only that
        handle = await call(made, "run_start", run=planned["run"])
        assert handle["run"] == planned["run"]
        result = await call(made, "run_result", run=planned["run"], wait_s=20)
        assert result["status"] == "done"
        assert result["results"]["a"] == {"tool": "weather", "city": "Oslo"}
        assert result["report"]


async def test_nothing_over_mcp_approves_anything(tmp_path: Path) -> None:
    async with serving(tmp_path) as house, client(house) as made:
        listed = (await made.list_tools()).tools
        words = json.dumps([each.model_dump(mode="json")["input_schema"] for each in listed])
        assert not [each for each in ("approve", "permit", "decision", "decide") if each in words]
        acting = plan(tool_step("a", "mail"))
        handle = await call(made, "run_start", plan=acting)
        assert handle["status"] == "reviewing"
        run = handle["run"]
        page = f"{house.server_state.about.at}/#/runs/{run}"
        assert handle["for_a_person"] == (
            f"A person has to decide about run {run}: with `plansmith approve {run}`, "
            f"or on its page ({page})"
        )
        # Every tool, with everything that might be taken for an approval.
        for answer in ("approve", "yes", handle["hash"], "allow", True):
            await refused(made, "run_answer", run=run, question="approve", answer=answer)
            await refused(made, "run_answer", run=run, question=handle["hash"], answer=answer)
        await call(made, "run_start", run=run)
        await call(made, "run_status", run=run)
        await call(made, "run_result", run=run)
        await call(made, "plan_show", run=run)
        seen = (await call(made, "plan_preview", run=run))["preview"]
        assert [(each["step"], each["inputs"]) for each in seen["calls"]] == [("a", OSLO)]
        await refused(made, "run_answer", run=run, question="approve", answer=seen["hash"])
        await call(made, "plan_validate", plan=acting)
        for command in ("set_active", "mark_step", "update", "delete"):
            await made.call_tool(
                "planning",
                {"command": command, "plan_id": run, "step_index": 0, "step_status": "completed"},
            )
        again = await house.get(f"/v1/runs/{run}")
        assert (again["status"], again["approved"]) == ("reviewing", "")
        assert house.tools.calls == []


async def test_a_question_is_answered_over_mcp_and_journaled_as_a_programs(tmp_path: Path) -> None:
    ask = {"id": "which", "kind": "ask", "question": "Which city?"}
    async with serving(tmp_path) as house, client(house) as made:
        both = plan(ask, tool_step("a", inputs={"city": "{{which}}"}))
        handle = await call(made, "run_start", plan=both)
        [asked] = (await call(made, "run_status", run=handle["run"], wait_s=20))["questions"]
        assert (asked["question"], asked["text"]) == ("which", "Which city?")
        await call(made, "run_answer", run=handle["run"], question="which", answer="Rome")
        result = await call(made, "run_result", run=handle["run"], wait_s=20)
        assert result["results"]["a"]["city"] == "Rome"
        await call(made, "planning", command="create", plan_id="p", title="T", steps=["go"])
        planned = await call(made, "plan_create", request="the weather", wait_s=0)
        store = house.server_state.smith.store
        whole = await store.events(handle["run"])
        by = {event.body.type: event.by for event in whole}
        bot = Actor(kind="program", name="MCP client helper")
        assert by["run_created"] == by["plan_proposed"] == by["question_answered"] == bot
        assert (await store.events(planned["run"]))[0].by == bot
        marked = [each for each in await store.runs() if each.startswith("openmanus")]
        assert all(event.by == bot for event in await store.events(marked[0]))
        assert not [event for event in whole if event.by.kind == "person"]
        report = (await call(made, "run_result", run=handle["run"]))["report"]
        assert "the program MCP client helper answered" in report


async def test_a_question_that_guards_an_effect_is_not_answered_over_mcp(tmp_path: Path) -> None:
    ask = {"id": "really", "kind": "ask", "question": "Really mail?", "options": ["yes", "no"]}
    async with serving(tmp_path) as house, client(house) as made:
        guarded = plan(ask, tool_step("a", "mail", after=["really"]))
        await house.post("/v1/templates", {"name": "guarded", "plan": guarded}, 201)
        inside = plan({"id": "sub", "kind": "plan", "template": "guarded"})
        for wanted in (guarded, inside):
            run = await house.post("/v1/runs", {"plan": wanted}, 202)
            await house.approve(run)
            run = await house.until(run["id"], "asking")
            [asked] = run["questions"]
            status = await call(made, "run_status", run=run["id"], wait_s=20)
            assert status["questions"] == []
            assert "person" in status["for_a_person"]
            text = await refused(
                made, "run_answer", run=run["id"], question=asked["question"], answer="yes"
            )
            assert "which changes something" in text
        assert house.tools.calls == []
        run = await house.begin(tool_step("a"), mode="review")
        edited = await house.client.put(
            f"/v1/runs/{run['id']}/plan",
            json={"plan": plan(tool_step("b"))},
            headers={"If-Match": f'"{run["hash"]}"'},
        )
        assert edited.status_code == 200
        status = await call(made, "run_start", run=run["id"])
        assert status["status"] == "reviewing"
        assert (await call(made, "run_status", run=run["id"]))["for_a_person"]
        assert house.server_state.background.busy == 0
        assert house.tools.calls == []


async def test_a_conversation_over_mcp_follows_up_and_approves_nothing(tmp_path: Path) -> None:
    tools = TripTools()
    async with serving(tmp_path, model=TripModel(), tools=tools) as house, client(house) as made:
        first = await call(made, "plan_create", request="Plan a trip", conversation="new")
        trip = first["conversation"]
        assert (first["message"]["kind"], first["status"]) == ("request", "asking")
        second = await call(made, "plan_create", request="Rome", conversation=trip)
        assert (second["message"]["kind"], second["run"]) == ("answer", first["run"])
        await call(made, "run_start", run=first["run"])
        assert (await call(made, "run_status", run=first["run"], wait_s=20))["status"] == "done"

        third = await call(made, "plan_create", request="Now book it", conversation=trip)
        assert (third["conversation"], third["status"]) == (trip, "reviewing")
        for text in ("yes, go ahead", "approve the plan", f"approve {third['hash']}"):
            reply = await call(made, "plan_create", request=text, conversation=trip)
            assert reply["message"]["kind"] in ("review", "request"), text
        now = await house.get(f"/v1/runs/{third['run']}")
        assert (now["status"], now["approved"]) == ("reviewing", "")
        assert [name for name, _ in tools.calls] == ["flights"]
        why = await call(made, "plan_create", request=f"why {FLIGHT}?", conversation=trip)
        assert (why["message"]["kind"], why["message"]["step"]) == ("why", "find")

        await house.post("/v1/runs", {"request": "Plan a trip", "conversation": "ann"}, 202)
        text = await refused(made, "plan_create", request="Rome", conversation="ann")
        assert "somebody else" in text
        assert "cannot be the id" in await refused(
            made, "plan_create", request="Rome", conversation="a\nb"
        )


async def test_mistakes_are_told_as_errors_of_the_tool(tmp_path: Path) -> None:
    async with serving(tmp_path) as house, client(house) as made:
        assert "no run" in await refused(made, "run_status", run="nobody")
        assert "give a run" in await refused(made, "run_start")
        assert "template" in await refused(made, "run_start", template="nothing")
        assert "PS101" in await refused(made, "run_start", plan=plan(tool_step("a", "zz")))
        found = await call(made, "plan_validate", plan=plan(tool_step("a", "zz")))
        assert not found["usable"]
        assert found["problems"][0]["code"] == "PS101"
        assert not (await call(made, "plan_validate", plan={"steps": 1}))["usable"]
        words = {"plan_id": "p", "title": "Trip", "steps": ["book", "go"]}
        text = await call(made, "planning", command="create", **words)
        assert "Plan created successfully with ID: p" in str(text)
        await call(made, "planning", command="mark_step", step_index=0, step_status="completed")
        assert "1/2 steps completed" in str(await call(made, "planning", command="list"))
        assert "No plan found" in await refused(made, "planning", command="get", plan_id="q")


async def test_a_program_over_pipes_is_journaled_as_one(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "plansmith_cli", "serve", "mcp", "--model", "rules", "--store", store],
        env=dict(os.environ) | {"XDG_DATA_HOME": str(tmp_path / "data")},
        cwd=tmp_path,
    )
    name = Implementation(name="ann\n\u202ea person", version="1")
    # In the older era, whose handshake is answered before the server is loaded.
    async with Client(stdio_client(parameters), client_info=name, mode="legacy") as made:
        assert {each.name for each in (await made.list_tools()).tools} == TOOLS
        writes = {"path": "new.txt", "text": "x"}
        acting = plan({"id": "w", "kind": "tool", "tool": "files.write", "inputs": writes})
        waiting = await call(made, "run_start", plan=acting)
        handle = await call(made, "run_start", plan=plan({"id": "q", "question": "Which?"}))
        await call(made, "run_status", run=handle["run"], wait_s=20)
        await call(made, "run_answer", run=handle["run"], question="q", answer="this")
    kept = open_store(store)
    by = {event.body.type: event.by for event in await kept.events(handle["run"])}
    await kept.close()
    assert by["run_created"] == by["question_answered"]
    assert by["run_created"] == Actor(kind="program", name="MCP client ann a person")
    command = waiting["for_a_person"].split("`")[1]
    parts = ["-C", str(tmp_path), "approve", waiting["run"], "--store", store]
    assert command == shlex.join(["plansmith", *parts])
    # The person may copy it: it shows that plan, in that folder and store.
    done = await asyncio.to_thread(
        forked.run,
        [sys.executable, "-m", "plansmith_cli", *parts, "--no-input"],
        env=parameters.env,
        cwd=tmp_path.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 5, done.stderr
    assert "new.txt" in done.stderr


def _initialize(protocol: str) -> bytes:
    client = {"name": "x", "version": "1"}
    params = {"protocolVersion": protocol, "capabilities": {}, "clientInfo": client}
    request = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": params}
    return json.dumps(request).encode()


async def test_the_early_handshake_says_what_the_server_itself_would_say(tmp_path: Path) -> None:
    async with serving(tmp_path) as house, client(house, "legacy") as made:
        about = made.server_info
        assert about is not None
        own: dict[str, Any] = {
            "protocolVersion": made.protocol_version,
            "capabilities": made.server_capabilities.model_dump(by_alias=True, exclude_none=True),
            "instructions": made.instructions,
            "serverInfo": about.model_dump(by_alias=True, exclude_none=True),
        }
    for protocol in (*HANDSHAKE_PROTOCOL_VERSIONS, "1999-01-01"):
        answer = json.loads(handshake_answer(_initialize(protocol)))
        known = {"protocolVersion": protocol} if protocol in HANDSHAKE_PROTOCOL_VERSIONS else {}
        assert answer == {"jsonrpc": "2.0", "id": 7, "result": own | known}
    for other in (b"", b"[]", b"{", b'{"method": "initialize"}', b'{"id": 1, "method": "ping"}'):
        assert handshake_answer(other) == b""


def test_the_handshake_is_answered_before_libraries_and_the_server_are_loaded() -> None:
    code = (
        "import sys, json\n"
        "import plansmith_cli.main\n"
        "from plansmith_cli.commands.mcp import COMMAND\n"
        "from plansmith_server.handshake import handshake_answer\n"
        f"assert handshake_answer({_initialize('2025-06-18')!r})\n"
        "print(json.dumps([*sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    heavy = {"mcp", "mcp_types", "anyio", "asyncio", "starlette", "httpx2", "plansmith.app"}
    heavy |= {"plansmith_cli.wiring", "plansmith_server.serve", "plansmith.engine.executor"}
    assert not heavy & set(json.loads(done.stdout))


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
