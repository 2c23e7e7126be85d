"""Converts events and values to stored rows of plain JSON text, and checks their hashes.

A row of the table `events` holds the parts of the text that was hashed, as they were:
`{"at":"AT","before":"HASH OF THE ROW BEFORE","body":BODY,"by":BY,"number":NUMBER,"run":"RUN"}`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, cast

from plansmith.errors import JournalDamaged, StaleWriter
from plansmith.plan.chain import hash_of, moment, run_text
from plansmith.plan.data import Json, read_canonical
from plansmith.plan.events import Event, stored_event
from plansmith.ports import Sound

DOCTOR: Final = "`plansmith doctor` says what is damaged, and what can be done about it"
COLUMNS: Final = "number, type, at, by, hash, body"
SUMMARY_COLUMNS: Final = "number, day, tokens, cost, planning, body"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HASH: Final = re.compile("[0-9a-f]{64}")


class Row(NamedTuple):
    """An event as a database row: the cells of `COLUMNS`."""

    number: int
    type: str
    at: str
    by: str
    hash: str
    body: str


# The cells of a `Row` to be written: a plain tuple, since thousands are made a second.
Cells = tuple[int, str, str, str, str, str]


class SummaryCells(NamedTuple):
    """A summary as a database row, without its run: the cells of `SUMMARY_COLUMNS`."""

    number: int
    day: str
    tokens: int
    cost: str
    planning: str | None
    body: str


@dataclass(frozen=True, slots=True)
class RunHead:
    """Number, type and time of a run's last event, and when the run was created."""

    run: str
    number: int
    type: str
    at: datetime
    created: datetime

    @property
    def over(self) -> bool:
        """Whether the run is over."""
        return self.type == "run_finished"


def need_following(events: Sequence[Event]) -> None:
    """Refuses events of which one does not follow the one before it."""
    last = None
    for event in events:
        if last is not None and not (
            event.number == last.number + 1 and event.before == last.hash and event.run == last.run
        ):
            raise stale(event.run, event.number)
        last = event


def rows_of(events: Sequence[Event]) -> list[Cells]:
    """Converts events to the cells of rows; refuses one whose text is not the one hashed."""
    rows: list[Cells] = []
    known, at = None, ""
    for event in events:
        if event.at is not known:
            known, at = event.at, moment(event.at)
        body, by, number, digest = event.body_text, event.by_text, event.number, event.hash
        before, run = event.before.encode(), run_text(event.run)
        if hash_of(at.encode(), before, body, by, number, run) != digest:
            raise JournalDamaged(f"event {number} of run {event.run} was altered")
        rows.append((number, event.body.type, at, by.decode(), digest, body.decode()))
    return rows


def stale(run: str, number: int) -> StaleWriter:
    """Returns the error for an event that does not follow the stored ones."""
    return StaleWriter(
        f"event {number} of run {run} does not follow the last one stored",
        hint="read the run again and decide again",
    )


def read_journal(run: str, rows: Iterable[Sequence[object]], *, after: int) -> list[Event]:
    """Returns the events after a number, each checked; `rows` starts with that number."""
    return list(_read(run, rows, after=max(after, 0)))


def sound_part(run: str, rows: Iterable[Sequence[object]], *, last: int) -> Sound:
    """Returns the events up to the first that is missing or altered."""
    events: list[Event] = []
    try:
        events.extend(_read(run, rows, after=0))
    except JournalDamaged as damage:
        return Sound(events, last, damage.message)
    if len(events) < last:
        return Sound(events, last, f"the end of run {run} is missing")
    return Sound(events, len(events))


def _read(run: str, rows: Iterable[Sequence[object]], *, after: int) -> Iterator[Event]:
    expected, before = after or 1, ""
    for number, *cells in rows:
        if number != expected:
            raise JournalDamaged(f"event {expected} of run {run} is missing", hint=DOCTOR)
        if not all(isinstance(cell, str) for cell in cells):
            raise JournalDamaged(f"the row of event {number} cannot be read", hint=DOCTOR)
        row = Row(expected, *cast("list[str]", cells))
        if row.number > after:
            yield _checked(run, row, before)
        before, expected = row.hash, expected + 1


def _checked(run: str, row: Row, before: str) -> Event:
    altered = JournalDamaged(f"event {row.number} of run {run} was altered", hint=DOCTOR)
    try:
        body, by = row.body.encode(), row.by.encode()
        digest = hash_of(row.at.encode(), before.encode(), body, by, row.number, run_text(run))
    except UnicodeEncodeError:  # a byte of it is no text any more
        raise altered from None
    if digest != row.hash:
        raise altered
    event = stored_event(
        run=run, number=row.number, at=row.at, by=by, body=body, before=before, hash=row.hash
    )
    if event.body.type != row.type:
        raise altered
    return event


def head_of(run: str, number: int, kind: object, at: object, created: object) -> RunHead:
    """Makes a run's head of its last and first row; an unreadable one counts as not over."""
    try:
        return RunHead(run, number, str(kind or ""), _moment(at), _moment(created))
    except ValueError:
        return RunHead(run, number, "", _EPOCH, _EPOCH)


def _moment(at: object) -> datetime:
    found = datetime.fromisoformat(str(at))
    if found.tzinfo is None:
        raise ValueError(f"{at} has no time zone")
    return found


def hashes_in(bodies: Iterable[str]) -> set[str]:
    """Returns all content hashes in the bodies of events."""
    return {found for body in bodies for found in _HASH.findall(body)}


def read_value(digest: str, text: object) -> Json:
    """Parses a stored value and checks its content hash."""
    data = text.encode(errors="replace") if isinstance(text, str) else b""
    if hashlib.sha256(data).hexdigest() != digest:
        raise JournalDamaged(f"the value stored under {digest} was altered", hint=DOCTOR)
    return read_canonical(data)


def day_of(moment: datetime) -> str:
    """Returns the day on which a value was last put, for `prune`."""
    return moment.astimezone(UTC).date().isoformat()


def no_value(digest: str) -> JournalDamaged:
    """Returns the error for a content hash under which nothing is stored."""
    return JournalDamaged(f"no value is stored under {digest}", hint=DOCTOR)
