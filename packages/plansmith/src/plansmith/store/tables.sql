-- The tables of a store, for all databases; what differs between them is in braces. You can read all rows with SELECT.

-- `last` tells a journal whose end was lost from a whole one, `tally.runs` how many runs there should be, and
-- `counter.position` is never smaller than a position that was given, so that none comes twice.
CREATE TABLE runs (
    {id},
    name text NOT NULL UNIQUE,
    last integer NOT NULL,
    status text NOT NULL DEFAULT ''
){half_full};
CREATE INDEX runs_status ON runs (status, id);
CREATE TABLE tally (runs integer NOT NULL);
INSERT INTO tally VALUES (0);
CREATE TABLE counter (position bigint NOT NULL){tenth_full};
INSERT INTO counter VALUES (0);

-- What was hashed of an event is in its row: `at` in UTC, `by` (empty: Plansmith itself) and `body` as JSON, `run` as id in `runs`.
CREATE TABLE events (
    position {position} PRIMARY KEY,
    run integer NOT NULL,
    number integer NOT NULL,
    at text NOT NULL,
    by text NOT NULL,
    type text NOT NULL,
    hash text NOT NULL,
    body text NOT NULL
);
CREATE UNIQUE INDEX events_number ON events (run, number);
CREATE VIEW journals AS
    SELECT name AS run, number, at, by, type, hash, body FROM events JOIN runs ON runs.id = events.run;
-- Inputs and results, by hash; one shorter than its hash stands in the place of it, in the event.
CREATE TABLE contents (hash text PRIMARY KEY, day text NOT NULL, body text NOT NULL){no_rowid};

-- What lists and totals need of a run as of event `number`; an open run may have newer events.
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

-- Who executes which run, and who lives; every claim gets a higher term.
CREATE TABLE claims (
    run text PRIMARY KEY, owner text NOT NULL, term bigint NOT NULL
){no_rowid};
CREATE TABLE processes (
    name text PRIMARY KEY,
    machine text NOT NULL,
    pid integer NOT NULL,
    kind text NOT NULL,
    about text NOT NULL,
    version text NOT NULL,
    lease_s double precision NOT NULL,
    renewals bigint NOT NULL,
    seen double precision NOT NULL
){no_rowid};
{terms};

-- Named JSON documents, each with a version: templates, schedules, conversations, tokens.
CREATE TABLE documents (
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
CREATE INDEX documents_label ON documents (kind, label, place, name);
CREATE INDEX documents_state ON documents (kind, state, place, name);
CREATE INDEX documents_run ON documents (run) WHERE run <> '';

-- Events that a repair took out of a damaged journal; tombstones of deleted runs.
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
