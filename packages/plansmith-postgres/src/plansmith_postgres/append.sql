-- Writes the events, values and summaries of many callers at once. Who inserts the first event of a unit has won: the server's
-- primary keys decide, and the rest of the unit and its values follow only then. Who executes a run must still have its claim,
-- whose row is locked: a claim at the same time comes before or after. All begins with the counter, which a writer holds until
-- its commit: positions grow in the order of commits, and two writers cannot wait for each other.
-- In braces are columns, which `statements.py` fills in; the parameters are lists, one for each column.
WITH taken AS (
    UPDATE counter SET position = position + %(count)s
    RETURNING position - %(count)s AS position
), unit AS (
    SELECT * FROM unnest(
        %(runs)b::text[], %(lasts)b::int[], %(befores)b::text[], %(places)b::int[],
        %(numbers)b::int[], %(ats)b::text[], %(bys)b::text[], %(types)b::text[],
        %(hashes)b::text[], %(bodies)b::text[], %(statuses)b::text[], %(terms)b::bigint[]
    ) AS unit (name, last, before, place, {columns}, status, term)
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
        ON head.run = runs.id AND head.number = unit.number - 1 AND head.hash = unit.before
), opened AS (
    INSERT INTO events (position, run, {columns})
    SELECT position + place, id, {columns}
    FROM unit JOIN following USING (name) CROSS JOIN taken ORDER BY id
    ON CONFLICT DO NOTHING RETURNING run
), won AS (
    SELECT name, id, last, number, status FROM unit JOIN following USING (name)
    WHERE id IN (SELECT run FROM opened)
), ended AS (
    UPDATE runs SET last = won.last, status = won.status
    FROM won WHERE runs.id = won.id AND won.number > 1
), summarized AS (
    INSERT INTO summaries (run, {summary_columns})
    SELECT id, {summary_cells} FROM unnest(
        %(summary_runs)b::text[], %(summary_numbers)b::int[], %(summary_days)b::text[],
        %(summary_tokens)b::bigint[], %(summary_costs)b::text[], %(summary_plannings)b::text[],
        %(summary_bodies)b::text[]
    ) AS summary (name, {summary_columns}) JOIN won USING (name) ORDER BY id
    {replace_summary}
), counted AS (
    UPDATE tally SET runs = runs + (SELECT count(*) FROM made)
    WHERE EXISTS (SELECT FROM made)
), completed AS (
    INSERT INTO events (position, run, {columns})
    SELECT position + place, id, rest.number, at, by, type, hash, body FROM unnest(
        %(rest_runs)b::text[], %(rest_places)b::int[],
        %(rest_numbers)b::int[], %(rest_ats)b::text[], %(rest_bys)b::text[],
        %(rest_types)b::text[], %(rest_hashes)b::text[], %(rest_bodies)b::text[]
    ) AS rest (name, place, {columns}) JOIN won USING (name) CROSS JOIN taken
    ORDER BY id, rest.number
), kept AS (
    INSERT INTO contents (hash, day, body)
    SELECT DISTINCT ON (hash) hash, %(day)s, body FROM unnest(
        %(value_runs)b::text[], %(value_hashes)b::text[], %(values)b::text[]
    ) AS new (name, hash, body) CROSS JOIN taken
    WHERE name IS NULL OR name IN (SELECT name FROM won) ORDER BY hash
    {renew_content}
)
SELECT name, pg_notify(current_schema(), last || ' ' || left(name, 1000)) IS NOT NULL FROM won
UNION ALL
SELECT name, false FROM unit WHERE term > 0 AND name NOT IN (SELECT name FROM held)
