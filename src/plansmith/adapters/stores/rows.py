"""Converts events and values to stored rows of JSON text, and checks their hashes.

The parts of the text that was hashed can be computed from a row of the table `events`:
`{"at":"AT","before":"HASH OF THE ROW BEFORE","body":BODY,"by":BY,"number":NUMBER,"run":"RUN"}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, NamedTuple

from plansmith.adapters.stores.packing import (
    LARGEST_INSIDE,
    MARK_BYTES,
    RUN_FINISHED,
    SAME_TIME,
    SYSTEM,
    TYPES,
    WHOLE_HASH_EVERY,
    Cells,
    Texts,
    at_text,
    is_mark,
    pack,
    ref_of,
    stored_time,
    texts_of,
    timed,
)
from plansmith.errors import JournalDamaged, RunTakenOver, StaleWriter
from plansmith.plan.chain import EVENT_TEXT, hash_of, moment_text, run_text
from plansmith.plan.data import Json, parse_json
from plansmith.plan.events import Event, stored_event
from plansmith.plan.sentence import Sentence
from plansmith.ports import Sound

DOCTOR: Final = Sentence("journal.doctor")
SUMMARY_COLUMNS: Final = "number, day, tokens, cost, planning, body"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_HASH: Final = re.compile("[0-9a-f]{64}")


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


def rows_of(
    events: Sequence[Event], values: Sequence[tuple[str, bytes]] = ()
) -> tuple[list[Cells], set[str]]:
    """Converts events to the cells of rows, with small values inside, and tells which these are.

    Refuses an event whose text is not the one hashed.
    """
    rows: list[Cells] = []
    small = {digest: text for digest, text in values if len(text) <= LARGEST_INSIDE}
    inside: set[str] = set()
    known, when, at, last = None, b"", 0, None
    run, name, was_whole = None, b"", False
    for event in events:
        if event.at is not known:
            known, when, at = event.at, moment_text(event.at), stored_time(event.at)
        if event.run is not run:
            run, name = event.run, run_text(event.run)
        by, number, digest = event.by_text, event.number, event.hash
        # Without a function for each, as where the hash was made.
        text = EVENT_TEXT % (when, event.before.encode(), event.body_text, by, number, name)
        if sha256(text).hexdigest() != digest:
            raise JournalDamaged(Sentence("journal.altered", number=number, run=run))
        kind, packed, key = pack(event, small)
        value, ref = (small[key].decode(), ref_of(key)) if key else (None, None)
        inside |= {key}
        # Whoever begins to read behind a whole hash needs a time there.
        time = SAME_TIME if at == last and not was_whole else at
        was_whole = not number % WHOLE_HASH_EVERY or kind == RUN_FINISHED
        mark = bytes.fromhex(digest if was_whole else digest[: 2 * MARK_BYTES])
        who = None if by == SYSTEM else by.decode()
        rows += ((number, kind, time, who, mark, packed.decode(), value, ref),)
        last = at
    return rows, inside - {""}


def stale(run: str, number: int) -> StaleWriter:
    """Returns the error for an event that does not follow the stored ones."""
    return StaleWriter(
        Sentence("journal.not_last", number=number, run=run),
        hint=Sentence("journal.read_again"),
    )


def taken_over(run: str) -> RunTakenOver:
    """Returns the error for an append under a term that no longer holds."""
    return RunTakenOver(
        Sentence("journal.taken_over", run=run), hint=Sentence("journal.nothing_written")
    )


class Checked(NamedTuple):
    """The last event of a journal that was read and checked: whoever reads on begins there."""

    number: int
    hash: str
    at: int

    @classmethod
    def of(cls, event: Event) -> Checked:
        """Returns what is to be known of an event that was checked."""
        return cls(event.number, event.hash, stored_time(event.at))

    def begins(self, rows: Sequence[Sequence[Any]]) -> bool:
        """Tells whether the first of the rows is still the one that was checked."""
        stored = rows[0][4] if rows and rows[0][0] == self.number else None
        if not isinstance(stored, bytes):
            return False
        return stored.hex() in (self.hash, self.hash[: 2 * MARK_BYTES])


def read_journal(
    run: str, rows: Iterable[Sequence[Any]], *, after: int, checked: Checked | None = None
) -> list[Event]:
    """Returns the events after a number, each checked.

    `rows` starts behind the row that was `checked` before; without one, with the last whole hash
    up to that number, or else with the first event.
    """
    return list(_read(run, rows, after=max(after, 0), checked=checked))


def sound_part(run: str, rows: Iterable[Sequence[Any]], *, last: int) -> Sound:
    """Returns the events up to the first that is missing or altered."""
    events: list[Event] = []
    try:
        events.extend(_read(run, rows, after=0))
    except JournalDamaged as damage:
        return Sound(events, last, damage.message)
    if len(events) < last:
        return Sound(events, last, Sentence("journal.end_missing", run=run))
    return Sound(events, len(events))


def _read(
    run: str, rows: Iterable[Sequence[Any]], *, after: int, checked: Checked | None = None
) -> Iterator[Event]:
    expected, before = (checked.number + 1, checked.hash) if checked else (0, "")
    for cells in timed(rows, checked.at if checked else None):
        number, stored = cells[0], cells[4]
        if not expected and 0 < number <= after and not is_mark(stored):
            expected, before = number + 1, stored.hex() if isinstance(stored, bytes) else ""
            continue
        expected = expected or 1
        if number != expected:
            raise JournalDamaged(Sentence("journal.missing", number=expected, run=run), hint=DOCTOR)
        texts, digest = _checked(run, cells, before)
        if number > after:
            yield _event(run, number, texts, before=before, digest=digest)
        expected, before = number + 1, digest


def _checked(run: str, cells: Sequence[Any], before: str) -> tuple[Texts, str]:
    """Returns the texts of a row and their hash, which is the stored one."""
    number = cells[0]
    try:
        texts = texts_of(run, cells)
    except (
        TypeError,
        ValueError,
        OverflowError,
        RecursionError,
    ):  # also where a byte of it is no text any more
        raise _altered(run, number) from None
    _, at, by, mark, body = texts
    digest = hash_of(at.encode(), before.encode(), body, by, number, run_text(run))
    # Most rows have the beginning of their hash.
    if mark not in (digest, digest[: 2 * MARK_BYTES]):
        raise _altered(run, number)
    return texts, digest


def _event(run: str, number: int, texts: Texts, *, before: str, digest: str) -> Event:
    kind, at, by, _, body = texts
    event = stored_event(
        run=run, number=number, at=at, by=by, body=body, before=before, hash=digest
    )
    if event.body.type != kind:
        raise _altered(run, number)
    return event


def _altered(run: str, number: int) -> JournalDamaged:
    return JournalDamaged(Sentence("journal.altered", number=number, run=run), hint=DOCTOR)


def head_of(run: str, number: int, kind: Any, at: Any, created: Any) -> RunHead:
    """Makes a run's head of its last and first row; an unreadable one counts as not over."""
    try:
        return RunHead(run, number, TYPES[abs(int(kind))], _moment(at), _moment(created))
    except (LookupError, OverflowError, TypeError, ValueError):
        return RunHead(run, number, "", _EPOCH, _EPOCH)


