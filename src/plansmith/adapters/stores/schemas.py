"""The tables of SQLite and PostgreSQL stores."""

from __future__ import annotations

from typing import Final

from plansmith.adapters.stores.packing import TYPES, time_of

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
# `type` is the number of a name in `event_types`, `at` is in microseconds, `by` is null for the
# system. A small `value` that an event mentions is in its row; `ref` are 4 bytes of the value's
# hash. Most rows have 4 bytes of their own hash, and 1 instead of the time of the row before.
_EVENTS: Final = """
    CREATE TABLE events (
        position {position} PRIMARY KEY,
        run integer NOT NULL,
        number integer NOT NULL,
        type integer NOT NULL,
        at bigint NOT NULL,
        by text,
        hash {bytes} NOT NULL,
        body text NOT NULL,
        value text,
        ref integer
    );
    CREATE UNIQUE INDEX events_number ON events (run, number);
    CREATE INDEX events_ref ON events (ref) WHERE ref IS NOT NULL;
    CREATE TABLE event_types (type integer PRIMARY KEY, name text NOT NULL);
    INSERT INTO event_types VALUES {types};
"""
# Types, times and hashes as text.
_VIEW: Final = f"""
    CREATE VIEW events_text AS
        SELECT position, run, number, type, {{at}} AS at, by, hash, body, value FROM (
            SELECT position, events.run AS run, number, coalesce(name, '') AS type,
                {time_of("events")} AS at, coalesce(by, '{{{{"kind":"system"}}}}') AS by,
                {{hex}} AS hash, body, value
            FROM events LEFT JOIN event_types ON event_types.type = abs(events.type)
        ) AS shown;
"""  # noqa: S608 - constants
_TABLES: Final = """
    CREATE TABLE contents (hash text PRIMARY KEY, day text NOT NULL, body text NOT NULL){no_rowid};
    CREATE TABLE templates (
        name text NOT NULL,
        version integer NOT NULL,
        removed integer NOT NULL,
        hash text NOT NULL,
        body text NOT NULL,
        PRIMARY KEY (name, version)
    );
    CREATE TABLE schedules (
        id text PRIMARY KEY, version integer NOT NULL, hash text NOT NULL, body text NOT NULL
    );
    CREATE TABLE fires (
        schedule text NOT NULL,
        due text NOT NULL,
        version integer NOT NULL,
        open integer NOT NULL,
        hash text NOT NULL,
        body text NOT NULL,
        PRIMARY KEY (schedule, due)
    ){no_rowid};
    CREATE INDEX open_fires ON fires (schedule, due) WHERE open = 1;
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
# An entry is JSON text and its hash. A thread has a row for lists; the last table tells to which
# thread a run belongs.
_THREADS: Final = """
    CREATE TABLE threads (
        thread text PRIMARY KEY,
        owner text NOT NULL,
        title text NOT NULL,
        folder text NOT NULL,
        messages integer NOT NULL,
        last integer NOT NULL,
        updated text NOT NULL
    ){no_rowid};
    CREATE INDEX threads_owner ON threads (owner, updated, thread);
    CREATE INDEX threads_updated ON threads (updated, thread);
    CREATE TABLE thread_entries (
        thread text NOT NULL,
        number integer NOT NULL,
        hash text NOT NULL,
        body text NOT NULL,
        PRIMARY KEY (thread, number)
    ){no_rowid};
    CREATE TABLE thread_runs (run text PRIMARY KEY, thread text NOT NULL){no_rowid};
"""
_TYPES: Final = ", ".join(f"({number}, '{name}')" for number, name in enumerate(TYPES) if name)
_IN_SQLITE: Final = {
    "bytes": "blob",
    "types": _TYPES,
    "at": "strftime('%Y-%m-%dT%H:%M:%S', at / 1000000, 'unixepoch')"
    " || printf('.%06dZ', at % 1000000)",
    "hex": "lower(hex(hash))",
    "id": "id INTEGER PRIMARY KEY",
    "position": "INTEGER",
    "no_rowid": " WITHOUT ROWID",
    "half_full": "",
    "tenth_full": "",
    "terms": "ALTER TABLE tally ADD COLUMN terms integer NOT NULL DEFAULT 0",
}
# Rows that are written again and again find room on their page.
_IN_POSTGRES: Final = {
    "bytes": "bytea",
    "types": _TYPES,
    "at": "to_char(timestamp 'epoch' + at * interval '1 microsecond',"
    """ 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')""",
    "hex": "encode(hash, 'hex')",
    "id": "id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "position": "bigint",
    "no_rowid": "",
    "half_full": " WITH (fillfactor = 50)",
    "tenth_full": " WITH (fillfactor = 10)",
    "terms": "CREATE SEQUENCE terms",
}
_ALL: Final = _COUNTS + _CLAIMS + _COUNTER + _EVENTS + _VIEW + _TABLES + _SUMMARIES + _THREADS
SQLITE: Final = _ALL.format(**_IN_SQLITE)
POSTGRES: Final = _ALL.format(**_IN_POSTGRES)
