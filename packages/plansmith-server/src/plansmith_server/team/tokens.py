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
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import AwareDatetime, Field, ValidationError

from plansmith.errors import Misconfigured
from plansmith.files import locked, replace_file
from plansmith.plan.data import Record
from plansmith.plan.events import Actor
from plansmith.plan.sentence import Sentence

SCOPES: Final = {
    "look": "see runs, plans, reports, tools and settings",
    "propose": "make runs, plans and templates, pause and cancel",
    "answer": "answer questions",
    "approve": "decide as the person does: approve plans, allow, resume",
    "admin": "approve tools and agents (comes with approve, unless a role is given)",
    "audit": "export who did what and when",
    "mcp": "use the MCP server (a program's)",
    "a2a": "use the A2A server (a program's)",
}
PROTOCOLS: Final = frozenset({"mcp", "a2a"})
PERSON_SCOPES: Final = frozenset(SCOPES) - PROTOCOLS
# A role is a named set of scopes.
ROLES: Final[dict[str, tuple[str, ...]]] = {
    "viewer": ("look",),
    "operator": ("look", "propose", "answer"),
    "approver": ("look", "propose", "answer", "approve"),
    "admin": ("look", "propose", "answer", "approve", "admin", "audit"),
}
# Without a role, who can approve can do all of this.
_WITH_APPROVE: Final = frozenset({"admin", "audit"})
_LINK: Final = timedelta(minutes=10)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_NAME_HINT: Final = Sentence("1 to 64 letters, digits and _ . @ -")


class Member(Record):
    """Whose a token or a log-in is: a user in a tenant, with a role.

    An empty tenant is the server's own, by its `key` any other; without a role all is allowed that
    the scopes say.
    """

    user: str = ""
    tenant: str = ""
    role: str = ""


NOBODY: Final = Member()


class Token(Member):
    """A token, a browser's log-in or a one-time link, without its secret; or the server's own."""

    name: str
    kind: Literal["token", "login", "link", "own"] = "token"
    hash: str = ""
    scopes: tuple[str, ...]
    by: str = ""
    created: AwareDatetime = datetime.fromtimestamp(0, UTC)
    expires: AwareDatetime | None = None
    # How long use prolongs a log-in, and whether the request at hand did.
    seconds: float = 0.0
    is_prolonged: bool = Field(default=False, exclude=True)

    @property
    def person(self) -> str:
        return self.user or self.by

    @property
    def member(self) -> Member:
        return Member(user=self.user, tenant=self.tenant, role=self.role)

    @property
    def rights(self) -> frozenset[str]:
        if self.role:
            return frozenset(ROLES.get(self.role, ()))
        scopes = frozenset(self.scopes)
        return scopes | _WITH_APPROVE if "approve" in scopes else scopes

    @property
    def actor(self) -> Actor:
        """Who acts with it: a token that may approve counts as the person, others as programs."""
        if self.kind != "token":
            return Actor(kind="person", name=self.person)
        if "approve" in self.rights:
            name = f"{self.person} (token {self.name})" if self.person else ""
            return Actor(kind="person", name=name, user=self.person)
        return Actor(kind="program", name=self.name, user=self.user)

    def is_good(self, now: datetime) -> bool:
        return self.expires is None or now < self.expires


