"""What the PostgreSQL store says to its server: one statement commits the requests of many runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from plansmith.adapters.stores.commit import Request
from plansmith.adapters.stores.rows import MARK_BYTES, Entry, key_of, mark_of, squeezed

_LARGE: Final = 65_536

# Who inserts the first event of a unit has won: the server's primary keys decide, and the rest of
# the unit and its values follow only then. All begins with the counter, which a writer holds until
# its commit: positions grow in the order of commits, and two writers cannot wait for each other.
APPEND: Final = """
    WITH taken AS (
        UPDATE plansmith.counter SET position = position + %(count)s
        RETURNING position - %(count)s AS position
    ), unit AS (
        SELECT * FROM unnest(
            %(runs)s::text[], %(numbers)s::int[], %(lasts)s::int[], %(befores)s::bytea[],
            %(rows)s::bytea[], %(places)s::int[], %(marks)s::bytea[]
        ) AS unit (name, number, last, before, data, place, mark)
    ), made AS (
        INSERT INTO plansmith.run (name)
        SELECT name FROM unit CROSS JOIN taken WHERE number = 1 ORDER BY name
        ON CONFLICT (name) DO NOTHING RETURNING id, name
    ), following AS (
        SELECT id, name FROM made
        UNION ALL
        SELECT run.id, name FROM unit JOIN plansmith.run USING (name)
        JOIN plansmith.event AS head ON head.run = run.id AND head.number = unit.number - 1
            AND substring(head.data FROM 1 FOR %(mark)s) = unit.before
    ), opened AS (
        INSERT INTO plansmith.event (run, number, data, position)
        SELECT id, number, data, position + place
        FROM unit JOIN following USING (name) CROSS JOIN taken ORDER BY id
        ON CONFLICT DO NOTHING RETURNING run
    ), won AS (
        SELECT name, id, last, mark FROM unit JOIN following USING (name)
        WHERE id IN (SELECT run FROM opened)
    ), ended AS (
        INSERT INTO plansmith.ending (run, number, mark)
        SELECT id, last, mark FROM won ORDER BY id
        ON CONFLICT (run) DO UPDATE SET number = excluded.number, mark = excluded.mark
    ), counted AS (
        UPDATE plansmith.tally SET runs = runs + (SELECT count(*) FROM made)
        WHERE EXISTS (SELECT FROM made)
    ), completed AS (
        INSERT INTO plansmith.event (run, number, data, position)
        SELECT id, number, data, position + place FROM unnest(
            %(rest_runs)s::text[], %(rest_numbers)s::int[], %(rest_rows)s::bytea[],
            %(rest_places)s::int[]
        ) AS rest (name, number, data, place) JOIN won USING (name) CROSS JOIN taken
        ORDER BY id, number
    ), kept AS (
        INSERT INTO plansmith.value AS value (key, day, data)
        SELECT DISTINCT ON (key) key, %(day)s::int, data FROM unnest(
            %(value_runs)s::text[], %(keys)s::bytea[], %(values)s::bytea[]
        ) AS new (name, key, data) CROSS JOIN taken
        WHERE name IS NULL OR name IN (SELECT name FROM won) ORDER BY key
        ON CONFLICT (key) DO UPDATE SET day = excluded.day WHERE value.day < excluded.day
    )
    SELECT name, pg_notify('plansmith', last || ' ' || left(name, 1000)) FROM won
"""
EVENTS: Final = """
    SELECT name, start, event.number, data, ending.number
    FROM unnest(%b::text[], %b::int[]) AS asked (name, start)
    JOIN plansmith.run USING (name) LEFT JOIN plansmith.ending ON ending.run = run.id
    LEFT JOIN plansmith.event ON event.run = run.id AND event.number >= start
    ORDER BY name, start, event.number
"""
ROW: Final = """
    SELECT data FROM plansmith.run JOIN plansmith.event ON event.run = run.id
    WHERE name = %s AND number = %s
"""
NUMBERS: Final = """
    SELECT name, (SELECT coalesce(max(number), 0) FROM plansmith.event WHERE event.run = run.id)
    FROM plansmith.run WHERE name = ANY(%s)
"""
HEADS: Final = """
    SELECT name, last.number, substring(last.data FROM 1 FOR %s),
        substring(first.data FROM 1 FOR %s)
    FROM plansmith.run
    LEFT JOIN plansmith.event AS first ON first.run = run.id AND first.number = 1
    LEFT JOIN LATERAL (
        SELECT number, data FROM plansmith.event WHERE event.run = run.id
        ORDER BY number DESC LIMIT 1
    ) AS last ON true
    ORDER BY run.id
