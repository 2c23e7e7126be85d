"""The SQL statements of a store on PostgreSQL that no other store has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from plansmith.store.commit import Append
from plansmith.store.sql import CLAIM, COLUMNS, PUT_AGAIN, SUM_UP_AGAIN, SUMMARY_COLUMNS, Dialect

POSTGRES: Final = Dialect(
    position="SELECT position FROM counter",
    take="UPDATE counter SET position = position + :count",
    among="(SELECT jsonb_array_elements_text(CAST(:keys AS jsonb)))",
    claim=(CLAIM.format(term="nextval('terms')", lock="FOR SHARE") + " RETURNING owner, term",),
    now="extract(epoch FROM clock_timestamp())::float8",
    notify="SELECT pg_notify(current_schema(), :note)",
)


@lru_cache(maxsize=256)
def for_postgres(statement: str) -> str:
    """Rewrites `:name` parameters in the form of PostgreSQL's driver."""
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", statement)


_SUMS: Final = ", ".join(f"sum.{each}" for each in SUMMARY_COLUMNS.split(", "))
# Who inserts the first event of a unit has won: the server's primary
# keys decide, and the rest of the unit and its values follow only then. Who executes a run must
# still have its claim, whose row is locked: a claim at the same time comes before or after. All
# begins with the counter, which a writer holds until its commit: positions grow in the order of
# commits, and two writers cannot wait for each other.
APPEND: Final = f"""
    WITH taken AS (
        UPDATE counter SET position = position + %(count)s
        RETURNING position - %(count)s AS position
    ), unit AS (
        SELECT * FROM unnest(
            %(runs)b::text[], %(lasts)b::int[], %(befores)b::text[], %(places)b::int[],
            %(numbers)b::int[], %(ats)b::text[], %(bys)b::text[], %(types)b::text[],
            %(hashes)b::text[], %(bodies)b::text[], %(statuses)b::text[], %(terms)b::bigint[]
        ) AS unit (name, last, before, place, {COLUMNS}, status, term)
    ), held AS (
        SELECT name FROM unit CROSS JOIN taken
        JOIN claims ON claims.run = unit.name AND claims.term = unit.term FOR SHARE OF claims
    ), allowed AS (
        SELECT * FROM unit WHERE term = 0 OR name IN (SELECT name FROM held)
    ), made AS (
        INSERT INTO runs (name, last, status)
        SELECT name, last, status FROM allowed CROSS JOIN taken WHERE number = 1 ORDER BY name
        ON CONFLICT (name) DO NOTHING RETURNING id, name
    ), following AS (
        SELECT id, name FROM made
        UNION ALL
        SELECT runs.id, name FROM allowed AS unit JOIN runs USING (name)
        JOIN events AS head
            ON head.run = name AND head.number = unit.number - 1 AND head.hash = unit.before
    ), opened AS (
        INSERT INTO events (position, run, {COLUMNS})
        SELECT position + place, name, {COLUMNS}
        FROM unit JOIN following USING (name) CROSS JOIN taken ORDER BY id
        ON CONFLICT DO NOTHING RETURNING run
    ), won AS (
        SELECT name, id, last, number, status FROM unit JOIN following USING (name)
        WHERE name IN (SELECT run FROM opened)
    ), ended AS (
        UPDATE runs SET last = won.last, status = won.status
        FROM won WHERE runs.id = won.id AND won.number > 1
    ), summed AS (
        INSERT INTO summaries (run, {SUMMARY_COLUMNS})
        SELECT id, {_SUMS} FROM unnest(
            %(sum_runs)b::text[], %(sum_numbers)b::int[], %(sum_days)b::text[],
            %(sum_tokens)b::bigint[], %(sum_costs)b::text[], %(sum_plannings)b::text[],
            %(sum_bodies)b::text[]
        ) AS sum (name, {SUMMARY_COLUMNS}) JOIN won USING (name) ORDER BY id
        {SUM_UP_AGAIN}
    ), counted AS (
        UPDATE tally SET runs = runs + (SELECT count(*) FROM made)
        WHERE EXISTS (SELECT FROM made)
    ), completed AS (
        INSERT INTO events (position, run, {COLUMNS})
        SELECT position + place, name, rest.number, at, by, type, hash, body FROM unnest(
            %(rest_runs)b::text[], %(rest_places)b::int[],
            %(rest_numbers)b::int[], %(rest_ats)b::text[], %(rest_bys)b::text[],
            %(rest_types)b::text[], %(rest_hashes)b::text[], %(rest_bodies)b::text[]
        ) AS rest (name, place, {COLUMNS}) JOIN won USING (name) CROSS JOIN taken
        ORDER BY id, rest.number
    ), kept AS (
        INSERT INTO contents (hash, day, body)
        SELECT DISTINCT ON (hash) hash, %(day)s, body FROM unnest(
            %(value_runs)b::text[], %(value_hashes)b::text[], %(values)b::text[]
        ) AS new (name, hash, body) CROSS JOIN taken
        WHERE name IS NULL OR name IN (SELECT name FROM won) ORDER BY hash
        {PUT_AGAIN}
    )
    SELECT name, pg_notify(current_schema(), last || ' ' || left(name, 1000)) IS NOT NULL FROM won
    UNION ALL
    SELECT name, false FROM unit WHERE term > 0 AND name NOT IN (SELECT name FROM held)
"""  # noqa: S608 - constants
HASH: Final = "SELECT hash FROM events WHERE run = %s AND number = %s"


