"""Writes the text of an event from which its hash is computed."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from hashlib import sha256

from plansmith.plan.data import canonical_json


def moment(at: datetime) -> str:
    """Returns a time in UTC in the form in which it is stored."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def event_text(run: str, number: int, at: str, before: str, body: bytes, by: bytes) -> bytes:
    """Joins the parts of an event into its canonical text."""
    return b'{"at":"%b","before":"%b","body":%b,"by":%b,"number":%d,"run":%b}' % (
        *(at.encode(), before.encode(), body, by, number, _text(run)),
    )


def hash_of(run: str, number: int, at: str, before: str, body: bytes, by: bytes) -> str:
    """Returns the hash of an event; `before` is the hash of the event before it."""
    return sha256(event_text(run, number, at, before, body, by)).hexdigest()


@lru_cache(maxsize=256)
def _text(run: str) -> bytes:
    return canonical_json(run)
