"""The stored form of events and values: compact bytes that are checked whenever they are read.

An event's row is a mark of its hash, its time, its type, who and what as deflated JSON, and the
hashes taken out of that JSON. The mark is the whole hash in every 16th row and 4 bytes of it in
the others: a reader computes the chain from the last whole hash on, so that reading is
verifying, and `before` needs no room at all.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple, cast

from plansmith.errors import JournalDamaged, StaleWriter
from plansmith.plan.chain import event_text, moment
from plansmith.plan.data import Json
from plansmith.plan.events import Event, read_event
from plansmith.ports import Sound

WHOLE_HASH_EVERY: Final = 16
MARK_BYTES: Final = 4
KEY_BYTES: Final = 16
HEADER_BYTES: Final = 128
DOCTOR: Final = "`plansmith doctor` says what is damaged, and what can be done about it"

# Part of the stored form: append to this list, never reorder it. Other types go by their name.
_TYPES: Final = (
    *("", "run_created", "triaged", "plan_proposed", "review_asked", "plan_approved"),
    *("plan_rejected", "changes_asked", "question_asked", "question_answered"),
    *("question_withdrawn", "run_started", "step_started", "step_progressed", "step_done"),
    *("step_failed", "step_skipped", "step_cancelled", "step_unknown", "step_reset"),
    *("run_paused", "run_resumed", "cancel_asked", "replan_started", "report_started"),
    *("report_made", "run_finished", "step_reused", "step_advised", "step_replied", "run_repaired"),
    *("prefetch_started", "prefetch_ended", "planning_failed"),
)
_CODES: Final = {name: code for code, name in enumerate(_TYPES) if name}

# Part of the stored form as well: what deflate may point back to.
_WORDS: Final = (
    b'"estimate":{"basis":[" steps from past runs, the others from rules of thumb"],'
    b'"critical_path":["s0","s1"],"effects":{"ask":0,"final":0,"read":0,"reply":0,"write":0},'
    b'"measured":{"":{"seconds":0.0}}},"hint":"","message":"","severity":"warning","step":"'
    b'"status":"partly_done","type":"run_finished"}"type":"question_answered"}"options":'
    b'"type":"question_asked"}{"kind":"person","name":"{"kind":"model","name":"'
    b'{"cause":"","origin":"submitted","plan":{"goal":"","steps":["after":["why":"","title":"'
    b'"problems":[{"code":"PS","type":"plan_proposed"}{"locale":"zh","request":"'
    b'"type":"run_created"}{"text":""type":"step_progressed"}{"again":true,"error":"'
    b'"type":"step_failed"}{"reason":"","type":"step_skipped"}{"hash":"\x00"type":"run_started"}'
    b'{"attempt":2,"inputs":"\x00","key":"/s/\x01","step":"s","type":"step_started"}'
    b'{"kind":"system"}\n{"inputs":"\x00","key":"/s/\x01","step":"s","type":"step_started"}'
    b'{"kind":"system"}\n{"result":"\x00","size":1,"step":"s","type":"step_done"}'
)
_SMALL: Final = 2048
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_HEX_HASH: Final = re.compile(rb"([0-9a-f]{64})")
_HASH_BYTES: Final = 32
# JSON text has no raw control characters, so that one can stand for a hash, and another one for
# the beginning of the first hash, with which idempotency keys end.
_TAKEN_OUT: Final = b"\x00"
_BEGINNING: Final = b"\x01"
_BEGINNING_CHARS: Final = 16


class Entry(NamedTuple):
    """An event in its stored form, with what is needed to see whether it follows another."""

    number: int
    before: bytes
    hash: bytes
    data: bytes


@dataclass(frozen=True, slots=True)
class RunHead:
    """Where a run stands: its last event's number, type and time, and when it was created."""

    run: str
    number: int
    type: str
    at: datetime
    created: datetime

    @property
    def over(self) -> bool:
        """Whether nothing more can happen."""
        return self.type == "run_finished"


class Header(NamedTuple):
    """What the first bytes of a row say."""

    at: datetime
    type: str
    end: int


def entries_of(events: Sequence[Event]) -> list[Entry]:
    """Events of one run in their stored form; each must follow the one before it."""
    entries: list[Entry] = []
    for event in events:
        entry = _entry(event)
        if event.run != events[0].run:
            raise stale(event.run, event.number)
        if entries and (event.number, entry.before) != (entries[-1].number + 1, entries[-1].hash):
            raise stale(event.run, event.number)
        entries.append(entry)
    return entries


