"""Exports who did what and when, over all runs of a store, with the hashes of the journals."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal

from plansmith.errors import JournalDamaged, NotFound
from plansmith.plan.events import Event, read_event
from plansmith.plan.sentence import Sentence
from plansmith.text import is_formula

if TYPE_CHECKING:
    from plansmith.ports import Store

AuditFormat = Literal["jsonl", "csv"]
COLUMNS: Final = ("at", "user", "kind", "name", "action", "run", "number", "body", "before", "hash")
_BATCH: Final = 200


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """Which events are exported: from `since`, before `until`, of one user, or what programs did.

    Without `everything`, only what persons and other programs did.
    """

    since: datetime | None = None
    until: datetime | None = None
    user: str = ""
    everything: bool = False

    def takes(self, event: Event) -> bool:
        """Whether an event is exported."""
        if not self.everything and not event.by.speaks:
            return False
        names = (event.by.identity.casefold(), event.by.name.casefold())
        if self.user and self.user.casefold() not in names:
            return False
        late = self.until is not None and event.at >= self.until
        return not late and (self.since is None or event.at >= self.since)


async def audited(store: Store, query: AuditQuery) -> AsyncIterator[Event]:
    """Yields the events in the order in which they were stored; reads few at a time."""
    position = 0
    while news := await store.news(position, limit=_BATCH):
        wanted: dict[str, set[int]] = {}
        for each in news:
            wanted.setdefault(each.run, set()).add(each.number)
        found: dict[tuple[str, int], Event] = {}
        for run, numbers in wanted.items():
            for event in await _events(store, run, numbers):
                found[run, event.number] = event
        for each in news:
            known = found.get((each.run, each.number))
            if known is not None and query.takes(known):
                yield known
        position = news[-1].position


async def _events(store: Store, run: str, numbers: set[int]) -> list[Event]:
    """Returns some events of a run; those that can still be read, if it is damaged."""
    try:
        events = await store.events(run, after=min(numbers) - 1)
    except NotFound:
        return []  # removed meanwhile
    except JournalDamaged:
        events = (await store.intact_part(run)).events
    return [each for each in events if each.number in numbers]


async def audit_lines(store: Store, query: AuditQuery, form: AuditFormat) -> AsyncIterator[str]:
    """Yields the lines of an export."""
    if form == "csv":
        yield _csv(COLUMNS)
    async for event in audited(store, query):
        whole, by, action = event.to_json(), event.by, event.body.type
        if form == "csv":
            about = (str(whole["at"]), by.identity, by.kind, by.name, action, event.run)
            text = event.body_text.decode()
            yield _csv((*about, str(event.number), text, event.before, event.hash))
        else:
            line = {"user": by.identity, "action": action, "event": whole}
            yield json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n"


def _csv(cells: tuple[str, ...]) -> str:
    text = io.StringIO()
    harmless = [f"'{each}" if is_formula(each) else each for each in cells]
    csv.writer(text, quoting=csv.QUOTE_ALL).writerow(harmless)
    return text.getvalue()


def altered(lines: Iterator[str]) -> Iterator[tuple[int, str]]:
    """Yields the lines of an export as JSONL whose content does not fit its hash, and why."""
    for number, line in enumerate(lines, start=1):
        try:
            event = read_event(json.loads(line)["event"])
        except (ValueError, KeyError, TypeError, JournalDamaged) as error:
            yield number, Sentence("it cannot be read: {error}", error=str(error))
            continue
        if event.fresh_hash() != event.hash:
            place = {"event": event.number, "run": event.run}
            yield number, Sentence("event {event} of run {run} does not fit its hash", **place)
