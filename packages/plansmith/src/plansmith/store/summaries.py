"""Lists, counts and adds up the runs of a database by their summaries, never by their journals."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from string import ascii_lowercase
from typing import Any, Final, NamedTuple

import msgspec

from plansmith.plan.data import Record, as_plain
from plansmith.plan.planning import ModelUse, PlanningFigures
from plansmith.plan.summary import (
    NO_STATUS,
    OPEN_STATUSES,
    OVER_STATUSES,
    DayTotal,
    Headline,
    PlanningFacts,
    RunSummary,
)
from plansmith.store.sql import IS_AT, REPLACE_SUMMARY, SUMMARY_COLUMNS, Change, Parameters

_PUT_SUMMARY: Final = f"""
    INSERT INTO summaries (run, {SUMMARY_COLUMNS})
    SELECT id, :number, :day, :tokens, :cost, :planning, :body FROM runs WHERE name = :run
    {REPLACE_SUMMARY}
"""  # noqa: S608 - constants
_SET_STATUS: Final = "UPDATE runs SET status = :status WHERE name = :run"
_OPEN_ONES: Final = ", ".join(f"'{each}'" for each in OPEN_STATUSES)
OPEN_RUNS: Final = f"""
    SELECT name FROM (
        SELECT id, name FROM runs WHERE status IN ({_OPEN_ONES})
        UNION ALL
        SELECT id, name FROM runs LEFT JOIN events ON events.run = runs.id AND events.number = last
        WHERE status = '' AND (type IS NULL OR type <> 'run_finished')
    ) AS found ORDER BY id
"""  # noqa: S608 - constants
_RUNS: Final = """
    SELECT runs.id, name, last, status, summaries.number, tokens, cost, planning, body
    FROM runs LEFT JOIN summaries ON summaries.run = runs.id
"""
_PLACE: Final = """
    SELECT coalesce(
        (SELECT id FROM runs WHERE name = :run),
        (SELECT id + 1 FROM runs WHERE name < :run ORDER BY name DESC LIMIT 1), 0
    )
