"""Stored events: their rows, and the file of SQLite that holds them."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from plansmith.errors import JournalDamaged, JournalError, Misconfigured
from plansmith.plan.data import Json, canonical_hash, content_of
from plansmith.plan.events import (
    Actor,
    AnyBody,
    Event,
    RunCreated,
    RunResumed,
    StepDone,
    StepFailed,
    StepProgressed,
    StepStarted,
    next_event,
)
from plansmith.store import rows
from plansmith.store.commit import Request
from plansmith.store.sql import VERSION
from plansmith.store.sqlite import SqliteStore
from plansmith.store.sqlite_file import open_database, store_error
from plansmith.testing.contracts import journal
from plansmith_cli.doctor import diagnose

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200) | st.sampled_from(
    [
        *("", "\n", "\x00", "\x01", "a" * 64, "0" * 80, "0" * 128, '{"hash":"\x00"}'),
        canonical_hash(1) * 3,
    ]
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ODD = [EPOCH, EPOCH + timedelta(microseconds=1), EPOCH - timedelta(microseconds=1)]
MOMENTS = st.datetimes(timezones=st.just(UTC)) | st.sampled_from(ODD)


SYSTEM = '{"kind":"system"}'


class Row(NamedTuple):
    """The cells of a stored event, as they are read."""

    number: Any
    at: Any
    by: Any
    type: Any
    hash: Any
    body: Any


@st.composite
def journals(draw: st.DrawFn) -> list[Event]:
    run, name = draw(TEXT), draw(TEXT)
    events: list[Event] = []
    for _ in range(draw(st.integers(1, 20))):
        text = draw(TEXT)
        shapes: list[Json] = [text, {"x": text}, [text, text]]
        digest = content_of(draw(st.sampled_from(shapes))).digest
        bodies: list[AnyBody] = [
            RunCreated(request=text),
            RunResumed(),
            StepProgressed(step="a", text=text),
            StepStarted(step=text, inputs=digest, mark=draw(TEXT), callee=draw(TEXT)),
            StepStarted(step=text, inputs=digest, item=text),
            StepDone(step=text, result=digest, cost=draw(TEXT)),
            StepDone(step=text, result=digest, tokens=7),
            StepFailed(step=text, error=text, unsure=True),
        ]
        by = Actor(kind=draw(st.sampled_from(["person", "model", "system"])), name=name)
        body = draw(st.sampled_from(bodies))
        last = events[-1] if events else None
        at = last.at if last and draw(st.booleans()) else draw(MOMENTS)
        events.append(next_event(body, run=run, by=by, at=at, last=last))
    return events


def stored(events: list[Event]) -> list[Row]:
    return [Row(*cells) for cells in rows.rows_of(events)]


def read(run: str, found: Sequence[Sequence[Any]], *, after: int = 0) -> list[Event]:
    """Reads rows as a store gives them: from a number on, each with that of the last one."""
    last = found[-1][0]
    asked = [[last, *cells] for cells in found if cells[0] >= after]
    return rows.read_journal(run, asked, after=after)


@given(journals(), st.integers(0, 25))
def test_every_event_comes_back_from_its_row(events: list[Event], after: int) -> None:
    assert read(events[0].run, stored(events), after=after) == events[after:]


@given(journals())
def test_what_was_hashed_can_be_put_together_from_the_cells_by_hand(events: list[Event]) -> None:
    before = ""
    for row in stored(events):
        run = json.dumps(events[0].run, ensure_ascii=False)
        text = (
            f'{{"at":"{row.at}","before":"{before}","body":{row.body},'
            f'"by":{row.by or SYSTEM},"number":{row.number},"run":{run},"type":"{row.type}"}}'
        )
        assert row.hash == sha256(text.encode()).hexdigest()
        before = row.hash


@given(journals(), st.data())
def test_a_cell_altered_anywhere_is_found(events: list[Event], data: st.DataObject) -> None:
    whole = stored(events)
    place = data.draw(st.integers(0, len(whole) - 1))
    name = data.draw(st.sampled_from(["type", "at", "by", "hash", "body"]))
    cell: Any = getattr(whole[place], name)
    assume(cell)
    changed = data.draw(_others(cell))
    assume(changed != cell)
    whole[place] = whole[place]._replace(**{name: changed})
    with pytest.raises(JournalDamaged, match=f"event {place + 1} of run|event {place + 2} of run"):
        read(events[0].run, whole)


def _others(cell: Any) -> st.SearchStrategy[Any]:
    """Cells of the same kind that differ in one place."""
    letters = st.characters() | st.just("\udcff")
    return st.tuples(st.integers(0, len(cell) - 1), letters).map(
        lambda made: cell[: made[0]] + made[1] + cell[made[0] + 1 :]
    )


@pytest.mark.parametrize("taken", [0, 3, 15, 16, 38])
def test_a_missing_row_is_found(taken: int) -> None:
    whole = stored(journal("a", 40))
    del whole[taken]
    with pytest.raises(JournalDamaged, match=f"event {taken + 1} of run a is missing"):
        read("a", whole)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400))
def test_a_value_is_read_from_its_text_and_no_other(text: str) -> None:
    whole = content_of(text).text
    digest = sha256(whole).hexdigest()
    assert rows.read_value(digest, whole.decode()) == text
    with pytest.raises(JournalDamaged, match="altered"):
        rows.read_value(digest, whole.decode() + " ")


async def test_a_request_too_large_for_the_disk_fails_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.append(journal("a", 1))
    assert store._writer._connection is not None
    store._writer._connection.execute("PRAGMA max_page_count = 12")
    large: list[Json] = [str(hash((number, "x"))) * 3 for number in range(5000)]
    outcomes = await asyncio.gather(
        store.append(journal("b", 2)),
        store.put(large),
        store.append(journal("c", 2)),
        return_exceptions=True,
    )
    assert outcomes[0] is None
    assert outcomes[2] is None
    assert isinstance(outcomes[1], JournalError)
    assert "full" in str(outcomes[1])
    assert list(await store.runs()) == ["a", "b", "c"]
    await store.close()


async def test_a_caller_that_gave_up_disturbs_nobody(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    impatient = asyncio.ensure_future(store.append(journal("a", 1)))
    patient = asyncio.ensure_future(store.append(journal("b", 1)))
    await asyncio.sleep(0)
    impatient.cancel()
    await patient
    with pytest.raises(asyncio.CancelledError):
        await impatient
    assert "b" in await store.runs()
    await store.close()


async def test_a_store_takes_new_runs_although_the_row_of_its_newest_run_is_lost(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.append(journal("a", 1))
    await store.append(journal("b", 1))
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM runs WHERE name = 'b'")
    await store.append(journal("c", 2))
    assert len(await store.events("c")) == 2
    assert await store.missing()
    await store.close()


@pytest.mark.parametrize("version", [VERSION + 1, 99])
async def test_a_file_of_another_version_is_refused_and_not_touched(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "store.db"
    open_database(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    store = SqliteStore(path)
    for use in (store.append(journal("a", 1)), store.runs()):
        with pytest.raises(Misconfigured, match=f"version {version}") as caught:
            await use
        assert "another store" in caught.value.hint
    await store.close()
    findings = {found.subject: found for found in await diagnose(f"sqlite:///{path}")}
    assert findings["schema"].level == "error"
    assert path.read_bytes() == before


def test_durability_is_what_was_asked_for(tmp_path: Path) -> None:
    for name, number in (("full", 2), ("normal", 1)):
        connection = open_database(
            tmp_path / name, synchronous="full" if name == "full" else "normal"
        )
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == number
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        connection.close()


def _error(make: sqlite3.Connection, statement: str) -> sqlite3.Error:
    with pytest.raises(sqlite3.Error) as caught:
        make.execute(statement)
    make.close()
    return caught.value


def test_sqlites_errors_get_names_and_hints(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    open_database(path).close()
    read_only = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
    error = store_error(_error(read_only, "CREATE TABLE a (b)"), path)
    assert isinstance(error, Misconfigured)
    assert error.hint
    twice = sqlite3.connect(path)
    twice.execute("INSERT INTO runs (id, name, last) VALUES (1, 'a', 1)")
    assert isinstance(
        store_error(_error(twice, "INSERT INTO runs (id, name, last) VALUES (2, 'a', 1)"), path),
        JournalDamaged,
    )
    other = store_error(sqlite3.ProgrammingError("something"), path)
    assert type(other) is JournalError
    assert other.hint


def test_what_waits_for_a_commit_is_stored_although_its_program_ends_without_closing(
    tmp_path: Path,
) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    commit, begun, go_on = store._writer.commit, threading.Event(), threading.Event()

    def slow(batch: Sequence[Request]) -> None:
        begun.set()
        assert go_on.wait(30)
        commit(batch)

    async def program() -> None:
        writing = [asyncio.create_task(store.append(journal("r1", 1)))]
        await asyncio.to_thread(begun.wait, 30)
        writing += [asyncio.create_task(store.append(journal(f"r{n}", 1))) for n in (2, 3)]
        await asyncio.sleep(0)
        assert not any(each.done() for each in writing)  # and the program is over

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store._writer, "commit", slow)
        asyncio.run(program())
        go_on.set()
        store._write_thread.submit(int).result(30)  # after all that was given before

    async def read() -> Sequence[str]:
        found = await store.runs()
        await store.close()
        return found

    assert [*asyncio.run(read())] == ["r1", "r2", "r3"]


def test_two_event_loops_may_use_one_store_at_once(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")

    def work(name: str) -> None:
        async def story() -> None:
            for event in journal(name, 50):
                await store.append([event])

        asyncio.run(story())

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def look() -> None:
        for name in "abc":
            assert list(await store.events(name)) == journal(name, 50)
        await store.close()

    asyncio.run(look())
