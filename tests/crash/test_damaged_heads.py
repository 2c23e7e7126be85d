"""A run whose first or last row cannot be read: it keeps no other run from going on."""

from __future__ import annotations

import itertools
import sqlite3
from pathlib import Path

import pytest
from tests.postgres import Server
from tests.unit.server.house import serving, tool_step

from plansmith import Plan, RunStatus, tool
from plansmith.app import Plansmith
from plansmith.errors import JournalDamaged
from plansmith.store.sqlite import SqliteStore
from plansmith_postgres.store import PostgresStore

_numbers = itertools.count(1)
PLAN = Plan.model_validate({"goal": "look", "steps": [{"id": "a", "tool": "look"}]})
# What a hand or a disk does to a row.
DAMAGES = {
    "a type that does not exist": "type = 'step_danced'",
    "a time beyond all calendars": "at = '9000000000000000000'",
    "a row cut short": "body = substr(body, 1, 1)",
    "an empty row": "type = '', at = '', by = '', hash = '', body = ''",
}
HAND = {
    **DAMAGES,
    "a type that is a number": "type = 99",
    "a time that is none": "at = 'noon'",
    "bytes in the place of text": "body = x'00ff'",
    "a byte that is no text": "body = CAST(x'7bff7d' AS TEXT)",
    "no time zone and no hash": "at = '2026-01-01T00:00:00', hash = 7",
}


@tool(effect="read")
def look() -> str:
    """See."""
    return "seen"


def damage_file(path: Path, run: str, damage: str) -> None:
    """Change the last row of a run by hand."""
    file = sqlite3.connect(path, isolation_level=None)
    last = "number = (SELECT max(number) FROM events WHERE run = :run)"
    file.execute(f"UPDATE events SET {damage} WHERE run = :run AND {last}", {"run": run})
    file.close()


async def stopped_runs(smith: Plansmith) -> tuple[str, str]:
    """Two runs that were under way when their process ended."""
    runs = [(await smith.submit(PLAN)).id for _ in range(2)]
    for run in runs:
        await smith.pause(run, by="ada")
        await smith.resume(run, by="ada")
    return runs[0], runs[1]


async def goes_on_beside(smith: Plansmith, damaged: str, other: str) -> None:
    """The one run is told as damaged and can be repaired; the other one is as good as before."""
    assert list(await smith.store.open_runs()) == [damaged, other]
    with pytest.raises(JournalDamaged, match=f"plansmith store repair {damaged}"):
        await smith.runs.resume_all()
    shown = {run.id: bool(run.damage) for run in await smith.runs()}
    assert shown == {damaged: True, other: False}
    assert (await smith.runs.run(other)).status is RunStatus.DONE
    assert (await smith.runs.journals.repair(damaged, by="ada")).damage == ""


@pytest.mark.parametrize("damage", HAND)
async def test_a_damaged_last_row_in_sqlite_keeps_no_other_run_from_going_on(
    damage: str, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    async with Plansmith(tools=[look], store=SqliteStore(path)) as smith:
        damaged, other = await stopped_runs(smith)
    damage_file(path, damaged, HAND[damage])
    async with Plansmith(tools=[look], store=SqliteStore(path)) as smith:
        await goes_on_beside(smith, damaged, other)


@pytest.fixture
def database(postgres_server: Server) -> tuple[str, str]:
    name = f"heads_{next(_numbers)}"
    return name, postgres_server.new_database(name)


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_damaged_last_row_in_postgres_keeps_no_other_run_from_going_on(
    damage: str, database: tuple[str, str], postgres_server: Server
) -> None:
    name, url = database
    async with Plansmith(tools=[look], store=PostgresStore(url)) as smith:
        damaged, other = await stopped_runs(smith)
        last = len(await smith.store.events(damaged))
    postgres_server.sql(
        f"UPDATE plansmith.events SET {DAMAGES[damage]}"
        f" WHERE run = '{damaged}' AND number = {last}",
        database=name,
    )
    async with Plansmith(tools=[look], store=PostgresStore(url)) as smith:
        await goes_on_beside(smith, damaged, other)


@pytest.mark.parametrize("damage", HAND)
async def test_a_server_starts_beside_a_damaged_run_and_takes_up_the_others(
    damage: str, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    async with serving(tmp_path, store="sqlite") as house:
        first = await house.begin(tool_step("a", "mail"))
        second = await house.begin(tool_step("a", "mail"))
        # Approved behind the server's back: it stops before anybody runs it.
        for run in (first, second):
            await house.server_state.smith.decide(run["id"], approve=run["hash"], by="ada")
    damage_file(path, first["id"], HAND[damage])
    async with serving(tmp_path, store="sqlite") as house:
        await house.until(second["id"], "done")
        assert (await house.get("/readyz"))["status"] == "ok"
        assert (await house.get(f"/v1/runs/{first['id']}"))["damage"]
