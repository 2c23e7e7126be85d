"""Writes the text of an event from which its hash is computed."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Final

import msgspec

from plansmith.plan.data import canonical_json


def moment(at: datetime) -> str:
    """Returns a time in UTC in the form in which it is stored."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


_quoted: Final = msgspec.json.Encoder().encode


def moment_text(at: datetime) -> bytes:
    """Returns what `moment` returns as UTF-8; every append needs it, so it takes a faster way."""
    if at.microsecond and at.tzinfo is UTC and type(at) is datetime:
        return _quoted(at)[1:-1]
    return moment(at).encode()


@lru_cache(maxsize=256)
def run_text(run: str) -> bytes:
    """Returns the canonical text of a run's id."""
    return canonical_json(run)


# The canonical text of an event, made of the texts of its parts.
EVENT_TEXT: Final = b'{"at":"%b","before":"%b","body":%b,"by":%b,"number":%d,"run":%b}'


def hash_of(at: bytes, before: bytes, body: bytes, by: bytes, number: int, run: bytes) -> str:
    """Returns the hash of an event; `before` is the hash of the event before it."""
    return sha256(EVENT_TEXT % (at, before, body, by, number, run)).hexdigest()
