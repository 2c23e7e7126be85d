"""Keeps tokens with scopes, hashed, in a file that only its owner may read."""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Final, Literal

from pydantic import AwareDatetime, ValidationError

from plansmith.errors import Misconfigured
from plansmith.files import locked, replace_file
from plansmith.plan.data import Record
from plansmith.plan.events import Actor

SCOPES: Final = {
    "look": "see runs, plans, reports, tools and settings",
    "propose": "make runs, plans and templates, pause and cancel",
    "answer": "answer questions",
    "approve": "decide as the person does: approve plans, allow, resume, approve tools",
    "mcp": "use the MCP server (a program's)",
    "a2a": "use the A2A server (a program's)",
}
PROTOCOLS: Final = frozenset({"mcp", "a2a"})
PERSON_SCOPES: Final = frozenset(SCOPES) - PROTOCOLS
_MARKS: Final = {"token": "pst_", "login": "psl_", "link": "psl_"}
_LINK: Final = timedelta(minutes=10)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_NEWER: Final = "update Plansmith: a newer version wrote this file"


class Token(Record):
    """A token, a browser's log-in or a one-time link, without its secret."""

    name: str
    kind: Literal["token", "login", "link"] = "token"
    hash: str
    scopes: tuple[str, ...]
    by: str = ""
    created: AwareDatetime
    expires: AwareDatetime | None = None
    seconds: float = 0.0

    @property
    def actor(self) -> Actor:
        """Who acts with it: a token that may approve counts as the person, others as programs."""
        if self.kind != "token":
            return Actor(kind="person", name=self.by)
        if "approve" in self.scopes:
            return Actor(kind="person", name=f"{self.by} (token {self.name})")
        return Actor(kind="program", name=self.name)

    def is_good(self, now: datetime) -> bool:
        """Whether it has not expired."""
        return self.expires is None or now < self.expires


class TokenFile:
    """Reads and writes the JSON file of tokens and log-ins; notices changes by others."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._tokens: tuple[Token, ...] = ()

    def all(self) -> tuple[Token, ...]:
        """Returns every token and log-in, also expired ones."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            self._seen, self._tokens = None, ()
            return ()
        mark = (found.st_mtime_ns, found.st_size, found.st_ino)
        if mark != self._seen:
            self._tokens, self._seen = _read(self._path), mark
        return self._tokens

    def find(self, secret: str, *, kind: str, now: datetime) -> Token | None:
        """Finds the token of a secret, in constant time."""
        digest = _hash(secret)
        found = None
        for each in self.all():
            if hmac.compare_digest(each.hash, digest) and each.kind == kind and each.is_good(now):
                found = each
        return found

    def create(
        self, name: str, scopes: Iterable[str], *, by: str, now: datetime, lasts: timedelta | None
    ) -> tuple[Token, str]:
        """Creates a token; returns it with its secret, which is not stored."""
        wanted = tuple(dict.fromkeys(scopes))
        unknown = [each for each in wanted if each not in SCOPES]
        if unknown or not wanted:
            why = f"there is no scope {unknown[0]!r}" if unknown else "a token needs a scope"
            raise Misconfigured(why, hint=f"the scopes are {', '.join(SCOPES)}")
        if PROTOCOLS & set(wanted) and "approve" in wanted:
            hint = "create one token for the program and another one for yourself"
            raise Misconfigured(
                "a token with the scope mcp or a2a cannot have the scope approve", hint=hint
            )
        if not _NAME.fullmatch(name):
            hint = "1 to 64 letters, digits and _ . @ -"
            raise Misconfigured(f"{name[:80]!r} is not a valid name for a token", hint=hint)
        secret = _MARKS["token"] + secrets.token_urlsafe(32)
        ends = None if lasts is None else now + lasts
        token = Token(
            name=name, hash=_hash(secret), scopes=wanted, by=by, created=now, expires=ends
        )
        with self._locked():
            known = [each for each in self.all() if each.is_good(now)]
            if any(each.name == name for each in known):
                hint = f"choose another name, or plansmith tokens revoke {name}"
                raise Misconfigured(f"there is a token {name!r} already", hint=hint)
            self._write((*known, token))
        return token, secret

    def log_in(self, *, by: str, now: datetime, lasts: timedelta) -> str:
        """Creates a log-in; returns its secret for a browser's cookie."""
        scopes = tuple(each for each in SCOPES if each in PERSON_SCOPES)
        return self._add("login", scopes, by=by, now=now, lasts=lasts)

    def new_link(self, *, by: str, now: datetime) -> str:
        """Creates a one-time log-in link; returns its secret."""
        return self._add("link", (), by=by, now=now, lasts=_LINK)

    def take_link(self, secret: str, now: datetime) -> bool:
        """Uses up a one-time link; returns whether the secret was valid."""
        found = self.find(secret, kind="link", now=now)
        try:
            return found is not None and bool(self.revoke(found.name))
        except Misconfigured:
            return False

    def _add(
        self,
        kind: Literal["login", "link"],
        scopes: tuple[str, ...],
        *,
        by: str,
        now: datetime,
        lasts: timedelta,
    ) -> str:
        secret = _MARKS[kind] + secrets.token_urlsafe(32)
        made = Token(
            name=f"{kind}-{secrets.token_hex(3)}",
            kind=kind,
            hash=_hash(secret),
            scopes=scopes,
            by=by,
            created=now,
            expires=now + lasts,
            seconds=lasts.total_seconds(),
        )
        with self._locked():
            self._write((*(each for each in self.all() if each.is_good(now)), made))
        return secret

    def prolong(self, login: Token, now: datetime) -> Token | None:
        """Prolongs a log-in from now; returns None if it was revoked meanwhile."""
        after = login.replace(expires=now + timedelta(seconds=login.seconds))
        with self._locked():
            known = self.all()
            if login.hash not in {each.hash for each in known}:
                return None
            self._write(after if each.hash == login.hash else each for each in known)
        return after

    def revoke(self, name: str) -> Token:
        """Revokes a token or a log-in."""
        with self._locked():
            known = self.all()
            found = next((each for each in known if each.name == name), None)
            if found is None:
                hint = "plansmith tokens list lists them"
                raise Misconfigured(f"there is no token {name[:80]!r}", hint=hint)
            self._write(each for each in known if each is not found)
        return found

    def _write(self, tokens: Iterable[Token]) -> None:
        value = {"version": 1, "tokens": [each.model_dump(mode="json") for each in tokens]}
        replace_file(self._path, json.dumps(value, indent=2), durable=True)

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        return locked(self._path, hint="make its folder writable")


def _hash(secret: str) -> str:
    # A secret of 256 random bits cannot be guessed from its hash: no slow hash is needed.
    return sha256(secret.encode(errors="replace")).hexdigest()


def _read(path: Path) -> tuple[Token, ...]:
    try:
        mode = path.stat().st_mode
        value = json.loads(path.read_text(encoding="utf-8"))
        version, found = value["version"], value["tokens"]
        if version != 1:
            raise Misconfigured(f"{path} is from a newer Plansmith", hint=_NEWER)
        tokens = tuple(Token.model_validate(each) for each in found)
    except (OSError, ValueError, TypeError, KeyError, ValidationError) as error:
        hint = "repair the file, or remove it: that revokes all tokens and log-ins"
        raise Misconfigured(f"{path} cannot be read: {error}", hint=hint) from None
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Misconfigured(f"other users can read {path}", hint=f"chmod 600 {path}")
    return tokens