def _moment(at: Any) -> datetime:
    return datetime.fromisoformat(at_text(at))


def hashes_in(bodies: Iterable[str]) -> set[str]:
    """Returns all content hashes in the bodies of events."""
    return {found for body in bodies for found in _HASH.findall(body)}


def read_value(digest: str, text: object) -> Json:
    """Parses a stored value and checks its content hash."""
    data = text.encode(errors="replace") if isinstance(text, str) else b""
    if sha256(data).hexdigest() != digest:
        raise JournalDamaged(Sentence("journal.value_altered", digest=digest), hint=DOCTOR)
    return parse_json(data)


def values_of(hashes: Sequence[str], texts: Iterable[object]) -> dict[str, object]:
    """Returns those of the texts that have one of the content hashes."""
    asked = set(hashes)
    made = ((sha256(str(each).encode(errors="replace")).hexdigest(), each) for each in texts)
    return {digest: text for digest, text in made if digest in asked}


def day_of(moment: datetime) -> str:
    """Returns the day on which a value was last put, for `prune`."""
    return moment.astimezone(UTC).date().isoformat()


def no_value(digest: str) -> JournalDamaged:
    """Returns the error for a content hash under which nothing is stored."""
    return JournalDamaged(Sentence("journal.no_value", digest=digest), hint=DOCTOR)
