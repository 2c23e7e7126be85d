"""Lists, counts and sums of many runs go by index: no full scan, and no journal is read."""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.postgres import Server

from plansmith import Plan, tool
from plansmith.app import Plansmith
from plansmith.plan.events import Event
from plansmith.store.sql import (
    OVER_BEFORE,
    Change,
    Parameters,
)
from plansmith.store.sqlite import SqliteStore
from plansmith.store.sqlite_file import open_database
from plansmith.store.summaries import OPEN, SummaryReads
from plansmith_postgres.statements import for_postgres
from plansmith_postgres.store import PostgresStore

_numbers = itertools.count(1)
# 20,000 runs in all statuses, as SQL that both databases take.
NUMBERS = """
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000)
"""
STATUS = "CASE n % 50 WHEN 0 THEN 'reviewing' WHEN 1 THEN 'failed' ELSE 'done' END"
FILL = (
    f"INSERT INTO runs (name, last, status) {NUMBERS} SELECT 'r' || n, 3, {STATUS} FROM n",
    """INSERT INTO summaries SELECT id, 3, '2026-01-01', 5, '0.5', NULL,
       '{"request":"g","steps":[1,1,0,0],"times":[0,0,0]}' FROM runs""",
)


async def ask_everything(reads: SummaryReads) -> None:
    await reads.headlines(limit=50)
    await reads.headlines(limit=50, before="r17000")
    await reads.headlines(limit=50, before="removed")
    await reads.headlines(statuses=["done"], limit=50, before="r17000")
    await reads.headlines(statuses=["done", "reviewing", ""], limit=50)
    await reads.headlines(text="g", limit=50)
    await reads.unsummed()
    await reads.status_counts()
    await reads.day_totals()
    await reads.planned()
    await reads.beside(["r17000"])


class Reads(SummaryReads):
    """Asks by a given function, and changes nothing."""

    def __init__(self, query: Callable[[str, Parameters], Awaitable[list[Any]]]) -> None:
        self._ask = query

    async def _query(self, statement: str, given: Parameters) -> list[Any]:
        return await self._ask(statement, given)

    async def _transact(self, changes: Sequence[Change]) -> list[list[int] | None]:
        return [None for _ in changes]


async def test_sqlite_answers_every_question_about_runs_by_index(tmp_path: Path) -> None:
    connection = open_database(tmp_path / "store.db")
    for statement in FILL:
        connection.execute(statement)
    asked: list[tuple[str, Parameters]] = [(OPEN, {})]

    async def query(statement: str, given: Parameters) -> list[Any]:
        asked.append((statement, given))
        return connection.execute(statement, given).fetchall()

    await ask_everything(Reads(query))
    assert len(asked) > 10
    for statement, given in asked:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", given).fetchall()
        for *_, step in plan:
            assert "SCAN" not in step or is_by_index(step), (step, statement)
            # Only of a run whose status nobody told the last event is looked at.
            assert "events" not in step or (statement == OPEN and "SEARCH" in step), step
    old = connection.execute(f"EXPLAIN QUERY PLAN {OVER_BEFORE}", {"before": "2026"}).fetchall()
    assert not any("SCAN events" in step for *_, step in old), "retention reads last events only"
    connection.close()


def is_by_index(step: str) -> bool:
    """Whether it reads no table: an index, the answers of parts, or the list of what is left."""
    whole = ("COVERING INDEX", "USING INDEX summaries_planned", "CONSTANT ROW")
    parts = step.startswith("SCAN (subquery") or step.split()[1] in ("found", *"abcdefghijklmn")
    return any(each in step for each in whole) or parts or step == "SCAN unsummed"


