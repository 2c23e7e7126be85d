"""Logs browsers in by an OpenID Connect provider: `/login`, and where it sends them back."""

from __future__ import annotations

import html
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from plansmith.errors import PlansmithError, Refused
from plansmith.plan.sentence import Sentence
from plansmith_server.plain_pages import onward
from plansmith_server.team.auth import same
from plansmith_server.team.tokens import Member

if TYPE_CHECKING:
    from plansmith_server.ops.logs import Log
    from plansmith_server.team.auth import Auth
    from plansmith_server.team.oidc_client import OidcClient
    from plansmith_server.team.tenant_book import TenantBook

LOGIN: Final = "/login"
CALLBACK: Final = "/login/callback"
_LASTS_S: Final = 600.0
_FAILED: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Plansmith</title><h1>Plansmith</h1>"
    "<p>You could not be logged in: {why}.</p><p><a href={login}>Try again</a></p>"
)


class _Begun(NamedTuple):
    """A log-in that a browser has begun; the browser keeps it, signed, and the server nothing."""

    state: str
    nonce: str
    verifier: str
    until: str


@dataclass(slots=True)
class OidcLogin:
    """Sends browsers to the provider, and takes them back with a code."""

    client: OidcClient
    auth: Auth
    book: TenantBook | None
    base: str
    log: Log
    now: Callable[[], datetime]

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

    @property
    def _is_encrypted(self) -> bool:
        return self._redirect.startswith("https://")

    async def begin(self) -> Response:
        """Sends a browser to the provider; a cookie binds the log-in to this browser."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        where = await self.client.address(
            state=state, nonce=nonce, verifier=verifier, redirect=self._redirect
        )
        until = int(self.now().timestamp() + _LASTS_S)
        begun = ".".join(_Begun(state, nonce, verifier, str(until)))
        response = RedirectResponse(where, 303)
        # Lax: the provider sends the browser back, and a strict cookie would stay behind.
        response.set_cookie(
            self._cookie,
            f"{begun}.{self.auth.sign(f'login {begun}')}",
            max_age=int(_LASTS_S),
            path=LOGIN,
            httponly=True,
            samesite="lax",
            secure=self._is_encrypted,
        )
        return response

    def _begun(self, cookie: str) -> _Begun:
        """Returns the log-in that this browser has begun here."""
        signed, _, signature = cookie.rpartition(".")
        if not same(signature, self.auth.sign(f"login {signed}")):
            raise Refused(Sentence("this log-in was begun in another browser"))
        begun = _Begun(*signed.split("."))
        if int(begun.until) < self.now().timestamp():
            raise Refused(Sentence("this log-in was not begun here, or too long ago"))
        return begun

    async def end(self, request: Request) -> Response:
        """Takes a browser back: checks that it began here, and logs the person in."""
        given = {name: values[0] for name, values in parse_qs(request.url.query).items()}
        begun = self._begun(request.cookies.get(self._cookie, ""))
        if not same(given.get("state", ""), begun.state):
            raise Refused(Sentence("this log-in was not begun here, or too long ago"))
        if given.get("iss", self.client.settings.issuer) != self.client.settings.issuer:
            raise Refused(Sentence("the answer is from another provider"))
        if "code" not in given:
            raise Refused(Sentence("the provider refused"))
        member = await self._member(given["code"], begun)
        hours = timedelta(hours=self.client.settings.hours)
        cookie = self.auth.log_in(member, lasts=hours)
        self.log.info("logged_in", user=member.user, role=member.role)
        response = onward(f"/#login={self.auth.page_key(cookie)}")
        self.auth.set_cookie(response, cookie, secure=self._is_encrypted, lasts=hours)
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
                raise Refused(Sentence("this server has no tenants"))
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
