"""Tokens and log-ins: what each may do, as whom, and how it is taken back; OpenID Connect."""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import time
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.commands import Told, typed
from tests.e2e.test_server_access import place
from tests.servers.oidc_provider import CLIENT, SECRET, Provider, new_key, provider
from tests.unit.server.house import House, page_header, plan, serving, tenant, tool_step

from plansmith.clock import SystemClock
from plansmith.errors import Misconfigured
from plansmith_cli.config import Settings
from plansmith_server.app import PAGES, ROUTES
from plansmith_server.team.auth import Auth
from plansmith_server.team.tenant_book import TenantBook
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
        assert who == {"kind": "person", "name": "ann (token laptop)", "user": "ann"}


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
    made = tokens("create", "ci", "--scope", "look,propose", "--expires", "30m")
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


def settings(made: Provider, **more: Any) -> dict[str, Any]:
    own = {
        "issuer": made.issuer,
        "client_id": CLIENT,
        "client_secret_env": "OIDC_SECRET",
        "roles": {"boss": "admin", "staff": "operator"},
    }
    return {"models": {"plan": "rules"}, "oidc": own | more}


@contextlib.asynccontextmanager
async def house_with(
    folder: Path, monkeypatch: pytest.MonkeyPatch, **more: Any
) -> AsyncIterator[tuple[House, Provider]]:
    monkeypatch.setenv("OIDC_SECRET", SECRET)
    async with provider() as made:
        given = settings(made, **more)
        async with serving(folder, store="file", settings=given) as house:
            yield house, made


async def logged_in(house: House, web: httpx.AsyncClient, status: int = 200) -> httpx.Response:
    """Follows the way of a browser: to the provider and back."""
    begun = await web.get(f"{house.url}/login")
    assert begun.status_code == 303, begun.text
    at_provider = await web.get(begun.headers["location"])
    assert at_provider.status_code == 303, at_provider.text
    back = await web.get(at_provider.headers["location"])
    assert back.status_code == status, back.text
    web.headers.update(page_header(back.text))
    return back


async def me(house: House, web: httpx.AsyncClient, status: int = 200) -> Any:
    answer = await web.get(f"{house.url}/v1/me")
    assert answer.status_code == status, answer.text
    return answer.json()


async def test_a_person_logs_in_and_out_with_the_role_and_tenant_of_their_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant(tmp_path, "acme")
    more = {"tenant_claim": "org", "tenants": {"Acme Inc": "acme"}, "hours": 2}
    async with (
        house_with(tmp_path, monkeypatch, **more) as (house, made),
        httpx.AsyncClient(timeout=120) as web,
    ):
        made.claims = {"sub": "auth0|ann", "roles": ["other", "boss"], "org": "Acme Inc"}
        page = await web.get(f"{house.url}/", headers={"Accept": "text/html"})
        assert (page.status_code, 'href="/login"' in page.text) == (401, True)
        done = await logged_in(house, web)
        kept = [each.lower() for each in done.headers.get_list("set-cookie")]
        assert any("httponly" in each and "samesite=strict" in each for each in kept)
        who = await me(house, web)
        assert (who["user"], who["role"], who["tenant"]) == ("auth0|ann", "admin", "acme")
        [login] = house.tokens.all()
        assert login.expires is not None
        assert (login.expires - login.created).total_seconds() == 7200
        assert login.seconds == 0  # use does not prolong it
        assert (await web.post(f"{house.url}/v1/logout")).status_code == 204
        await me(house, web, 401)
        assert SECRET not in house.log.getvalue()


LIES: list[tuple[dict[str, Any], str]] = [
    ({"iss": "https://evil.example"}, "RS256"),
    ({"aud": "another client"}, "RS256"),
    ({"aud": [CLIENT, "another client"]}, "RS256"),
    ({"aud": [CLIENT, "other"], "azp": "other"}, "RS256"),
    ({"nonce": "of another log-in"}, "RS256"),
    ({"nonce": None}, "RS256"),
    ({"exp": int(time.time()) - 3600}, "RS256"),
    ({"exp": None}, "RS256"),
    ({"iat": int(time.time()) + 3600}, "RS256"),
    ({"sub": None}, "RS256"),
    ({}, "none"),
    ({}, "HS256"),
]