class TokenFile:
    """Reads and writes the JSON file of tokens and log-ins; notices changes by others."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._tokens: tuple[Token, ...] = ()

    def all(self) -> tuple[Token, ...]:
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
        digest, found = _hash(secret), None
        for each in self.all():
            if hmac.compare_digest(each.hash, digest) and each.kind == kind and each.is_good(now):
                found = each
        return found

    def create(
        self,
        name: str,
        scopes: Iterable[str],
        *,
        by: str,
        now: datetime,
        lasts: timedelta | None,
        member: Member = NOBODY,
    ) -> tuple[Token, str]:
        """Creates a token; returns it with its secret, which is not stored."""
        wanted = _scopes(tuple(dict.fromkeys(scopes)), member)
        if not _NAME.fullmatch(name):
            why = Sentence("'{name}' is not a valid name for a token", name=name[:80])
            raise Misconfigured(why, hint=_NAME_HINT)
        return self._add(name, member, lasts, scopes=wanted, by=by, created=now)

    def log_in(
        self,
        *,
        by: str,
        now: datetime,
        lasts: timedelta,
        member: Member = NOBODY,
        prolonged: bool = True,
    ) -> str:
        """Creates a log-in, which use may prolong; returns its secret for a browser's cookie."""
        scopes = tuple(each for each in SCOPES if each in PERSON_SCOPES)
        wanted = ROLES[member.role] if member.role else scopes
        name, seconds = f"login-{secrets.token_hex(3)}", lasts.total_seconds() if prolonged else 0.0
        given = {"kind": "login", "scopes": wanted, "by": by, "created": now, "seconds": seconds}
        return self._add(name, member, lasts, **given)[1]

    def new_link(self, *, by: str, now: datetime, member: Member = NOBODY) -> str:
        _check_member(member)
        name = f"link-{secrets.token_hex(3)}"
        return self._add(name, member, _LINK, kind="link", scopes=(), by=by, created=now)[1]

    def _add(
        self, name: str, member: Member, lasts: timedelta | None, **given: Any
    ) -> tuple[Token, str]:
        secret = f"{'psl' if 'kind' in given else 'pst'}_{secrets.token_urlsafe(32)}"
        now: datetime = given["created"]
        expires = None if lasts is None else now + lasts
        token = Token(name=name, hash=_hash(secret), expires=expires, **given, **dict(member))
        with self._locked():
            known = [each for each in self.all() if each.is_good(now)]
            if any(each.name == name for each in known):
                hint = Sentence("choose another name, or plansmith tokens revoke {name}", name=name)
                why = Sentence("there is a token '{name}' already", name=name)
                raise Misconfigured(why, hint=hint)
            self._write((*known, token))
        return token, secret

    def take_link(self, secret: str, now: datetime) -> Token | None:
        """Uses up a one-time link; returns it if the secret was valid."""
        found = self.find(secret, kind="link", now=now)
        with contextlib.suppress(Misconfigured):  # somebody else was faster
            return None if found is None else self.revoke(found.name)
        return None

    def prolong(self, login: Token, now: datetime) -> Token | None:
        after = login.replace(expires=now + timedelta(seconds=login.seconds))
        with self._locked():
            known = self.all()
            if login.hash not in {each.hash for each in known}:
                return None
            self._write(after if each.hash == login.hash else each for each in known)
        return after.replace(is_prolonged=True)

    def revoke(self, name: str, *, tenant: str = "") -> Token:
        with self._locked():
            known = self.all()
            found = next((e for e in known if e.name == name and tenant in ("", e.tenant)), None)
            if found is None:
                why = Sentence("there is no token '{name}'", name=name[:80])
                raise Misconfigured(why, hint=Sentence("plansmith tokens list lists them"))
            self._write(each for each in known if each is not found)
        return found

    def revoke_tenant(self, key: str) -> int:
        """Revokes everything of a tenant; returns how many tokens and log-ins that were."""
        with self._locked():
            known = self.all()
            kept = [each for each in known if each.tenant != key]
            self._write(kept)
        return len(known) - len(kept)

    def _write(self, tokens: Iterable[Token]) -> None:
        rows = [each.model_dump(mode="json", exclude_defaults=True) for each in tokens]
        text = json.dumps({"version": 1, "tokens": rows}, indent=2)
        replace_file(self._path, text, durable=True)

    def _locked(self) -> contextlib.AbstractContextManager[None]:
        return locked(self._path, hint=Sentence("make its folder writable"))


def _scopes(wanted: tuple[str, ...], member: Member) -> tuple[str, ...]:
    """Returns the scopes of a new token; refuses what cannot be."""
    _check_member(member)
    if member.role and wanted:
        hint = Sentence("a role is a set of scopes")
        raise Misconfigured(Sentence("give a role or scopes, not both"), hint=hint)
    wanted = wanted or ROLES.get(member.role, ())
    hint = Sentence("the scopes are {names}", names=[*SCOPES])
    if not wanted:
        raise Misconfigured(Sentence("a token needs a scope or a role"), hint=hint)
    if unknown := [each for each in wanted if each not in SCOPES]:
        raise Misconfigured(Sentence("there is no scope '{name}'", name=unknown[0]), hint=hint)
    if PROTOCOLS & set(wanted) and "approve" in wanted:
        hint = Sentence("create one token for the program and another one for yourself")
        why = Sentence("a token with the scope mcp or a2a cannot have the scope approve")
        raise Misconfigured(why, hint=hint)
    if "admin" in wanted and "approve" not in wanted:
        hint = Sentence("give it approve too: only a person approves tools")
        raise Misconfigured(Sentence("the scope admin needs the scope approve"), hint=hint)
    return wanted


def _check_member(member: Member) -> None:
    if member.role and member.role not in ROLES:
        hint = Sentence("the roles are {names}", names=[*ROLES])
        raise Misconfigured(Sentence("there is no role '{name}'", name=member.role), hint=hint)
    if member.user and not _NAME.fullmatch(member.user):
        why = Sentence("'{name}' is not a valid user name", name=member.user[:80])
        raise Misconfigured(why, hint=_NAME_HINT)
    if member.tenant and not member.user:
        why = Sentence("a token for a tenant needs a user")
        raise Misconfigured(why, hint=Sentence("add --user NAME"))


def _hash(secret: str) -> str:
    # A secret of 256 random bits cannot be guessed from its hash: no slow hash is needed.
    return sha256(secret.encode(errors="replace")).hexdigest()


def require_private(path: Path) -> None:
    """Refuses a file of secrets that other users can read."""
    if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        why = Sentence("other users can read {path}", path=path)
        raise Misconfigured(why, hint=f"chmod 600 {path}")


def _read(path: Path) -> tuple[Token, ...]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if value["version"] != 1:
            hint = Sentence("update Plansmith: a newer version wrote this file")
            why = Sentence("{path} is from a newer Plansmith", path=path)
            raise Misconfigured(why, hint=hint)
        tokens = tuple(Token.model_validate(each) for each in value["tokens"])
        require_private(path)
    except (OSError, ValueError, TypeError, KeyError, ValidationError) as error:
        hint = Sentence("repair the file, or remove it: that revokes all tokens and log-ins")
        why = Sentence("{path} cannot be read: {error}", path=path, error=error)
        raise Misconfigured(why, hint=hint) from None
    return tokens
