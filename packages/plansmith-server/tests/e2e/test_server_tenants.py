"""Two tenants on one server: nothing of one is seen, guessed or changed by the other."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import httpx2
import pytest
import pytest_asyncio
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import GetTaskRequest
from a2a.utils.errors import A2AError
from mcp import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from tests.unit.server.house import (
    Client,
    House,
    browser,
    look,
    note,
    notes,
    plan,
    secret,
    serving,
    tenant,
    user,
)

from plansmith.app import Plansmith
from plansmith.store.urls import open_store
from plansmith_server.api import Route
from plansmith_server.app import ROUTES
from plansmith_server.team.tenant_book import Tenant, TenantBook
from plansmith_server.team.tokens import Member

RULES = {"models": {"plan": "rules"}}
# Streams do not end: they have tests of their own.
STREAMS = {"/v1/events"}
WHEN = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}
SOME_PLAN = plan(look("a"))
BODIES: Mapping[str, Any] = {
    "PUT /v1/runs/{id}/plan": {"plan": SOME_PLAN},
    "POST /v1/runs/{id}/plan/check": {"plan": SOME_PLAN},
    "POST /v1/plans/check": {"plan": SOME_PLAN},
    "POST /v1/runs": {"plan": SOME_PLAN},
    "POST /v1/runs/{id}/decision": {"reject": True},
    "POST /v1/runs/{id}/answers": {"question": "which", "answer": "Oslo"},
    "POST /v1/runs/{id}/questions/{question:path}": {"change": {"path": "a.txt"}},
    "POST /v1/runs/{id}/skip": {"step": "a"},
    "POST /v1/runs/{id}/template": {"name": "taken"},
    "POST /v1/conversations/{id:path}/messages": {"text": "Which files are there?"},
    "POST /v1/templates": {"name": "own", "plan": SOME_PLAN},
    "POST /v1/schedules": {"request": "look", "timing": {"daily_at": "08:00"}},
    "POST /v1/schedules/preview": {"daily_at": "08:00"},
    "PATCH /v1/schedules/{id}": {"max_failures": 3},
    "POST /v1/schedules/{id}/backfill": WHEN,
    "POST /v1/tools/approve": {"server": "mark-of-acme", "hash": "0" * 64},
    "POST /v1/agents/approve": {"name": "mark-of-acme", "hash": "0" * 64},
}
QUERIES = {
    "GET /v1/tools/last-result": "?tool=files.list",
    "GET /v1/runs/{id}/diff": "?from=1&to=1",
    "GET /v1/runs/{id}/preview/{step:path}": "?path=a.txt",
}


class Two(NamedTuple):
    """A server with two tenants, and a user of each."""

    house: House
    acme: Tenant
    zeta: Tenant
    ann: Client
    zoe: Client


@pytest_asyncio.fixture
async def two(tmp_path: Path) -> AsyncIterator[Two]:
    acme, zeta = tenant(tmp_path, "acme"), tenant(tmp_path, "zeta")
    async with (
        serving(tmp_path, store="file", settings=RULES) as house,
        user(house, acme, "ann", token="a") as ann,
        user(house, zeta, "zoe", token="b") as zoe,
    ):
        yield Two(house, acme, zeta, ann, zoe)


async def fill(client: Client) -> dict[str, str]:
    """Makes one of everything in a tenant; returns what names them, by the place in a path."""
    run = await client.begin(note("mark-of-acme"))
    ask = {"id": "which", "kind": "ask", "question": "mark-of-acme?", "options": ["Oslo", "Rome"]}
    asking = await client.begin(ask)
    done = await client.begin(look("a"), mode="read_only")
    await client.until(done["id"], "done")
    message = {"request": "Which files mention mark-of-acme?", "conversation": "mark-of-acme-talk"}
    asked = await client.call("POST", "/v1/runs", message, 202)
    await client.until(asked["id"], "failed")  # rules have no tool for it
    template = {"name": "mark-of-acme", "plan": SOME_PLAN}
    await client.call("POST", "/v1/templates", template, 201)
    timing = {"daily_at": "08:00", "timezone": "UTC"}
    body = {"request": "mark-of-acme", "timing": timing, "name": "mark-of-acme"}
    schedule = await client.call("POST", "/v1/schedules", body, 201)
    return {
        "run": run["id"],
        "asking": asking["id"],
        "done": done["id"],
        "conversation": "mark-of-acme-talk",
        "template": "mark-of-acme",
        "schedule": schedule["id"],
    }


def kinds(route: Route) -> list[str]:
    """Which of the other tenant's ids a path could be tried with."""
    if route.path.startswith("/v1/runs/"):
        return ["run", "asking", "done"]
    found = re.match(r"/v1/(conversation|template|schedule)s/\{", route.path)
    return [found[1]] if found else []