def units_of(
    batch: Sequence[Append],
) -> tuple[dict[str, list[Append]], list[Append], list[Append]]:
    """Groups a batch: requests by run, the puts, and what must wait for the next batch."""
    units: dict[str, list[Append]] = {}
    puts: list[Append] = []
    later: list[Append] = []
    for request in batch:
        before = units.get(request.run)
        if not request.events:
            puts.append(request)
        elif before is None:
            units[request.run] = [request]
        # Written together with the one before, both or neither.
        elif (request.events[0].before, request.term) == (
            before[-1].events[-1].hash,
            before[-1].term,
        ):
            before.append(request)
        else:
            later.append(request)
    return units, puts, later


def columns_of(
    units: Mapping[str, Sequence[Append]], puts: Sequence[Append], *, day: str
) -> dict[str, object]:
    """Returns the columns that `APPEND` needs: units, further events, summaries and values."""
    firsts: list[Sequence[object]] = []
    rest: list[Sequence[object]] = []
    sums: dict[str, Sequence[object]] = {}
    values: list[Sequence[object]] = []
    place = 0
    for run, requests in units.items():
        opening, ending = requests[0].events[0], requests[-1]
        for row in (row for request in requests for row in request.rows):
            place += 1
            if row[0] == opening.number:
                last = ending.events[-1].number
                firsts.append((run, last, opening.before, place, *row, ending.status, ending.term))
            else:
                rest.append((run, place, *row))
    for request in [*(each for some in units.values() for each in some), *puts]:
        if request.summary is not None:
            sums[request.run] = (request.run, *request.summary)
        values += [(request.run or None, digest, text.decode()) for digest, text in request.values]
    cells = "numbers", "ats", "bys", "types", "hashes", "bodies"
    return {
        **_columns(firsts, "runs", "lasts", "befores", "places", *cells, "statuses", "terms"),
        **_columns(rest, "rest_runs", "rest_places", *(f"rest_{each}" for each in cells)),
        **_columns(
            [*sums.values()],
            *("sum_runs", "sum_numbers", "sum_days", "sum_tokens", "sum_costs"),
            *("sum_plannings", "sum_bodies"),
        ),
        **_columns(values, "value_runs", "value_hashes", "values"),
        "count": place,
        "day": day,
    }


def _columns(rows: Sequence[Sequence[Any]], *names: str) -> dict[str, list[Any]]:
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    return {name: [*column] for name, column in zip(names, columns, strict=True)}
