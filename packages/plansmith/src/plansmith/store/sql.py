"""The tables of stores over a database, and the statements about them.

Parameters are written `:name`. Tables have no schema prefix: the connection sets it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from plansmith.errors import Misconfigured
from plansmith.plan.sentence import Sentence

Parameters = Mapping[str, object]
Statement = tuple[str, Sequence[Parameters]]


class Change(NamedTuple):
    """Statements of one transaction; none is done unless each of `needs` finds a row.

    Each of `made` finds a row if they were done by an earlier try whose answer was lost.
    """

    needs: Sequence[tuple[str, Parameters]]
    statements: Sequence[Statement]
    made: Sequence[tuple[str, Parameters]] = ()


class Dialect(NamedTuple):
    """What differs between databases.

    `take_positions` reserves `count` positions and blocks all other writers until the transaction
    ends. `among` are the texts of the JSON list `:keys`. The statements of `claim` are made in
    their order. `now` is the time: a server tells it for all machines, while a SQLite file is used
    by one machine only, which gives its own.
    """

    position: str
    take_positions: str
    among: str
    claim: Sequence[str]
    now: str
    notify: str = ""


VERSION: Final = 1
# The cells of an event, of a summary and of a document.
COLUMNS: Final = "number, at, by, type, hash, body"
SUMMARY_COLUMNS: Final = "number, day, tokens, cost, planning, body"
DOCUMENT_COLUMNS: Final = "kind, name, version, body, label, place, state, run, hash"


def tables(dialect: Mapping[str, str]) -> list[str]:
    """Returns the statements that make the tables of a store; `dialect` fills the braces."""
    text = Path(__file__).with_name("tables.sql").read_text(encoding="utf-8")
    lines = (each for each in text.splitlines() if not each.startswith("--"))
    return [each for each in "\n".join(lines).format(**dialect).split(";") if each.strip()]


# Journals. The event `after` comes too, as the first new one has to follow its hash.
EVENTS: Final = f"""
    SELECT last, {COLUMNS} FROM runs
    LEFT JOIN events ON events.run = runs.id AND number >= :after
    WHERE name = :run ORDER BY number
"""  # noqa: S608 - constants
RUNS: Final = "SELECT name FROM runs ORDER BY id"
LAST_NUMBER: Final = "SELECT last FROM runs WHERE name = :run"
LAST_NUMBERS: Final = "SELECT name, last FROM runs WHERE name IN {among}"
NEWS: Final = """
    SELECT position, name, number FROM events JOIN runs ON runs.id = events.run
    WHERE position > :after ORDER BY position LIMIT :most
"""
VALUES: Final = "SELECT hash, body FROM contents WHERE hash IN {among}"
# A value put again is young again, so that retention does not take it from its new user.
RENEW_CONTENT: Final = (
    "ON CONFLICT (hash) DO UPDATE SET day = excluded.day WHERE contents.day < excluded.day"
)
REPLACE_SUMMARY: Final = """
    ON CONFLICT (run) DO UPDATE SET number = excluded.number, day = excluded.day,
        tokens = excluded.tokens, cost = excluded.cost, planning = excluded.planning,
        body = excluded.body
"""

# Deletion and retention. A cross join keeps SQLite from reading all events.
IS_AT: Final = "SELECT 1 FROM runs WHERE name = :run AND last = :number"
_ID: Final = "(SELECT id FROM runs WHERE name = :run)"
FORGET_SUMMARY: Final = f"DELETE FROM summaries WHERE run = {_ID}"  # noqa: S608 - a constant
DELETE_RUN: Final = (
    FORGET_SUMMARY,
    f"DELETE FROM events WHERE run = {_ID}",  # noqa: S608 - a constant
    "DELETE FROM claims WHERE run = :run",
    "DELETE FROM documents WHERE run = :run AND run <> ''",
    "DELETE FROM set_aside WHERE run = :run AND type <> 'tombstone'",
    "UPDATE tally SET runs = runs - 1",
    "DELETE FROM runs WHERE name = :run",
)
ADD_TOMBSTONE: Final = f"""
    INSERT INTO set_aside (run, {COLUMNS}) VALUES (:run, 0, '', '', 'tombstone', '', :body)
"""  # noqa: S608 - constants
TOMBSTONES: Final = "SELECT body FROM set_aside WHERE type = 'tombstone' ORDER BY id"
TALLY: Final = "SELECT runs FROM tally"
OVER_BEFORE: Final = """
    SELECT name, (SELECT sum(length(own.body) + 200) FROM events AS own WHERE own.run = runs.id)
    FROM runs CROSS JOIN events
    WHERE events.run = runs.id AND number = last AND type = 'run_finished' AND at < :before
"""
OLD_CONTENTS: Final = "SELECT hash FROM contents WHERE day < :day"
EVENT_BODIES: Final = "SELECT body FROM events WHERE position > :after AND position <= :until"
# An event appended since the others were searched may mention the value again.
DELETE_CONTENT: Final = """
    DELETE FROM contents WHERE hash = :hash AND day < :day AND NOT EXISTS (
        SELECT 1 FROM events WHERE position > :seen AND body LIKE :pattern
    )
"""

# Repair of a journal.
ENDS_WITH: Final = """
    SELECT 1 FROM runs JOIN events ON events.run = runs.id AND number = :after
    WHERE name = :run AND last = :last AND hash = :hash
"""
SET_EVENTS_ASIDE: Final = f"""
    INSERT INTO set_aside (run, {COLUMNS})
    SELECT :run, {COLUMNS} FROM events WHERE run = {_ID} AND number > :after ORDER BY number