"""
NO_APPENDS: Final = "LOCK TABLE plansmith.event IN SHARE ROW EXCLUSIVE MODE"
DELETE: Final = """
    WITH gone AS (
        DELETE FROM plansmith.run USING unnest(%s::text[], %s::int[]) AS old (name, number)
        WHERE run.name = old.name AND (old.number IS NULL OR old.number = (
            SELECT max(number) FROM plansmith.event WHERE event.run = run.id
        )) RETURNING run.id, run.name
    ), emptied AS (
        DELETE FROM plansmith.event WHERE run IN (SELECT id FROM gone)
    ), unowned AS (
        DELETE FROM plansmith.owner WHERE run IN (SELECT name FROM gone)
    ), unended AS (
        DELETE FROM plansmith.ending WHERE run IN (SELECT id FROM gone)
    ), counted AS (
        UPDATE plansmith.tally SET runs = runs - (SELECT count(*) FROM gone)
    ), forgotten AS (
        DELETE FROM plansmith.aside WHERE run IN (SELECT name FROM gone)
    )
    SELECT id FROM gone
"""
OLD_VALUES: Final = "SELECT key FROM plansmith.value WHERE day < %s"
LAST_NUMBERS: Final = "SELECT run, max(number) FROM plansmith.event GROUP BY run"
ALL_ROWS: Final = """
    SELECT name, number, data FROM plansmith.run JOIN plansmith.event ON event.run = run.id
"""
NEWS: Final = """
    SELECT name, event.number, data FROM plansmith.run
    JOIN plansmith.event ON event.run = run.id
    LEFT JOIN unnest(%s::int[], %s::int[]) AS seen (run, number) ON seen.run = run.id
    WHERE event.number > coalesce(seen.number, 0)
"""
DELETE_VALUES: Final = "DELETE FROM plansmith.value WHERE key = ANY(%s) AND day < %s"


def units_of(
    batch: Sequence[Request],
) -> tuple[dict[str, list[Request]], list[Request], list[Request]]:
    """One chain of requests a run, the puts, and what must wait to see who wins."""
    units: dict[str, list[Request]] = {}
    puts: list[Request] = []
    later: list[Request] = []
    for request in batch:
        if not request.entries:
            puts.append(request)
        elif request.run not in units:
            units[request.run] = [request]
        elif request.entries[0].before == units[request.run][-1].entries[-1].hash:
            units[request.run].append(request)
        else:
            later.append(request)
    return units, puts, later


async def columns_of(
    units: Mapping[str, Sequence[Request]], puts: Sequence[Request], *, day: int
) -> dict[str, object]:
    """What `APPEND` needs: units, the rest of their events and the values, as columns."""
    firsts: list[tuple[int, Entry]] = []
    rest: list[tuple[int, str, Entry]] = []
    count = 0
    for run, requests in units.items():
        entries = [entry for request in requests for entry in request.entries]
        placed = enumerate(entries, start=count + 1)
        firsts.append(next(placed))
        rest.extend((place, run, entry) for place, entry in placed)
        count += len(entries)
    values: list[tuple[str | None, bytes, bytes]] = []
    for request in [*(each for some in units.values() for each in some), *puts]:
        for digest, text in request.values:
            values.append((request.run or None, key_of(digest), await _stored(text)))
    return {
        "runs": list(units),
        "numbers": [entry.number for _, entry in firsts],
        "lasts": [requests[-1].entries[-1].number for requests in units.values()],
        "befores": [mark_of(entry.before) for _, entry in firsts],
        "rows": [entry.data for _, entry in firsts],
        "places": [place for place, _ in firsts],
        "marks": [mark_of(requests[-1].entries[-1].hash) for requests in units.values()],
        "rest_runs": [run for _, run, _ in rest],
        "rest_numbers": [entry.number for _, _, entry in rest],
        "rest_rows": [entry.data for _, _, entry in rest],
        "rest_places": [place for place, _, _ in rest],
        "count": count,
        "value_runs": [run for run, _, _ in values],
        "keys": [key for _, key, _ in values],
        "values": [data for _, _, data in values],
        "day": day,
        "mark": MARK_BYTES,
    }


async def _stored(text: bytes) -> bytes:
    return squeezed(text) if len(text) < _LARGE else await asyncio.to_thread(squeezed, text)