"""
STATUS_COUNTS: Final = "SELECT status, count(*) FROM runs GROUP BY status"
DAY_TOTALS: Final = "SELECT day, cost, count(*), sum(tokens) FROM summaries GROUP BY day, cost"
_PLANNED: Final = "SELECT planning FROM summaries WHERE planning IS NOT NULL"
_NEWEST: Final = 2**31 - 1
_STATUSES: Final = (NO_STATUS, *OPEN_STATUSES, *OVER_STATUSES)
_SEARCHED: Final = 2000
# A callee may claim any number; the sum over thousands of runs must fit a database's integer.
_MAX_TOKENS: Final = 2**50
# The fields of a summary that are no part of its body: columns, and what nobody stores.
_APART: Final = frozenset(
    {"run", "number", "status", "tokens", "money", "figures", "models", "interrupted", "damage"}
)
# The errors that a row may lead to which somebody changed by hand.
_ALTERED: Final = (
    *(ArithmeticError, AttributeError, LookupError),
    *(msgspec.MsgspecError, RecursionError, TypeError, ValueError),
)


class SummaryCells(NamedTuple):
    """A summary as a database row, without its run: the cells of `SUMMARY_COLUMNS`."""

    number: int
    day: str
    tokens: int
    cost: str
    planning: str | None
    body: str


def cells_of(summary: RunSummary) -> SummaryCells:
    """Returns the row of a summary."""
    fields: dict[str, Any] = msgspec.to_builtins(summary, enc_hook=_plain)
    planning: dict[str, Any] = {}
    if summary.figures is not None:
        planning["figures"] = fields["figures"]
    if summary.models:
        planning["models"] = fields["models"]
    return SummaryCells(
        number=summary.number,
        day=summary.day,
        tokens=min(summary.tokens, _MAX_TOKENS),
        cost=str(summary.money),
        planning=_text(planning) if planning else None,
        body=_text({name: each for name, each in fields.items() if each and name not in _APART}),
    )


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _plain(value: object) -> object:
    return value.to_json() if isinstance(value, Record) else as_plain(value)


def _planned(text: str | None) -> PlanningFacts:
    found: Any = json.loads(text or "{}")
    figures = msgspec.convert(found.get("figures"), PlanningFigures | None)
    models = {name: ModelUse(*map(int, use)) for name, use in found.get("models", {}).items()}
    return PlanningFacts(figures, models)


def _summary(run: str, status: str, number: int, cells: Sequence[Any]) -> RunSummary:
    tokens, cost, planning, text = cells
    own = {"run": run, "number": number, "status": status, "tokens": int(tokens), "money": cost}
    found: dict[str, Any] = json.loads(text)
    if not found.keys() >= {"steps", "times"} or not _APART.isdisjoint(found):
        raise ValueError("not what was stored")
    summary = msgspec.convert({**found, **own}, RunSummary)
    return replace(summary, **_planned(planning)._asdict())


def _headline(row: Sequence[Any]) -> Headline:
    _, run, last, status, number, *cells = row
    summary: RunSummary | None = None
    if status and number == last:
        with suppress(*_ALTERED):  # whoever needs the summary makes it from the journal
            summary = _summary(str(run), status, number, cells)
    return Headline(str(run), int(last), str(status), summary)


@cache
def page_query(statuses: tuple[str, ...], *, without_summary: bool) -> str:
    """Returns the query of a page of runs, newest first: one index range for each status."""
    more = " AND (summaries.number IS NULL OR summaries.number <> last)" if without_summary else ""
    end = "ORDER BY runs.id DESC LIMIT :most"
    if not statuses:
        return f"{_RUNS} WHERE runs.id < :before{more} {end}"
    # The statuses are constants; the caller has made sure of that.
    parts = [
        f"SELECT * FROM ({_RUNS} WHERE status = '{each}' AND runs.id < :before{more} {end}) AS {at}"  # noqa: S608
        for at, each in zip(ascii_lowercase, statuses, strict=False)
    ]
    return f"{' UNION ALL '.join(parts)} ORDER BY 1 DESC LIMIT :most"


class SummaryQueries(ABC):
    """The part of a store over a database that lists and counts runs."""

    @abstractmethod
    async def _query(self, statement: str, given: Parameters) -> list[Any]:
        """Returns the rows of a statement."""

    @abstractmethod
    async def _transact(self, changes: Sequence[Change]) -> list[list[int] | None]:
        """Makes changes in one transaction; returns how many rows each statement of each changed.

        None stands for a change whose `needs` are not met.
        """

    async def headlines(
        self, *, statuses: Collection[str] = (), before: str = "", text: str = "", limit: int
    ) -> Sequence[Headline]:
        place = _NEWEST
        if before:
            [[place]] = await self._query(_PLACE, {"run": before})
        known = tuple(each for each in _STATUSES if each in statuses)
        if statuses and not known:
            return []
        query = page_query(known, without_summary=False)
        # Bodies of summaries are JSON, so the text is searched for as JSON writes it.
        written = _text(text)[1:-1]
        found: list[Sequence[Any]] = []
        size, full = _SEARCHED if text else limit, True
        while full and len(found) < limit:
            rows = await self._query(query, {"before": place, "most": size})
            found += [
                row
                for row in rows
                if not text
                or row[-1] is None
                or written in str(row[-1]).casefold()
                or text in str(row[1]).casefold()
            ]
            place, full = rows[-1][0] if rows else 0, len(rows) == size
        return [_headline(row) for row in found[:limit]]

    async def without_summary(self) -> Sequence[Headline]:
        query = page_query((NO_STATUS, *OPEN_STATUSES), without_summary=True)
        rows = await self._query(query, {"before": _NEWEST, "most": _NEWEST})
        return [_headline(row) for row in rows]

    async def status_counts(self) -> Mapping[str, int]:
        return {str(status): int(n) for status, n in await self._query(STATUS_COUNTS, {})}

    async def day_totals(self) -> Sequence[DayTotal]:
        rows = await self._query(DAY_TOTALS, {})
        return [DayTotal(str(day), str(cost), int(n), int(spent)) for day, cost, n, spent in rows]

    async def planned(self) -> Sequence[PlanningFacts]:
        found: list[PlanningFacts] = []
        for row in await self._query(_PLANNED, {}):
            with suppress(*_ALTERED):  # the doctor finds it
                found.append(_planned(row[0]))
        return found

    async def keep_summaries(self, summaries: Sequence[tuple[int, RunSummary]]) -> None:
        changes: list[Change] = []
        for last, summary in summaries:
            row = {"run": summary.run, **cells_of(summary)._asdict()}
            status = {"run": summary.run, "status": summary.status.value}
            # A damaged run keeps the status that was written when its journal was whole.
            set_status = [] if summary.damage else [(_SET_STATUS, [status])]
            is_last = IS_AT, {"run": summary.run, "number": last}
            changes.append(Change([is_last], [(_PUT_SUMMARY, [row]), *set_status]))
        if changes:
            await self._transact(changes)