async def test_postgres_answers_every_question_about_runs_without_journals(
    postgres_server: Server,
) -> None:
    url = postgres_server.new_database(f"queries_{next(_numbers)}")
    store = PostgresStore(url)
    await store.runs()
    psycopg = import_module("psycopg")
    connection = await psycopg.AsyncConnection.connect(
        url, autocommit=True, options="-c search_path=plansmith"
    )
    for statement in (*FILL, "ANALYZE"):
        await connection.execute(statement)
    plans: list[str] = []

    async def query(statement: str, given: Parameters) -> list[Any]:
        found = await connection.execute(f"EXPLAIN {for_postgres(statement)}", given)
        plans.append("\n".join(row[0] for row in await found.fetchall()))
        return list(await (await connection.execute(for_postgres(statement), given)).fetchall())

    await ask_everything(Reads(query))
    assert len(plans) > 10
    for plan in plans:
        assert "events" not in plan, plan
        # A sum over everything may read all summaries, which are small; a page may not.
        assert "Seq Scan on runs" not in plan or "Aggregate" in plan, plan
    await connection.close()
    await store.close()


class Counting(SqliteStore):
    """Counts how often journals are read, by run and first event."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.read: Counter[tuple[str, int]] = Counter()

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        self.read[run, after] += 1
        return await super().events(run, after=after)


@tool(effect="read")
def look() -> str:
    """See."""
    return "seen"


@tool(effect="write")
def note() -> str:
    """Write."""
    return "written"


def plan_of(name: str) -> Plan:
    return Plan.model_validate({"goal": name, "steps": [{"id": "a", "tool": name}]})


async def test_lists_sums_and_estimates_read_no_journal_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with Plansmith(tools=[look, note], store=SqliteStore(path)) as smith:
        for _ in range(25):
            await smith.run((await smith.submit(plan_of("look"))).id)
            await smith.submit(plan_of("note"))
    store = Counting(path)
    async with Plansmith(tools=[look, note], store=store) as smith:
        lists = smith.runs.lists
        assert len(await lists.newest(limit=100)) == 50
        assert len(await lists.newest(limit=100, statuses=["reviewing"])) == 25
        assert len(await lists.newest(limit=100, text="LOO")) == 25
        sums = await lists.sums()
        assert sums.statuses == {"done": 25, "reviewing": 25}
        assert sum(day.runs for day in sums.days.values()) == 50
        assert len((await smith.runs.intake.past()).costs["look"]) == 20
        assert await smith.runs.metrics()
    assert not store.read


async def test_a_run_that_is_resumed_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with Plansmith(tools=[look], store=SqliteStore(path)) as smith:
        runs = [(await smith.submit(plan_of("look"))).id for _ in range(5)]
        for run in runs:
            await smith.pause(run, by="ada")
            await smith.resume(run, by="ada")
        for _ in range(20):
            await smith.run((await smith.submit(plan_of("look"))).id)
    store = Counting(path)
    async with Plansmith(tools=[look], store=store) as smith:
        await smith.runs.resume_all()
        await smith.runs.resume_all()
    whole = {run: count for (run, after), count in store.read.items() if not after}
    assert set(whole) <= set(runs)
    assert all(count <= 2 for count in whole.values()), whole


DEEP = "[" * 100_000
BODIES = (
    *("", "{", "[]", '{"steps": 3}', '{"steps":[1],"times":["x"]}', DEEP),
    *('{"steps":["a",1,1,1],"times":[0,0,0]}', '{"steps":[1,1,0,0],"times":[null,0,0]}'),
)
FIGURES = ("[1]", '{"figures":5}', '{"models":{"a":["x","y"]}}', DEEP)
ALTERED = [
    *(("body = ?", each) for each in BODIES),
    *(("planning = ?, tokens = 'many'", each) for each in FIGURES),
]


async def test_an_altered_summary_is_made_again_and_keeps_nobody_from_counting(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    async with Plansmith(tools=[look], store=SqliteStore(path)) as smith:
        run = (await smith.run((await smith.submit(plan_of("look"))).id)).id
    for change, given in ALTERED:
        with closing(sqlite3.connect(path)) as file, file:
            file.execute(f"UPDATE summaries SET {change}", (given,))
        store = SqliteStore(path)
        async with Plansmith(tools=[look], store=store) as smith:
            assert (await smith.runs.lists.sums()).statuses == {"done": 1}
            [found] = await smith.runs.lists.newest(limit=5)
            assert (found.run, found.goal, found.steps.done) == (run, "look", 1)
            assert found.tokens == 0
            [again] = await store.headlines(limit=5)
            assert again.summary == found
