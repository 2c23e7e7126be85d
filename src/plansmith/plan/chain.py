"""The chain of a journal: the canonical text of events, and proof that none was altered."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING

from plansmith.errors import JournalDamaged
from plansmith.plan.data import canonical_json

if TYPE_CHECKING:
    from plansmith.plan.events import Actor, AnyBody, Event


def moment(at: datetime) -> str:
    """A time as it is stored."""
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def texts_of(body: AnyBody, by: Actor) -> tuple[bytes, bytes]:
    """What happened and who caused it, as canonical text."""
    return canonical_json({"type": body.type} | body.to_json()), _who(by.kind, by.name)


@lru_cache(maxsize=256)
def _who(kind: str, name: str) -> bytes:
    # Nearly all events of a run are caused by the same few.
    return canonical_json({"kind": kind, "name": name} if name else {"kind": kind})


def event_text(run: str, number: int, at: str, before: str, texts: tuple[bytes, bytes]) -> bytes:
    """The canonical text of an event, which its hash is made of, put together from its parts."""
    body, by = texts
    return b'{"at":"%b","before":%b,"body":%b,"by":%b,"number":%d,"run":%b}' % (
        *(at.encode(), canonical_json(before), body, by, number, canonical_json(run)),
    )


def verify_chain(events: Iterable[Event], last: Event | None = None) -> Event | None:
    """Check numbers, links and hashes, return the last event, or say what was altered."""
    for event in events:
        number, before = (last.number + 1, last.hash) if last else (1, "")
        if event.number != number or (last and event.run != last.run):
            raise JournalDamaged(f"event {number} of run {event.run} is missing")
        texts = texts_of(event.body, event.by)
        text = event_text(event.run, number, moment(event.at), event.before, texts)
        if event.before != before or sha256(text).hexdigest() != event.hash:
            raise JournalDamaged(f"event {number} of run {event.run} was altered")
        last = event
    return last
