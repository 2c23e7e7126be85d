"""Makes an earlier version of a SQLite store, to be migrated."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

from plansmith.adapters.stores.packing import COLUMNS, since_epoch, texts_of
from plansmith.adapters.stores.rows import read_journal

_TEXT_EVENTS = """
    DROP VIEW events_text;
    DROP TABLE event_types;
    DROP TABLE events;
    CREATE TABLE events (
        position INTEGER PRIMARY KEY,
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


_WITHOUT = """
    DROP VIEW events_text;
    CREATE VIEW events_text AS SELECT 1;
    DROP TABLE threads;
    DROP TABLE thread_entries;
    DROP TABLE thread_runs;
    DROP TABLE claims;
    DROP TABLE processes;
    ALTER TABLE tally DROP COLUMN terms;
    CREATE TABLE owners (run text PRIMARY KEY, owner text NOT NULL) WITHOUT ROWID;
    PRAGMA user_version = 11;
"""


def as_version_11(path: Path) -> None:
    """Gives every event its whole hash and its time, and leaves out what is kept of threads."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        for key, run in file.execute("SELECT id, name FROM runs").fetchall():
            cells = f"SELECT {COLUMNS} FROM events WHERE run = ? ORDER BY number"
            for event in read_journal(run, file.execute(cells, (key,)).fetchall(), after=0):
                file.execute(
                    "UPDATE events SET hash = ?, at = ? WHERE run = ? AND number = ?",
                    (bytes.fromhex(event.hash), since_epoch(event.at), key, event.number),
                )
        file.executescript(_WITHOUT)


def as_version_10(path: Path) -> None:
    """Makes every event a row of texts, and every value a row of its own."""
    as_version_11(path)
    file = sqlite3.connect(path, isolation_level=None)
    cells = f"SELECT position, runs.id, name, {COLUMNS} FROM events JOIN runs ON runs.id = run"
    rows = file.execute(cells).fetchall()
    file.executescript(_TEXT_EVENTS)
    for position, key, run, *packed in rows:
        kind, at, by, digest, body = texts_of(run, packed)
        row = (position, key, packed[0], kind, at, by.decode(), digest, body.decode())
        file.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        if packed[-1] is not None:
            value = (hashlib.sha256(packed[-1].encode()).hexdigest(), at[:10], packed[-1])
            file.execute("INSERT OR IGNORE INTO contents VALUES (?, ?, ?)", value)
    file.execute("PRAGMA user_version = 10")
    file.close()
