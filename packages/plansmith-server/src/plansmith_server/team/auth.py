"""Decides who a client is and what it may do: log-ins, tokens, scopes of routes."""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Callable, MutableMapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence
from plansmith_server.errors import HttpProblem
from plansmith_server.team.tokens import (
    NOBODY,
    PERSON_SCOPES,
    Member,
    Token,
    TokenFile,
    require_private,
)

_GRANT: Final = "plansmith_grant"
_SHORTEST: Final = 32
_LARGEST: Final = 4096


# What a probe without a token may do: ask whether the server is ready, and learn no details.
PROBE: Final = Token(name="probe", scopes=("look",))


def grant_of(scope: MutableMapping[str, Any]) -> Token:
    """Returns the token of a request, as the gate found it: what its client may do, and as whom."""
    found: Token = scope[_GRANT]
    return found


def put_grant(scope: MutableMapping[str, Any], grant: Token) -> None:
    """Keeps the token of a request for whoever handles it."""
    scope[_GRANT] = grant


class Auth:
    """Checks tokens, cookies and one-time links, in constant time."""

    def __init__(
        self,
        token: str,
        *,
        tokens: TokenFile,
        by: str,
        now: Callable[[], datetime],
        port: int = 0,
        login: timedelta = timedelta(days=30),
    ) -> None:
        self._token, self._tokens, self._now, self.by = token, tokens, now, by
        self._own = Token(name="", kind="own", scopes=tuple(PERSON_SCOPES), by=by)
        # The token in the one-time link that the server prints; empty once it was used.
        self.link_token = secrets.token_urlsafe(32)
        self._login = login
        # Browsers share cookies between ports: two servers on one machine need two names.
        self.cookie_name = f"plansmith_{port}"

    def link_member(self, given: str, *, take: bool = False) -> Member | None:
        """Returns for whom a one-time link is, if it is valid; `take` uses it up."""
        if not given:
            return None
        if same_secret(given, self.link_token):
            self.link_token = "" if take else self.link_token
            return NOBODY
        now, tokens = self._now(), self._tokens
        found = tokens.take_link(given, now) if take else tokens.find(given, kind="link", now=now)
        return None if found is None else found.member

    def log_in(self, member: Member = NOBODY, *, lasts: timedelta | None = None) -> str:
        """Creates a log-in for a person; returns the value of its cookie.

        One that `lasts` some time ends then, however often it is used.
        """
        return self._tokens.log_in(
            by=self.by,
            now=self._now(),
            lasts=lasts or self._login,
            member=member,
            prolonged=lasts is None,
        )

    def sign(self, text: str) -> str:
        """Returns a signature that only this server, also after a restart, can make."""
        return hmac.digest(self._token.encode(), text.encode(errors="replace"), "sha256").hex()

    def page_key(self, cookie: str) -> str:
        """Returns the secret that the page of a log-in stores.

        Browsers send a cookie to every port of a host, but let only the same origin read a store.
        """
        return self.sign(f"page {cookie}")

    def set_cookie(
        self, response: Response, cookie: str, *, secure: bool, lasts: timedelta | None = None
    ) -> None:
        response.set_cookie(
            self.cookie_name,
            cookie,
            max_age=int((lasts or self._login).total_seconds()),
            httponly=True,
            samesite="strict",
            secure=secure,
        )

    def log_out(self, login: Token) -> None:
        self._tokens.revoke(login.name)

    def is_good(self, grant: Token) -> bool:
        """Whether a token is still valid; asked again during long responses."""
        now = self._now()
        return grant is self._own or any(
            each.hash == grant.hash and each.is_good(now) for each in self._tokens.all()
        )

    def grant(self, *, bearer: str, cookie: str) -> Token | None:
        """Returns the token that a request, or else its cookie, brings; None if none is valid."""
        if same_secret(bearer, self._token):
            return self._own
        now = self._now()
        found = self._tokens.find(bearer, kind="token", now=now) if bearer else None
        if found is None and cookie:
            found = self._tokens.find(cookie, kind="login", now=now)
            # One that is in use is prolonged, at most once in a thirtieth of its lifetime.
            if found is not None and found.expires is not None and found.seconds:
                is_old = found.expires - now < timedelta(seconds=found.seconds) * 29 / 30
                found = self._tokens.prolong(found, now) if is_old else found
        return found


def same_secret(given: str, wanted: str) -> bool:
    """Compares two secrets in constant time; an empty one is never the same."""
    return bool(wanted) and hmac.compare_digest(given.encode(errors="replace"), wanted.encode())


def load_token(path: Path) -> str:
    """Reads the token from a file that only its owner may read; creates a missing file."""
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except OSError as error:
            why = Sentence("cannot write {name}: {reason}", name=path, reason=error.strerror)
            hint = Sentence("name another file with --token-file")
            raise Misconfigured(why, hint=hint) from None
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
    try:
        text = path.read_bytes()[:_LARGEST].decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = Sentence("cannot read {name}: {reason}", name=path, reason=error)
        hint = Sentence("remove the file: a new token is then made")
        raise Misconfigured(why, hint=hint) from None
    require_private(path)
    if len(text) < _SHORTEST or not text.isprintable() or " " in text:
        hint = Sentence(
            "a token has at least {least} characters; remove the file and a new one is made",
            least=_SHORTEST,
        )
        raise Misconfigured(Sentence("{path} does not contain a valid token", path=path), hint=hint)
    return text


def require_scope(scope: MutableMapping[str, Any], wanted: str) -> Token:
    """Returns the token of a request; refuses one without this scope."""
    grant = grant_of(scope)
    if wanted not in grant.rights:
        why = Sentence("this needs a token with the scope '{scope}'", scope=wanted)
        hint = Sentence(
            "plansmith tokens create NAME --scope {scope} makes a token that has it", scope=wanted
        )
        raise HttpProblem(403, "no_scope", why, hint=hint)
    return grant


def with_scope(route: Route, wanted: str) -> Route:
    """Restricts a route to clients that have a scope."""
    inside: ASGIApp = route.app

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        app = inside
        try:
            require_scope(scope, wanted)
        except HttpProblem as problem:
            app = problem.response()
        await app(scope, receive, send)

    route.app = checked
    return route
