"""A store that has lost its summaries gets them once, whoever is killed meanwhile."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests import forked

from plansmith import Plan, tool
from plansmith.app import Plansmith
from plansmith.store.sqlite import SqliteStore
from plansmith_cli.doctor import diagnose

ROOT = Path(__file__).parents[2]
RUNS = 110


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


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store without summaries: most runs are over, some wait for a person."""
    path = tmp_path_factory.mktemp("made") / "store.db"

    async def fill() -> None:
        store = SqliteStore(path, synchronous="normal")
        async with Plansmith(tools=[look, note], store=store) as smith:
            for number in range(RUNS):
                run = await smith.submit(plan_of("look" if number % 10 else "note"))
                if number % 10:
                    await smith.runs.run(run.id)

    asyncio.run(fill())
    sql(path, "DELETE FROM summaries", "UPDATE runs SET status = ''")
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    """A copy of that store for each test."""
    return Path(shutil.copy(made, tmp_path))


def sql(path: Path, *statements: str) -> list[Any]:
    """Change the file by hand; the rows of the last statement."""
    with closing(sqlite3.connect(path)) as file, file:
        return [file.execute(each).fetchall() for each in statements][-1]


def summing(path: Path, killed_after: int = 0) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.crash.summing", str(path), str(killed_after)]
    return forked.Popen(command, cwd=ROOT)


async def need_right(path: Path) -> None:
    """Every run is counted once, and the doctor finds every summary right."""
    assert sql(path, "SELECT count(*) FROM summaries") == [(RUNS,)]
    found = {each.subject: each for each in await diagnose(f"sqlite:///{path}")}
    assert found["summaries"].level == "ok", found["summaries"]
    async with Plansmith(tools=[look, note], store=SqliteStore(path)) as smith:
        totals = await smith.runs.lists.totals()
        assert totals.statuses == {"done": RUNS - RUNS // 10, "reviewing": RUNS // 10}
        assert sum(day.runs for day in totals.days.values()) == RUNS


async def test_a_summing_up_that_is_killed_goes_on_where_it_was(path: Path) -> None:
    counts: list[int] = []
    for _ in range(2):
        assert summing(path, killed_after=1).wait() < 0
        [[count]] = sql(path, "SELECT count(*) FROM summaries")
        counts.append(count)
    assert 0 < counts[0] < counts[1] < RUNS
    assert summing(path).wait() == 0
    await need_right(path)


async def test_two_processes_sum_up_one_store_at_once(path: Path) -> None:
    both = [summing(path), summing(path)]
    store = SqliteStore(path)
    async with Plansmith(tools=[look, note], store=store) as smith:
        # One more run comes and ends meanwhile.
        new = await smith.runs.run((await smith.submit(plan_of("look"))).id)
        assert [each.wait() for each in both] == [0, 0]
        assert (await smith.runs.lists.newest(limit=1))[0].run == new.id
        assert await store.delete_run(new.id)
    await need_right(path)


@pytest.mark.parametrize("finder", ["a person", "the doctor"])
async def test_a_list_tells_of_a_damaged_run_once_somebody_has_found_it(
    path: Path, finder: str
) -> None:
    assert summing(path).wait() == 0
    [[run]] = sql(path, "SELECT name FROM runs WHERE id = 2")
    sql(path, "UPDATE events SET body = body || ' ' WHERE run = 2 AND number = 4")
    if finder == "the doctor":
        await diagnose(f"sqlite:///{path}")
    async with Plansmith(tools=[look, note], store=SqliteStore(path)) as smith:
        if finder == "a person":
            assert "event 4" in (await smith.get(run)).damage
        for statuses in ((), ("done",)):
            listed = await smith.runs.lists.newest(statuses=statuses, limit=RUNS)
            assert [each.run for each in listed if each.damage] == [run]
        totals = await smith.runs.lists.totals()
        assert totals.statuses["done"] == RUNS - RUNS // 10, "it is over, as was told when it ended"
        assert sum(day.runs for day in totals.days.values()) == RUNS


async def test_the_doctor_finds_a_summary_that_was_changed_and_makes_it_again(path: Path) -> None:
    assert summing(path).wait() == 0
    sql(
        path,
        "UPDATE summaries SET tokens = 7 WHERE run = 3",
        "UPDATE runs SET status = 'done' WHERE id = 1",
        "UPDATE summaries SET body = replace(body, 'look', 'lock') WHERE run = 5",
    )
    found = {each.subject: each for each in await diagnose(f"sqlite:///{path}")}
    assert found["summaries"].level == "warning"
    assert found["summaries"].message.startswith("3 did not agree with the journals")
    await need_right(path)
