"""Checks host, origin, rate, token and size of every request, before anything else sees it."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence
from plansmith_server.errors import HttpProblem, wanted_language
from plansmith_server.plain_pages import plain_page, redirect_page, switch_page
from plansmith_server.team.auth import PROBE, Auth, grant_of, put_grant, same_secret

if TYPE_CHECKING:
    from plansmith_server.team.oidc import OidcLogin
    from plansmith_server.team.tokens import Token

# How the page of a log-in shows that it is the page: in a header, or in the address of a link.
_PAGE_HEADER: Final = "x-plansmith-page"
_PAGE_QUERY: Final = "page_key"
# Where files are put into the folder that plans work in.
_FILES: Final = "/v1/folder/files/"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# Probes of load balancers have no token and name any host; they learn nothing but a status.
HEALTH: Final = "/healthz"
READY: Final = "/readyz"
ALIVE: Final = {"status": "ok"}
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        "object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


class RateLimiter:
    """A token bucket per client; forgets the client unseen the longest when there are too many."""

    def __init__(self, *, per_second: float, burst: int, now: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """Counts a request; returns 0, or the seconds to wait if there were too many."""
        now = self._now()
        left, at = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_second)
        self._buckets[client] = (left - 1 if left >= 1 else left), now
        if len(self._buckets) > 10_000:
            self._buckets.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self._per_second


@dataclass(frozen=True, slots=True)
class GateRules:
    """The settings of the gate: accepted host names, and limits for one client."""

    hosts: frozenset[str]
    max_body: int = 8_000_000
    max_file: int = 64_000_000
    body_s: float = 60.0
    per_second: float = 100.0
    burst: int = 400
    failures_per_minute: float = 10.0


def host_names(host: str, port: int, more: Iterable[str] = ()) -> frozenset[str]:
    """Returns the `Host` headers that a server on this address accepts."""
    names = {host if ":" not in host else f"[{host}]"} - {"0.0.0.0", "[::]"}  # noqa: S104
    if is_loopback(host) or host in ("0.0.0.0", "::"):  # noqa: S104
        names |= set(_LOOPBACK)
    with_port = {f"{name}:{port}" for name in names}
    return frozenset(with_port | {each.lower() for each in more} | (names if port == 80 else set()))


def is_loopback(host: str) -> bool:
    """Whether an address is only reachable from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(slots=True)
class RequestGate:
    """ASGI middleware that checks every request, also those for files and unknown paths."""

    app: ASGIApp
    auth: Auth
    rules: GateRules
    now: Callable[[], float]
    refused: Callable[[Scope, int], None]
    login: OidcLogin | None = None
    _rates: RateLimiter = field(init=False)
    _failures: RateLimiter = field(init=False)

    def __post_init__(self) -> None:
        rules = self.rules
        self._rates = RateLimiter(per_second=rules.per_second, burst=rules.burst, now=self.now)
        minute = rules.failures_per_minute
        self._failures = RateLimiter(per_second=minute / 60, burst=int(minute), now=self.now)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # websockets are not supported: the server closes them
        given, headers = Headers(scope=scope), dict(_HEADERS)
        refusal = self._refusal(scope, given)
        if refusal is not None:
            if refusal.status_code >= 400:
                self.refused(scope, refusal.status_code)
            await refusal(scope, receive, _with_headers(headers, send))
            return
        if grant_of(scope).is_prolonged:  # the cookie gets the new lifetime of its log-in
            response, cookie = Response(), _cookie(given, self.auth.cookie_name)
            self.auth.set_cookie(response, cookie, secure=_is_encrypted(scope, given))
            headers["Set-Cookie"] = response.headers["set-cookie"]
        await self.app(scope, self._limited(scope, receive), _with_headers(headers, send))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | OidcLogin | None:
        """Returns the answer to a request that goes no further."""
        language = headers.get("accept-language", "")
        try:
            path, is_read = scope["path"], scope["method"] in ("GET", "HEAD")
            has_token = "authorization" in headers or "cookie" in headers
            if is_read and (path == HEALTH or (path == READY and not has_token)):
                _check_rate(self._rates, _client(scope))
                put_grant(scope, PROBE)
                return JSONResponse(ALIVE) if path == HEALTH else None
            return self._checked(scope, headers)
        except HttpProblem as problem:
            if problem.status == 401 and "text/html" in headers.get("accept", ""):
                kind, has_login = "used" if _has_link(scope) else "sign_in", self.login is not None
                return plain_page(kind, 401, accepts=language, by_provider=has_login)
            return problem.response(wanted_language(language))
        except Misconfigured as error:  # the tokens file cannot be read: refuse every token
            return HttpProblem(503, "no_tokens", error.message, hint=error.hint).response()

    def _checked(self, scope: Scope, headers: Headers) -> Response | OidcLogin | None:
        _check_site(scope["method"], headers, self.rules.hosts)
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        bearer = bearer.strip() if scheme.lower() == "bearer" else ""
        cookie = _cookie(headers, self.auth.cookie_name)
        grant = self.auth.grant(bearer=bearer, cookie=cookie)
        # The tenants behind one proxy have a bucket each.
        _check_rate(self._rates, f"{_client(scope)} {grant.tenant if grant else ''}")
        if self.login is not None and self.login.takes(scope):
            return self.login
        signed_in = self._sign_in(scope, headers, grant) if _has_link(scope) else None
        if signed_in is not None:
            return signed_in
        page = _page_key(scope, headers)
        is_file = scope["method"] in _SAFE and not scope["path"].startswith("/v1/")
        if grant and grant.kind == "login" and not is_file:
            # A cookie that went to another port of this host is worth nothing.
            grant = grant if same_secret(page, self.auth.page_key(cookie)) else None
            cookie = page
        if grant is None:
            # Only wrong tokens are counted: an open page of an earlier log-in sends none.
            if bearer or cookie:
                _check_rate(self._failures, _client(scope))
            raise _no_token(given=bool(bearer))
        put_grant(scope, grant)
        length, most = headers.get("content-length", "0"), self._most(scope)
        if not length.isascii() or not length.isdigit() or int(length) > most:
            raise _too_large(most)
        # A link that was used before by this browser, which is signed in.
        return RedirectResponse("/", 303) if _has_link(scope) else None

    def _sign_in(self, scope: Scope, headers: Headers, grant: Token | None) -> Response | None:
        """Exchanges the one-time token of the link for a cookie; asks who is logged in already."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        member = self.auth.link_member(given)
        if member is None:
            return None
        if headers.get("sec-fetch-site") == "cross-site":
            # Followed on another site, so that the browser kept the strict cookie back.
            return redirect_page(f"/?token={given}")
        is_other = grant is not None and grant.kind == "login" and grant.member != member
        if grant and is_other and scope["method"] == "GET":
            language, new = headers.get("accept-language", ""), member.user or self.auth.by
            return switch_page(grant.actor.name, new, given, accepts=language)
        member = self.auth.link_member(given, take=True)
        if member is None:
            return None
        cookie = self.auth.log_in(member)
        response = RedirectResponse(f"/#login={self.auth.page_key(cookie)}", 303)
        self.auth.set_cookie(response, cookie, secure=_is_encrypted(scope, headers))
        return response

    def _most(self, scope: Scope) -> int:
        """Returns how large the body may be: files for the folder may be larger than JSON."""
        is_file = scope["method"] == "PUT" and scope["path"].startswith(_FILES)
        return self.rules.max_file if is_file else self.rules.max_body

    def _limited(self, scope: Scope, receive: Receive) -> Receive:
        taken, is_complete, most = 0, False, self._most(scope)
        until = asyncio.get_running_loop().time() + self.rules.body_s

        async def receive_some() -> Message:
            nonlocal taken, is_complete
            try:
                async with asyncio.timeout_at(None if is_complete else until):
                    message = await receive()
            except TimeoutError:
                why = Sentence("the request body did not arrive in time")
                raise HttpProblem(408, "too_slow", why) from None
            is_complete = not message.get("more_body", False)
            taken += len(message.get("body", b""))
            if taken > most:
                raise _too_large(most)
            return message

        return receive_some


def _has_link(scope: Scope) -> bool:
    """Whether the address is a one-time link, used or not."""
    has_token = scope["path"] == "/" and b"token=" in scope["query_string"]
    return has_token and scope["method"] in ("GET", "POST")


def _page_key(scope: Scope, headers: Headers) -> str:
    """Returns the page's secret, and takes it out of an address: links cannot send headers."""
    if given := headers.get(_PAGE_HEADER):
        return given
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    found = [value for name, value in query if name == _PAGE_QUERY]
    if found:
        rest = urlencode([each for each in query if each[0] != _PAGE_QUERY])
        scope["query_string"] = rest.encode()
    return found[0] if found and scope["method"] in _SAFE else ""


