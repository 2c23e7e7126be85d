"""Logs browsers in by an OpenID Connect provider: `/login`, and where it sends them back."""

from __future__ import annotations

import html
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

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

_LOGIN: Final = "/login"
_CALLBACK: Final = "/login/callback"
_LASTS_S: Final = 600.0
_FAILED: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>Plansmith</title><h1>Plansmith</h1>"
    "<p>You could not be logged in: {why}.</p><p><a href=/login>Try again</a></p>"
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
    status_code = 200

    def takes(self, scope: Scope) -> bool:
        """Whether a request is about logging in."""
        return scope["method"] == "GET" and scope["path"] in (_LOGIN, _CALLBACK)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Begins or ends a log-in; says little when it fails, and logs the rest."""
        try:
            at_start = scope["path"] == _LOGIN
            answer = await (self._begin() if at_start else self._end(Request(scope)))
        except PlansmithError as error:
            self.log.warning("login_failed", error=str(error))
            refused = isinstance(error, Refused)
            why = html.escape(error.message) if refused else "the provider is away"
            answer = HTMLResponse(_FAILED.format(why=why), 403 if refused else 502)
        await answer(scope, receive, send)

    @property
    def _cookie(self) -> str:
        return f"{self.auth.cookie_name}_login"

    @property
    def _redirect(self) -> str:
        return f"{self.client.settings.url or self.base}{_CALLBACK}"

    @property
    def _is_encrypted(self) -> bool:
        return self._redirect.startswith("https://")

    async def _begin(self) -> Response:
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
            path=_LOGIN,
            httponly=True,
            samesite="lax",
            secure=self._is_encrypted,
        )
        return response

    async def _end(self, request: Request) -> Response:
        """Takes a browser back: checks that it began here, and logs the person in."""
        given, settings = request.query_params, self.client.settings
        signed, _, signature = request.cookies.get(self._cookie, "").rpartition(".")
        if not same(signature, self.auth.sign(f"login {signed}")):
            raise Refused(Sentence("this log-in was begun in another browser"))
        begun = _Begun(*signed.split("."))
        is_over = int(begun.until) < self.now().timestamp()
        if is_over or not same(given.get("state", ""), begun.state):
            raise Refused(Sentence("this log-in was not begun here, or too long ago"))
        if given.get("iss", settings.issuer) != settings.issuer:
            raise Refused(Sentence("the answer is from another provider"))
        if "code" not in given:
            raise Refused(Sentence("the provider refused"))
        claims = await self.client.claims(
            given["code"], nonce=begun.nonce, verifier=begun.verifier, redirect=self._redirect
        )
        who = settings.claimed(claims)
        if who.tenant and self.book is None:
            raise Refused(Sentence("this server has no tenants"))
        tenant = self.book.get(who.tenant).key if who.tenant and self.book else ""
        hours = timedelta(hours=settings.hours)
        member = Member(user=who.user, role=who.role, tenant=tenant)
        cookie = self.auth.log_in(member, lasts=hours)
        self.log.info("logged_in", user=member.user, role=member.role)
        response = onward(f"/#login={self.auth.page_key(cookie)}")
        self.auth.set_cookie(response, cookie, secure=self._is_encrypted, lasts=hours)
        response.delete_cookie(self._cookie, path=_LOGIN, httponly=True, samesite="lax")
        return response
