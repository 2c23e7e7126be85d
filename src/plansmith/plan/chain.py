"""The canonical text of an event, which its hash is made of."""

from __future__ import annotations

from datetime import datetime

from plansmith.plan.data import canonical_json


def moment(at: datetime) -> str:
    """A time as it is stored."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def event_text(run: str, number: int, at: str, before: str, texts: tuple[bytes, bytes]) -> bytes:
    """The canonical text of an event, which its hash is made of, put together from its parts."""
    body, by = texts
    return b'{"at":"%b","before":%b,"body":%b,"by":%b,"number":%d,"run":%b}' % (
        *(at.encode(), canonical_json(before), body, by, number, canonical_json(run)),
    )
