"""Stores that earlier releases made: read, migrated where they stand, and whole afterwards.

`store-0.1.db` and `store-0.1.sql` were written by the first release (schema version 7): runs that
are finished, under review, waiting for an answer and repaired, every kind of event, templates,
schedules, and four runs that were damaged by hand. `store-0.1.json` is what that release read.
`store-10.db` and `store-10.sql` are the same, migrated by the last Plansmith that stored every
event as a row of texts (schema version 10). `store-11.db` was written by the last one that stored
a whole hash and a time in every row (schema version 11); `store-11.json` is what that one read.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests import forked
from tests.postgres import Server

from plansmith import RunStatus, tool
from plansmith.adapters.stores import migration_progress, migrations, packing_migration
from plansmith.adapters.stores.doctor import diagnose, verify
from plansmith.adapters.stores.ends import End, Ends
from plansmith.adapters.stores.postgres import PostgresStore
from plansmith.adapters.stores.sqlite import SqliteStore
from plansmith.adapters.stores.urls import open_store
from plansmith.app import Plansmith
from plansmith.errors import JournalDamaged, Misconfigured
from plansmith.plan.data import content_hash
from plansmith.plan.events import verify_chain
from plansmith.plan.limits import Limits

HERE = Path(__file__).parent
TOLD: dict[str, Any] = json.loads((HERE / "store-0.1.json").read_text(encoding="utf-8"))
NAMES: dict[str, str] = TOLD["names"]
DAMAGED = {
    "altered": "event 5 of run .* was altered",
    "unreadable": "event 7 of run .* was altered",
    "cut": "the end of run .* is missing",
    "holed": "event 6 of run .* is missing",
}
Store = SqliteStore | PostgresStore
_numbers = itertools.count(1)


@pytest.fixture(params=["store-0.1.db", "store-0.1.sql", "store-10.db", "store-10.sql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store as an earlier release left it."""
    return _copied(request, tmp_path, request.param)