async def tried(client: Client, route: Route, name: str) -> tuple[int, str]:
    """The answer to a route with a name in its path, without that name and what changes."""
    rest = {"step": "a", "question": "which", "number": "1"}
    path = re.sub(r"\{(\w+)(:path)?\}", lambda found: rest.get(found[1], name), route.path)
    key = f"{route.method} {route.path}"
    given = {} if not route.has_body else {"json": BODIES.get(key, {})}
    headers = {"If-Match": f'"{"0" * 64}"'}
    url = path + QUERIES.get(key, "")
    answer = await client.client.request(route.method, url, headers=headers, **given)
    assert answer.status_code != 422, f"give a body for {key} in BODIES: {answer.text}"
    return answer.status_code, answer.text.replace(name, "NAME")


async def test_a_thing_of_another_tenant_is_as_if_it_never_was(two: Two) -> None:
    ann, zoe = two.ann, two.zoe
    names = await fill(ann)
    before = await everything(ann)
    for route in [each for each in ROUTES if kinds(each)]:
        for kind in kinds(route):
            name = names[kind]
            never = name[:-4] + "zzzz" if kind != "template" else "never-was-one"
            there, nowhere = await tried(zoe, route, name), await tried(zoe, route, never)
            assert there == nowhere, (route.method, route.path)
            assert there[0] >= 400, (route.method, route.path)
    assert await everything(ann) == before


async def everything(client: Client) -> list[Any]:
    """What a tenant has."""
    paths = ("/v1/runs", "/v1/conversations", "/v1/templates", "/v1/schedules", "/v1/inbox")
    return [await client.call("GET", path) for path in paths]


