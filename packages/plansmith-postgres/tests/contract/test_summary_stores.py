"""What every store does with statuses and summaries of runs, and documents of schedules."""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.contract.durable_stores import AnyStore
from tests.postgres import Server

from plansmith import Plan, RunStatus, tool
from plansmith.app import Plansmith
from plansmith.plan.events import Event, next_event
from plansmith.plan.planning import ModelUse, PlanningFigures
from plansmith.plan.run import Run
from plansmith.plan.summary import RunSummary
from plansmith.plan.timing import Timing
from plansmith.ports import Call, Usage
from plansmith.schedules.schedule import Fire, FireState, Schedule
from plansmith.schedules.store import ScheduleStore
from plansmith.store.memory import MemoryStore
from plansmith.store.sql import OVER_BEFORE, Change, Parameters
from plansmith.store.sqlite import SqliteStore
from plansmith.store.sqlite_file import open_database
from plansmith.store.summaries import OPEN_RUNS, SummaryQueries
from plansmith.testing import FakeClock
from plansmith.testing.contracts import journal
from plansmith_postgres.statements import for_postgres
from plansmith_postgres.store import PostgresStore


@tool(effect="read")
def look(x: int = 0) -> int:
    """See."""
    return x


@tool(effect="write")
def note(text: str = "") -> str:
    """Write."""
    return text


def smith_on(store: AnyStore) -> Plansmith:
    return Plansmith(tools=[look, note], store=store)


def plan_of(goal: str, name: str = "look") -> Plan:
    return Plan.model_validate({"goal": goal, "steps": [{"id": "a", "tool": name}]})


async def done(smith: Plansmith, goal: str) -> Run:
    return await smith.run((await smith.submit(plan_of(goal))).id)


async def waiting(smith: Plansmith, goal: str) -> Run:
    return await smith.submit(plan_of(goal, "note"))


async def ids(smith: Plansmith, **asked: Any) -> list[str]:
    return [each.run for each in await smith.runs.lists.newest(**{"limit": 100, **asked})]


async def test_runs_are_listed_newest_first_by_status_and_page(store: AnyStore) -> None:
    smith = smith_on(store)
    runs = [await (waiting if n % 3 else done)(smith, f"g{n}") for n in range(9)]
    newest = [run.id for run in reversed(runs)]
    assert await ids(smith) == newest
    over = [run.id for run in reversed(runs) if run.status is RunStatus.DONE]
    assert await ids(smith, statuses=["done"]) == over
    assert await ids(smith, statuses=["done", "reviewing"]) == newest
    assert await ids(smith, statuses=["failed"]) == []
    assert await ids(smith, statuses=["no such status"]) == []
    pages = [await ids(smith, limit=4)]
    while pages[-1]:
        pages.append(await ids(smith, limit=4, before=pages[-1][-1]))
    assert [len(page) for page in pages] == [4, 4, 1, 0]
    assert [each for page in pages for each in page] == newest
    assert await smith.runs.lists.status_counts() == {"done": 3, "reviewing": 6}


async def test_a_page_of_runs_goes_on_behind_a_run_that_was_removed(store: AnyStore) -> None:
    if isinstance(store, MemoryStore):
        return  # it removes none
    smith = smith_on(store)
    runs = [(await waiting(smith, f"g{n}")).id for n in range(4)]
    assert await store.delete_run(runs[2])
    assert await ids(smith, before=runs[2]) == [runs[1], runs[0]]
    assert await ids(smith, before="0") == []
    assert await ids(smith, before="z") == [runs[3], runs[1], runs[0]]
    [day] = (await smith.runs.lists.totals()).days.values()
    assert day.runs == 3


async def test_a_text_is_found_in_the_request_of_a_run(store: AnyStore) -> None:
    smith = smith_on(store)
    await waiting(smith, "one more")
    for goal, *texts in (
        ("Straße in 北京", "STRASSE", "北京"),
        ('say "hi" \\ there', '"HI" \\'),
        ("two\nlines\tand a tab", "lines\tand"),
        ("a % and _ b", "% and _"),
        ("emoji 🎈 here", "🎈"),
    ):
        found = (await done(smith, goal)).id
        for text in (*texts, found.upper()):
            assert await ids(smith, text=text) == [found]
            assert await ids(smith, text=text, statuses=["reviewing"]) == []
    assert await ids(smith, text="created") == [], "the names of stored fields are no text of a run"