@pytest.fixture(params=["store-0.1.db", "store-0.1.sql"])
def first_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store as the first release left it."""
    return _copied(request, tmp_path, request.param)


def _copied(request: pytest.FixtureRequest, folder: Path, kept: str) -> str:
    if kept.endswith(".db"):
        shutil.copy(HERE / kept, folder / "runs.db")
        return f"sqlite:///{folder / 'runs.db'}"
    server: Server = request.getfixturevalue("postgres_server")
    name = f"earlier_{next(_numbers)}"
    dsn = server.new_database(name)
    text = (HERE / kept).read_text(encoding="utf-8")
    # In two parts: a command line has a largest length.
    half = text.index(";\n", len(text) // 2) + 1
    for part in (text[:half], text[half:]):
        server.sql(part, database=name)
    return dsn


@pytest.fixture
async def store(url: str) -> AsyncIterator[Store]:
    opened = open_store(url)
    assert isinstance(opened, SqliteStore | PostgresStore)
    yield opened
    await opened.close()


async def test_every_sound_run_is_read_and_verified_as_it_was(store: Store) -> None:
    assert set(await store.runs()) == set(TOLD["hashes"])
    whole = set(TOLD["hashes"]) - {NAMES[each] for each in DAMAGED}
    for run in whole:
        events = await store.events(run)
        assert [each.hash for each in events] == TOLD["hashes"][run]
        verify_chain(events)
        assert [each.hash for each in await store.events(run, after=2)] == TOLD["hashes"][run][2:]
    assert await verify(store, NAMES["finished"]) == 12
    for digest in TOLD["values"]:
        assert content_hash(await store.get(digest)) == digest


async def test_what_was_damaged_is_damaged_and_can_be_repaired(store: Store) -> None:
    async with Plansmith(store=store) as smith:
        for name, words in DAMAGED.items():
            with pytest.raises(JournalDamaged, match=words):
                await store.events(NAMES[name])
            repaired = await smith.runs.journals.repair(NAMES[name], by="ada")
            assert repaired.damage == ""
            assert await verify(store, NAMES[name])


async def test_everything_beside_the_journals_is_there(store: Store) -> None:
    heads = {head.run: head for head in await store.heads()}
    assert list(await store.open_runs()) == [*TOLD["open"], NAMES["cut"]]
    assert heads[NAMES["finished"]].over
    found = [[name, version, removed] for name, version, removed, _ in await store.kept_templates()]
    assert found == TOLD["templates"]
    assert [each.to_json() for each in await store.schedules()] == TOLD["schedules"]
    schedule = TOLD["fires"][0]["schedule"]
    fires = await store.fires(schedule, limit=10)
    assert [each.to_json() for each in fires] == TOLD["fires"]
    claims = await store.claims()
    assert [[run, claim.owner] for run, claim in claims] == TOLD["owners"]
    assert all(claim.term for _, claim in claims)
    assert [number for number, _ in await store.aside(NAMES["repaired"])] == TOLD["aside"]
    assert await store.missing() == []
    # One that nobody ever mentioned, and those of an event that is gone and of one made unreadable.
    assert await store.unmentioned() == 3
    gone = {(NAMES["holed"], 6), (NAMES["cut"], 30)}
    news = [list(each) for each in await store.news(limit=10_000)]
    assert news == [each for each in TOLD["news"] if (each[1], each[2]) not in gone]


async def test_runs_of_the_first_release_are_listed_and_counted_as_their_journals_say(
    store: Store,
) -> None:
    async with Plansmith(store=store) as smith:
        runs = await smith.runs()
        listed = await smith.runs.lists.newest(limit=100)
        assert [(each.run, bool(each.damage)) for each in reversed(listed)] == [
            (run.id, bool(run.damage)) for run in runs
        ]
        assert [each.status for each in reversed(listed)] == [run.status for run in runs]
        sums = await smith.runs.lists.sums()
        assert sum(sums.statuses.values()) == len(runs)
        assert sum(day.runs for day in sums.days.values()) == len(runs)
        assert sum(day.money for day in sums.days.values()) == sum(run.money for run in runs)
        assert sum(day.tokens for day in sums.days.values()) == sum(run.tokens for run in runs)
        again = await smith.runs.lists.sums()
        assert (again.statuses, again.days) == (sums.statuses, sums.days)
        assert again.planning.to_json() == sums.planning.to_json()


async def test_runs_of_the_first_release_go_on(store: Store) -> None:
    @tool(effect="read")
    def look(x: Any = None) -> Any:
        """See."""
        return {"seen": x}

    @tool(effect="write")
    def note(text: str) -> str:
        """Write."""
        return text

    async with Plansmith(tools=[look, note], store=store) as smith:
        waiting = NAMES["question"]
        claim = await store.claim_of(waiting)
        assert claim is not None
        await store.release(waiting, claim.term)
        [question] = (await smith.get(waiting)).questions
        await smith.answer(waiting, question, "x", by="ada")
        assert (await smith.run(waiting)).status is RunStatus.DONE
        review = await smith.get(NAMES["review"])
        assert review.plan is not None
        await smith.decide(review.id, approve=review.plan.hash, by="ada")
        assert (await smith.run(review.id)).status is RunStatus.DONE
        for run in (waiting, review.id):
            assert await verify(store, run)
        position = TOLD["news"][-1][0]
        assert all(each.position > position for each in (await store.news(position)))


async def test_rows_can_be_selected_and_read_by_anybody(url: str) -> None:
    store = open_store(url)
    events = await store.events(NAMES["finished"])
    await store.close()
    query = """
        SELECT number, type, at, by, hash, body FROM events_text
        JOIN runs ON runs.id = events_text.run WHERE name = '{}' ORDER BY number
    """.format(NAMES["finished"])
    if isinstance(store, SqliteStore):
        file = sqlite3.connect(url.removeprefix("sqlite:///"))
        rows = file.execute(query).fetchall()
        file.close()
    else:
        import_psycopg = pytest.importorskip("psycopg")
        with import_psycopg.connect(url, options="-c search_path=plansmith") as connection:
            rows = connection.execute(query).fetchall()
    assert [row[0] for row in rows] == list(range(1, 13))
    for event, (_, kind, at, by, digest, body) in zip(events, rows, strict=True):
        value = event.to_json()
        assert (kind, at, digest) == (event.body.type, value["at"], event.hash)
        assert json.loads(by) == value["by"]
        assert json.loads(body) | {"type": kind} == value["body"]
    assert "Größe 金" in rows[1][5]


async def test_the_doctor_finds_nothing_but_the_damage_that_was_there(url: str) -> None:
    assert "migrated when next used" in str(await diagnose(url))
    await _used(url)
    errors = {each.subject for each in await diagnose(url) if each.level == "error"}
    assert errors == {f"run {NAMES[each]}" for each in DAMAGED}


async def _used(url: str) -> None:
    store = open_store(url)
    await store.runs()
    await store.close()


async def test_ends_that_the_first_release_noted_hold_for_the_migrated_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    shutil.copy(HERE / "store-0.1.db", path)
    run, lost = NAMES["finished"], NAMES["review"]
    noted = Ends(path)
    noted.note([End(run, 12, TOLD["hashes"][run][-1]), End(lost, 4, "00" * 32)])
    store = SqliteStore(path)
    assert len(await store.events(run)) == 12
    with pytest.raises(JournalDamaged, match=r"event 4 of run .* was written and is missing"):
        await store.events(lost)
    noted.note([End(run, 12, "11" * 32)])
    with pytest.raises(JournalDamaged, match="has changed"):
        await store.events(run)
    await store.close()


KEEPER = """
import asyncio, sys
from plansmith.adapters.stores import migrations, packing_migration
from plansmith.adapters.stores.migration_progress import Progress
from plansmith.adapters.stores.urls import open_store