async def test_no_list_figure_or_error_shows_another_tenant(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANSMITH_OFFLINE", "1")  # one of the routes downloads a model
    house, ann, zoe = two.house, two.ann, two.zoe
    names = await fill(ann)
    own = {key: each for key, each in BODIES.items() if "approve" not in key}
    for client in (zoe, Client(house.client)):
        for route in [each for each in ROUTES if "{" not in each.path]:
            if route.path in STREAMS:
                continue
            key = f"{route.method} {route.path}"
            given = {"json": own.get(key, {})} if route.has_body else {}
            answer = await client.client.request(route.method, route.path, **given)
            assert "mark-of-acme" not in answer.text, key
            assert "acme" not in answer.text or client is not zoe, key
            assert not any(each in answer.text for each in names.values()), key
    assert len((await ann.call("GET", "/v1/runs"))["items"]) >= 4
    figures = await zoe.client.get("/metrics")
    assert "/v1/templates/{name}" not in figures.text  # which routes another one uses


async def test_a_tenant_sees_no_path_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANSMITH_OFFLINE", "1")
    acme = tenant(tmp_path, "acme")
    texts: dict[str, str] = {}
    async with (
        serving(tmp_path, store="file", settings=RULES) as house,
        user(house, acme, "ann") as ann,
    ):
        names = await fill(ann)
        for route in ROUTES:
            for kind in kinds(route) or ["done"]:
                if route.method == "GET" and route.path not in STREAMS:
                    texts[f"{route.path} {kind}"] = (await tried(ann, route, names[kind]))[1]
        address = f"/v1/events?after=0&run={names['done']}"
        async with ann.client.stream("GET", address) as stream:
            async for line in stream.aiter_lines():
                texts["stream"] = texts.get("stream", "") + line
                if "run_finished" in line:
                    break
    assert [key for key, text in texts.items() if str(tmp_path) in text] == []


async def test_a_stream_has_the_events_of_its_tenant_alone(two: Two) -> None:
    ann, zoe = two.ann, two.zoe
    await fill(ann)
    async with zoe.client.stream("GET", "/v1/events") as stream:
        lines = stream.aiter_lines()
        seen = [await anext(lines)]
        await ann.begin(note("mark-of-acme"))
        own = await zoe.begin(look("mine"))
        while own["id"] not in seen[-1]:
            seen.append(await anext(lines))
        assert "mark-of-acme" not in "\n".join(seen)
    run = (await ann.call("GET", "/v1/runs"))["items"][0]["id"]
    assert (await zoe.client.get("/v1/events", params={"run": run})).status_code == 404


async def test_each_tenant_has_its_own_tools_keys_and_effects(two: Two, tmp_path: Path) -> None:
    ann, zoe = two.ann, two.zoe
    run = await ann.begin(note("a", "for acme"))
    await ann.approve(run)
    await ann.until(run["id"], "done")
    assert (notes(two.acme), notes(two.zeta)) == (["for acme"], [])
    seen = await zoe.begin(look("a"), mode="read_only")
    assert (await zoe.until(seen["id"], "done"))["steps"]["a"]["result"] == "mark-of-zeta saw x"
    assert (await zoe.call("GET", f"/v1/runs/{seen['id']}"))["folder"] == "", "no path is told"
    # The same key or name of a conversation is two.
    body, key = {"plan": plan(look("a"))}, {"Idempotency-Key": "one"}
    runs = [
        (await each.client.post("/v1/runs", json=body, headers=key)).json()["id"]
        for each in (ann, zoe, ann)
    ]
    assert runs[0] == runs[2] != runs[1]
    for each in (ann, zoe):
        message = {"request": "which files?", "conversation": "same"}
        await each.call("POST", "/v1/runs", message, 202)
    found = await zoe.call("GET", "/v1/conversations/same")
    assert [each["by"]["name"] for each in found["messages"]] == ["zoe (token b)"]
    files = {each.name for each in tmp_path.glob("runs*.db")}  # noqa: ASYNC240 - a test
    assert files == {"runs.db", f"runs.{two.acme.key}.db", f"runs.{two.zeta.key}.db"}


async def test_a_removed_tenant_is_closed_and_its_name_opens_nothing(tmp_path: Path) -> None:
    acme = tenant(tmp_path, "acme")
    async with serving(tmp_path, store="file", settings=RULES) as house:
        async with user(house, acme, "ann") as ann:
            old = await ann.begin(note("a"))
            TenantBook(tmp_path).remove("acme")
            # By hand: its token is still there.
            assert (await ann.call("GET", "/v1/runs", status=401))["code"] == "no_token"
            assert house.tokens.revoke_tenant(acme.key) == 1
            await ann.call("GET", "/v1/runs", status=401)
        again = tenant(tmp_path, "acme")
        assert again.key != acme.key
        async with user(house, again, "ann") as ann:
            assert (await ann.call("GET", "/v1/runs"))["items"] == []
            await ann.call("GET", f"/v1/runs/{old['id']}", status=404)


async def test_a_tenant_with_wrong_settings_stops_no_other(tmp_path: Path) -> None:
    acme, zeta = tenant(tmp_path, "acme"), tenant(tmp_path, "zeta")
    acme.config.write_text('tools = ["missing.py"]\nstore = "memory"\n')
    async with (
        serving(tmp_path, store="file", settings=RULES) as house,
        user(house, acme, "ann") as ann,
        user(house, zeta, "zoe") as zoe,
    ):
        assert "missing.py" not in json.dumps(await ann.call("GET", "/v1/runs", status=503))
        assert (await zoe.call("GET", "/v1/runs"))["items"] == []
        assert "tenant_failed" in house.log.getvalue()


async def test_runs_of_tenants_go_on_after_a_restart_before_anybody_asks(tmp_path: Path) -> None:
    acme = tenant(tmp_path, "acme")
    async with (
        serving(tmp_path, store="file", settings=RULES) as house,
        browser(house, acme, "ann") as ann,
    ):
        run = await ann.begin(note("a", "once"))
        cookies = dict(ann.client.cookies)
    # Another process approves while no server runs.
    store = open_store(f"sqlite:///{tmp_path / f'runs.{acme.key}.db'}")
    async with Plansmith(store=store, folder=acme.folder) as smith:
        await smith.decide(run["id"], approve=run["hash"], by="bob")
    async with serving(tmp_path, store="file", settings=RULES) as house:
        member = Member(user="ann", tenant=acme.key, role="viewer")
        headers = {"Authorization": f"Bearer {secret(house, member)}"}
        async with httpx.AsyncClient(base_url=house.url, headers=headers, timeout=120) as web:
            await Client(web).until(run["id"], "done")
    assert notes(acme) == ["once"]
    assert cookies


async def test_roles_allow_what_they_say(tmp_path: Path) -> None:
    acme = tenant(tmp_path, "acme")
    async with (
        serving(tmp_path, store="file", settings=RULES) as house,
        browser(house, acme, "vic", "viewer") as viewer,
        browser(house, acme, "oli", "operator") as operator,
        browser(house, acme, "app", "approver") as approver,
        browser(house, acme, "adm", "admin") as admin,
    ):
        refused = await viewer.call("POST", "/v1/runs", {"plan": SOME_PLAN}, 403)
        assert refused["code"] == "no_scope"
        run = await operator.begin(note("a"))
        await operator.approve(run, status=403)
        await viewer.call("GET", f"/v1/runs/{run['id']}")
        body = {"server": "x", "hash": "0" * 64}
        await approver.call("POST", "/v1/tools/approve", body, 403)
        assert (await admin.client.post("/v1/tools/approve", json=body)).status_code != 403
        await approver.approve(run)
        done = await viewer.until(run["id"], "done")
        events = (await viewer.call("GET", f"/v1/runs/{done['id']}/events"))["items"]
        people = {each["by"]["name"] for each in events if each["by"]["kind"] == "person"}
        assert people == {"oli", "app"}
        run = await operator.begin(look("l"), note("n", "{{l}}"))
        await approver.approve(run)
        [question] = (await operator.until(run["id"], "asking"))["questions"]
        body = {"question": question["question"], "answer": "allow"}
        path = f"/v1/runs/{run['id']}/answers"
        refused = await operator.call("POST", path, body, 403)
        assert refused["code"] == "no_scope"
        await approver.call("POST", path, body)
        await operator.until(run["id"], "done")
        assert notes(acme) == ["hello", "mark-of-acme saw x"]


async def test_programs_over_mcp_and_a2a_reach_their_own_tenant_alone(two: Two) -> None:
    house, zeta, ann = two.house, two.zeta, two.ann
    names = await fill(ann)
    member = Member(user="zoe", tenant=zeta.key)
    headers = {"Authorization": f"Bearer {secret(house, member, 'mcp', 'a2a')}"}
    async with httpx2.AsyncClient(headers=headers, timeout=120) as web:
        transport = streamable_http_client(f"{house.url}/mcp", http_client=web)
        async with McpClient(transport) as made:
            for tool in ("plan_show", "run_status", "run_result", "run_start"):
                result = await made.call_tool(tool, {"run": names["done"]})
                text = "".join(getattr(each, "text", "") for each in result.content)
                assert result.is_error
                assert "mark-of-acme" not in text
            assert "mark-of-acme" not in str(await made.call_tool("planning", {"command": "list"}))
    await check_a2a(house, headers, names["done"])


async def check_a2a(house: House, headers: dict[str, str], run: str) -> None:
    """A program of another tenant sees neither templates nor tasks."""
    async with httpx.AsyncClient(headers=headers, timeout=120, verify=False) as web:
        card = await A2ACardResolver(web, house.url).get_agent_card()
        assert [each.id for each in card.skills] == ["plan"]
        client = ClientFactory(ClientConfig(httpx_client=web)).create(card)
        with pytest.raises(A2AError):
            await client.get_task(GetTaskRequest(id=run))


async def test_a_second_person_is_wanted_over_http_and_the_view_says_why(tmp_path: Path) -> None:
    acme = tenant(tmp_path, "acme", '[review]\nsecond_person = "changes"\n')
    async with (
        serving(tmp_path, store="file", settings=RULES) as house,
        browser(house, acme, "ann", "approver") as ann,
        user(house, acme, "ann", "admin", token="laptop") as same,
        user(house, acme, "bob", "approver") as bob,
        browser(house, acme, "vic", "viewer") as viewer,
    ):
        run = await ann.begin(note("a"))
        for client in (ann, same):
            refused = await client.approve(run, status=409)
            assert "another user has to approve" in refused["detail"]
            view = await client.call("GET", f"/v1/runs/{run['id']}")
            assert "another user has to approve" in view["cannot_approve"]
        assert (await viewer.call("GET", f"/v1/runs/{run['id']}"))["cannot_approve"]
        assert "cannot_approve" not in await bob.call("GET", f"/v1/runs/{run['id']}")
        await bob.approve(run)
        await ann.until(run["id"], "done")
        assert notes(acme) == ["hello"]
        lines = (await same.client.get("/v1/audit", params={"user": "bob"})).text.splitlines()
        assert [json.loads(each)["action"] for each in lines] == ["plan_approved"]
        await bob.call("GET", "/v1/audit", status=403)