async def test_a_summary_comes_back_as_it_was_stored(store: AnyStore) -> None:
    [first, *_] = events = journal("a", 3)
    fields = RunSummary(
        run="a",
        number=3,
        status=RunStatus.REVIEWING,
        request="天气?",
        goal="",
        folder="/x",
        locale="zh",
        reason="because",
        created_at=first.at,
        updated_at=events[-1].at,
        questions=("q", '"'),
        tokens=2**40,
        money=Decimal("0.0000001"),
        working=True,
        figures=PlanningFigures(parsed=True, seconds={"draft": 0.25}),
        models={"m": ModelUse(2, 30)},
    )
    await store.append(events, status="reviewing", summary=fields)
    [found] = await store.headlines(limit=5)
    assert (found.run, found.last, found.status, found.summary) == ("a", 3, "reviewing", fields)
    [total] = await store.day_totals()
    assert total == (first.at.date().isoformat(), "1E-7", 1, 2**40)
    [planned] = await store.planned()
    assert planned == (fields.figures, fields.models)
    assert await store.without_summary() == []


async def test_a_run_that_claims_more_tokens_than_a_database_counts_is_done_and_summed_up(
    store: AnyStore,
) -> None:
    @tool(effect="read")
    def boast(call: Call) -> str:
        """Claim a lot."""
        call.spend(Usage(input_tokens=2**70))
        return "ok"

    smith = Plansmith(tools=[boast], store=store)
    for _ in range(3):
        run = await smith.run((await smith.submit(plan_of("g", "boast"))).id)
        assert run.status is RunStatus.DONE
    [day] = (await smith.runs.lists.totals()).days.values()
    assert day.runs == 3
    assert day.tokens > 2**50


async def test_a_status_that_no_writer_told_is_read_from_the_journal(store: AnyStore) -> None:
    """Whoever appends without a journal tells no status: the store knows that it does not know."""
    smith = smith_on(store)
    over, opened = await done(smith, "over"), await waiting(smith, "open")
    copies = {"over": "x" + over.id, "open": "y" + opened.id}
    for old, name in ((over.id, copies["over"]), (opened.id, copies["open"])):
        last = None
        for event in await store.events(old):
            last = next_event(event.body, run=name, by=event.by, at=event.at, last=last)
            await store.append([last])
    assert list(await store.open_runs()) == [opened.id, copies["open"]]
    counts = {"done": 2, "reviewing": 2}
    assert await smith.runs.lists.status_counts() == counts
    assert await ids(smith, statuses=["done"]) == [copies["over"], over.id]
    assert (await smith.runs.lists.totals()).statuses == counts
    headlines = await store.headlines(limit=9)
    assert all(each.summary is not None for each in headlines), "they were stored by the way"


async def test_a_summary_of_an_earlier_event_never_replaces_a_later_one(store: AnyStore) -> None:
    smith = smith_on(store)
    run = await waiting(smith, "g")
    [before] = await store.headlines(limit=1)
    assert before.summary is not None
    await smith.decide(run.id, reject=True, by="ada")
    [after] = await store.headlines(limit=1)
    await store.keep_summaries([(before.last, before.summary)])
    assert await store.headlines(limit=1) == [after]


# Queries: by index, and without journals


_numbers = itertools.count(1)
# 20,000 runs in all statuses, as SQL that both databases take.
NUMBERS = """
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 20000)
"""
STATUS = "CASE n % 50 WHEN 0 THEN 'reviewing' WHEN 1 THEN 'failed' ELSE 'done' END"
FILL = (
    f"INSERT INTO runs (name, last, status) {NUMBERS} SELECT 'r' || n, 3, {STATUS} FROM n",
    """INSERT INTO summaries SELECT id, 3, '2026-01-01', 5, '0.5', NULL,
       '{"request":"g","steps":[1,1,0,0]}' FROM runs""",
)


async def ask_everything(reads: SummaryQueries) -> None:
    await reads.headlines(limit=50)
    await reads.headlines(limit=50, before="r17000")
    await reads.headlines(limit=50, before="removed")
    await reads.headlines(statuses=["done"], limit=50, before="r17000")
    await reads.headlines(statuses=["done", "reviewing", ""], limit=50)
    await reads.headlines(text="g", limit=50)
    await reads.without_summary()
    await reads.status_counts()
    await reads.day_totals()
    await reads.planned()


class Reads(SummaryQueries):
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
    asked: list[tuple[str, Parameters]] = [(OPEN_RUNS, {})]

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
            assert "events" not in step or (statement == OPEN_RUNS and "SEARCH" in step), step
    old = connection.execute(f"EXPLAIN QUERY PLAN {OVER_BEFORE}", {"before": "2026"}).fetchall()
    assert not any("SCAN events" in step for *_, step in old), "retention reads last events only"
    connection.close()


