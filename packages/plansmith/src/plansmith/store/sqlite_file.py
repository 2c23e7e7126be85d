"""Opens a SQLite file as a store's database, and converts SQLite's errors to ours."""

from __future__ import annotations

import os
import secrets
import sqlite3
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from plansmith.errors import JournalDamaged, JournalError, Misconfigured, PlansmithError, StoreAway
from plansmith.plan.sentence import Sentence
from plansmith.protected_files import SUFFIXES, hold, release
from plansmith.store.rows import DOCTOR
from plansmith.store.sql import VERSION, require_same_version, tables

# "PLNS" tells our files from those of other programs.
APPLICATION_ID: Final = 0x504C4E53
PRIVATE: Final = 0o600
_IN_SQLITE: Final = {
    "id": "id INTEGER PRIMARY KEY",
    "position": "INTEGER",
    "no_rowid": " WITHOUT ROWID",
    "half_full": "",
    "tenth_full": "",
    "terms": "ALTER TABLE tally ADD COLUMN terms integer NOT NULL DEFAULT 0",
}
Synchronous = Literal["full", "normal"]

_LOCKED: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED: Final = (
    *(sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT),
    *(sqlite3.SQLITE_MISMATCH, sqlite3.SQLITE_FORMAT),
)
_REFUSED: Final = (
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH),
)


class _Held(sqlite3.Connection):
    """A connection that marks its files as in use, so that this process does not open them."""

    def __init__(self, path: Path, *given: Any, **more: Any) -> None:
        super().__init__(path, *given, **more)
        self._path: Path | None = path
        hold(path)

    def close(self) -> None:
        """Closes the connection; may be called twice."""
        super().close()
        path, self._path = self._path, None
        if path is not None:
            release(path)


class SameFile:
    """Checks that a store's file is still the one that was opened.

    SQLite keeps writing to a file that was moved or removed, where no one would find it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int] | None = None

    def require_same(self) -> None:
        """Raises `StoreAway` while the file is not where it was."""
        try:
            found = self._path.stat()
        except OSError:
            if self._seen is None:
                return
            away = Sentence("{path} was moved or removed", path=self._path)
        else:
            mark = found.st_dev, found.st_ino
            self._seen = self._seen or mark
            if mark == self._seen:
                return
            away = Sentence("{path} was replaced by another file", path=self._path)
        raise StoreAway(away, hint=Sentence("put it back, or restart whatever uses it"))


def open_database(
    path: Path, *, synchronous: Synchronous = "full", timeout_s: float = 10.0
) -> sqlite3.Connection:
    """Opens a file in write-ahead mode and makes its tables if it is new."""
    with converting_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _make_private(path)
        log = path.with_name(f"{path.name}-wal")
        had_log = log.is_file() and log.stat().st_size > 0
        connection = sqlite3.connect(
            path, timeout=timeout_s, isolation_level=None, check_same_thread=False, factory=_Held
        )
        # Bytes that are not UTF-8 are let through here: whoever reads the row refuses it.
        connection.text_factory = partial(str, encoding="utf-8", errors="surrogateescape")
        try:
            _set_wal(connection, path, timeout_s)
            # SQLite reads half a page at the end as a page of zeros; with a log it repairs that.
            # This asks only for the size: opening and closing the file would drop locks.
            if not had_log and path.stat().st_size % setting(connection, "page_size"):
                raise JournalDamaged(  # noqa: TRY301 - the connection is closed below
                    Sentence("the end of {path} is missing", path=path), hint=DOCTOR
                )
            connection.execute(f"PRAGMA synchronous = {synchronous.upper()}")
            connection.execute("PRAGMA cell_size_check = ON")
            _make_tables(connection, path)
        except BaseException:
            connection.close()
            raise
        return connection


def _make_private(path: Path) -> None:
    """Creates the database files readable by the owner only, before any data is in them."""
    if not path.exists():
        # Made under another name: to close a handle of the file itself would drop locks.
        new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))
        try:
            with suppress(FileExistsError):
                os.link(new, path)
        finally:
            new.unlink()
    for suffix in SUFFIXES:
        file = path.with_name(f"{path.name}{suffix}")
        # A file of somebody else stays as its owner wants it.
        with suppress(FileNotFoundError, PermissionError):
            if file.is_file() and stat.S_IMODE(file.stat().st_mode) & 0o077:
                file.chmod(PRIVATE)


def _set_wal(connection: sqlite3.Connection, path: Path, timeout_s: float) -> None:
    # SQLite does not wait for a lock here by itself when several processes open a new file.
    deadline = time.monotonic() + timeout_s
    mode = ""
    while not mode:
        try:
            mode = str(connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if not is_locked(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
    if mode != "wal":
        raise Misconfigured(
            Sentence("{path} is on a disk that cannot keep a write-ahead log", path=path),
            hint=Sentence("use a local disk"),
        )


def _make_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Makes the tables of a new file; refuses files of other programs and versions."""
    if setting(connection, "user_version") == VERSION and is_ours(connection):
        return
    with transaction(connection):
        # Checked again under the lock: another process may have made them meanwhile.
        if connection.execute("SELECT 1 FROM sqlite_master").fetchone() and not is_ours(connection):
            raise Misconfigured(
                Sentence("{name} is a database of another program", name=path),
                hint=Sentence("give the store a file of its own"),
            )
        version = setting(connection, "user_version")
        require_same_version(str(path), version)
        if version == 0:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            for statement in tables(_IN_SQLITE):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")