"""  # noqa: S608 - constants
CUT_EVENTS: Final = f"DELETE FROM events WHERE run = {_ID} AND number > :after"  # noqa: S608 - a constant
ADD_EVENTS: Final = f"""
    INSERT INTO events (position, run, {COLUMNS})
    SELECT position - :back, {_ID}, :number, :at, :by, :type, :hash, :body FROM counter
"""  # noqa: S608 - constants
SET_LAST: Final = "UPDATE runs SET last = :last, status = '' WHERE name = :run"

# Documents, in the table `documents`.
DOCUMENTS: Final = f"SELECT {DOCUMENT_COLUMNS} FROM documents WHERE kind = :kind"  # noqa: S608 - constants
VERSIONS: Final = "SELECT name, version FROM documents WHERE kind = :kind AND name IN {among}"
COMES_NEXT: Final = """
    SELECT 1 WHERE :version - 1 = coalesce(
        (SELECT version FROM documents WHERE kind = :kind AND name = :name), 0
    )
"""
IS_PUT: Final = """
    SELECT 1 FROM documents
    WHERE kind = :kind AND name = :name AND version = :version AND hash = :hash
"""
PUT_DOCUMENT: Final = f"""
    INSERT INTO documents ({DOCUMENT_COLUMNS})
    VALUES (:kind, :name, :version, :body, :label, :place, :state, :run, :hash)
    ON CONFLICT (kind, name) DO UPDATE SET version = excluded.version, body = excluded.body,
        label = excluded.label, place = excluded.place, state = excluded.state,
        run = excluded.run, hash = excluded.hash
"""  # noqa: S608 - constants
REMOVE_DOCUMENT: Final = "DELETE FROM documents WHERE kind = :kind AND name = :name"
REMOVE_LABELLED: Final = "DELETE FROM documents WHERE kind = :kind AND label = :name"

# Claims and processes. A silent owner loses its run only if the number of its renewals is still the
# one that was seen. Its row is locked meanwhile, so that a renewal comes before the claim or after.
CLAIM: Final = """
    INSERT INTO claims (run, owner, term) VALUES (:run, :owner, {term})
    ON CONFLICT (run) DO UPDATE SET owner = excluded.owner, term = excluded.term
    WHERE claims.owner = '' OR claims.term = :instead_of AND (
        :renewals < 0
        OR :renewals = 0 AND NOT EXISTS (SELECT 1 FROM processes WHERE name = claims.owner)
        OR EXISTS (
            SELECT 1 FROM processes WHERE name = claims.owner AND renewals = :renewals {lock}
        )
    )
"""
RELEASE_CLAIM: Final = "DELETE FROM claims WHERE run = :run AND term = :term"
LEAVE_CLAIM: Final = "UPDATE claims SET owner = '' WHERE run = :run AND term = :term"
CLAIM_ROW: Final = "owner, term, coalesce((SELECT last FROM runs WHERE name = :run), 0)"
CLAIM_OF: Final = f"SELECT {CLAIM_ROW} FROM claims WHERE run = :run"  # noqa: S608 - a constant
CLAIMS: Final = "SELECT run, owner, term FROM claims ORDER BY run"
CLAIMS_BY: Final = "SELECT run, owner, term FROM claims WHERE owner = :owner"
ADD_BEAT: Final = """
    INSERT INTO processes (name, machine, pid, kind, about, version, lease_s, renewals, seen)
    VALUES (:name, :machine, :pid, :kind, :about, :version, :lease_s, 1, {now})
    ON CONFLICT (name) DO UPDATE SET renewals = processes.renewals + 1, seen = excluded.seen,
        version = excluded.version, lease_s = excluded.lease_s,
        kind = CASE excluded.kind WHEN 'program' THEN processes.kind ELSE excluded.kind END,
        about = CASE excluded.kind WHEN 'program' THEN processes.about ELSE excluded.about END
"""
BEATS: Final = """
    SELECT name, about, version, lease_s, renewals, {now} - seen FROM processes ORDER BY name
"""
# A process that has not been heard of for an hour, and owns nothing, is forgotten; so are other
# openings of the store by the same process once their leases are over.
FORGET_PROCESSES: Final = """
    DELETE FROM processes WHERE name NOT IN (SELECT owner FROM claims) AND (
        seen < {now} - 3600
        OR machine = :machine AND pid = :pid AND name <> :name AND seen <= {now} - lease_s
    )
"""

SQLITE: Final = Dialect(
    position="""
        SELECT max(counter.position, (SELECT coalesce(max(position), 0) FROM events)) FROM counter
    """,
    # Appends do not write the counter (a page less), so the greater of the two numbers counts.
    take_positions="""
        UPDATE counter SET position = :count
            + max(position, (SELECT coalesce(max(position), 0) FROM events))
    """,
    among="(SELECT value FROM json_each(:keys))",
    claim=(
        "UPDATE tally SET terms = terms + 1",
        CLAIM.format(term="(SELECT terms FROM tally)", lock=""),
    ),
    now=":now",
)


def require_same_version(name: str, found: int) -> None:
    """Refuses a store that another version of Plansmith wrote."""
    if found not in (0, VERSION):
        raise Misconfigured(
            Sentence(
                "{name} has schema version {version}, and this Plansmith knows {known}",
                name=name,
                version=found,
                known=VERSION,
            ),
            hint=Sentence("use the Plansmith that wrote it, or name another store with --store"),
        )
