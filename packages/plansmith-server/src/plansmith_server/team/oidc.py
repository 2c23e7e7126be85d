"""Logs browsers in by an OpenID Connect provider: `/login`, and every check of what comes back."""

from __future__ import annotations

import hmac
import html
import os
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote, urlencode

import httpx
import jwt
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from plansmith.errors import Misconfigured, PlansmithError, Refused
from plansmith.plan.sentence import Sentence
from plansmith_server.ops.logs import Log
from plansmith_server.plain_pages import redirect_page
from plansmith_server.settings import OidcSettings, is_secure
from plansmith_server.team.auth import Auth, same_secret
from plansmith_server.team.tenant_book import TenantBook
from plansmith_server.team.tokens import Member

# Only signatures with a public key: with `none` or a shared secret, anybody could sign.
_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA")
_PUBLIC: Final = ("RSA", "EC", "OKP")
_NEEDED: Final = ("exp", "iat", "iss", "aud", "sub")
_KEPT_S: Final = 3600.0
_KEYS_AGAIN_S: Final = 5.0
_LARGEST: Final = 1_000_000
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_LOGIN: Final = "/login"
_CALLBACK: Final = "/login/callback"
_LASTS_S: Final = 600.0
_FAILED: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Plansmith</title><h1>Plansmith</h1>"
    "<p>You could not be logged in: {why}.</p><p><a href=/login>Try again</a></p>"
)


class ProviderAway(PlansmithError):
    """The provider does not answer as it should."""


class _PendingLogin(NamedTuple):
    """A log-in that a browser has begun; the browser keeps it, signed, and the server nothing."""

    state: str
    nonce: str
    verifier: str
    until: str


