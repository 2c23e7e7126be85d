"""Checks every request first: host, origin, rate, token and size; serves the files of the page."""

from __future__ import annotations

import asyncio
import ipaddress
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from plansmith.errors import Misconfigured
from plansmith.server.auth import Auth, grant_of, put_grant
from plansmith.server.errors import HttpProblem

_MOST_CLIENTS: Final = 10_000


class RateLimiter:
    """Buckets by client; the longest unseen is forgotten when there are too many."""

    def __init__(self, *, per_second: float, burst: int, now: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """Seconds to wait before the next request; nothing when this one may go on."""
        wait = self.wait(client)
        if not wait:
            left, at = self._buckets[client]
            self._buckets[client] = left - 1, at
        return wait

    def wait(self, client: str) -> float:
        """The same, without counting a request."""
        now = self._now()
        left, at = self._buckets.get(client, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._per_second)
        self._buckets[client] = left, now
        self._buckets.move_to_end(client)
        if len(self._buckets) > _MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self._per_second


FOLDER: Final = Path(__file__).parent / "page"
_HEAD: Final = (
    "<!doctype html><html lang=en><meta charset=utf-8>"
    '<meta name=viewport content="width=device-width"><title>Plansmith</title>'
)
SIGN_IN: Final = (
    f"{_HEAD}<h1>Plansmith</h1><p>This browser is not signed in. Open the link that"
    " <code>plansmith serve</code> printed when it started; it works once."
    " <code>plansmith tokens link</code> makes a new one.</p>"
)
NOT_BUILT: Final = (
    f"{_HEAD}<h1>Plansmith</h1><p>The server works, but its page has not been built here."
    " <code>scripts/page</code> builds it from <code>web/</code> (it needs Node.js);"
    " released packages have it inside.</p>"
    '<p>The API is described in <a href="/openapi.json">/openapi.json</a>.</p>'
)
# No file system has longer names, and no view a longer address.
_LONGEST: Final = 250
_IMMUTABLE: Final = "public, max-age=31536000, immutable"


def page_response(path: str, *, folder: Path = FOLDER) -> Response | None:
    """A file of the page; an address of a view gets the page itself; nothing for no such file."""
    index = folder / "index.html"
    if not index.is_file():
        return HTMLResponse(NOT_BUILT) if path == "" else None
    if len(path.encode(errors="replace")) > _LONGEST:
        return None
    wanted = (folder / path.replace("\0", "")).resolve() if path else index
    inside = wanted.is_relative_to(folder.resolve())
    if inside and wanted.is_file():
        # Vite puts a hash into the names of what is under assets/.
        kept = _IMMUTABLE if path.startswith("assets/") else "no-cache"
        return FileResponse(wanted, headers={"Cache-Control": kept})
    # An address of the API that is not there must not look as if it were.
    is_view = "." not in path.rpartition("/")[2] and path.partition("/")[0] != "v1"
    return FileResponse(index, headers={"Cache-Control": "no-cache"}) if is_view else None


SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
    "object-src 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class GateRules:
    """How the gate is set: the names the server answers to, and what one client may take."""

    hosts: frozenset[str]
    max_body: int = 8_000_000
    body_s: float = 60.0
    per_second: float = 100.0
    burst: int = 400
    failures_per_minute: float = 10.0


def host_names(host: str, port: int, more: Iterable[str] = ()) -> frozenset[str]:
    """The `Host` headers a server on this address answers to."""
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
    """ASGI middleware in front of everything, the page's files and unknown paths included."""

    app: ASGIApp
    keys: Auth
    rules: GateRules
    now: Callable[[], float]
    refused: Callable[[Scope, int], None]
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
            return  # no websocket is spoken here: the server closes it

        headers = dict(_HEADERS)
        refusal = self._refusal(scope)
        if refusal is not None:
            if refusal.status_code >= 400:
                self.refused(scope, refusal.status_code)
            await refusal(scope, receive, _with(headers, send))
            return
        if grant_of(scope).is_new:
            headers["Set-Cookie"] = self._renewed(scope)
        await self.app(scope, self._capped(receive), _with(headers, send))

    def _renewed(self, scope: Scope) -> str:
        """The cookie once more, for as long again, when its log-in was prolonged."""
        response = Response()
        self._set_cookie(response, _cookie(Headers(scope=scope), self.keys.cookie_name))
        return response.headers["set-cookie"]

    def _set_cookie(self, response: Response, value: str) -> None:
        seconds = int(self.keys.login.total_seconds())
        response.set_cookie(
            self.keys.cookie_name, value, max_age=seconds, httponly=True, samesite="strict"
        )

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            _check_origin(scope["method"], headers, self.rules.hosts)
            self._check_rate(scope)
            signed_in = self._sign_in(scope)
            if signed_in is not None:
                return signed_in
            self._check_token(scope, headers)
            self._check_size(headers)
        except HttpProblem as problem:
            if problem.status == 401 and "text/html" in headers.get("accept", ""):
                return HTMLResponse(SIGN_IN, 401)
            return problem.response()
        except Misconfigured as error:  # the file of tokens cannot be read: nobody comes in by it
            return HttpProblem(503, "no_tokens", error.message, hint=error.hint).response()
        return None

    def _check_host(self, headers: Headers) -> None:
        # More than one Host header is never honest.
        given = headers.getlist("host")
        if len(given) != 1 or given[0].lower() not in self.rules.hosts:
            hint = "use the address that plansmith serve printed, or name this one: --allow-host"
            raise HttpProblem(421, "wrong_host", "this server has another name", hint=hint)

    def _check_rate(self, scope: Scope) -> None:
        wait = self._rates.take(_client(scope))
        if wait:
            raise _too_often(wait)

    def _sign_in(self, scope: Scope) -> Response | None:
        """Exchange the one-time token of the link for a cookie."""
        if (
            scope["method"] != "GET"
            or scope["path"] != "/"
            or b"token=" not in scope["query_string"]
        ):
            return None
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        if not self.keys.take_link(given):
            return None
        response = RedirectResponse("/", 303)
        self._set_cookie(response, self.keys.log_in())
        return response

    def _check_token(self, scope: Scope, headers: Headers) -> None:
        client = _client(scope)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        cookie = _cookie(headers, self.keys.cookie_name)
        grant = self.keys.grant(bearer=bearer, cookie=cookie)
        if grant is not None:
            put_grant(scope, grant)
            return
        # Only guesses are counted: a page that was left open asks without any token.
        wait = self._failures.take(client) if bearer or cookie else 0.0
        if wait:
            raise _too_often(wait)
        raise HttpProblem(
            401,
            "no_token",
            "this needs a token",
            hint="make one with plansmith tokens create and send it as Authorization: Bearer …, "
            "or open the link that plansmith serve printed",
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _check_size(self, headers: Headers) -> None:
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > self.rules.max_body:
            raise _too_large(self.rules.max_body)

    def _capped(self, receive: Receive) -> Receive:
        taken, whole = 0, False
        loop = asyncio.get_running_loop()
        until = loop.time() + self.rules.body_s

        async def receive_some() -> Message:
            nonlocal taken, whole
            try:
                async with asyncio.timeout_at(None if whole else until):
                    message = await receive()
            except TimeoutError:
                raise HttpProblem(408, "too_slow", "the body did not come in time") from None
            whole = not message.get("more_body", False)
            taken += len(message.get("body", b""))
            if taken > self.rules.max_body:
                raise _too_large(self.rules.max_body)
            return message

        return receive_some


def _with(more: Mapping[str, str], send: Send) -> Send:
    """Send with these headers, where the answer has none of its own by that name."""

    async def send_safely(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in more.items():
                headers.setdefault(name, value)
        await send(message)

    return send_safely


def _check_origin(method: str, headers: Headers, hosts: frozenset[str]) -> None:
    """Refuse what another site has a browser send; who types an address may come in."""
    site = headers.get("sec-fetch-site", "none")
    visit = method in SAFE and headers.get("sec-fetch-mode") == "navigate"
    origin = headers.get("origin")
    foreign = origin is not None and (
        urlsplit(origin).netloc.lower() not in hosts or origin == "null"
    )
    if foreign or (site not in ("same-origin", "none") and not visit):
        raise HttpProblem(403, "cross_site", "another site may not use this server")


def _client(scope: Scope) -> str:
    client: tuple[str, int] | None = scope.get("client")
    return client[0] if client else ""


def _cookie(headers: Headers, name: str) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found else ""


def _too_often(wait: float) -> HttpProblem:
    seconds = str(max(1, round(wait + 0.5)))
    hint = f"try again in {seconds} s"
    return HttpProblem(
        429, "too_often", "too many requests", hint=hint, headers={"Retry-After": seconds}
    )


def _too_large(most: int) -> HttpProblem:
    return HttpProblem(413, "too_large", f"a body has at most {most:,} bytes")
