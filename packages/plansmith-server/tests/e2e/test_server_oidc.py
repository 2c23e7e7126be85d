"""Log-ins by a real OpenID Connect provider on this machine, and every way it could be wrong."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.servers.oidc_provider import CLIENT, SECRET, Provider, new_key, provider
from tests.unit.server.house import House, page_header, serving
from tests.unit.server.tenancy import tenant

from plansmith_cli.config import Settings
from plansmith_server.team.auth import Auth
from plansmith_server.team.tenant_book import TenantBook


def settings(made: Provider, **more: Any) -> dict[str, Any]:
    own = {
        "issuer": made.issuer,
        "client_id": CLIENT,
        "client_secret_env": "OIDC_SECRET",
        "roles": {"boss": "admin", "staff": "operator"},
    }
    return {"models": {"plan": "demo"}, "oidc": own | more}


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