def _is_encrypted(scope: Scope, headers: Headers) -> bool:
    """Whether the browser came over TLS, here or at a proxy before this server."""
    return "https" in (scope["scheme"], headers.get("x-forwarded-proto"))


def _with_headers(more: Mapping[str, str], send: Send) -> Send:
    """Adds headers to the response, except those it has already."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in more.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


def _check_site(method: str, headers: Headers, hosts: frozenset[str]) -> None:
    """Refuses other host names, and what another site makes a browser send."""
    given = headers.getlist("host")
    if len(given) != 1 or given[0].lower() not in hosts:  # several are an attack
        hint = Sentence(
            "use the address that plansmith serve printed, or start it with --allow-host NAME"
        )
        why = Sentence("this server is not known by this host name")
        raise HttpProblem(421, "wrong_host", why, hint=hint)
    site, origin = headers.get("sec-fetch-site", "none"), headers.get("origin")
    is_visit = method in _SAFE and headers.get("sec-fetch-mode") == "navigate"
    is_foreign = origin is not None and urlsplit(origin).netloc.lower() not in hosts
    if is_foreign or (site not in ("same-origin", "none") and not is_visit):
        why = Sentence("requests from other sites are refused")
        raise HttpProblem(403, "cross_site", why)


def _client(scope: Scope) -> str:
    client: tuple[str, int] | None = scope.get("client")
    return client[0] if client else ""


def _cookie(headers: Headers, name: str) -> str:
    return cookie_parser(headers.get("cookie", "")).get(name, "")


def _check_rate(limiter: RateLimiter, client: str) -> None:
    wait = limiter.take(client)
    if wait:
        seconds = str(max(1, round(wait + 0.5)))
        hint = Sentence("try again in {seconds} s", seconds=seconds)
        why, headers = Sentence("too many requests"), {"Retry-After": seconds}
        raise HttpProblem(429, "too_often", why, hint=hint, headers=headers)


def _no_token(*, given: bool) -> HttpProblem:
    hint = Sentence(
        "make one with plansmith tokens create NAME --scope look and send it as "
        "Authorization: Bearer …, or open the link that plansmith "
        "serve printed"
    )
    code, why, header = "no_token", Sentence("this needs a token"), "Bearer"
    if given:
        why = Sentence("this token is not valid: it is unknown, expired or revoked")
        code, header = "invalid_token", 'Bearer error="invalid_token"'
    return HttpProblem(401, code, why, hint=hint, headers={"WWW-Authenticate": header})


def _too_large(most: int) -> HttpProblem:
    why = Sentence("a request body may have at most {count} bytes", count=most)
    return HttpProblem(413, "too_large", why)
