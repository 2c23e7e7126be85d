"""The SQL statements of a store on PostgreSQL that no other store has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from plansmith.store import sql
from plansmith.store.commit import Append

POSTGRES: Final = sql.Dialect(
    position="SELECT position FROM counter",
    take_positions="UPDATE counter SET position = position + :count",
    among="(SELECT jsonb_array_elements_text(CAST(:keys AS jsonb)))",
    claim=(
        sql.CLAIM.format(term="nextval('terms')", lock="FOR SHARE") + f" RETURNING {sql.CLAIM_ROW}",
    ),
    now="extract(epoch FROM clock_timestamp())::float8",
    notify="SELECT pg_notify(current_schema(), :note)",
)


@lru_cache(maxsize=256)
def for_postgres(statement: str) -> str:
    """Rewrites `:name` parameters in the form of PostgreSQL's driver."""
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", statement)


_SUMMARY_CELLS: Final = ", ".join(f"summary.{each}" for each in sql.SUMMARY_COLUMNS.split(", "))
APPEND: Final = (
    Path(__file__)
    .with_name("append.sql")
    .read_text(encoding="utf-8")
    .format(
        columns=sql.COLUMNS,
        summary_columns=sql.SUMMARY_COLUMNS,
        summary_cells=_SUMMARY_CELLS,
        replace_summary=sql.REPLACE_SUMMARY,
        renew_content=sql.RENEW_CONTENT,
    )
)
EVENT_HASH: Final = "SELECT hash FROM events JOIN runs ON id = run WHERE name = %s AND number = %s"


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
    summaries: dict[str, Sequence[object]] = {}
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
            summaries[request.run] = (request.run, *request.summary)
        values += [(request.run or None, digest, text.decode()) for digest, text in request.values]
    cells = "numbers", "ats", "bys", "types", "hashes", "bodies"
    return {
        **_columns(firsts, "runs", "lasts", "befores", "places", *cells, "statuses", "terms"),
        **_columns(rest, "rest_runs", "rest_places", *(f"rest_{each}" for each in cells)),
        **_columns(
            [*summaries.values()],
            *("summary_runs", "summary_numbers", "summary_days", "summary_tokens", "summary_costs"),
            *("summary_plannings", "summary_bodies"),
        ),
        **_columns(values, "value_runs", "value_hashes", "values"),
        "count": place,
        "day": day,
    }


def _columns(rows: Sequence[Sequence[Any]], *names: str) -> dict[str, list[Any]]:
    columns = zip(*rows, strict=True) if rows else ((),) * len(names)
    return {name: [*column] for name, column in zip(names, columns, strict=True)}
