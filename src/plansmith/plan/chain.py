"""The canonical text of an event, which its hash is made of."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from plansmith.plan.data import Record, canonical_json


def moment(at: datetime) -> str:
    """A time as it is stored."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def texts_of(kind: str, body: Record, by: tuple[str, str]) -> tuple[bytes, bytes]:
    """What happened, and who caused it by kind and name, as canonical text."""
    return canonical_json({"type": kind} | body.to_json()), _who(*by)


@lru_cache(maxsize=256)
def _who(kind: str, name: str) -> bytes:
    # Nearly all events of a run are caused by the same few.
    return canonical_json({"kind": kind, "name": name} if name else {"kind": kind})


def event_text(run: str, number: int, at: str, before: str, texts: tuple[bytes, bytes]) -> bytes:
    """The canonical text of an event, which its hash is made of, put together from its parts."""
    body, by = texts
    return b'{"at":"%b","before":%b,"body":%b,"by":%b,"number":%d,"run":%b}' % (
        *(at.encode(), _text(before), body, by, number, _text(run)),
    )


@lru_cache(maxsize=256)
def _text(text: str) -> bytes:
    return canonical_json(text)
