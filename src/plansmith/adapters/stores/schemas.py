"""The tables of SQLite and PostgreSQL stores."""

from __future__ import annotations

from typing import Final

# One text for both databases. `last` tells a journal whose end was lost from a whole one,
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
_IN_SQLITE: Final = {
    "id": "id INTEGER PRIMARY KEY",
    "position": "INTEGER",
    "no_rowid": " WITHOUT ROWID",
    "half_full": "",
    "tenth_full": "",
    "terms": "ALTER TABLE tally ADD COLUMN terms integer NOT NULL DEFAULT 0",
}
# Rows that are written again and again find room on their page.
_IN_POSTGRES: Final = {
    "id": "id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "position": "bigint",
    "no_rowid": "",
    "half_full": " WITH (fillfactor = 50)",
    "tenth_full": " WITH (fillfactor = 10)",
    "terms": "CREATE SEQUENCE terms",
}
_ALL: Final = _COUNTS + _CLAIMS + _COUNTER + _EVENTS + _TABLES + _SUMMARIES
SQLITE: Final = _ALL.format(**_IN_SQLITE)
POSTGRES: Final = _ALL.format(**_IN_POSTGRES)
