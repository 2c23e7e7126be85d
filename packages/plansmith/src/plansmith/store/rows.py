"""Converts events and values to stored rows of JSON text, and checks their hashes.

The text that was hashed can be put together from a row of the table `events`:
`{"at":"AT","before":"HASH OF THE ROW BEFORE","body":BODY,"by":BY,"number":NUMBER,"run":"RUN",`
`"type":"TYPE"}`. An empty `by` is Plansmith itself, `{"kind":"system"}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from plansmith.errors import JournalDamaged, RunTakenOver, StaleWriter
from plansmith.plan.actors import SYSTEM, actor_text
from plansmith.plan.data import Json, parse_json
from plansmith.plan.event_body import hash_of, moment, run_text
from plansmith.plan.events import Event, stored_event
from plansmith.plan.sentence import Sentence
from plansmith.ports import IntactPart

DOCTOR: Final = Sentence(
    "`plansmith store doctor` says what is damaged, and what can be done about it"
)
_PLANSMITH: Final = actor_text(SYSTEM)
# The cells of `sql.COLUMNS`.
Cells = tuple[int, str, str, str, str, str]


def require_following(events: Sequence[Event]) -> None:
    """Refuses events of which one does not follow the one before it."""
    last = None
    for event in events:
        if last is not None and not (
            event.number == last.number + 1 and event.before == last.hash and event.run == last.run
        ):
            raise stale(event.run, event.number)
        last = event


def rows_of(events: Sequence[Event]) -> list[Cells]:
    """Converts events to the cells of rows."""
    return [
        (
            event.number,
            moment(event.at),
            "" if event.by_text == _PLANSMITH else event.by_text.decode(),
            event.body.type,
            event.hash,
            event.body_text.decode(),
        )
        for event in events
    ]


def read_journal(run: str, rows: Sequence[Sequence[Any]], *, after: int) -> list[Event]:
    """Returns the events after a number, each checked.

    `rows` begin with the event of that number. Each starts with the number of the run's last
    event; one without any other cell says that there are no events.
    """
    cells = [row[1:] for row in rows if row[1] is not None]
    last, found = rows[-1][0] if rows else 0, cells[-1][0] if cells else 0
    if found != last and after <= last:
        raise JournalDamaged(Sentence("the end of run {run} is missing", run=run), hint=DOCTOR)
    return list(_read(run, cells, after=after))


def intact_part(run: str, rows: Iterable[Sequence[Any]], *, last: int) -> IntactPart:
    """Returns the events up to the first that is missing or altered."""
    events: list[Event] = []
    try:
        events.extend(_read(run, rows, after=0))
    except JournalDamaged as damage:
        return IntactPart(events, last, damage.message)
    if len(events) < last:
        return IntactPart(events, last, Sentence("the end of run {run} is missing", run=run))
    return IntactPart(events, len(events))


def _read(run: str, rows: Iterable[Sequence[Any]], *, after: int) -> Iterator[Event]:
    before, expected = "", after or 1
    for cells in rows:
        number, at, by, kind, digest, body = cells
        if number != expected:
            raise JournalDamaged(
                Sentence("event {number} of run {run} is missing", number=expected, run=run),
                hint=DOCTOR,
            )
        if not all(isinstance(cell, str) for cell in cells[1:]):
            raise _altered(run, number)
        if number > after:
            try:
                texts = body.encode(), by.encode() or _PLANSMITH
                if hash_of(at.encode(), before, *texts, number, run_text(run), kind) != digest:
                    raise _altered(run, number)
            except UnicodeEncodeError:  # a byte of it is not UTF-8 any more
                raise _altered(run, number) from None
            found: dict[str, Any] = {"run": run, "number": number, "at": at, "hash": digest}
            yield stored_event(**found, type=kind, before=before, by=texts[1], body=texts[0])
        before, expected = digest, expected + 1


def read_value(digest: str, text: object) -> Json:
    """Parses a stored value and checks its content hash."""
    data = text.encode(errors="replace") if isinstance(text, str) else b""
    if sha256(data).hexdigest() != digest:
        raise JournalDamaged(
            Sentence("the value stored under {digest} was altered", digest=digest), hint=DOCTOR
        )
    return parse_json(data)


def day_of(moment: datetime) -> str:
    """Returns the day on which a value was last put, for `prune`."""
    return moment.astimezone(UTC).date().isoformat()


def _altered(run: str, number: int) -> JournalDamaged:
    return JournalDamaged(
        Sentence("event {number} of run {run} was altered", number=number, run=run), hint=DOCTOR
    )


def no_value(digest: str) -> JournalDamaged:
    """Returns the error for a content hash under which nothing is stored."""
    return JournalDamaged(Sentence("no value is stored under {digest}", digest=digest), hint=DOCTOR)


def stale(run: str, number: int) -> StaleWriter:
    """Returns the error for an event that does not follow the stored ones."""
    return StaleWriter(
        Sentence(
            "event {number} of run {run} does not follow the last one stored",
            number=number,
            run=run,
        ),
        hint=Sentence("read the run again and decide again"),
    )


def taken_over(run: str) -> RunTakenOver:
    """Returns the error for an append under a term that no longer holds."""
    return RunTakenOver(
        Sentence("run {run} was taken over by another process", run=run),
        hint=Sentence("nothing was written here since"),
    )