async def test_a_token_that_is_wrong_in_one_thing_logs_nobody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with house_with(tmp_path, monkeypatch) as (house, made):
        for made.lie, made.algorithm in LIES:
            async with httpx.AsyncClient(timeout=120) as web:
                await logged_in(house, web, 403)
                await me(house, web, 401)
        assert house.tokens.all() == ()
        # Forged names of keys do not make the server ask for keys again and again.
        made.lie, made.algorithm = {}, "RS256"
        for number in range(5):
            made.kid = f"forged-{number}"
            async with httpx.AsyncClient(timeout=120) as web:
                await logged_in(house, web, 403)
        assert made.key_reads <= 2


async def test_a_key_that_the_provider_does_not_list_signs_nothing_and_a_new_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plansmith_server.team.oidc._KEYS_AGAIN_S", 0.0)
    async with house_with(tmp_path, monkeypatch) as (house, made):
        async with httpx.AsyncClient(timeout=120) as web:
            await logged_in(house, web)
        made.rotate()
        async with httpx.AsyncClient(timeout=120) as web:
            await logged_in(house, web)
        made.key = new_key()  # under the name of a listed one
        async with httpx.AsyncClient(timeout=120) as web:
            await logged_in(house, web, 403)


async def test_a_log_in_belongs_to_the_browser_that_began_it_and_works_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        house_with(tmp_path, monkeypatch) as (house, _),
        httpx.AsyncClient(timeout=120) as attacker,
        httpx.AsyncClient(timeout=120) as victim,
    ):
        begun = await attacker.get(f"{house.url}/login")
        back = (await attacker.get(begun.headers["location"])).headers["location"]
        assert (await victim.get(back)).status_code == 403
        await me(house, victim, 401)
        fresh = await attacker.get(f"{house.url}/login")
        back = (await attacker.get(fresh.headers["location"])).headers["location"]
        assert (await attacker.get(back)).status_code == 200
        assert (await attacker.get(back)).status_code == 403
        forged = f"{house.url}/login/callback?code=x&state=y"
        assert (await victim.get(forged)).status_code == 403
        # The browser alone keeps what was begun, signed so that a server that starts anew knows it.
        begun = await attacker.get(f"{house.url}/login")
        name = f"{house.keys.cookie_name}_login"
        signed = attacker.cookies[name]
        now = house.server_state.clock.now
        again = Auth((tmp_path / "token").read_text().strip(), tokens=house.tokens, by="a", now=now)
        assert signed.endswith(again.sign(f"login {signed.rpartition('.')[0]}"))
        back = (await attacker.get(begun.headers["location"])).headers["location"]
        for wrong in ("", "x", signed[:-1], f"x{signed}", f"page.{signed}"):
            victim.cookies.clear()
            victim.cookies.set(name, wrong, domain="127.0.0.1", path="/login")
            assert (await victim.get(back)).status_code == 403


async def test_who_has_no_role_or_no_tenant_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = {"tenant_claim": "org", "tenants": {"Acme": "acme"}}
    acme = tenant(tmp_path, "acme")
    async with house_with(tmp_path, monkeypatch, **more) as (house, made):
        for claims in (
            {"sub": "ann", "roles": [], "org": "Acme"},
            {"sub": "ann", "roles": {"staff": True}, "org": "Acme"},
            {"sub": "ann", "roles": "staff"},
            {"sub": "ann", "roles": "staff", "org": "acme"},
            {"sub": "a b\n", "roles": "staff", "org": "Acme"},
        ):
            made.claims = claims
            async with httpx.AsyncClient(timeout=120) as web:
                await logged_in(house, web, 403)
        TenantBook(tmp_path).remove(acme.name)
        made.claims = {"sub": "ann", "roles": "staff", "org": "Acme"}
        async with httpx.AsyncClient(timeout=120) as web:
            await logged_in(house, web, 403)


def test_a_provider_that_is_not_encrypted_is_refused() -> None:
    for issuer in ("http://provider.example", "ftp://x", "provider.example"):
        with pytest.raises(ValueError, match="https"):
            Settings.model_validate({"oidc": {"issuer": issuer, "client_id": "x"}})