def setting(connection: sqlite3.Connection, name: str) -> int:
    """Returns a number that SQLite keeps of a database."""
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def is_ours(connection: sqlite3.Connection) -> bool:
    """Tells whether a database is marked as one of Plansmith."""
    return setting(connection, "application_id") == APPLICATION_ID


@contextmanager
def transaction(connection: sqlite3.Connection) -> Generator[sqlite3.Connection]:
    """Takes the write lock at its start."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def converting_errors(path: Path, *, was_open: bool = False) -> Generator[None]:
    """Converts errors of SQLite and of the file system to ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise store_error(error, path, was_open=was_open) from error
    except UnicodeDecodeError as error:
        # What should be text, perhaps the error message itself, is not.
        raise JournalDamaged(Sentence("{path} is damaged", path=path), hint=DOCTOR) from error
    except OSError as error:
        raise Misconfigured(
            Sentence("{path} cannot be used: {strerror}", path=path, strerror=error.strerror),
            hint=Sentence("check the path and its permissions"),
        ) from error


def store_error(error: sqlite3.Error, path: Path, *, was_open: bool = False) -> PlansmithError:
    """Returns our error for one of SQLite; if the file was open before, a retry may help."""
    code = _code(error)
    kind = code & 0xFF
    if kind in _LOCKED:
        return StoreAway(
            Sentence("{path} is locked by another process", path=path),
            hint=Sentence("wait for it or end it; `plansmith store doctor` says which one it is"),
        )
    if kind == sqlite3.SQLITE_FULL:
        return StoreAway(
            Sentence("the disk of {path} is full", path=path),
            hint=Sentence("free some space and try again"),
        )
    if kind in _DAMAGED or code == sqlite3.SQLITE_IOERR_SHORT_READ:
        return JournalDamaged(
            Sentence("{path} is damaged or not a database: {error}", path=path, error=error),
            hint=Sentence("run `plansmith store doctor`, or restore the file from a backup"),
        )
    if kind == sqlite3.SQLITE_IOERR or (kind in _REFUSED and was_open):
        return StoreAway(
            Sentence("{path} cannot be used now: {error}", path=path, error=error),
            hint=Sentence("check the disk"),
        )
    if kind in _REFUSED:
        return Misconfigured(
            Sentence("{path} cannot be opened or written: {error}", path=path, error=error),
            hint=Sentence("check the path, the permissions of the file and of its folder"),
        )
    return JournalError(
        f"{path}: {error}", hint=Sentence("check the disk; then run `plansmith store doctor`")
    )


def is_locked(error: sqlite3.Error) -> bool:
    """Tells whether another process holds the lock."""
    return _code(error) & 0xFF in _LOCKED


def _code(error: sqlite3.Error) -> int:
    # Errors of the Python module itself carry no code.
    return getattr(error, "sqlite_errorcode", None) or sqlite3.SQLITE_ERROR
