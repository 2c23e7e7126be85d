"""Copies a SQLite store to a file and back, and gives unused space back to the disk."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from plansmith.errors import JournalDamaged, Misconfigured, Refused
from plansmith.plan.sentence import Sentence
from plansmith.protected_files import beside, may_write, protect
from plansmith.store.sqlite_file import PRIVATE, converting_errors, is_locked, open_database

Tell = Callable[[str], None]


class Copied(NamedTuple):
    """A copy of a store."""

    bytes: int
    runs: int


def back_up(store: Path, target: Path, *, force: bool = False, tell: Tell) -> Copied:
    """Copies a store to a file, as it is at one moment, while others write; all or nothing."""
    if not store.is_file():
        raise Misconfigured(
            Sentence("there is no store {store}", store=store),
            hint=Sentence("--store names another one"),
        )
    if target.exists() and not force:
        raise Refused(
            Sentence("{file} is there already", file=target), hint=Sentence("--force replaces it")
        )
    protect(beside([store]))
    if not may_write(target):
        raise Refused(
            Sentence("{name} may not be changed from here", name=target),
            hint=Sentence("--store names another one"),
        )
    with _new_file(target) as copy:
        with converting_errors(store), closing(open_database(store)) as source:
            _copy(source, copy)
        tell(Sentence("checking the copy"))
        runs = _checked(copy, target)
        _sync(copy)
        with converting_errors(target), _alone(target) if target.exists() else nullcontext():
            copy.replace(target)
    _sync(target.parent)
    return Copied(target.stat().st_size, runs)


@contextmanager
def checked_copy(source: Path, store: Path, *, tell: Tell) -> Generator[Path]:
    """Copies a backup beside a store and checks it; the copy is gone at the end if still there.

    The file may be from anywhere: only SQLite reads it, nothing in it may run by itself, and what
    is in it is used under no name but its copy's.
    """
    if not source.is_file():
        raise Misconfigured(
            Sentence("there is no file {file}", file=source), hint=Sentence("check the path")
        )
    store.parent.mkdir(parents=True, exist_ok=True)
    with _new_file(store) as copy:
        with converting_errors(source):
            address = f"{source.absolute().as_uri()}?mode=ro&immutable=1"
            with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as given:
                given.execute("PRAGMA trusted_schema = OFF")
                _copy(given, copy)
        tell(Sentence("checking the copy"))
        _checked(copy, source)
        _require_no_code(copy)
        yield copy


def put_in_place(copy: Path, store: Path) -> Path | None:
    """Puts a checked copy in the place of a store that nobody uses; returns the old one."""
    old = store.with_name(f"{store.name}.before-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}")
    if not store.exists():
        copy.replace(store)
        return None
    with converting_errors(store), _alone(store):
        if old.exists():
            raise Refused(
                Sentence("{file} is there already", file=old), hint=Sentence("move it away")
            )
        os.link(store, old)
        copy.replace(store)
    _sync(store.parent)
    return old


def vacuum(store: Path) -> tuple[int, int]:
    """Gives unused space of a store back; others may write before and after, and wait meanwhile."""
    before = _used(store)
    with converting_errors(store), closing(open_database(store)) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return before, _used(store)


def _used(store: Path) -> int:
    files = (store, store.with_name(f"{store.name}-wal"))
    return sum(each.stat().st_size for each in files if each.is_file())


@contextmanager
def _new_file(beside: Path) -> Generator[Path]:
    """Makes an empty private file beside another; it is removed if it is still there at the end."""
    path = beside.with_name(f".{beside.name}.{token_hex(8)}")
    with converting_errors(path):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))
    try:
        yield path
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)


def _copy(source: sqlite3.Connection, target: Path) -> None:
    # One read transaction: what others write meanwhile does not begin the copy anew.
    source.execute("BEGIN")
    source.execute("SELECT 1 FROM sqlite_master").fetchone()
    with converting_errors(target), closing(sqlite3.connect(target, isolation_level=None)) as copy:
        source.backup(copy)
        source.execute("ROLLBACK")
        copy.execute("PRAGMA journal_mode = DELETE").fetchone()


def _checked(copy: Path, name: Path) -> int:
    """Checks that a copy is a sound store; returns how many runs it has. Errors have the name."""
    with converting_errors(name), closing(sqlite3.connect(copy, isolation_level=None)) as found:
        found.execute("PRAGMA cell_size_check = ON")
        flaws = [str(row[0]) for row in found.execute("PRAGMA integrity_check(3)")]
        if flaws != ["ok"]:
            raise JournalDamaged(
                Sentence("it is damaged: {flaw}", flaw=flaws[0]),
                hint=Sentence("use another backup"),
            )
        tables = {str(row[0]) for row in found.execute("SELECT name FROM sqlite_master")}
        if not {"runs", "events", "contents"} <= tables:
            raise Refused(Sentence("this is not a store of Plansmith"))
        return int(found.execute("SELECT count(*) FROM runs").fetchone()[0])


def _require_no_code(copy: Path) -> None:
    """Refuses triggers and views that a new store does not have: they would run by themselves."""
    wanted = "SELECT type, name, sql FROM sqlite_master WHERE type IN ('trigger', 'view')"
    with _new_file(copy) as fresh:
        fresh.unlink()
        with closing(open_database(fresh)) as made:
            known = set(made.execute(wanted).fetchall())
    with closing(sqlite3.connect(copy)) as found:
        strange = [str(row[1]) for row in found.execute(wanted) if row not in known]
    if strange:
        raise Refused(Sentence("the file has code of its own in it: {name}", name=strange[0]))


@contextmanager
def _alone(store: Path) -> Generator[None]:
    """Holds a store that no other connection has open; its log is in the file then."""
    connection = sqlite3.connect(store, timeout=0.1, isolation_level=None)
    try:
        try:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE").fetchone()
            connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if not is_locked(error):
                raise
            hint = Sentence("stop the server and the commands that use it, then try again")
            raise Refused(
                Sentence("another process uses {store}", store=store), hint=hint
            ) from None
        yield
    finally:
        connection.close()


def _sync(path: Path) -> None:
    """Makes a file, or the names in a folder, durable."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
