"""Reads the compressed rows of schema versions 1 to 7, in order to migrate them.

Each row began with its hash: whole in every 16th row, 4 bytes of it in the others. The reader
computes the chain from the last whole hash on, and so knows the hash of every event.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Any, Final, NamedTuple

from plansmith.adapters.stores.packing import TYPES
from plansmith.plan.chain import hash_of, moment, run_text

_WHOLE_HASH_EVERY: Final = 16
_MARK_BYTES: Final = 4
_HASH_BYTES: Final = 32
# What deflate pointed back to, behind the name of the run.
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
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# One control character stood for a hash, another one for the beginning of the first hash, with
# which idempotency keys end.
_TAKEN_OUT: Final = b"\x00"
_BEGINNING: Final = b"\x01"
_BEGINNING_CHARS: Final = 16


class TextRow(NamedTuple):
    """An event as a row of texts, as versions 8 to 10 stored it."""

    number: int
    type: str
    at: str
    by: str
    hash: str
    body: str


class _Decoded(NamedTuple):
    at: str
    type: str
    by: bytes
    body: bytes


def plain_rows(run: str, rows: Iterable[tuple[int, object]]) -> list[TextRow]:
    """Returns the rows of a run as plain text, damaged ones as far as possible.

    A row that does not match its hash keeps only the stored part of the hash, so that a reader
    still finds the damage.
    """
    plain: list[TextRow] = []
    before: str | None = ""
    last = 0
    for number, data in rows:
        before = before if number == last + 1 else None
        row = _plain(run, number, data, before)
        plain.append(row)
        before, last = row.hash if len(row.hash) == 2 * _HASH_BYTES else None, number
    return plain


def _plain(run: str, number: int, data: object, before: str | None) -> TextRow:
    if not isinstance(data, bytes):
        return TextRow(number, "", "", "", "", _shown(data))
    length = _HASH_BYTES if number % _WHOLE_HASH_EVERY == 0 else _MARK_BYTES
    mark = data[:length].hex()
    try:
        at, kind, by, body = _decoded(run, data[length:])
        place = number, run_text(run)
        digest = hash_of(at.encode(), (before or "").encode(), body, by, *place)
        row = TextRow(number, kind, at, by.decode(), mark, body.decode())
    except (ValueError, IndexError, OverflowError, zlib.error):
        return TextRow(number, "", "", "", "", data.hex())
    return row._replace(hash=digest) if before is not None and digest.startswith(mark) else row


def _decoded(run: str, data: bytes) -> _Decoded:
    at = _EPOCH + timedelta(microseconds=int.from_bytes(data[:8], signed=True))
    code = data[8]
    name_end = 9 if code else 10 + data[9]
    kind = TYPES[code] if code else data[10:name_end].decode()
    # The run's name was among the words: idempotency keys often begin with it.
    stream = zlib.decompressobj(-15, run.encode() + _WORDS)
    pieces = stream.decompress(data[name_end:]).split(_TAKEN_OUT)
    packed = stream.unused_data
    if len(packed) != _HASH_BYTES * (len(pieces) - 1):
        raise ValueError("hashes are missing")
    hashes = [packed[at : at + _HASH_BYTES].hex() for at in range(0, len(packed), _HASH_BYTES)]
    first = hashes[0][:_BEGINNING_CHARS].encode() if hashes else b""
    content = pieces[0].replace(_BEGINNING, first) + b"".join(
        found.encode() + piece.replace(_BEGINNING, first)
        for found, piece in zip(hashes, pieces[1:], strict=True)
    )
    by, _, body = content.partition(b"\n")
    return _Decoded(moment(at), kind, by, body)


def plain_value(data: object) -> str:
    """Returns the text of a stored value, which may be compressed."""
    if not isinstance(data, bytes):
        return _shown(data)
    try:
        # No JSON text starts with the first byte of a zlib stream.
        return (zlib.decompress(data) if data[:1] == b"x" else data).decode()
    except (zlib.error, UnicodeDecodeError):
        return data.hex()


def _shown(data: object) -> str:
    """What a hand put in the place of bytes, as text that can be stored again."""
    return str(data).encode(errors="surrogateescape").decode(errors="replace")


def event_cells(run: str, key: int, rows: Sequence[Sequence[Any]]) -> list[tuple[object, ...]]:
    """Makes the cells of `events` from positions, numbers and compressed rows."""
    plain = plain_rows(run, [(number, data) for _, number, data in rows])
    return [(row[0], key, *cells) for row, cells in zip(rows, plain, strict=True)]


def content_cells(rows: Iterable[Sequence[Any]]) -> list[tuple[str, str, str]]:
    """Makes the cells of `contents`; recomputes the hash, of which only half was stored."""
    moved: list[tuple[str, str, str]] = []
    for key, day, data in rows:
        text = plain_value(data)
        half = key.hex() if isinstance(key, bytes) else str(key)
        digest = hashlib.sha256(text.encode()).hexdigest()
        found = digest if digest.startswith(half) else half
        moved.append((found, (date(1970, 1, 1) + timedelta(days=day)).isoformat(), text))
    return moved


def record_cells(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Decompresses rows that end with a hash and a compressed text."""
    return [(*cells, bytes(digest).hex(), plain_value(data)) for *cells, digest, data in rows]


def fire_cells(rows: Iterable[Sequence[Any]]) -> list[tuple[object, ...]]:
    """Makes the cells of `fires`, whose times were whole microseconds."""
    return [
        (schedule, moment(_EPOCH + timedelta(microseconds=due)), *cells)
        for schedule, due, *cells in record_cells(rows)
    ]


def aside_cells(rows: Iterable[Sequence[Any]]) -> list[tuple[object, ...]]:
    """Makes the cells of `set_aside`."""
    return [
        (run, *cells)
        for run, some in groupby(rows, key=lambda row: str(row[0]))
        for cells in plain_rows(run, [(number, data) for _, number, data in some])
    ]
