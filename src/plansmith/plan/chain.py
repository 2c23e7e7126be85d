"""Writes the canonical text of an event, from which its hash is computed."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from plansmith.plan.data import Record, canonical_json


def moment(at: datetime) -> str:
    """Returns a time in the form in which it is stored."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def texts_of(kind: str, body: Record, by: tuple[str, str]) -> tuple[bytes, bytes]:
    """Returns the event body and the actor as canonical text."""
    return canonical_json({"type": kind} | body.to_json()), _who(*by)


@lru_cache(maxsize=256)
def _who(kind: str, name: str) -> bytes:
    # Cached: nearly all events of a run have the same few actors.
    return canonical_json({"kind": kind, "name": name} if name else {"kind": kind})


def event_text(run: str, number: int, at: str, before: str, texts: tuple[bytes, bytes]) -> bytes:
    """Joins the parts of an event into its canonical text."""
    body, by = texts
    return b'{"at":"%b","before":%b,"body":%b,"by":%b,"number":%d,"run":%b}' % (
        *(at.encode(), _text(before), body, by, number, _text(run)),
    )


@lru_cache(maxsize=256)
def _text(text: str) -> bytes:
    return canonical_json(text)