migrations._SOME_RUNS = 1
packing_migration._AT_ONCE = 10
real = Progress.add

def slow(self, count):
    print(count, flush=True)
    sys.stdin.readline()
    real(self, count)

Progress.add = slow

async def main():
    store = open_store(sys.argv[1])
    await store.runs()
    await store.close()

asyncio.run(main())
"""


def migrating(url: str) -> subprocess.Popen[str]:
    """A process that waits for a line before each part of the migration is finished."""
    return forked.Popen(
        [sys.executable, "-c", KEEPER, url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=HERE.parents[1],
    )


SELDOM = [pytest.param(parts, marks=pytest.mark.long) for parts in (1, 15)]


@pytest.mark.parametrize("parts", [0, 5, 16, *SELDOM])
async def test_a_migration_that_is_killed_goes_on_where_it_stopped(url: str, parts: int) -> None:
    process = await asyncio.to_thread(migrating, url)
    assert process.stdin is not None
    assert process.stdout is not None
    for _ in range(parts):
        assert await asyncio.to_thread(process.stdout.readline)
        process.stdin.write("\n")
        process.stdin.flush()
    assert await asyncio.to_thread(process.stdout.readline)
    process.send_signal(signal.SIGKILL)
    await asyncio.to_thread(process.communicate)
    assert "migrated when next used" in str(await diagnose(url))
    store = open_store(url)
    for name, run in NAMES.items():
        if name not in DAMAGED:
            assert [each.hash for each in await store.events(run)] == TOLD["hashes"][run]
    for digest in TOLD["values"]:
        await store.get(digest)
    await store.close()
    errors = {each.subject for each in await diagnose(url) if each.level == "error"}
    assert errors == {f"run {NAMES[each]}" for each in DAMAGED}


async def test_several_that_open_an_earlier_store_at_once_migrate_it_once(url: str) -> None:
    stores = [open_store(url) for _ in range(4)]
    found = await asyncio.gather(*(each.events(NAMES["long"]) for each in stores))
    assert all([event.hash for event in each] == TOLD["hashes"][NAMES["long"]] for each in found)
    for each in stores:
        await each.close()


async def test_an_earlier_release_refuses_the_file_from_the_first_moment_on(
    first_url: str,
) -> None:
    """That release refuses versions above 7, and finds none of the tables that it wrote to."""
    url = first_url
    process = await asyncio.to_thread(migrating, url)
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline)
    old = {"run", "event", "place", "value", "template", "schedule", "fire", "aside", "owner"}
    if url.startswith("sqlite"):
        file = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=0)
        [version] = file.execute("PRAGMA user_version").fetchone()
        names = {str(row[0]) for row in file.execute("SELECT name FROM sqlite_master")}
        file.close()
    else:
        with pytest.importorskip("psycopg").connect(url) as connection:
            query = "SELECT max(number) FROM plansmith.migration"
            [version] = connection.execute(query).fetchone()
            query = "SELECT tablename FROM pg_tables WHERE schemaname = 'plansmith'"
            names = {str(row[0]) for row in connection.execute(query)}
    process.kill()
    await asyncio.to_thread(process.communicate)
    assert version == 8
    assert not old & names


async def test_a_long_migration_says_how_far_it_is(
    url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(migration_progress, "_QUIET_S", -1.0)
    monkeypatch.setattr(migrations, "_SOME_RUNS", 1)
    monkeypatch.setattr(packing_migration, "_AT_ONCE", 12)
    with caplog.at_level(logging.WARNING, logger="plansmith"):
        await _used(url)
    told = [record.getMessage() for record in caplog.records]
    assert any("is migrated to the newest format: 12 of" in each for each in told)


async def test_a_database_whose_text_is_not_utf8_is_refused(postgres_server: Server) -> None:
    name = f"latin_{next(_numbers)}"
    options = "ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    postgres_server.sql(f"CREATE DATABASE {name} {options}")
    store = PostgresStore(postgres_server.dsn_of(name))
    with pytest.raises(Misconfigured, match="LATIN1"):
        await store.runs()
    await store.close()


@pytest.mark.parametrize(
    ("table", "sound"), [("event", 9), ("place", 0), ("value", 11), ("template", 11), ("gone", 11)]
)
async def test_a_broken_page_of_an_earlier_file_costs_only_what_was_on_it(
    table: str, sound: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "runs.db"
    shutil.copy(HERE / "store-0.1.db", path)
    _break_page(path, table)
    store = SqliteStore(path)
    assert set(await store.runs()) == set(TOLD["hashes"])
    found = 0
    for run, hashes in TOLD["hashes"].items():
        with contextlib.suppress(JournalDamaged):
            assert [each.hash for each in await store.events(run)] == hashes
            found += 1
    assert found == sound
    assert [each.to_json() for each in await store.schedules()] == TOLD["schedules"]
    await store.close()
    assert "has broken pages" in caplog.text
    errors = {each.subject for each in await diagnose(f"sqlite:///{path}") if each.level == "error"}
    assert "integrity" in errors


def _break_page(path: Path, table: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as file:
        pages = "SELECT min(pageno) FROM dbstat WHERE name = ? AND pagetype = 'leaf'"
        [page] = file.execute(pages, (table,)).fetchone()
    with path.open("r+b") as raw:
        raw.seek((page - 1) * 4096)
        raw.write(b"\xff" * 4096)


async def test_a_broken_page_of_packed_events_costs_only_what_was_on_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "runs.db"
    shutil.copy(HERE / "store-10.db", path)
    _break_page(path, "events")
    store = SqliteStore(path)
    found = 0
    for run, hashes in TOLD["hashes"].items():
        with contextlib.suppress(JournalDamaged):
            assert [each.hash for each in await store.events(run)] == hashes
            found += 1
    # Some were on the broken page, those behind it were not; four were damaged before.
    assert 0 < found < len(TOLD["hashes"]) - len(DAMAGED)
    assert (await store.news(limit=10_000))[-1].position == TOLD["news"][-1][0]
    await store.close()
    assert "what could not be read is left in old_events" in caplog.text


@pytest.mark.parametrize(
    "change",
    [
        "type = 'step_danced'",
        "at = 'noon'",
        "at = '99999-01-01T00:00:00.000000Z'",
        "by = CAST(x'22ff22' AS text)",
        "hash = 7",
        "hash = upper(hash)",
        "body = x'00ff'",
        "body = CAST(x'7bff7d' AS text)",
        "type = '', at = '', by = '', hash = '', body = ''",
    ],
)
async def test_nonsense_in_one_packed_row_is_damage_there_and_nowhere_else(
    change: str, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    shutil.copy(HERE / "store-10.db", path)
    run = NAMES["finished"]
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        of_run = "run = (SELECT id FROM runs WHERE name = ?)"
        file.execute(f"UPDATE events SET {change} WHERE {of_run} AND number = 6", (run,))
    store = SqliteStore(path)
    with pytest.raises(JournalDamaged, match=r"event 6 of run .* was altered"):
        await store.events(run)
    assert len((await store.sound(run)).events) == 5
    whole = [each.hash for each in await store.events(NAMES["long"])]
    assert whole == TOLD["hashes"][NAMES["long"]]
    assert await store.set_aside(run, 5, []) == 7
    assert [number for number, _ in await store.aside(run)] == list(range(6, 13))
    await store.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE event SET data = CAST(x'22ff22' AS text) WHERE id = 1",
        "UPDATE value SET data = CAST(x'22ff22' AS text)",
        "UPDATE place SET event = 1 WHERE number = 2",
    ],
)
async def test_nonsense_in_one_row_of_an_earlier_file_does_not_stop_its_migration(
    change: str, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    shutil.copy(HERE / "store-0.1.db", path)
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute(change)
    store = SqliteStore(path)
    assert set(await store.runs()) == set(TOLD["hashes"])
    await store.close()


@tool(effect="read")
def look(city: str) -> dict[str, str]:
    """Looks."""
    return {"city": city}


@tool(effect="write")
def note(text: str) -> str:
    """Notes."""
    return text


async def test_a_store_with_a_whole_hash_in_every_row_is_read_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    shutil.copy(HERE / "store-11.db", path)
    told: dict[str, Any] = json.loads((HERE / "store-11.json").read_text(encoding="utf-8"))
    url = f"sqlite:///{path}"
    limits = Limits(data="show")
    async with Plansmith(tools=[look, note], store=url, limits=limits) as smith:
        for each in told.values():
            events = await smith.store.events(each["run"])
            assert [event.hash for event in events] == each["hashes"]
            verify_chain(events)
            assert (await smith.get(each["run"])).status.value == each["status"]
        done = await smith.get(told["done"]["run"])
        assert done.steps["s1"].result == {"city": "Rome", "text": "Rome" * 100}
        review = await smith.get(told["review"]["run"])
        assert review.plan is not None
        await smith.decide(review.id, approve=review.plan.hash, by="ada")
        assert (await smith.run(review.id)).status is RunStatus.DONE
        assert await verify(smith.store, review.id) > len(told["review"]["hashes"])
        first = await smith.store.events(review.id)
        assert [event.hash for event in first[:3]] == told["review"]["hashes"]
        again = await smith.store.events(review.id, after=2)
        assert list(again) == list(first)[2:]
    assert {each.level for each in await diagnose(url)} == {"ok"}
