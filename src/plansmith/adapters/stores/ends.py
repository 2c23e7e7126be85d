"""Remembers the last event of each run in a small file beside the database, to notice losses.

It is a separate file, so that damage to the database, such as a deleted log, does not affect it.
Each run has one slot; a later run may reuse the slot of an older one, so the file never grows. The
last process that closes the store removes the file, unless events that it names are missing.
"""

from __future__ import annotations

import os
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from plansmith.adapters.stores.rows import DOCTOR
from plansmith.errors import JournalDamaged
from plansmith.plan.sentence import Sentence

if sys.platform != "win32":
    import fcntl

PLACES: Final = 16_384
_BYTES: Final = 64
# The run, the number and the first bytes of the hash of its last event, and a checksum of these.
_FORM: Final = struct.Struct("<48sI4sI4x")
_NAME_BYTES: Final = 48
_HASH_BYTES: Final = 4
# Where the checksum stands.
_CHECK: Final = 56


class End(NamedTuple):
    """The last event of a run that is known to be durable."""

    run: str
    number: int
    hash: str


class Ends:
    """The last events of runs; written after each commit, checked before a journal is read."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(f"{database.name}-ends")
        self._lock = threading.Lock()
        self._handle: int | None = None

    def note(self, ends: Iterable[End]) -> None:
        """Writes where runs end now; ignores a file that cannot be written."""
        with suppress(OSError):
            handle = self._opened()
            for run, number, digest in ends:
                name, mark = run.encode(), bytes.fromhex(digest[: 2 * _HASH_BYTES])
                if len(name) <= _NAME_BYTES:
                    told = _FORM.pack(name, number, mark, 0)
                    check = crc32(told).to_bytes(4, "little")
                    os.pwrite(handle, told[:_CHECK] + check + told[_CHECK + 4 :], _place(name))

    def forget(self, run: str) -> None:
        """Removes a run that was deleted, or whose end was set aside."""
        if self.of(run) is not None:
            with suppress(OSError):
                os.pwrite(self._opened(), bytes(_BYTES), _place(run.encode()))

    def of(self, run: str) -> End | None:
        """Returns the last event of a run, if it is known."""
        try:
            found = _read(os.pread(self._opened(), _BYTES, _place(run.encode())))
        except OSError:
            return None
        return found if found is not None and found.run == run else None

    def all(self) -> Iterator[End]:
        """Returns all known last events."""
        data = self.path.read_bytes() if self.path.is_file() else b""
        for start in range(0, len(data), _BYTES):
            found = _read(data[start : start + _BYTES])
            if found is not None:
                yield found

    def close(self, agrees: Callable[[Iterable[End]], bool]) -> None:
        """Closes the file; removes it if no other process has it and the database agrees."""
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is None:
            return
        with suppress(OSError):
            if _is_last(handle) and agrees(self.all()):
                self.path.unlink()
        os.close(handle)

    def _opened(self) -> int:
        with self._lock:
            while self._handle is None:
                handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    _share(handle)
                except OSError:
                    os.close(handle)
                    raise
                # The one who was last may have removed it between the two.
                if self.path.exists() and self.path.stat().st_ino == os.fstat(handle).st_ino:
                    self._handle = handle
                else:
                    os.close(handle)
            return self._handle


def _share(handle: int) -> None:
    # Not a POSIX lock: nobody can lose this one by opening the file again.
    if sys.platform != "win32":
        fcntl.flock(handle, fcntl.LOCK_SH)


def _is_last(handle: int) -> bool:
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def need_end(run: str, end: End | None, last: int, digest: object) -> None:
    """Refuses a journal that has lost events since its last commit or differs there."""
    if end is None or end.number < last:
        return
    if end.number > last:
        what = Sentence("journal.event", number=last + 1, run=run) if last else f"run {run}"
        raise JournalDamaged(Sentence("journal.lost", what=what), hint=DOCTOR)
    if digest is not None and not str(digest).startswith(end.hash):
        raise JournalDamaged(Sentence("journal.end_changed", run=run), hint=DOCTOR)


def _place(name: bytes) -> int:
    return crc32(name) % PLACES * _BYTES


def _read(data: bytes) -> End | None:
    if len(data) < _BYTES or not data.strip(b"\0"):
        return None
    name, number, mark, check = _FORM.unpack(data)
    if crc32(_FORM.pack(name, number, mark, 0)) != check:
        return None
    return End(name.rstrip(b"\0").decode(errors="replace"), number, mark.hex())