def is_by_index(step: str) -> bool:
    """Whether it reads no table: an index, or the answers of parts."""
    whole = ("COVERING INDEX", "USING INDEX summaries_planned", "CONSTANT ROW")
    parts = step.startswith("SCAN (subquery") or step.split()[1] in ("found", *"abcdefghijklmn")
    return any(each in step for each in whole) or parts


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


async def test_a_run_that_a_clock_dates_too_early_ends_no_list(tmp_path: Path) -> None:
    clock = FakeClock()
    store = f"sqlite:///{tmp_path / 'store.db'}"
    async with Plansmith(tools=[look, note], store=store, clock=clock) as smith:
        since, runs = clock.now(), list[str]()
        for passed in (60, -7200, 7260):  # as by the clock of another machine
            clock._elapsed += passed
            runs.append((await waiting(smith, "note")).id)
        assert await ids(smith, since=since, limit=2) == [runs[2], runs[0]]


class Counting(SqliteStore):
    """Counts how often journals are read, by run and first event."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.read: Counter[tuple[str, int]] = Counter()

    async def events(self, run: str, *, after: int = 0) -> Sequence[Event]:
        self.read[run, after] += 1
        return await super().events(run, after=after)


async def test_lists_sums_and_estimates_read_no_journal_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with Plansmith(tools=[look, note], store=SqliteStore(path)) as smith:
        for _ in range(25):
            await smith.run((await smith.submit(plan_of("look", "look"))).id)
            await smith.submit(plan_of("note", "note"))
    store = Counting(path)
    async with Plansmith(tools=[look, note], store=store) as smith:
        lists = smith.runs.lists
        assert len(await lists.newest(limit=100)) == 50
        assert len(await lists.newest(limit=100, statuses=["reviewing"])) == 25
        assert len(await lists.newest(limit=100, text="LOO")) == 25
        totals = await lists.totals()
        assert totals.statuses == {"done": 25, "reviewing": 25}
        assert sum(day.runs for day in totals.days.values()) == 50
        assert (await smith.runs.intake.timings()).measured(["look"])
        assert totals.planning
    assert not store.read


async def test_a_run_that_is_resumed_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with Plansmith(tools=[look], store=SqliteStore(path)) as smith:
        runs = [(await smith.submit(plan_of("look", "look"))).id for _ in range(5)]
        for run in runs:
            await smith.pause(run, by="ada")
            await smith.resume(run, by="ada")
        for _ in range(20):
            await smith.run((await smith.submit(plan_of("look", "look"))).id)
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
        run = (await smith.run((await smith.submit(plan_of("look", "look"))).id)).id
    for change, given in ALTERED:
        with closing(sqlite3.connect(path)) as file, file:
            file.execute(f"UPDATE summaries SET {change}", (given,))
        store = SqliteStore(path)
        async with Plansmith(tools=[look], store=store) as smith:
            assert (await smith.runs.lists.totals()).statuses == {"done": 1}
            [found] = await smith.runs.lists.newest(limit=5)
            assert (found.run, found.goal, found.steps.done) == (run, "look", 1)
            assert found.tokens == 0
            [again] = await store.headlines(limit=5)
            assert again.summary == found


START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def shelf() -> ScheduleStore:
    return ScheduleStore(MemoryStore())


def schedule(name: str, **fields: object) -> Schedule:
    plan = Plan.model_validate({"goal": "天气", "steps": [{"id": "a", "tool": "look"}]})
    given = {
        "id": name,
        "name": f"schedule {name}",
        "timing": Timing(daily_at="09:30", timezone="Asia/Shanghai"),
        "plan": plan,
        "created": START,
        "handled_until": START,
        "failures_since": START,
    }
    return Schedule.model_validate(given | fields)


def fire(number: int, name: str = "a", **fields: object) -> Fire:
    at = START + timedelta(minutes=number, microseconds=number)
    given = {"schedule": name, "due": at, "at": at, "run": f"run-{number}"}
    return Fire.model_validate(given | fields)


async def test_retention_takes_old_fires_that_are_over_and_spares_the_newest(
    shelf: ScheduleStore,
) -> None:
    for number in range(110):
        state = FireState.RUNNING if number == 3 else FireState.DONE
        assert await shelf.put(fire(number, state=state))
    assert await shelf.put(fire(1, "rare", state=FireState.FAILED))
    assert await shelf.prune(START + timedelta(minutes=8)) == 7
    left = {each.due for each in await shelf.fires("a", limit=200)}
    assert left == {fire(number).due for number in (3, *range(8, 110))}
    assert len(await shelf.fires("rare", limit=9)) == 1
    assert await shelf.prune(START + timedelta(days=9)) == 2
    assert len(await shelf.fires("a", limit=200)) == 101
