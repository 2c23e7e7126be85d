"""Logs browsers in by an OpenID Connect provider: `/login`, and where it sends them back."""

from __future__ import annotations

import hmac
import html
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from plansmith.errors import PlansmithError, Refused
from plansmith.plan.sentence import Sentence
from plansmith.server.tokens import Member

if TYPE_CHECKING:
    from plansmith.adapters.oidc.client import OidcClient
    from plansmith.server.auth import Auth
    from plansmith.server.ops.logs import Log
    from plansmith.tenants import TenantBook

LOGIN: Final = "/login"
CALLBACK: Final = "/login/callback"
_LASTS_S: Final = 600.0
_MOST: Final = 1000
_PAGE: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Plansmith</title>"
    '<meta http-equiv=refresh content="0;url=/"><p><a href="/">Continue</a></p>'
)
_FAILED: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Plansmith</title><h1>Plansmith</h1>"
    "<p>You could not be logged in: {why}.</p><p><a href={login}>Try again</a></p>"
)


class _Begun(NamedTuple):
    """A log-in that a browser has begun."""

    browser: str
    nonce: str
    verifier: str
    until: float


@dataclass(slots=True)
class OidcLogin:
    """Sends browsers to the provider, and takes them back with a code."""

    client: OidcClient
    auth: Auth
    book: TenantBook | None
    base: str
    log: Log
    monotonic: Callable[[], float]
    _begun: OrderedDict[str, _Begun] = field(init=False, default_factory=OrderedDict[str, _Begun])

    def response(self, scope: Scope) -> LoginResponse | None:
        """Returns the response if a request is about logging in."""
        if scope["method"] != "GET" or scope["path"] not in (LOGIN, CALLBACK):
            return None
        return LoginResponse(self)

    @property
    def _cookie(self) -> str:
        return f"{self.auth.cookie_name}_login"

    @property
    def _redirect(self) -> str:
        return f"{self.client.settings.url or self.base}{CALLBACK}"

    async def begin(self) -> Response:
        """Sends a browser to the provider; a cookie binds the log-in to this browser."""
        state, nonce, verifier, browser = (secrets.token_urlsafe(32) for _ in range(4))
        where = await self.client.address(
            state=state, nonce=nonce, verifier=verifier, redirect=self._redirect
        )
        while len(self._begun) >= _MOST:
            self._begun.popitem(last=False)
        until = self.monotonic() + _LASTS_S
        self._begun[state] = _Begun(_digest(browser), nonce, verifier, until)
        response = RedirectResponse(where, 303)
        # Lax: the provider sends the browser back, and a strict cookie would stay behind.
        response.set_cookie(
            self._cookie, browser, max_age=int(_LASTS_S), path=LOGIN, httponly=True, samesite="lax"
        )
        return response

    async def end(self, request: Request) -> Response:
        """Takes a browser back: checks that it began here, and logs the person in."""
        given = {name: values[0] for name, values in parse_qs(request.url.query).items()}
        begun = self._begun.pop(given.get("state", ""), None)
        browser = _digest(request.cookies.get(self._cookie, ""))
        if begun is None or begun.until < self.monotonic():
            raise Refused(Sentence("oidc.not_here"))
        if not hmac.compare_digest(begun.browser, browser):
            raise Refused(Sentence("oidc.other_browser"))
        if given.get("iss", self.client.settings.issuer) != self.client.settings.issuer:
            raise Refused(Sentence("oidc.other_provider"))
        if "code" not in given:
            raise Refused(Sentence("oidc.refused"))
        member = await self._member(given["code"], begun)
        hours = timedelta(hours=self.client.settings.hours)
        secret = self.auth.log_in(member, lasts=hours)
        self.log.info("logged_in", user=member.user, role=member.role)
        # A page and no redirect: only a navigation of our own site sends the strict cookie.
        response = HTMLResponse(_PAGE)
        response.set_cookie(
            self.auth.cookie_name,
            secret,
            max_age=int(hours.total_seconds()),
            httponly=True,
            samesite="strict",
            secure=self._redirect.startswith("https://"),
        )
        response.delete_cookie(self._cookie, path=LOGIN, httponly=True, samesite="lax")
        return response

    async def _member(self, code: str, begun: _Begun) -> Member:
        claims = await self.client.claims(
            code, nonce=begun.nonce, verifier=begun.verifier, redirect=self._redirect
        )
        who = self.client.settings.claimed(claims)
        key = ""
        if who.tenant:
            if self.book is None:
                raise Refused(Sentence("oidc.no_tenants"))
            key = self.book.get(who.tenant).key
        return Member(user=who.user, role=who.role, tenant=key)


class LoginResponse:
    """Answers a request about logging in; says little when it fails, and logs the rest."""

    status_code = 200

    def __init__(self, login: OidcLogin) -> None:
        self._login = login

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Begins or ends a log-in."""
        login = self._login
        try:
            at_start = scope["path"] == LOGIN
            answer = await (login.begin() if at_start else login.end(Request(scope)))
        except PlansmithError as error:
            login.log.warning("login_failed", error=str(error))
            told = str(error.message) if isinstance(error, Refused) else "the provider is away"
            text = _FAILED.format(why=html.escape(told), login=LOGIN)
            answer = HTMLResponse(text, 403 if isinstance(error, Refused) else 502)
        await answer(scope, receive, send)


def _digest(secret: str) -> str:
    return sha256(secret.encode(errors="replace")).hexdigest()