class OidcClient:
    """Makes addresses to log in at a provider, and turns the code that comes back into claims."""

    def __init__(
        self, settings: OidcSettings, *, redirect: str, monotonic: Callable[[], float]
    ) -> None:
        self.settings = settings
        self.redirect = redirect
        self._now = monotonic
        self._endpoints: dict[str, str] = {}
        self._endpoints_at = 0.0
        self._keys: dict[str, Any] = {}
        self._keys_at = float("-inf")

    async def address(self, pending: _PendingLogin) -> str:
        given = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.redirect,
            "scope": " ".join(self.settings.scopes),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": challenge(pending.verifier),
            "code_challenge_method": "S256",
        }
        where = (await self._discovered())["authorization_endpoint"]
        return f"{where}{'&' if '?' in where else '?'}{urlencode(given)}"

    async def claims(self, code: str, pending: _PendingLogin) -> Mapping[str, Any]:
        """Exchanges a code for an id token; returns its claims if everything about it is right."""
        given = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect,
            "code_verifier": pending.verifier,
            "client_id": self.settings.client_id,
        }
        auth = None
        if variable := self.settings.client_secret_env:
            if not os.environ.get(variable):
                why = Sentence("{variable} is not set", variable=variable)
                raise Misconfigured(why, hint=Sentence("it holds the client's secret"))
            auth = tuple(
                quote(each, safe="") for each in (self.settings.client_id, os.environ[variable])
            )
        where = (await self._discovered())["token_endpoint"]
        token = (await _fetch("POST", where, data=given, auth=auth)).get("id_token")
        if not isinstance(token, str):
            raise Refused(Sentence("the provider gave no id token"))
        found = await self._verified(token)
        if not hmac.compare_digest(str(found.get("nonce", "")).encode(), pending.nonce.encode()):
            raise Refused(Sentence("the id token is for another log-in: its nonce is wrong"))
        return found

    async def _verified(self, token: str) -> Mapping[str, Any]:
        """Returns the claims of an id token of this provider, for this client, signed and fresh."""
        try:
            head = jwt.get_unverified_header(token)
            algorithm = head.get("alg")
            if algorithm not in _ALGORITHMS:
                why = Sentence("the id token is signed by '{name}'", name=str(algorithm)[:20])
                raise Refused(why)
            found: dict[str, Any] = jwt.decode(
                token,
                await self._key(str(head.get("kid", ""))),
                algorithms=[algorithm],
                audience=self.settings.client_id,
                issuer=self.settings.issuer,
                leeway=30,
                options={"require": [*_NEEDED]},
            )
        except (jwt.PyJWTError, ValueError, TypeError) as error:
            raise Refused(Sentence("the id token is not valid: {error}", error=error)) from None
        named: Any = found["aud"]
        has_many = not isinstance(named, str) and len(named) > 1
        if (has_many or "azp" in found) and found.get("azp") != self.settings.client_id:
            raise Refused(Sentence("the id token was made for another client"))
        return found

    async def _key(self, name: str) -> Any:
        """Returns a key of the provider; reads its keys again if it has new ones."""
        # Not for each unknown name: a forged token must not make us ask again and again.
        if name not in self._keys and self._now() - self._keys_at >= _KEYS_AGAIN_S:
            self._keys_at = self._now()
            listed = await _fetch("GET", (await self._discovered())["jwks_uri"])
            self._keys = {
                str(each.key_id or ""): each
                for each in jwt.PyJWKSet.from_dict(listed)
                if each.public_key_use in (None, "sig") and each.key_type in _PUBLIC
            }
        if name not in self._keys:
            why = Sentence("the id token is signed with a key that the provider does not list")
            raise Refused(why)
        return self._keys[name]

    async def _discovered(self) -> dict[str, str]:
        """Returns the addresses of the provider, read again after an hour."""
        if not self._endpoints or self._now() - self._endpoints_at > _KEPT_S:
            issuer = self.settings.issuer
            found = await _fetch("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
            if found.get("issuer") != issuer:
                other = str(found.get("issuer"))[:200]
                hint = Sentence("set oidc.issuer to '{issuer}', if you trust it", issuer=other)
                why = Sentence("{issuer} says that it is another issuer", issuer=issuer)
                raise Misconfigured(why, hint=hint)
            endpoints = {name: str(found.get(name, "")) for name in _ENDPOINTS}
            wrong = [name for name, where in endpoints.items() if not is_secure(where)]
            if wrong:
                why = Sentence("{issuer} has no usable {name}", issuer=issuer, name=wrong[0])
                raise Misconfigured(why, hint=Sentence("the provider must offer it at https://"))
            self._endpoints, self._endpoints_at = endpoints, self._now()
        return self._endpoints


def challenge(verifier: str) -> str:
    """Returns what is sent first, of which only we know the origin (PKCE, S256)."""
    return urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()


async def _fetch(method: str, url: str, **given: Any) -> dict[str, Any]:
    try:
        async with httpx.AsyncClient(timeout=10, follow_redirects=False) as web:
            answer = await web.request(method, url, **given)
        if not answer.is_success or len(answer.content) > _LARGEST:
            raise ProviderAway(f"the provider answered with {answer.status_code}")
        found: object = answer.json()
    except (httpx.HTTPError, ValueError) as error:
        raise ProviderAway(f"the provider cannot be reached: {error!r}") from None
    if not isinstance(found, dict):
        raise ProviderAway("the provider answered with something else than an object")
    return cast("dict[str, Any]", found)


@dataclass(slots=True)
class OidcLogin:
    """Sends browsers to the provider, and takes them back with a code."""

    client: OidcClient
    auth: Auth
    book: TenantBook | None
    log: Log
    now: Callable[[], datetime]
    status_code = 200

    @property
    def _cookie(self) -> dict[str, Any]:
        """The cookie that binds a log-in to the browser that began it."""
        name, secure = f"{self.auth.cookie_name}_login", self.client.redirect.startswith("https://")
        # Lax: the provider sends the browser back, and a strict cookie would stay behind.
        return {"key": name, "path": _LOGIN, "httponly": True, "samesite": "lax", "secure": secure}

    def takes(self, scope: Scope) -> bool:
        return scope["method"] == "GET" and scope["path"] in (_LOGIN, _CALLBACK)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Begins or ends a log-in; says little when it fails, and logs the rest."""
        try:
            is_start = scope["path"] == _LOGIN
            answer = await (self._begin() if is_start else self._end(Request(scope)))
        except PlansmithError as error:
            self.log.warning("login_failed", error=str(error))
            is_refused = isinstance(error, Refused)
            why = html.escape(error.message) if is_refused else "the provider is away"
            answer = HTMLResponse(_FAILED.format(why=why), 403 if is_refused else 502)
        await answer(scope, receive, send)

    async def _begin(self) -> Response:
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        until = str(int(self.now().timestamp() + _LASTS_S))
        pending = _PendingLogin(state, nonce, verifier, until)
        response = RedirectResponse(await self.client.address(pending), 303)
        text = ".".join(pending)
        signed = f"{text}.{self.auth.sign(f'login {text}')}"
        response.set_cookie(value=signed, max_age=int(_LASTS_S), **self._cookie)
        return response

    async def _end(self, request: Request) -> Response:
        """Takes a browser back: checks that it began here, and logs the person in."""
        given, settings, cookie = request.query_params, self.client.settings, self._cookie
        signed, _, signature = request.cookies.get(cookie["key"], "").rpartition(".")
        if not same_secret(signature, self.auth.sign(f"login {signed}")):
            raise Refused(Sentence("this log-in was begun in another browser"))
        pending = _PendingLogin(*signed.split("."))
        is_over = int(pending.until) < self.now().timestamp()
        if is_over or not same_secret(given.get("state", ""), pending.state):
            raise Refused(Sentence("this log-in was not begun here, or too long ago"))
        if given.get("iss", settings.issuer) != settings.issuer:
            raise Refused(Sentence("the answer is from another provider"))
        if "code" not in given:
            raise Refused(Sentence("the provider refused"))
        who = settings.claimed(await self.client.claims(given["code"], pending))
        if who.tenant and self.book is None:
            raise Refused(Sentence("this server has no tenants"))
        tenant = self.book.get(who.tenant).key if who.tenant and self.book else ""
        hours = timedelta(hours=settings.hours)
        member = Member(user=who.user, role=who.role, tenant=tenant)
        login = self.auth.log_in(member, lasts=hours)
        self.log.info("logged_in", user=member.user, role=member.role)
        response = redirect_page(f"/#login={self.auth.page_key(login)}")
        self.auth.set_cookie(response, login, secure=cookie["secure"], lasts=hours)
        response.delete_cookie(**cookie)
        return response