def stale(run: str, number: int) -> StaleWriter:
    """The error of an event that does not follow the stored ones."""
    return StaleWriter(
        f"event {number} of run {run} does not follow the last one stored",
        hint="read the run again and decide anew",
    )


def journal_start(after: int) -> int:
    """The number of the row from which the events behind a number can be read."""
    return max(after, 0) // WHOLE_HASH_EVERY * WHOLE_HASH_EVERY


def read_journal(run: str, rows: Iterable[tuple[int, object]], *, after: int) -> list[Event]:
    """The events behind a number from the rows from `journal_start` on, checked one by one."""
    return list(_read(run, rows, after=after))


def sound_part(run: str, rows: Iterable[tuple[int, object]], *, last: int) -> Sound:
    """The events up to the first that is missing or altered; `last` should be the last one."""
    events: list[Event] = []
    try:
        events.extend(_read(run, rows, after=0))
    except JournalDamaged as damage:
        return Sound(events, last, damage.message)
    if len(events) < last:
        return Sound(events, last, f"the end of run {run} is missing")
    return Sound(events, len(events))


def _read(run: str, rows: Iterable[tuple[int, object]], *, after: int) -> Iterator[Event]:
    expected, before, words = journal_start(after), "", run.encode() + _WORDS
    for number, data in rows:
        if not isinstance(data, bytes):
            raise _unreadable(number)
        if expected and number == expected and not before:
            before = data[:_HASH_BYTES].hex()
        else:
            expected = max(expected, 1)
            if number != expected:
                raise JournalDamaged(f"event {expected} of run {run} is missing", hint=DOCTOR)
            text, before = _checked(run, words, number, before, data)
            if number > after:
                value = cast("dict[str, Json]", json.loads(text))
                yield read_event(value | {"hash": before})
        expected = number + 1


def header_of(number: int, data: object) -> Header:
    """The time and type of a row, of which the first `HEADER_BYTES` are enough."""
    if not isinstance(data, bytes):
        raise _unreadable(number)
    start = _mark_length(number)
    try:
        at = _EPOCH + int.from_bytes(data[start : start + 8], signed=True) * _MICROSECOND
        code = data[start + 8]
        if code:
            return Header(at, _TYPES[code], start + 9)
        end = start + 10 + data[start + 9]
        return Header(at, data[start + 10 : end].decode(), end)
    except (IndexError, OverflowError, UnicodeDecodeError):
        raise _unreadable(number) from None


def head_of(run: str, number: int | None, last: object, first: object) -> RunHead:
    """Where a run stands, by its last row and its first; one that cannot be read is not over."""
    try:
        header, created = header_of(number or 0, last), header_of(1, first).at
    except JournalDamaged:
        return RunHead(run, number or 0, "", _EPOCH, _EPOCH)
    return RunHead(run, number or 0, header.type, header.at, created)


def hashes_in(rows: Iterable[tuple[str, int, bytes]]) -> Iterator[bytes]:
    """Every content hash that events, as run, number and row, mention."""
    for run, number, data in rows:
        _, hashes = _inflated(run.encode() + _WORDS, number, data, header_of(number, data).end)
        yield from _in_pieces(hashes)


def squeezed(text: bytes) -> bytes:
    """A value's text as it is stored: deflated where that is shorter."""
    short = zlib.compress(text, 1) if len(text) > 128 else text
    return short if len(short) < len(text) else text


def read_value(digest: str, data: object) -> Json:
    """The value of stored bytes, if it has this content hash."""
    text = data if isinstance(data, bytes) else b""
    try:
        # No JSON text starts with the first byte of a zlib stream.
        text = zlib.decompress(text) if text[:1] == b"x" else text
    except zlib.error:
        text = b""
    if hashlib.sha256(text).hexdigest() != digest:
        raise JournalDamaged(f"the value stored under {digest} was altered", hint=DOCTOR)
    return cast("Json", json.loads(text))


def no_value(digest: str) -> JournalDamaged:
    """The error of a content hash under which nothing is stored."""
    return JournalDamaged(f"no value is stored under {digest}", hint=DOCTOR)


