"""Who may speak to the server, on every route, and the secrets that nobody is told."""

from __future__ import annotations

import asyncio
import base64
import html
import json
import re
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.unit.server.house import House, page_header, serving, tool_step

from plansmith.clock import SystemClock
from plansmith.errors import InputNeeded, Misconfigured, ToolFailed
from plansmith.ports import Call
from plansmith_cli.main import main
from plansmith_server.api import Route
from plansmith_server.app import PAGES, ROUTES
from plansmith_server.middleware import host_names
from plansmith_server.serve import bind
from plansmith_server.settings import Serve
from plansmith_server.team.auth import Auth, load_token
from plansmith_server.team.tokens import Member, TokenFile

# Probes have no token: tests/e2e/test_server_api_page.py asks what they learn.
EVERY = [each for each in (*ROUTES, *PAGES) if not each.is_open]
UNSAFE = [each for each in EVERY if each.method not in ("GET", "HEAD")]
OTHERS = ["/mcp", "/a2a", "/.well-known/agent-card.json", "/no/such.file", "/assets/x.js"]


def place(route: Route) -> str:
    run = "01900000-0000-7000-8000-000000000000"
    return re.sub(r"\{(\w+)(:path)?\}", lambda found: run if found[1] == "id" else "x", route.path)


async def test_every_route_needs_a_token_the_right_host_and_its_own_site(tmp_path: Path) -> None:
    async with serving(tmp_path, failures_per_minute=1e6) as house:
        async with httpx.AsyncClient(verify=False, base_url=house.url) as stranger:
            for route in EVERY:
                name = f"{route.method} {route.path}"
                bare = await stranger.request(route.method, place(route))
                assert bare.status_code == 401, name
                assert bare.json()["code"] == "no_token", name
                assert bare.headers["www-authenticate"] == "Bearer", name
                wrong = {"Authorization": "Bearer nonsense"}
                guess = await stranger.request(route.method, place(route), headers=wrong)
                assert guess.status_code == 401, name
                assert guess.json()["code"] == "invalid_token", name
                assert "unknown, expired or revoked" in guess.text, name
                elsewhere = await house.client.request(
                    route.method, place(route), headers={"Host": "evil.example"}
                )
                assert elsewhere.status_code == 421, name
            for path in OTHERS:
                assert (await stranger.get(path)).status_code == 401, path
                assert (await stranger.post(path)).status_code == 401, path
        for route in UNSAFE:
            for headers in (
                {"Origin": "http://evil.example"},
                {"Origin": "null"},
                {"Sec-Fetch-Site": "cross-site"},
                {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:1"},
            ):
                answer = await house.client.request(route.method, place(route), headers=headers)
                assert answer.status_code == 403, (route.path, headers)


async def test_the_link_works_once_and_leaves_a_strict_cookie(house: House) -> None:
    link = f"/?token={house.keys.link_token}"
    visit = {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}
    async with httpx.AsyncClient(verify=False, base_url=house.url, headers=visit) as browser:
        assert (await browser.get("/?token=wrong")).status_code == 401
        first = await browser.get(link)
        assert first.status_code == 303
        assert re.fullmatch(r"/#login=\w{64}", first.headers["location"])
        cookie = first.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert house.token.lower() not in cookie
        page = await browser.get("/", headers={"Accept": "text/html"})
        assert page.status_code == 200
        assert "Plansmith" in page.text
        key = page_header(first.headers["location"])
        assert (await browser.get("/v1/runs", headers=key)).is_success
        second = await browser.get(link)
        assert (second.status_code, second.headers["location"]) == (303, "/")
        lost = await browser.get("/no/such/place", headers={"Accept": "text/html"})
        assert (lost.status_code, 'href="/"' in lost.text) == (404, True)
    async with httpx.AsyncClient(verify=False, base_url=house.url) as other:
        again = await other.get(link, headers={"Accept": "text/html"})
        assert again.status_code == 401
        assert "has been used" in again.text
        assert "plansmith tokens link" in again.text
        assert "unsafe-inline" not in again.headers["content-security-policy"]
        zh = await other.get("/", headers={"Accept": "text/html", "Accept-Language": "zh-CN"})
        assert "尚未登录" in zh.text
        now = house.server_state.clock.now()
        for proto in ("http", "https"):
            more = house.tokens.new_link(by="ann", now=now)
            entered = await other.get(f"/?token={more}", headers={"X-Forwarded-Proto": proto})
            assert ("; secure" in entered.headers["set-cookie"].lower()) is (proto == "https")


async def logged_in(house: House) -> dict[str, str]:
    """The cookie of a browser that followed the link, and the key of its page, as headers."""
    name = house.keys.cookie_name
    async with house.browser() as web:
        key = web.headers["X-Plansmith-Page"]
        return {"Cookie": f"{name}={web.cookies[name]}", "X-Plansmith-Page": key}


async def test_a_stolen_cookie_alone_reads_and_approves_nothing(tmp_path: Path) -> None:
    """Another port of the host gets the cookie by one click; what the page stores it does not."""
    async with serving(tmp_path, failures_per_minute=1e6) as house:
        run = await house.begin(tool_step("a", "mail"))
        both = await logged_in(house)
        cookie, key = ({name: both[name]} for name in ("Cookie", "X-Plansmith-Page"))
        decision = {"approve": run["hash"]}
        path = f"/v1/runs/{run['id']}"
        async with httpx.AsyncClient(verify=False, base_url=house.url) as thief:
            for wrong in (
                cookie,
                key,
                cookie | {"X-Plansmith-Page": "0" * 64},
                cookie | {"X-Plansmith-Page": house.keys.page_key("psl_another")},
                cookie | {"Sec-Fetch-Site": "same-origin", "Origin": house.url},
            ):
                answers = [
                    await thief.post(f"{path}/decision", json=decision, headers=wrong),
                    await thief.delete(path, headers=wrong),
                    await thief.post("/v1/logout", json={}, headers=wrong),
                    *[
                        await thief.get(each, headers=wrong)
                        for each in (path, "/v1/events", "/v1/runs", f"{path}/report?page_key=x")
                    ],
                ]
                assert {each.status_code for each in answers} == {401}, wrong
            # A page of another port sends both, if it can read neither.
            same_site = both | {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}
            refused = await thief.post(f"{path}/decision", json=decision, headers=same_site)
            assert refused.status_code == 403
            # A key in an address reads, and changes nothing.
            linked = f"{path}?page_key={key['X-Plansmith-Page']}"
            assert (await thief.delete(linked, headers=cookie)).status_code == 401
            assert (await thief.get(linked, headers=cookie)).status_code == 200
            assert (await thief.get("/", headers=cookie)).status_code == 200  # its files
            done = await thief.post(f"{path}/decision", json=decision, headers=both)
            assert done.status_code == 200
        assert "page_key" not in house.log.getvalue()


async def test_a_link_of_somebody_else_asks_before_it_replaces_a_log_in(house: House) -> None:
    both = await logged_in(house)
    now = house.server_state.smith.runs.journals.clock.now()
    mallory = Member(user="mallory<b>", role="viewer")
    with pytest.raises(Misconfigured):
        house.tokens.new_link(by="ann", now=now, member=mallory)
    mallory = Member(user="mallory", role="viewer")
    link = f"/?token={house.tokens.new_link(by='ann', now=now, member=mallory)}"
    async with httpx.AsyncClient(verify=False, base_url=house.url) as browser:
        # On another site the browser keeps its cookie back: it comes again from ours.
        far = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        onward = await browser.get(link, headers=far)
        assert (onward.status_code, "set-cookie" in onward.headers) == (200, False)
        assert f'url={link}"' in onward.text
        asked = await browser.get(link, headers=both)
        assert (asked.status_code, "set-cookie" in asked.headers) == (200, False)
        assert "logged in as <b>ann</b>" in asked.text
        assert f'<form method=post action="{link}">' in asked.text
        forged = both | {"Origin": "http://evil.example"}
        assert (await browser.post(link, headers=forged)).status_code == 403
        mine = {"Origin": house.url, "Sec-Fetch-Site": "same-origin"}
        done = await browser.post(link, headers=both | mine)
        assert (done.status_code, "set-cookie" in done.headers) == (303, True)
    # A link of one's own asks nothing.
    own = f"/?token={house.tokens.new_link(by='ann', now=now)}"
    async with httpx.AsyncClient(verify=False, base_url=house.url) as browser:
        assert (await browser.get(own, headers=both)).status_code == 303


async def test_every_answer_forbids_scripts_of_others_and_is_of_this_server(house: House) -> None:
    for path in ("/", "/v1/runs", "/healthz", "/v1/runs/x", "/openapi.json"):
        headers = (await house.client.get(path)).headers
        assert headers["content-security-policy"].startswith("default-src 'self'"), path
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers
    own = {"Origin": house.url, "Sec-Fetch-Site": "same-origin"}
    assert (await house.client.post("/v1/runs", json={}, headers=own)).status_code == 422
    port = house.url.rpartition(":")[2]
    named = {"Host": f"localhost:{port}"}
    assert (await house.client.get("/version", headers=named)).status_code == 200
    no_port = {"Host": "127.0.0.1"}
    assert (await house.client.get("/version", headers=no_port)).status_code == 421
    answer = await house.client.get("/v1/nothing")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    wrong = await house.client.post("/healthz", json={})
    assert (wrong.status_code, wrong.json()["code"]) == (405, "no_such_method")
    for path in ("/../keys.py", "/%2e%2e/keys.py", "/..%2fkeys.py", "//etc/passwd", "/%00.x"):
        raw = await _raw(house, path)
        assert b"hmac" not in raw
        assert b"root:" not in raw
        assert b" 500 " not in raw.splitlines()[0]


async def test_bodies_are_json_and_of_a_bounded_size(tmp_path: Path) -> None:
    async with serving(tmp_path, max_body=1000) as house:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
            answer = await house.client.post(
                "/v1/runs", content=b'{"request": "x"}', headers={"Content-Type": kind}
            )
            assert answer.status_code == 415, kind
        large = {"request": "x" * 2000}
        assert (await house.client.post("/v1/runs", json=large)).status_code == 413

        async def pieces() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b"x" * 100

        chunked = await house.client.post(
            "/v1/runs", content=pieces(), headers={"Content-Type": "application/json"}
        )
        assert chunked.status_code == 413
        assert (await house.get("/v1/runs"))["items"] == []


async def test_who_asks_too_often_or_guesses_tokens_has_to_wait(tmp_path: Path) -> None:
    async with serving(tmp_path, per_second=0.01, burst=5) as house:
        codes = [(await house.client.get("/healthz")).status_code for _ in range(7)]
        assert codes == [200] * 5 + [429] * 2
        assert int((await house.client.get("/healthz")).headers["retry-after"]) > 1
    async with serving(tmp_path, failures_per_minute=3) as house:
        wrong = {"Authorization": "Bearer guess"}
        codes = [(await house.client.get("/", headers=wrong)).status_code for _ in range(5)]
        assert codes == [401] * 3 + [429] * 2
        assert (await house.client.get("/healthz")).status_code == 200
        assert 'route="refused",status="401"} 3' in (await house.client.get("/metrics")).text


async def test_nothing_secret_is_logged(tmp_path: Path) -> None:
    async with serving(tmp_path) as house:
        run = await house.begin(tool_step("a"))
        secrets = [house.token, house.keys.link_token, house.new_token("helper", "look")]
        cookie = await logged_in(house)
        secrets.append(cookie["Cookie"].partition("=")[2])
        await house.client.get(f"/{secrets[-1]}/{secrets[-2]}")
        await house.client.get(f"/v1/runs?q={house.token}")
        await house.client.get(f"/{house.token}")
        await house.approve(run)
        await house.until(run["id"], "done")
    lines = [json.loads(line) for line in house.log.getvalue().splitlines()]
    assert {"request", "ready", "stopped"} <= {line["event"] for line in lines}
    assert not [each for each in secrets if each in house.log.getvalue()]


def test_the_token_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "token"
    token = load_token(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert load_token(path) == token
    path.chmod(0o644)
    with pytest.raises(Misconfigured, match="chmod 600"):
        load_token(path)
    path.chmod(0o600)
    path.write_text("short")
    with pytest.raises(Misconfigured, match="32"):
        load_token(path)
    with pytest.raises(Misconfigured, match="--token-file"):
        load_token(tmp_path / "deep" / "token" / "below")


def test_an_address_others_can_reach_needs_a_flag_and_a_token(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        with pytest.raises(Misconfigured, match="other machines"):
            bind(Serve(token_file=tmp_path / "t", host=host))
    assert main(["serve", "--host", "0.0.0.0", "--no-browser"]) == 2
    assert main(["serve", "--host", "0.0.0.0", "--insecure-remote", "--no-browser"]) == 2
    assert "--token-file" in capsys.readouterr().err
    with bind(Serve(token_file=tmp_path / "t")) as sock:
        assert sock.getsockname()[0] == "127.0.0.1"
        taken = Serve(token_file=tmp_path / "t", port=sock.getsockname()[1])
        with pytest.raises(Misconfigured, match="--port"):
            bind(taken)
    assert host_names("127.0.0.1", 9) == {"127.0.0.1:9", "localhost:9", "[::1]:9"}
    assert "plans.example" in host_names("0.0.0.0", 9, ["Plans.Example"])
    assert "0.0.0.0:9" not in host_names("0.0.0.0", 9)
    assert "192.0.2.1:9" in host_names("192.0.2.1", 9)
    assert "localhost" in host_names("127.0.0.1", 80)


async def _raw(house: House, path: str) -> bytes:
    """A request as it is written here: clients would tidy the path."""
    port = int(house.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n"
    writer.write(f"{head}Authorization: Bearer {house.token}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer


def test_keys_tell_right_from_wrong(tmp_path: Path) -> None:
    clock = SystemClock()
    tokens = TokenFile(tmp_path / "tokens.json")
    keys = Auth("t" * 40, tokens=tokens, by="ann", now=clock.now, port=1)
    other = Auth("u" * 40, tokens=TokenFile(tmp_path / "no.json"), by="bo", now=clock.now, port=2)
    _, secret = tokens.create("bot", ["look"], by="ann", now=clock.now(), lasts=None)
    cookie = keys.log_in()

    def who(bearer: str = "", cookie: str = "") -> str:
        found = keys.grant(bearer=bearer, cookie=cookie)
        return f"{found.actor.kind} {found.actor.name}" if found else ""

    assert who("t" * 40) == "person ann"
    assert who(secret) == "program bot"
    assert who(cookie=cookie) == "person ann"
    assert [who(), who(cookie, "t" * 40), who("t" * 40 + "é", other.log_in())] == ["", "", ""]
    assert who(cookie=secret) == ""
    # An open page goes on after a restart.
    anew = Auth("t" * 40, tokens=TokenFile(tmp_path / "tokens.json"), by="ann", now=clock.now)
    assert anew.grant(bearer="", cookie=cookie)
    assert anew.page_key(cookie) == keys.page_key(cookie)


CANARY = "canary-5b1d0e77c2"


async def test_a_secret_is_nowhere_to_be_read_however_a_tool_writes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAIL_KEY", CANARY)
    encoded = CANARY.encode()
    forms = [
        base64.b64encode(b"ada:" + encoded).decode(),
        base64.b64encode(b"a:" + encoded).decode(),
        base64.urlsafe_b64encode(encoded).decode(),
        encoded.hex(),
        encoded.hex().upper(),
        quote(CANARY, safe=""),
        quote(CANARY, safe="").lower(),
        html.escape(CANARY),
    ]
    secrets = {"mail_key": {"env": "MAIL_KEY", "tools": ["mail"]}}
    async with serving(tmp_path, store="sqlite", settings={"secrets": secrets}) as house:

        async def careless(tool: str, arguments: Any, call: Call) -> Any:
            assert arguments["key"] == CANARY  # the tool gets it, and says it back
            call.progress(" ".join(forms))
            if arguments["city"] == "Rome":
                return [CANARY, *forms]
            if call.reply is None:
                form = {"type": "string", "enum": ["yes", *forms], "title": CANARY}
                raise InputNeeded(f"Is it {CANARY}?", schema=form, state=list(forms))
            raise ToolFailed(" ".join([CANARY, *forms]))

        monkeypatch.setattr(house.tools, "call", careless)
        step = tool_step("a", "mail", inputs={"city": "Oslo", "key": "${secret:mail_key}"})
        other = tool_step("b", "mail", inputs={"city": "Rome", "key": "${secret:mail_key}"})
        run = await house.begin(other, {**step, "after": ["b"]})
        await house.approve(run)
        await house.until(run["id"], "asking")
        asked = (await house.client.get(f"/v1/runs/{run['id']}")).json()
        (question,) = asked["questions"]
        assert "${secret:mail_key}" in json.dumps(question)
        texts = [json.dumps(asked)]
        given = {"question": question["question"], "answer": "yes"}
        await house.post(f"/v1/runs/{run['id']}/answers", given)
        await house.until(run["id"], "done", "partly_done", "failed", "asking")
        texts += await everything(house, run["id"])
    for form in (CANARY, *forms):
        assert not [text for text in texts if form in text], form
        assert files_with(tmp_path, form.encode()) == []


async def everything(house: House, run: str) -> list[str]:
    """What every route, the stream and the log tell of a run."""
    texts = list[str]()
    for route in ROUTES:
        if route.method == "GET" and route.path != "/v1/events":
            where = route.path.replace("{id}", run).replace("{step:path}", "a")
            texts.append((await house.client.get(where.replace("{name}", "x"))).text)
    last = (await house.get(f"/v1/runs/{run}"))["last"]
    async for event in house.stream(run=run, after=0):
        texts.append(str(event))
        if event["data"].get("number") == last:
            break
    return [*texts, house.log.getvalue()]


def files_with(folder: Path, text: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]
