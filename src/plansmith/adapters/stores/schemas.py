"""The tables of SQLite and PostgreSQL stores, as they are now and as earlier releases made them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from plansmith.adapters.stores import claim_tables
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
# What lists and sums need of a run as of event `number`. `unsummed` are the runs from before
# there were summaries; an open run may also have newer events than its summary.
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
    CREATE TABLE unsummed (run integer PRIMARY KEY);
"""
# As versions 8 to 10 had it.
_TEXT_EVENTS: Final = """
    CREATE TABLE events (
        position {position} PRIMARY KEY,
        run integer NOT NULL,
        number integer NOT NULL,
        type text NOT NULL,
        at text NOT NULL,
        by text NOT NULL,
        hash text NOT NULL,
        body text NOT NULL
    );
    CREATE UNIQUE INDEX events_run ON events (run, number);
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
    "after_claims": "UPDATE tally SET terms = (SELECT count(*) FROM claims)",
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
    "after_claims": "SELECT setval('terms', (SELECT count(*) + 1 FROM claims))",
}
_ALL: Final = (
    _COUNTS + claim_tables.CLAIMS + _COUNTER + _EVENTS + _VIEW + _TABLES + _SUMMARIES + _THREADS
)
SQLITE: Final = _ALL.format(**_IN_SQLITE)
POSTGRES: Final = _ALL.format(**_IN_POSTGRES)
# Rows stay as they are: they have whole hashes and their own times.
_FROM_11: Final = "DROP VIEW IF EXISTS events_text;" + _VIEW + _THREADS
SQLITE_FROM_11: Final = _FROM_11.format(**_IN_SQLITE)
POSTGRES_FROM_11: Final = _FROM_11.format(**_IN_POSTGRES)
SQLITE_FROM_12: Final = claim_tables.FROM_12.format(**_IN_SQLITE)
POSTGRES_FROM_12: Final = claim_tables.FROM_12.format(**_IN_POSTGRES)
# The rows are moved afterwards.
_RENAME: Final = "ALTER TABLE events RENAME TO old_events;"
SQLITE_FROM_10: Final = _RENAME + _EVENTS.format(**_IN_SQLITE)
POSTGRES_FROM_10: Final = _RENAME + _EVENTS.format(**_IN_POSTGRES)
FROM_9: Final = f"""
    ALTER TABLE runs ADD COLUMN status text NOT NULL DEFAULT '';
    {_SUMMARIES}
    INSERT INTO unsummed SELECT id FROM runs;
"""  # noqa: S608 - constants
# From version 7, whose rows are moved afterwards.
_SQLITE_RENAMES: Final = """
    ALTER TABLE run RENAME TO runs;
    ALTER TABLE owner RENAME TO owners;
    ALTER TABLE gone RENAME TO old_gone;
    ALTER TABLE event RENAME TO old_event;
    ALTER TABLE place RENAME TO old_place;
    ALTER TABLE value RENAME TO old_value;
    ALTER TABLE template RENAME TO old_template;
    ALTER TABLE schedule RENAME TO old_schedule;
    ALTER TABLE fire RENAME TO old_fire;
    ALTER TABLE aside RENAME TO old_aside;
"""
_POSTGRES_RENAMES: Final = """
    ALTER TABLE run RENAME TO runs;
    ALTER TABLE runs ADD COLUMN last integer NOT NULL DEFAULT 0;
    UPDATE runs SET last = ending.number FROM ending WHERE ending.run = runs.id;
    ALTER TABLE runs ALTER COLUMN last DROP DEFAULT;
    ALTER TABLE runs SET (fillfactor = 50);
    DROP TABLE ending;
    ALTER TABLE owner RENAME TO owners;
    ALTER TABLE event RENAME TO old_event;
    ALTER TABLE value RENAME TO old_value;
    ALTER TABLE template RENAME TO old_template;
    ALTER TABLE schedule RENAME TO old_schedule;
    ALTER TABLE fire RENAME TO old_fire;
    ALTER TABLE aside RENAME TO old_aside;
