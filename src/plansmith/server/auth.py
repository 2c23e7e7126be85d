"""Who speaks to the server and what they may do: log-in, tokens, scopes of routes."""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from plansmith.errors import Misconfigured
from plansmith.plan.events import Actor
from plansmith.server.errors import HttpProblem
from plansmith.server.tokens import PERSONS, Token, TokenFile

LOGIN: Final = timedelta(days=30)
_GRANT: Final = "plansmith_grant"
_SHORTEST: Final = 32
_LARGEST: Final = 4096


@dataclass(frozen=True, slots=True)
class Grant:
    """What one client may do, and as whom; `token` is what is kept of it, but for your own key."""

    name: str
    actor: Actor
    scopes: frozenset[str]
    token: Token | None = None
    is_new: bool = False

    @property
    def login(self) -> Token | None:
        """The log-in of a browser, if it is one."""
        return self.token if self.token is not None and self.token.kind == "login" else None


def grant_of(scope: MutableMapping[str, Any]) -> Grant:
    """What the gate found the client of a request to be allowed."""
    found: Grant = scope[_GRANT]
    return found


def put_grant(scope: MutableMapping[str, Any], grant: Grant) -> None:
    """Note what a request's client is allowed."""
    scope[_GRANT] = grant


class Auth:
    """Compares what clients bring with what was given out, in the same time right or wrong."""

    def __init__(
        self,
        token: str,
        *,
        tokens: TokenFile,
        by: str,
        now: Callable[[], datetime],
        port: int = 0,
        login: timedelta = LOGIN,
    ) -> None:
        self._token = token
        self._tokens = tokens
        self._by = by
        self._now = now
        self._link = secrets.token_urlsafe(32)
        self.login = login
        # Cookies do not know ports: two servers on one machine must not overwrite each other's.
        self.cookie_name = f"plansmith_{port}"

    @property
    def link_token(self) -> str:
        """What the one-time link carries."""
        return self._link

    def take_link(self, given: str) -> bool:
        """Whether this is the token of a one-time link, ours or a later one; it is then used up."""
        if not self._link or not _same(given, self._link):
            return bool(given) and self._tokens.take_link(given, self._now())
        self._link = ""
        return True

    def log_in(self) -> str:
        """A new log-in of the person: what its cookie holds."""
        return self._tokens.log_in(by=self._by, now=self._now(), lasts=self.login)

    def log_out(self, login: Token) -> None:
        """End a log-in; its cookie is worth nothing from now on."""
        self._tokens.revoke(login.name)

    def is_good(self, grant: Grant) -> bool:
        """Whether what a client was allowed still counts, for answers that take long."""
        wanted = grant.token
        if wanted is None:
            return True
        now = self._now()
        return any(each.hash == wanted.hash and each.is_good(now) for each in self._tokens.all())

    def grant(self, *, bearer: str, cookie: str) -> Grant | None:
        """What the token or the cookie of a request allows; a token counts before a cookie."""
        if _same(bearer, self._token):
            return Grant("", Actor(kind="person", name=self._by), PERSONS)
        now = self._now()
        found = self._tokens.find(bearer, kind="token", now=now) if bearer else None
        if found is not None:
            return Grant(found.name, found.actor, frozenset(found.scopes), found)
        login = self._tokens.find(cookie, kind="login", now=now) if cookie else None
        return self._logged_in(login, now) if login is not None else None

    def _logged_in(self, login: Token, now: datetime) -> Grant | None:
        """A log-in in use lasts on; that is written down once in a thirtieth of its time."""
        lasts = timedelta(seconds=login.seconds)
        is_old = login.expires is not None and login.expires - now < lasts * 29 / 30
        kept = self._tokens.prolong(login, now) if is_old else login
        if kept is None:
            return None
        return Grant(kept.name, kept.actor, frozenset(kept.scopes), kept, is_new=is_old)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), wanted.encode())


def load_token(path: Path) -> str:
    """The token of a file that only its owner may read; a new file gets a new token."""
    if path.exists():
        return _read(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        hint = "name another file with --token-file"
        raise Misconfigured(f"cannot write {path}: {error.strerror}", hint=hint) from None
    token = secrets.token_urlsafe(32)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(f"{token}\n")
    return token


def _read(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        text = path.read_bytes()[:_LARGEST].decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Misconfigured(f"cannot read {path}: {error}", hint="remove it") from None
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Misconfigured(f"others may read {path}", hint=f"chmod 600 {path}")
    if len(text) < _SHORTEST or not text.isprintable() or " " in text:
        hint = f"a token has {_SHORTEST} letters or more; remove the file and a new one is made"
        raise Misconfigured(f"{path} holds no token", hint=hint)
    return text


def need_scope(scope: MutableMapping[str, Any], wanted: str) -> Grant:
    """What the client of a request is allowed, which includes this scope."""
    grant = grant_of(scope)
    if wanted not in grant.scopes:
        hint = f"plansmith tokens create NAME --scope {wanted} makes a token that has it"
        raise HttpProblem(403, "no_scope", f"this needs a token of the scope {wanted!r}", hint=hint)
    return grant


def scoped(route: Route, wanted: str) -> Route:
    """The route, for clients of one scope alone."""
    inside: ASGIApp = route.app

    async def door(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            need_scope(scope, wanted)
        except HttpProblem as problem:
            await problem.response()(scope, receive, send)
            return
        await inside(scope, receive, send)

    route.app = door
    return route
