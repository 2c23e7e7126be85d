"""The short form in which an event is stored: what can be computed again is left out.

A body is stored without its type, which has a column of its own. The start and the result of a
step hold a small value themselves, and leave out its hash, its size and the key of the call. Most
rows have only the beginning of their hash, and the time of an append is in its first row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from plansmith.plan.chain import moment, run_text
from plansmith.plan.events import Event, StepDone, StepStarted

# The place of a type is its number in stored rows: never change one, add new types at the end.
TYPES: Final = (
    *("", "run_created", "triaged", "plan_proposed", "review_asked", "plan_approved"),
    *("plan_rejected", "changes_asked", "question_asked", "question_answered"),
    *("question_withdrawn", "run_started", "step_started", "step_progressed", "step_done"),
    *("step_failed", "step_skipped", "step_cancelled", "step_unknown", "step_reset"),
    *("run_paused", "run_resumed", "cancel_asked", "replan_started", "report_started"),
    *("report_made", "run_finished", "step_reused", "step_advised", "step_replied", "run_repaired"),
    *("prefetch_started", "prefetch_ended", "planning_failed", "step_waits"),
)
RUN_FINISHED: Final = TYPES.index("run_finished")
# A larger value is stored once, however many events mention it.
LARGEST_INSIDE: Final = 256
# What most rows have of their hash. The hashes are computed again, and have to lead to the next
# whole one.
MARK_BYTES: Final = 4
# How far a whole hash is away at most: whoever reads the end of a journal begins there.
WHOLE_HASH_EVERY: Final = 16
# Instead of the time of the row before, which is then not stored twice, and that time itself.
SAME_TIME: Final = 1
_THAT_TIME: Final = -(2**62)
SYSTEM: Final = b'{"kind":"system"}'
_NUMBERS: Final = {name: number for number, name in enumerate(TYPES)}
# A negative number says that the type is still in the body.
_TYPE_OF: Final = {
    sign * number: name for name, number in _NUMBERS.items() if name for sign in (1, -1)
}
# How a body with this type ends, and where that begins, from its end.
_TAILS: Final = tuple((f',"type":"{name}"}}'.encode(), -len(name) - 11) for name in TYPES)
_ALONE: Final = tuple(f'{{"type":"{name}"}}'.encode() for name in TYPES)
_DONE: Final = _NUMBERS["step_done"]
_STEP: Final = b'"step":"'
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_REF_SIGN: Final = 2**31
_BEGINNING: Final = 16

# The cells of an event to be written, in the order of `PACKED_COLUMNS`: a plain tuple, since
# thousands are made a second.
Cells = tuple[int, int, int, str | None, bytes, str, str | None, int | None]
# An event as the texts that were hashed: type, time, actor, hash and body. A plain tuple as well.
Texts = tuple[str, str, bytes, str, bytes]
COLUMNS: Final = "number, type, at, by, hash, body, value"
PACKED_COLUMNS: Final = f"{COLUMNS}, ref"


def since_epoch(at: datetime) -> int:
    """Returns a time as whole microseconds."""
    return (at - _EPOCH) // _MICROSECOND


def stored_time(at: datetime) -> int:
    """Returns a time as it is stored where it is not that of the row before."""
    microseconds = since_epoch(at)
    return microseconds if microseconds != SAME_TIME else _THAT_TIME


@lru_cache(maxsize=256)
def at_text(microseconds: int) -> str:
    """Returns the text of a stored time, as it was hashed."""
    if microseconds == _THAT_TIME:
        microseconds = SAME_TIME
    return moment(_EPOCH + timedelta(microseconds=microseconds))


def ref_of(digest: str) -> int:
    """Returns the part of a content hash by which a value inside an event is found."""
    ref = int(digest[:8], 16)
    return ref if ref < _REF_SIGN else ref - 2 * _REF_SIGN


def pack_body(kind: int, body: bytes) -> tuple[int, bytes]:
    """Leaves the type out of a body; a negative number says that it is still in it."""
    tail, cut = _TAILS[kind]
    if body.endswith(tail):
        return kind, body[:cut] + b"}"
    return (kind, b"{}") if body == _ALONE[kind] else (-kind, body)


def pack(event: Event, small: Mapping[str, bytes]) -> tuple[int, bytes, str]:
    """Returns the type's number, the short body, and the hash of the value that goes inside.

    `small` are the values that may go inside, by hash. A body that says something else about its
    value than what can be computed stays as it is, and the value outside.
    """
    body = event.body
    kind, packed = pack_body(_NUMBERS[body.type], event.body_text)
    digest = ""
    # By class: nearly all events are these two.
    if type(body) is StepDone:
        digest = body.result
    elif type(body) is StepStarted:
        digest = body.inputs
    if digest not in small:
        return kind, packed, ""
    end = packed.rfind(_STEP)
    part = _left_out(kind, event.run, packed[end:], digest.encode(), len(small[digest]))
    if not packed.endswith(part, 1, end):
        return kind, packed, ""
    return kind, packed[: end - len(part)] + packed[end:], digest


def _left_out(kind: int, run: str, end: bytes, digest: bytes, size: int) -> bytes:
    """Returns the part of a body that can be computed of the value and of what is behind it."""
    if kind == _DONE:
        return b'"result":"%b","size":%d,' % (digest, size)
    key = run_text(run)[1:-1], end[len(_STEP) : -2], digest[:_BEGINNING]
    return b'"inputs":"%b","key":"%b/%b/%b",' % (digest, *key)


def _put_back(kind: int, run: str, packed: bytes, value: bytes) -> bytes:
    place = packed.rfind(_STEP)
    end = packed[place:]
    part = _left_out(kind, run, end, sha256(value).hexdigest().encode(), len(value))
    return packed[:place] + part + end


def texts_of(run: str, cells: Sequence[Any]) -> Texts:
    """Returns the hashed texts of stored cells; `TypeError` or `ValueError` if there are none.

    The cells are those of `timed`; the hash may be the beginning of one.
    """
    _, kind, at, by, digest, body, value = cells
    # Compared by class, and without calls where it can be: a journal has thousands of rows.
    if not (kind.__class__ is int and at.__class__ is int and digest.__class__ is bytes):
        raise TypeError("a row without a type, a time and a hash")
    if kind not in _TYPE_OF:
        raise ValueError("a type that this release does not know")
    number: int = kind
    packed = f"{body}".encode()
    if value is not None:
        packed = _put_back(number, run, packed, f"{value}".encode())
    if number > 0:
        packed = _ALONE[number] if packed == b"{}" else packed[:-1] + _TAILS[number][0]
    told = SYSTEM if by is None else f"{by}".encode()
    return _TYPE_OF[number], at_text(at), told, digest.hex(), packed


def time_of(row: str) -> str:
    """Returns the SQL expression of the time of a row of `events`."""
    return f"""CASE WHEN {row}.at <> {SAME_TIME} THEN {row}.at ELSE (
        SELECT timed.at FROM events AS timed WHERE timed.run = {row}.run
            AND timed.number <= {row}.number AND timed.at <> {SAME_TIME}
        ORDER BY timed.number DESC LIMIT 1
    ) END"""  # noqa: S608 - constants


def is_mark(digest: object) -> bool:
    """Tells whether a stored hash is only the beginning of one."""
    return isinstance(digest, bytes) and len(digest) == MARK_BYTES


def timed(rows: Iterable[Sequence[Any]], known: object = None) -> Iterator[Sequence[Any]]:
    """Gives each row of a journal its time; `known` is that of the row before them."""
    for cells in rows:
        if cells[2] == SAME_TIME:
            yield *cells[:2], known, *cells[3:]
        else:
            known = cells[2]
            yield cells


def shown_row(run: str, cells: Sequence[Any]) -> Mapping[str, object]:
    """Returns a row that is set aside, with all its texts; a damaged one as it is."""
    try:
        kind, at, by, digest, body = texts_of(run, cells)
    except (TypeError, ValueError, OverflowError, RecursionError):
        kind, at, by, digest = "", "", b"", ""
        body = json.dumps(list(cells), default=repr).encode()
    texts = {"by": by.decode(errors="replace"), "body": body.decode(errors="replace")}
    return {"run": run, "number": cells[0], "type": kind, "at": at, "hash": digest, **texts}


def values_inside(rows: Iterable[Sequence[Any]]) -> Mapping[str, tuple[str, str]]:
    """Returns the values inside of rows of `(at, value)` by their content hash, with their day."""
    found: dict[str, tuple[str, str]] = {}
    for at, value in rows:
        try:
            digest = sha256(str(value).encode()).hexdigest()
            day = at_text(at)[:10]
        except (TypeError, ValueError, OverflowError):
            continue  # damaged: nobody can ask for it by its hash
        found[digest] = day, str(value)
    return found
