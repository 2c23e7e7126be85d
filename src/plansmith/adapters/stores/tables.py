"""The tables of stores over a database; refuses a store of another version."""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence

VERSION: Final = 14
# "PLNS": distinguishes our files from those of other programs.
APPLICATION_ID: Final = 0x504C4E53
# One text for all databases. `last` tells a journal whose end was lost from a whole one,
# `tally.runs` how many runs there should be, and `counter.position` is never smaller than a
# position that was given, so that none comes twice.
_COUNTS: Final = """
    CREATE TABLE runs (
        {id},
        name text NOT NULL UNIQUE,
        last integer NOT NULL,
        status text NOT NULL DEFAULT ''
    ){half_full};
    CREATE TABLE tally (runs integer NOT NULL);
    INSERT INTO tally VALUES (0);
"""
_COUNTER: Final = """
    CREATE TABLE counter (position bigint NOT NULL){tenth_full};
    INSERT INTO counter VALUES (0);
"""
# Who executes which run, and which processes live. Every claim gets a higher term.
_CLAIMS: Final = """
    CREATE TABLE claims (
        run text PRIMARY KEY, owner text NOT NULL, term bigint NOT NULL
    ){no_rowid};
    CREATE TABLE processes (
        name text PRIMARY KEY,
        machine text NOT NULL,
        pid integer NOT NULL,
        kind text NOT NULL,
        version text NOT NULL,
        lease_s double precision NOT NULL,
        beats bigint NOT NULL,
        seen double precision NOT NULL
    ){no_rowid};
    {terms};
"""
# What lists and sums need of a run as of event `number`; an open run may have newer events.
_SUMMARIES: Final = """
    CREATE INDEX runs_status ON runs (status, id);
    CREATE TABLE summaries (
        run integer PRIMARY KEY,
        number integer NOT NULL,
        day text NOT NULL,
        tokens bigint NOT NULL,
        cost text NOT NULL,
        planning text,
        body text NOT NULL
    );
    CREATE INDEX summaries_day ON summaries (day, cost, tokens);
    CREATE INDEX summaries_planned ON summaries (run) WHERE planning IS NOT NULL;
"""
# What was hashed of an event is in its row: `at` is a time in UTC, `by` and `body` are JSON.
_EVENTS: Final = """
    CREATE TABLE events (
        position {position} PRIMARY KEY,
        run text NOT NULL,
        number integer NOT NULL,
        at text NOT NULL,
        by text NOT NULL,
        type text NOT NULL,
        hash text NOT NULL,
        body text NOT NULL
    );
    CREATE UNIQUE INDEX events_number ON events (run, number);
"""
# Templates, schedules, conversations: named JSON documents, each with a version.
_TABLES: Final = """
    CREATE TABLE contents (hash text PRIMARY KEY, day text NOT NULL, body text NOT NULL){no_rowid};
    CREATE TABLE records (
        kind text NOT NULL,
        name text NOT NULL,
        version integer NOT NULL,
        label text NOT NULL,
        place text NOT NULL,
        state text NOT NULL,
        run text NOT NULL,
        hash text NOT NULL,
        body text NOT NULL,
        PRIMARY KEY (kind, name)
    ){no_rowid};
    CREATE INDEX records_label ON records (kind, label, place, name);
    CREATE INDEX records_state ON records (kind, state, place, name);
    CREATE INDEX records_run ON records (run) WHERE run <> '';
    CREATE TABLE set_aside (
        {id},
        run text NOT NULL,
        number integer NOT NULL,
        type text NOT NULL,
        at text NOT NULL,
        by text NOT NULL,
        hash text NOT NULL,
        body text NOT NULL
    );
    CREATE INDEX set_aside_run ON set_aside (run);
"""
_ALL: Final = _COUNTS + _CLAIMS + _COUNTER + _EVENTS + _TABLES + _SUMMARIES
_IN_SQLITE: Final = {
    "id": "id INTEGER PRIMARY KEY",
    "position": "INTEGER",
    "no_rowid": " WITHOUT ROWID",
    "half_full": "",
    "tenth_full": "",
    "terms": "ALTER TABLE tally ADD COLUMN terms integer NOT NULL DEFAULT 0",
}


def tables_in(words: Mapping[str, str]) -> str:
    """Returns the statements that make all tables, given the words that a database has for them."""
    return _ALL.format(**words)


def refuse_other_version(name: str, found: int) -> None:
    """Refuses a store that another version of Plansmith wrote."""
    if found > VERSION:
        raise Misconfigured(
            Sentence("store.newer", name=name, version=found, known=VERSION),
            hint=Sentence("store.use_newer"),
        )
    if 0 < found < VERSION:
        raise Misconfigured(
            Sentence("store.older", name=name, version=found, known=VERSION),
            hint=Sentence("store.use_new_store"),
        )


def prepare_sqlite(connection: sqlite3.Connection, name: str) -> None:
    """Makes the tables of a new file; refuses files of other programs and versions."""
    if _number(connection, "user_version") == VERSION and _is_ours(connection):
        return
    with _transaction(connection):
        # Checked again under the lock: another process may have made them meanwhile.
        found = _number(connection, "user_version")
        _refuse_foreign(connection, name)
        refuse_other_version(name, found)
        if found == 0:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            for statement in filter(str.strip, tables_in(_IN_SQLITE).split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _refuse_foreign(connection: sqlite3.Connection, name: str) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables and not _is_ours(connection):
        raise Misconfigured(
            Sentence("store.other_program", name=name), hint=Sentence("store.own_file")
        )


def _is_ours(connection: sqlite3.Connection) -> bool:
    return _number(connection, "application_id") == APPLICATION_ID


def _number(connection: sqlite3.Connection, setting: str) -> int:
    return int(connection.execute(f"PRAGMA {setting}").fetchone()[0])
