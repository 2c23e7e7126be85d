"""Tokens and log-ins: what each may do, as whom it speaks, and how it is taken back."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.commands import Told, typed
from tests.e2e.test_server_access import place
from tests.unit.server.house import House, page_header, plan, serving, tool_step

from plansmith.clock import SystemClock
from plansmith.errors import Misconfigured
from plansmith_server.app import PAGES, ROUTES
from plansmith_server.team.tokens import PERSON_SCOPES, SCOPES, TokenFile

EVERY = [*ROUTES, *PAGES]
HTTP = sorted(PERSON_SCOPES)
ASK = {"id": "which", "kind": "ask", "question": "Which city?"}
DOORS = [
    ("POST", "/mcp", "mcp"),
    ("GET", "/mcp", "mcp"),
    ("POST", "/a2a", "a2a"),
    ("GET", "/.well-known/agent-card.json", "a2a"),
]


def test_every_route_has_a_scope_and_what_changes_something_more_than_a_look() -> None:
    assert {each.scope for each in EVERY} <= PERSON_SCOPES
    checks = {"/v1/runs/{id}/plan/check", "/v1/plans/check"}
    harmless = {*checks, "/v1/schedules/preview", "/v1/logout"}
    for each in EVERY:
        reads = each.method == "GET" or each.path in harmless
        assert (each.scope in ("look", "audit")) == reads, each.path


async def test_a_token_without_the_scope_of_a_route_is_told_which(house: House) -> None:
    for scope in HTTP:
        others = [each for each in SCOPES if each not in (scope, "approve", "admin")]
        async with house.with_token(f"no-{scope}", *others) as client:
            for route in [each for each in EVERY if each.scope == scope]:
                if route.path == "/healthz":
                    continue  # for anyone
                answer = await client.request(route.method, place(route), json={})
                problem = answer.json()
                assert (answer.status_code, problem["code"]) == (403, "no_scope"), route.path
                assert answer.headers["content-type"] == "application/problem+json"
                assert repr(scope) in problem["detail"]
                assert f"--scope {scope}" in problem["hint"]


async def test_mcp_and_a2a_have_tokens_of_their_own(tmp_path: Path) -> None:
    async with serving(tmp_path) as house, house.browser() as person:
        async with house.with_token("all", *HTTP) as all_of_http:
            for method, path, scope in DOORS:
                for client in (house.client, all_of_http, person):
                    answer = await client.request(method, path, json={})
                    assert answer.status_code == 403, path
                    assert repr(scope) in answer.json()["detail"]
        async with house.with_token("bot", "mcp") as bot:
            assert (await bot.post("/mcp", json={})).status_code != 403
            assert (await bot.post("/a2a", json={})).status_code == 403
            run = await house.begin(tool_step("a", "mail"))
            decision = f"/v1/runs/{run['id']}/decision"
            assert (await bot.post(decision, json={"approve": run["hash"]})).status_code == 403
            assert (await bot.get(f"/v1/runs/{run['id']}")).status_code == 403
            assert (await house.get(f"/v1/runs/{run['id']}"))["approved"] == ""


async def actors(house: House, run: str) -> dict[str, Any]:
    found = (await house.get(f"/v1/runs/{run}/events"))["items"]
    return {each["body"]["type"]: each["by"] for each in found}


async def test_every_verb_of_a_program_is_journaled_as_the_programs(tmp_path: Path) -> None:
    scopes, who = ("look", "propose"), {"kind": "program", "name": "ci"}
    async with serving(tmp_path, store="file") as house, house.with_token("ci", *scopes) as ci:
        run = await house.begin(tool_step("a", "mail"))
        path, hash_ = f"/v1/runs/{run['id']}", {"If-Match": f'"{run["hash"]}"'}
        changed = {"plan": plan(tool_step("a", "mail"), tool_step("b"))}
        for method, verb, given in (
            ("PUT", "plan", changed),
            ("POST", "undo", {}),
            ("POST", "pause", {"reason": "wait"}),
            ("POST", "cancel", {"reason": "enough"}),
        ):
            headers = hash_ if method == "PUT" else {}
            answer = await ci.request(method, f"{path}/{verb}", json=given, headers=headers)
            assert answer.status_code == 200, answer.text
        found = (await house.get(f"{path}/events"))["items"]
        decisions = [each for each in found if each["by"]["kind"] in ("person", "program")]
        kinds = [each["body"]["type"] for each in decisions if each["by"] == who]
        assert kinds[:4] == ["plan_proposed", "plan_proposed", "run_paused", "cancel_asked"]
        persons = [each["body"]["type"] for each in decisions if each["by"] != who]
        assert set(persons) == {"run_created", "plan_proposed"}  # of the person who began the run
        made = await ci.post("/v1/runs", json={"request": "the weather"})
        first = (await house.get(f"/v1/runs/{made.json()['id']}/events"))["items"][0]
        assert first["by"] == who
        run = await house.begin(tool_step("a"))
        timing = {"daily_at": "08:00", "timezone": "UTC"}
        wanted = {"run": run["id"], "timing": timing, "approve": run["hash"], "name": "daily"}
        schedule = await house.post("/v1/schedules", wanted, 201)
        async with house.with_token("ann", "look", "propose") as program:
            path = f"/v1/schedules/{schedule['id']}/pause"
            paused = await program.post(path, json={})
            assert paused.json()["reason"] == "paused by program ann"
            kept = await program.post("/v1/templates", json={"name": "w", "plan": plan(ASK)})
            assert kept.json()["saved_by"] == "program ann"
            used = await program.post("/v1/templates/w/runs", json={})
            by = await actors(house, used.json()["id"])
            assert by["run_created"] == {"kind": "program", "name": "ann"}
            for verb in ("resume", "run-now"):
                refused = await program.post(f"/v1/schedules/{schedule['id']}/{verb}", json={})
                assert refused.status_code == 403


async def test_a_program_with_the_answer_scope_lets_nothing_through(tmp_path: Path) -> None:
    steps = [tool_step("a"), tool_step("b", "mail", inputs={"city": "{{a.city}}"})]
    async with serving(tmp_path) as house, house.with_token("ci", "look", "answer") as ci:
        run = await house.begin(*steps)
        await house.approve(run)
        run = await house.until(run["id"], "asking")
        body = {"question": run["questions"][0]["question"], "answer": "allow"}
        refused = await ci.post(f"/v1/runs/{run['id']}/answers", json=body)
        assert refused.status_code == 409
        assert "not for programs" in refused.json()["detail"]
        assert [name for name, _ in house.tools.calls] == ["weather"]
        run = await house.begin(tool_step("a", "mail"))
        decision = {"approve": run["hash"]}
        async with house.with_token("laptop", *HTTP) as mine:
            answer = await mine.post(f"/v1/runs/{run['id']}/decision", json=decision)
        assert answer.status_code == 200
        who = (await actors(house, run["id"]))["plan_approved"]
        assert who == {"kind": "person", "name": "ann (token laptop)"}


async def test_a_revoked_or_expired_token_is_worth_nothing_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path, failures_per_minute=1e6) as house:
        async with house.with_token("ci", "look") as ci:
            assert (await ci.get("/v1/runs")).status_code == 200
            house.tokens.revoke("ci")
            assert (await ci.get("/v1/runs")).status_code == 401
        async with house.with_token("ci", "look") as ci:
            assert (await ci.get("/v1/runs")).status_code == 200
        now, day = house.server_state.smith.runs.journals.clock.now(), timedelta(days=1)
        _, old = house.tokens.create("old", ["look"], by="ann", now=now - 2 * day, lasts=day)
        late = {"Authorization": f"Bearer {old}"}
        async with httpx.AsyncClient(verify=False, base_url=house.url, headers=late) as client:
            assert (await client.get("/v1/runs")).status_code == 401
        # A link that was made later logs one browser in, once and for ten minutes.
        secret = house.tokens.new_link(by="ann", now=now)
        over = house.tokens.new_link(by="ann", now=now - timedelta(hours=1))
        for wrong in (over, house.new_token("ci", "look"), "x", ""):
            async with httpx.AsyncClient(base_url=house.url, verify=False) as client:
                assert (await client.get(f"/?token={wrong}")).status_code == 401
        # It opens nothing but the log-in, and that once.
        bearer = {"Authorization": f"Bearer {secret}"}
        async with httpx.AsyncClient(base_url=house.url, verify=False) as client:
            assert (await client.get("/v1/runs", headers=bearer)).status_code == 401
            entered = await client.get(f"/?token={secret}")
            assert entered.status_code == 303
            key = page_header(entered.headers["location"])
            assert (await client.get("/v1/runs", headers=key)).status_code == 200
        async with httpx.AsyncClient(base_url=house.url, verify=False) as client:
            assert (await client.get(f"/?token={secret}")).status_code == 401


async def test_a_stream_ends_when_its_token_is_revoked(tmp_path: Path) -> None:
    async with (
        serving(tmp_path) as house,
        house.with_token("ci", "look") as ci,
        ci.stream("GET", "/v1/events") as response,
    ):
        lines = response.aiter_lines()
        while not (await anext(lines)).startswith("data:"):
            pass
        house.tokens.revoke("ci")
        await house.begin(tool_step("a", "mail"))
        assert not [line async for line in lines if line.startswith("data:")]


async def test_nobody_comes_in_by_tokens_that_cannot_be_read(tmp_path: Path) -> None:
    async with serving(tmp_path) as house, house.with_token("ci", "look") as ci:
        for spoil in ("not json", '{"version": 2, "tokens": []}', '{"version": 1, "tokens": [1]}'):
            (tmp_path / "tokens.json").write_text(spoil)
            answer = await ci.get("/v1/runs")
            assert answer.status_code == 503, spoil
            assert "tokens.json" in answer.json()["detail"]
        # The person's own token is in a file of its own.
        assert (await house.client.get("/v1/runs")).status_code == 200


async def test_a_log_in_is_the_persons_and_ends_with_log_out(tmp_path: Path) -> None:
    async with serving(tmp_path, failures_per_minute=1e6) as house, house.browser() as person:
        run = await house.begin(tool_step("a", "mail"))
        decided = await person.post(f"/v1/runs/{run['id']}/decision", json={"approve": run["hash"]})
        assert decided.status_code == 200
        assert (await actors(house, run["id"]))["plan_approved"] == {
            "kind": "person",
            "name": "ann",
        }
        cookie = person.cookies[house.keys.cookie_name]
        gone = await person.post("/v1/logout", json={})
        assert gone.status_code == 204
        assert "max-age=0" in gone.headers["set-cookie"].lower()
        stolen = {"Cookie": f"{house.keys.cookie_name}={cookie}"}
        async with httpx.AsyncClient(verify=False, base_url=house.url, headers=stolen) as thief:
            assert (await thief.get("/v1/runs")).status_code == 401
        assert [each for each in house.tokens.all() if each.kind == "login"] == []
        assert (await house.client.post("/v1/logout", json={})).status_code == 409


async def test_a_log_in_is_revoked_from_outside_and_ends_by_itself(tmp_path: Path) -> None:
    async with serving(tmp_path, failures_per_minute=1e6) as house, house.browser() as person:
        [login] = house.tokens.all()
        assert login.expires is not None
        assert login.expires - login.created == timedelta(days=30)
        # One that was used lately is left as it is, one that was not lasts on from now.
        assert "set-cookie" not in (await person.get("/v1/runs")).headers
        now = house.server_state.smith.runs.journals.clock.now()
        house.tokens.prolong(login, now - timedelta(days=20))
        renewed = await person.get("/v1/runs")
        assert "max-age=2592000" in renewed.headers["set-cookie"].lower()
        assert "httponly" in renewed.headers["set-cookie"].lower()
        [after] = house.tokens.all()
        assert after.expires is not None
        assert after.expires - now > timedelta(days=29)
        house.tokens.prolong(after, now - timedelta(days=31))
        assert (await person.get("/v1/runs")).status_code == 401
        house.tokens.prolong(after, now)
        assert (await person.get("/v1/runs")).status_code == 200
        house.tokens.revoke(after.name)
        assert (await person.get("/v1/runs")).status_code == 401


@pytest.fixture
def tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    """`plansmith tokens` of a person whose data is here."""
    home = {"XDG_DATA_HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    return partial(typed, "tokens", folder=tmp_path, environment=home, capsys=capsys)


def test_the_file_of_tokens_is_its_owners_alone_and_holds_no_token(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "tokens.json"
    tokens = TokenFile(path)
    now = SystemClock().now()
    _, secret = tokens.create("ci", ["look"], by="ann", now=now, lasts=None)
    cookie = tokens.log_in(by="ann", now=now, lasts=timedelta(days=1))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not [each for each in (secret, cookie) if each[4:] in path.read_text()]
    path.chmod(0o644)
    with pytest.raises(Misconfigured, match="chmod 600"):
        TokenFile(path).all()


async def test_a_token_that_cannot_approve_speaks_as_a_program(tmp_path: Path) -> None:
    scopes = ("look", "propose", "answer")
    async with serving(tmp_path) as house, house.with_token("ci", *scopes) as ci:
        both = plan(ASK, tool_step("a", inputs={"city": "{{which}}"}))
        answer = await ci.post("/v1/runs", json={"plan": both, "mode": "read_only"})
        assert answer.status_code == 202, answer.text
        run = await house.until(answer.json()["id"], "asking")
        body = {"question": "which", "answer": "Rome"}
        assert (await ci.post(f"/v1/runs/{run['id']}/answers", json=body)).status_code == 200
        await house.until(run["id"], "done")
        who = {"kind": "program", "name": "ci"}
        by = await actors(house, run["id"])
        assert [by[each] for each in ("run_created", "plan_proposed", "question_answered")] == [
            who
        ] * 3
        report = (await house.client.get(f"/v1/runs/{run['id']}/report")).text
        assert "the program ci answered" in report
        origins = (await house.get(f"/v1/runs/{run['id']}"))["origins"]
        assert set(origins["which"].values()) == {"program"}
        run = await house.finish(tool_step("a"))
        for verb in ("rerun", "retry"):
            given = {"from_step": "a"} if verb == "retry" else None
            answer = await ci.post(f"/v1/runs/{run['id']}/{verb}", json=given)
            assert answer.status_code == 202, answer.text
            by = await actors(house, answer.json()["id"])
            who = {"kind": "program", "name": "ci"}
            assert (by["run_created"], by["plan_proposed"]) == (who, who)


def test_the_tokens_command_makes_lists_and_revokes(
    tokens: Callable[..., Told], tmp_path: Path
) -> None:
    made = tokens("create", "ci", "--scope", "look,propose", "--expires", "30d")
    assert made.code == 0, made.err
    secret = made.out.strip()
    assert re.fullmatch(r"pst_[\w-]{43}", secret)
    assert "not shown again" in made.err
    file = TokenFile(tmp_path / "plansmith" / "tokens.json")
    [token] = file.all()
    assert (token.name, token.scopes) == ("ci", ("look", "propose"))
    assert file.find(secret, kind="token", now=token.created) == token
    text = tokens("list").out
    assert "the program ci" in text
    assert secret not in text
    rows = json.loads(tokens("list", "--json").out)
    assert rows[0]["actor"] == {"kind": "program", "name": "ci"}
    assert "hash" not in rows[0]
    mine = json.loads(tokens("create", "me", "--scope", "approve", "--json").out)
    assert mine["actor"]["kind"] == "person"
    assert mine["token"].startswith("pst_")
    assert tokens("revoke", "ci").code == 0
    assert [each.name for each in file.all()] == ["me"]
