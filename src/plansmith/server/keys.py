"""Keys: who may speak to the server: the token in a file, the one-time link, the cookie."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from plansmith.errors import Misconfigured

_SHORTEST: Final = 32
_LARGEST: Final = 4096


class Keys:
    """Compares what clients bring with what was given out, in the same time right or wrong."""

    def __init__(self, token: str, *, port: int = 0) -> None:
        self._token = token
        self._link = secrets.token_urlsafe(32)
        # Derived, so that an open page goes on after a restart; the token cannot be had from it.
        self.cookie = hmac.new(token.encode(), b"plansmith cookie", hashlib.sha256).hexdigest()
        # Cookies do not know ports: two servers on one machine must not overwrite each other's.
        self.cookie_name = f"plansmith_{port}"

    @property
    def link_token(self) -> str:
        """What the one-time link carries."""
        return self._link

    def take_link(self, given: str) -> bool:
        """Whether this is the one-time token; it is then used up."""
        if not self._link or not _same(given, self._link):
            return False
        self._link = ""
        return True

    def knows(self, *, bearer: str, cookie: str) -> bool:
        """Whether a request carries the token or the cookie."""
        by_token = _same(bearer, self._token)
        by_cookie = _same(cookie, self.cookie)
        return by_token or by_cookie


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