def key_of(digest: str) -> bytes:
    """The part of a content hash that finds its value: half of it, still 128 bits."""
    try:
        return bytes.fromhex(digest)[:KEY_BYTES]
    except ValueError:
        raise no_value(digest) from None


def day_of(moment: datetime) -> int:
    """The day on which a value was last put, for retention."""
    return (moment - _EPOCH).days


def mark_of(digest: bytes) -> bytes:
    """The part of an event's hash that every row begins with."""
    return digest[:MARK_BYTES]


def _entry(event: Event) -> Entry:
    body, who = texts = event.texts
    text = event_text(event.run, event.number, moment(event.at), event.before, texts)
    digest = hashlib.sha256(text).digest()
    if digest.hex() != event.hash:
        raise JournalDamaged(f"event {event.number} of run {event.run} was altered")
    try:
        before = bytes.fromhex(event.before)
    except ValueError:
        raise stale(event.run, event.number) from None
    content = who + b"\n" + body
    pieces = _HEX_HASH.split(content)
    hashes, rest = pieces[1::2], _TAKEN_OUT.join(pieces[::2])
    if hashes:
        rest = rest.replace(hashes[0][:_BEGINNING_CHARS], _BEGINNING)
    microseconds = (event.at - _EPOCH) // _MICROSECOND
    data = b"".join(
        (
            digest[: _mark_length(event.number)],
            microseconds.to_bytes(8, signed=True),
            _type_bytes(event.body.type),
            _deflated(rest, event.run),
            *(bytes.fromhex(found.decode()) for found in hashes),
        )
    )
    return Entry(event.number, before, digest, data)


def _checked(run: str, words: bytes, number: int, before: str, data: bytes) -> tuple[bytes, str]:
    header = header_of(number, data)
    content, hashes = _inflated(words, number, data, header.end)
    pieces = content.split(_TAKEN_OUT)
    if len(hashes) != _HASH_BYTES * (len(pieces) - 1):
        raise JournalDamaged(f"event {number} of run {run} was altered", hint=DOCTOR)
    first = hashes.hex()[:_BEGINNING_CHARS].encode()
    whole = pieces[0].replace(_BEGINNING, first) + b"".join(
        found.hex().encode() + piece.replace(_BEGINNING, first)
        for found, piece in zip(_in_pieces(hashes), pieces[1:], strict=True)
    )
    who, _, body = whole.partition(b"\n")
    text = event_text(run, number, moment(header.at), before, (body, who))
    digest = hashlib.sha256(text)
    mark = _mark_length(number)
    if digest.digest()[:mark] != data[:mark]:
        raise JournalDamaged(f"event {number} of run {run} was altered", hint=DOCTOR)
    return text, digest.hexdigest()


def _mark_length(number: int) -> int:
    return MARK_BYTES if number % WHOLE_HASH_EVERY else _HASH_BYTES


@lru_cache(maxsize=256)
def _type_bytes(name: str) -> bytes:
    code = _CODES.get(name, 0)
    spelled = name.encode()
    return bytes([code]) if code else bytes([0, len(spelled)]) + spelled


def _in_pieces(hashes: bytes) -> Iterator[bytes]:
    return (hashes[at : at + _HASH_BYTES] for at in range(0, len(hashes), _HASH_BYTES))


def _deflated(text: bytes, run: str) -> bytes:
    small = len(text) <= _SMALL
    # A small window and fixed codes: ten times as fast for the few bytes of most events.
    window, memory = (-12, 4) if small else (-15, 8)
    strategy = zlib.Z_FIXED if small else zlib.Z_DEFAULT_STRATEGY
    stream = zlib.compressobj(6, zlib.DEFLATED, window, memory, strategy, run.encode() + _WORDS)
    return stream.compress(text) + stream.flush()


def _inflated(words: bytes, number: int, data: bytes, start: int) -> tuple[bytes, bytes]:
    # The run's name is among the words: idempotency keys often begin with it.
    stream = zlib.decompressobj(-15, words)
    try:
        return stream.decompress(data[start:]), stream.unused_data
    except zlib.error:
        raise _unreadable(number) from None


def _unreadable(number: int) -> JournalDamaged:
    return JournalDamaged(f"the row of event {number} cannot be read", hint=DOCTOR)