"""
SQLITE_FROM_7: Final = (_COUNTER + _TEXT_EVENTS + _TABLES).format(**_IN_SQLITE) + _SQLITE_RENAMES
POSTGRES_FROM_7: Final = _POSTGRES_RENAMES + (_TEXT_EVENTS + _TABLES).format(**_IN_POSTGRES)

# Never change these: a store of an earlier release has done the first n of them.
EARLIER_SQLITE: Final[Sequence[str]] = (
    # Rows in the order they came, and apart from them where each belongs: a commit of many runs
    # then writes few pages, and no page is left half empty. `last` tells a journal whose end
    # was lost from a whole one.
    """
    CREATE TABLE run (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        last INTEGER NOT NULL
    );
    CREATE TABLE event (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
    CREATE TABLE place (
        run INTEGER NOT NULL,
        number INTEGER NOT NULL,
        event INTEGER NOT NULL,
        PRIMARY KEY (run, number)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE value (
        key BLOB PRIMARY KEY,
        day INTEGER NOT NULL,
        data BLOB NOT NULL
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE template (
        name TEXT NOT NULL,
        version INTEGER NOT NULL,
        removed INTEGER NOT NULL,
        hash BLOB NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (name, version)
    );
    """,
    # Where the newest events stood when they were removed: positions never come twice.
    "CREATE TABLE gone (position INTEGER NOT NULL)",
    # Few fires are open, and those are looked for again and again.
    """
    CREATE TABLE schedule (
        id TEXT PRIMARY KEY,
        version INTEGER NOT NULL,
        hash BLOB NOT NULL,
        data BLOB NOT NULL
    );
    CREATE TABLE fire (
        schedule TEXT NOT NULL,
        due INTEGER NOT NULL,
        version INTEGER NOT NULL,
        open INTEGER NOT NULL,
        hash BLOB NOT NULL,
        data BLOB NOT NULL,
        PRIMARY KEY (schedule, due)
    ) WITHOUT ROWID;
    CREATE INDEX open_fire ON fire (schedule, due) WHERE open = 1;
    """,
    # Ends of journals that do not fit or cannot be read, and who runs which run now.
    """
    CREATE TABLE aside (run TEXT NOT NULL, number INTEGER NOT NULL, data BLOB NOT NULL);
    CREATE INDEX aside_run ON aside (run);
    CREATE TABLE owner (run TEXT PRIMARY KEY, owner TEXT NOT NULL) WITHOUT ROWID;
    """,
    # How many runs there should be: one that is gone altogether leaves no other trace.
    """
    CREATE TABLE tally (runs INTEGER NOT NULL);
    INSERT INTO tally SELECT count(*) FROM run;
    """,
)

# The same for PostgreSQL.
EARLIER_POSTGRES: Final[Sequence[str]] = (
    """
    CREATE TABLE plansmith.run (
        id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        name text NOT NULL UNIQUE
    );
    CREATE TABLE plansmith.event (
        run integer NOT NULL,
        number integer NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (run, number)
    );
    ALTER TABLE plansmith.event ALTER COLUMN data SET STORAGE EXTERNAL;
    """,
    """
    CREATE TABLE plansmith.value (
        key bytea PRIMARY KEY,
        day integer NOT NULL,
        data bytea NOT NULL
    );
    ALTER TABLE plansmith.value ALTER COLUMN data SET STORAGE EXTERNAL;
    """,
    """
    CREATE TABLE plansmith.template (
        name text NOT NULL,
        version integer NOT NULL,
        removed integer NOT NULL,
        hash bytea NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (name, version)
    );
    """,
    # One counter for all writers: whoever follows the store by position sees commits in their
    # order. Small ranges: what is asked for is nearly always the end.
    """
    CREATE TABLE plansmith.counter (position bigint NOT NULL) WITH (fillfactor = 10);
    ALTER TABLE plansmith.event ADD COLUMN position bigint NOT NULL DEFAULT 0;
    UPDATE plansmith.event SET position = placed.position FROM (
        SELECT run, number, row_number() OVER (ORDER BY run, number) AS position
        FROM plansmith.event
    ) AS placed WHERE event.run = placed.run AND event.number = placed.number;
    INSERT INTO plansmith.counter SELECT coalesce(max(position), 0) FROM plansmith.event;
    CREATE INDEX event_position ON plansmith.event USING brin (position)
        WITH (pages_per_range = 8);
    """,
    """
    CREATE TABLE plansmith.schedule (
        id text PRIMARY KEY,
        version integer NOT NULL,
        hash bytea NOT NULL,
        data bytea NOT NULL
    );
    CREATE TABLE plansmith.fire (
        schedule text NOT NULL,
        due bigint NOT NULL,
        version integer NOT NULL,
        open integer NOT NULL,
        hash bytea NOT NULL,
        data bytea NOT NULL,
        PRIMARY KEY (schedule, due)
    );
    CREATE INDEX open_fire ON plansmith.fire (schedule, due) WHERE open = 1;
    """,
    """
    CREATE TABLE plansmith.aside (
        id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        run text NOT NULL,
        number integer NOT NULL,
        data bytea NOT NULL
    );
    CREATE INDEX aside_run ON plansmith.aside (run);
    CREATE TABLE plansmith.owner (run text PRIMARY KEY, owner text NOT NULL);
    """,
    # Where each journal ends and how many there should be, apart from the rows themselves.
    """
    CREATE TABLE plansmith.ending (
        run integer PRIMARY KEY,
        number integer NOT NULL,
        mark bytea NOT NULL
    ) WITH (fillfactor = 50);
    INSERT INTO plansmith.ending
        SELECT DISTINCT ON (run) run, number, substring(data FROM 1 FOR 4)
        FROM plansmith.event ORDER BY run, number DESC;
    CREATE TABLE plansmith.tally (runs bigint NOT NULL);
    INSERT INTO plansmith.tally SELECT count(*) FROM plansmith.run;
    """,
)
