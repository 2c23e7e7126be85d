"""The schema of each database as a numbered list of steps, of which a file has done the first n."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from plansmith.errors import Misconfigured

# Append only: a step that was released is never changed.
SQLITE: Final[Sequence[str]] = (
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

# Storage EXTERNAL: rows are deflated already, the server need not try again.
POSTGRES: Final[Sequence[str]] = (
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

# "PLNS": tells our files from other people's.
APPLICATION_ID: Final = 0x504C4E53


def migrate_sqlite(connection: sqlite3.Connection, name: str, steps: Sequence[str] = SQLITE) -> int:
    """Bring a file to the newest schema and return how many steps that took."""
    if _number(connection, "user_version") == len(steps) and _is_ours(connection):
        return 0
    # The first look may be old news: only under the lock nobody else migrates.
    connection.execute("BEGIN IMMEDIATE")
    try:
        done = _number(connection, "user_version")
        _refuse_foreign(connection, name)
        refuse_newer(name, done, len(steps))
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        for step in steps[done:]:
            for statement in filter(str.strip, step.split(";")):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(steps)}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return len(steps) - done


def refuse_newer(name: str, found: int, known: int) -> None:
    """Do not touch what a later Plansmith wrote."""
    if found > known:
        raise Misconfigured(
            f"{name} has schema version {found}, and this Plansmith knows {known}",
            hint="use the newer Plansmith that wrote it, or another store",
        )


def _refuse_foreign(connection: sqlite3.Connection, name: str) -> None:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables and not _is_ours(connection):
        raise Misconfigured(
            f"{name} is a database of something else", hint="give the store a file of its own"
        )


def _is_ours(connection: sqlite3.Connection) -> bool:
    return _number(connection, "application_id") == APPLICATION_ID


def _number(connection: sqlite3.Connection, setting: str) -> int:
    return int(connection.execute(f"PRAGMA {setting}").fetchone()[0])
